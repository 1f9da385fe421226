//! Both ends of a pipe: `call` and `relay` with a hostile server, `relay` with a hostile client too (F31, F70, F71).

use std::io::{Read, Write};
use std::process::ChildStdin;
use std::thread;
use std::time::{Duration, Instant};

use rescind_hostile_suite::wire::request;
use rescind_hostile_suite::{MIB, mib};
use serde_json::json;

use crate::program::Program;
use crate::{alone, formula, times};

/// How long an attack lasts: what grows without bound has grown by then.
const LASTS: Duration = Duration::from_secs(if cfg!(debug_assertions) { 1 } else { 5 });

/// A server that neither reads nor says anything.
const SILENT: &str = "exec sleep 1000";

/// The most memory of a program while a server attacks it that is this script, and whoever is in front of it is this. What
/// it says is read.
fn peak(
    arguments: &[&str],
    script: &str,
    client: impl FnOnce(ChildStdin) + Send + 'static,
) -> usize {
    let arguments = [arguments, &["--", "sh", "-c", script]].concat();
    let mut program = Program::start(&arguments);
    let stdin = program.child.stdin.take().unwrap();
    let outputs: [Box<dyn Read + Send>; 2] = [
        Box::new(program.child.stdout.take().unwrap()),
        Box::new(program.child.stderr.take().unwrap()),
    ];
    for mut output in outputs {
        thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    }
    thread::spawn(move || client(stdin));
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < LASTS {
        // Under attack it may end, which is no less of an answer.
        let Some(now) = program.process().peak() else {
            assert_ne!(script, SILENT, "it does not run at all");
            break;
        };
        most = most.max(now);
        thread::sleep(Duration::from_millis(20));
    }
    most
}

fn says_nothing(stdin: ChildStdin) {
    // It stays open for as long as the attack lasts.
    thread::sleep(LASTS);
    drop(stdin);
}

/// Attacks both programs with a server, and holds them to the sum of as many connections as each has.
fn withstand(name: &str, script: &str) {
    let _alone = alone();
    let calls = ["call", "sleep", r#"{"ms":3600000}"#];
    let cases: [(&str, &[&str], usize); 2] = [("call", &calls, 1), ("relay", &["relay"], 2)];
    for (program, arguments, connections) in cases {
        let idle = peak(arguments, SILENT, says_nothing);
        let more = peak(arguments, script, says_nothing).saturating_sub(idle);
        let most = connections * formula::connection();
        println!("{name:<34} {:>11} of {:>11}   {program}", mib(more), mib(most));
        assert!(more <= most, "{program}: {} are more than {}", mib(more), mib(most));
        assert!(more <= MOST, "{program}: {} for what nobody wants", mib(more));
    }
}

/// What is kept of what no one can use: an inbox of 64 MiB that fills where reading is faster than taking; a message of
/// the longest in a buffer that doubles, and its copies.
const MOST: usize = 128 * MIB;

#[test]
fn f71_a_server_whose_line_has_no_end() {
    withstand("a line without end", "exec tr '\\0' x < /dev/zero");
}

#[test]
fn g08_a_server_that_floods_with_notifications() {
    withstand(
        "notifications without end",
        r#"exec yes '{"jsonrpc":"2.0","method":"n","params":[1]}'"#,
    );
}

#[test]
fn g08_a_server_that_answers_what_was_never_asked() {
    withstand("answers to nothing", r#"exec yes '{"jsonrpc":"2.0","id":90001,"result":1}'"#);
}

#[test]
fn g08_a_server_that_asks_without_end() {
    withstand(
        "the same request without end",
        r#"exec yes '{"jsonrpc":"2.0","id":1,"method":"sleep"}'"#,
    );
}

/// Attacks a relay with a client that sends so many lines, and a server that reads nothing.
fn relay_withstands(name: &str, line: &'static str, pad: usize, many: usize) {
    let _alone = alone();
    let flood = move |mut stdin: ChildStdin| {
        let params = json!(["x".repeat(pad)]);
        for id in 0..many {
            // One that asks without a method asks nothing.
            let text = match line {
                "" => "x".repeat(pad),
                method => request(&json!(id), method, &params) + "\n",
            };
            if stdin.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
        says_nothing(stdin);
    };
    let idle = peak(&["relay"], SILENT, says_nothing);
    let more = peak(&["relay"], SILENT, flood).saturating_sub(idle);
    let most = 2 * formula::connection();
    println!("{name:<34} {:>11} of {:>11}   relay", mib(more), mib(most));
    assert!(more <= most, "{} are more than {}", mib(more), mib(most));
    assert!(more <= MOST, "{} for what nobody reads", mib(more));
}

#[test]
fn f70_a_client_of_a_relay_whose_server_reads_nothing() {
    relay_withstands("600 requests of 1 MiB, unread", "echo", MIB, times(600));
}

#[test]
fn f71_a_client_of_a_relay_whose_line_has_no_end() {
    relay_withstands("a client's line without end", "", MIB, times(600));
}
