//! The same on standard input, on every runtime, and of a line that has no end.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;
use crate::websocket::request;
use crate::{MIB, PATIENCE, alone, formula, mib, times};

const RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];

/// The most memory of a server that is written so many lines, for as long as it takes them, and whose output nobody
/// reads.
fn peak(runtime: &str, many: usize, line: impl Fn(usize) -> String + Send + 'static) -> usize {
    let mut program = Program::start(&["serve", "--runtime", runtime]);
    let mut input = program.child.stdin.take().unwrap();
    let (_until_here, over) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        for number in 0..many {
            if writeln!(input, "{}", line(number)).is_err() {
                break;
            }
        }
        // Its input stays open until it is killed.
        let _ = over.recv();
    });
    let (begun, mut before) = (Instant::now(), 0);
    // It has read all, or reads no more: memory and processor time stand still.
    while begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(500));
        let spent = program.processor().as_millis();
        if spent == before {
            break;
        }
        before = spent;
    }
    program.peak()
}

fn withstands<L>(name: &str, many: usize, line: L)
where
    L: Fn(usize) -> String + Copy + Send + 'static,
{
    let _alone = alone();
    for runtime in RUNTIMES {
        let idle = peak(runtime, 1, |_| request(&json!(1), "echo", &json!([])));
        let more = peak(runtime, many, line) - idle;
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
        let (piece, mut most) = (vec![b'x'; MIB], program.peak());
        for _ in 0..bytes / MIB {
            // It says that the line is too long, and ends.
            if input.write_all(&piece).is_err() {
                break;
            }
            most = program.peak_if_there().unwrap_or(most);
        }
        most
    };
    let (idle, long) = (peak(0), peak(600 * MIB));
    // A line of 128 MiB is taken, in a buffer that doubles.
    let most = idle + 2 * 128 * MIB;
    println!("a line of 600 MiB {:>27} of {:>11}   step", mib(long - idle), mib(most));
    assert!(long <= most, "{} of {}", mib(long), mib(most));
}
