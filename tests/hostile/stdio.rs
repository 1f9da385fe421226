//! The same on standard input, on every runtime, and of a line that has no end.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;
use crate::websocket::request;
use crate::{MIB, PATIENCE, alone, formula, mib, times};

const RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];

/// Writes lines for as long as they are taken, to one who says nothing that is read.
fn unread(runtime: &str, many: usize, line: impl Fn(usize) -> String + Send + 'static) -> Program {
    let mut program = Program::start(&["serve", "--runtime", runtime]);
    let mut input = program.child.stdin.take().unwrap();
    let written = thread::spawn(move || {
        for number in 0..many {
            if writeln!(input, "{}", line(number)).is_err() {
                break;
            }
        }
        input
    });
    let (begun, mut before) = (Instant::now(), 0);
    // It has read all, or reads no more: memory and processor time stand still.
    while !written.is_finished() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(500));
        let spent = program.processor().as_millis();
        if spent == before {
            break;
        }
        before = spent;
    }
    program
}

fn withstands<L>(name: &str, many: usize, line: L)
where
    L: Fn(usize) -> String + Copy + Send + 'static,
{
    let _alone = alone();
    for runtime in RUNTIMES {
        let idle = unread(runtime, 1, |_| request(&json!(1), "echo", &json!([]))).peak();
        let more = unread(runtime, many, line).peak() - idle;
        let most = formula::connection();
        println!("{name:<34} {:>11} of {:>11}   {runtime}", mib(more), mib(most));
        assert!(more <= most, "{runtime}: {} are more than the formula's {}", mib(more), mib(most));
    }
}

fn large(id: usize, method: &str) -> String {
    request(&json!(id), method, &json!({ "ms": 3_600_000, "more": "x".repeat(MIB) }))
}

#[test]
fn f31_answers_that_nobody_reads_on_every_runtime() {
    withstands("600 unread echoes of 1 MiB", times(600), |id| large(id, "echo"));
}

#[test]
fn f44_params_of_requests_at_work_on_every_runtime() {
    withstands("600 sleeps with 1 MiB", times(600), |id| large(id, "sleep"));
}

#[test]
fn f48_ids_of_violations_on_every_runtime() {
    withstands("100,000 broken requests", times(100_000), |number| {
        let id: Value = json!(format!("{number:01020}"));
        json!({ "jsonrpc": "2.0", "id": id, "method": 1 }).to_string()
    });
}

#[test]
fn f71_a_line_without_end_is_not_kept() {
    let _alone = alone();
    let peak = |bytes: usize| {
        let mut program = Program::start(&["step"]);
        let mut input = program.child.stdin.take().unwrap();
        let piece = vec![b'x'; MIB];
        for _ in 0..bytes / MIB {
            if input.write_all(&piece).is_err() {
                break;
            }
        }
        let peak = program.peak();
        drop(input);
        program.wait();
        peak
    };
    let (idle, more) = (peak(0), peak(600 * MIB));
    println!("a line of 600 MiB: {} beside {} of an idle twin", mib(more), mib(idle));
    assert!(more <= idle + 64 * MIB, "{} beside {}", mib(more), mib(idle));
}
