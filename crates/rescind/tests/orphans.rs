//! Whatever ends `rescind call` and `rescind relay` ends what they spawned, and what that spawned.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PATIENCE, RESCIND, Running};

const RELAY_RUNTIMES: [&str; 2] = ["tokio", "smol"];
const CALL_RUNTIMES: [&str; 3] = ["blocking", "tokio", "smol"];

/// A server behind a wrapper, as `npx` and `uvx` are. It does not care for the end of its input.
const WRAPPED: &str = "sh -c 'echo there >&2; sleep 1000; true'; true";

/// What it is ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    OfInput,
    By(Signal),
}

/// Marks a program and everything that it starts.
const VARIABLE: &str = "RESCIND_ORPHANS_TEST";

fn alive(mark: &str) -> usize {
    let entry = format!("{VARIABLE}={mark}").into_bytes();
    let is_marked = |process: &fs::DirEntry| {
        // A process that is gone has none.
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|other| other == entry)
    };
    fs::read_dir("/proc").unwrap().flatten().filter(is_marked).count()
}

/// Ends the program once its server is up, and waits until nothing is left.
fn leaves_nothing(arguments: &[&str], end: End) {
    let what = format!("{arguments:?} {end:?}");
    let mark = format!("{}: {what}", std::process::id());
    let mut command = Command::new(RESCIND);
    command.args(arguments).args(["--", "sh", "-c", WRAPPED]).env(VARIABLE, &mark);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut program = Killed(command.spawn().unwrap());
    let mut errors = BufReader::new(program.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("there") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "{what}");
    }
    // Whoever says something more must not fail at it.
    thread::spawn(move || errors.lines().count());
    match end {
        End::OfInput => drop(program.0.stdin.take()),
        End::By(signal) => {
            let id = Pid::from_raw(i32::try_from(program.0.id()).unwrap()).unwrap();
            kill_process(id, signal).unwrap();
        }
    }
    let status = program.0.wait().unwrap();
    assert!(!status.success(), "{what}");
    let until = Instant::now() + PATIENCE;
    while alive(&mark) > 0 {
        assert!(Instant::now() < until, "{what} leaves {}", alive(&mark));
        thread::sleep(Duration::from_millis(10));
    }
}

/// A program that is not left when a test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended if the test passed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn f60_a_relay_leaves_nothing_behind_a_wrapper() {
    let ends = [
        End::OfInput,
        End::By(Signal::INT),
        End::By(Signal::TERM),
        End::By(Signal::HUP),
        End::By(Signal::KILL),
    ];
    thread::scope(|scope| {
        for runtime in RELAY_RUNTIMES {
            for end in ends {
                scope.spawn(move || leaves_nothing(&["relay", "--runtime", runtime], end));
            }
        }
    });
}

#[test]
fn f60_a_call_leaves_nothing_behind_a_wrapper() {
    let ends = [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL];
    thread::scope(|scope| {
        for runtime in CALL_RUNTIMES {
            for end in ends {
                // While it opens, which is not answered.
                let arguments = ["call", "--runtime", runtime, "work"];
                scope.spawn(move || leaves_nothing(&arguments, End::By(end)));
            }
        }
    });
}

#[test]
fn f32_a_call_is_told_how_its_server_died_though_its_pipes_are_held_open() {
    for runtime in CALL_RUNTIMES {
        let arguments = ["call", "--runtime", runtime, "work", "--"];
        let server = ["sh", "-c", "read line; sleep 1000 & exit 7"];
        let said = Running::start(arguments.into_iter().chain(server), &[]).end();
        assert_eq!(said.code, Some(5), "{said:?}");
        assert!(said.stderr.contains("the process ended: exit status: 7"), "{said:?}");
    }
}

#[test]
fn f62_a_relay_reads_what_its_server_says_at_its_end() {
    // More than a pipe holds.
    let server = r#"cat >/dev/null; yes '{"jsonrpc":"2.0","method":"bye"}' | head -c 400000 || exit 9
        echo done >&2"#;
    for runtime in RELAY_RUNTIMES {
        // Its input is at its end from the beginning.
        let arguments = ["relay", "--runtime", runtime, "--", "sh", "-c", server];
        let said = Running::start(arguments, &[]).end();
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), "done\n"), "{said:?}");
    }
}
