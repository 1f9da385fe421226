//! The same on standard input, on every runtime, and of a line that has no end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rescind_hostile_suite::wire::request;
use rescind_hostile_suite::{MIB, PATIENCE, mib};
use serde_json::{Value, json};

use crate::program::Program;
use crate::{alone, formula, times};

const RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];
/// Between two looks at what a server does.
const LOOK: Duration = Duration::from_millis(500);
/// Looks that see nothing happen: then it reads no more. A loaded machine lets it stand still for some.
const LOOKS: usize = 6;

/// The most memory of a server that is written so many lines, for as long as it takes them, and whose output nobody
/// reads.
fn peak(runtime: &str, many: usize, line: impl Fn(usize) -> String + Send + 'static) -> usize {
    let mut program = Program::start(&["serve", "--runtime", runtime]);
    let mut input = program.child.stdin.take().unwrap();
    let (_until_here, over) = std::sync::mpsc::channel::<()>();
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    thread::spawn(move || {
        for number in 0..many {
            if writeln!(input, "{}", line(number)).is_err() {
                break;
            }
            count.store(number + 1, Relaxed);
        }
        // Its input stays open until it is killed.
        let _ = over.recv();
    });
    let (mut before, mut still, mut came) = ((0, Duration::ZERO), 0, Instant::now());
    // It has read all, or reads no more: what it takes and its processor time stand still.
    loop {
        thread::sleep(LOOK);
        let seen = (written.load(Relaxed), program.processor());
        still = if seen == before { still + 1 } else { 0 };
        if seen.0 != before.0 {
            came = Instant::now();
        }
        assert!(came.elapsed() < PATIENCE, "{runtime}: it is at work though nothing comes");
        let enough = if seen.0 == many { 1 } else { LOOKS };
        if still >= enough {
            return program.peak();
        }
        before = seen;
    }
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
            most = program.process().peak().unwrap_or(most);
        }
        most
    };
    let (idle, long) = (peak(0), peak(600 * MIB));
    // A line of 128 MiB is taken, in a buffer that doubles.
    let most = idle + 2 * 128 * MIB;
    println!("a line of 600 MiB {:>27} of {:>11}   step", mib(long - idle), mib(most));
    assert!(long <= most, "{} of {}", mib(long), mib(most));
}
