//! Signals, hang-ups and a caller that is gone end each command in order. Each caller that waits gets a
//! response, and a recording gets its end.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{PATIENCE, Program, RESCIND, Running, lines, signal};

/// The signals that a program can catch.
const CAUGHT: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// A server that opens a session, notes each message that it receives in a file, and responds to nothing else.
const SILENT: &str = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
    while read -r line; do printf '%s\n' "$line" >>"$0"; done"#;

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("rescind-ending-{}-{name}", std::process::id()))
}

fn initialize() -> String {
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#.into()
}

fn sleep(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"sleep","params":{{"ms":3600000}}}}"#)
}

/// Starts a program with a client at its standard input and output.
fn start(arguments: &[&str]) -> Child {
    start_saying(arguments, Stdio::null())
}

fn start_saying(arguments: &[&str], stderr: Stdio) -> Child {
    let mut command = Command::new(RESCIND);
    command.args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    command.spawn().unwrap()
}

fn say(child: &mut Child, messages: impl IntoIterator<Item = String>) {
    let stdin = child.stdin.as_mut().unwrap();
    messages.into_iter().for_each(|message| writeln!(stdin, "{message}").unwrap());
}

/// Opens a session, has requests in flight, sends the signal, and returns the codes of the responses.
fn codes_after(arguments: &[&str], in_flight: usize, by: Signal) -> Vec<Value> {
    let mut child = start(arguments);
    let said = lines(child.stdout.take().unwrap());
    say(&mut child, [initialize()]);
    said.recv_timeout(PATIENCE).unwrap();
    // The response to the last request shows that the others were read.
    let last = r#"{"jsonrpc":"2.0","id":"last","method":"echo","params":[]}"#.to_owned();
    say(&mut child, (1..=in_flight).map(sleep).chain([last]));
    said.recv_timeout(PATIENCE).unwrap();
    signal(child.id(), by);
    let responses = said.iter().map(|line| {
        let mut response: Value = serde_json::from_str(&line).unwrap();
        response["error"]["code"].take()
    });
    let responses = responses.collect();
    Program::from(child).wait();
    responses
}

#[test]
fn f104_a_signal_ends_a_relay_with_every_response_and_its_recording_with_an_end() {
    const IN_FLIGHT: usize = 64;
    let times = std::env::var("RESCIND_MATRIX").map_or(1, |times| times.parse().unwrap());
    for runtime in ["tokio", "smol"].repeat(times) {
        for by in CAUGHT {
            let file = temporary(&format!("{runtime}-{by:?}"));
            let path = file.to_str().unwrap();
            let relay = ["relay", "--runtime", runtime, "--record", path, "--quiet"];
            let server = ["--", RESCIND, "serve", "--runtime", "tokio"];
            let codes = codes_after(&[&relay[..], &server[..]].concat(), IN_FLIGHT, by);
            assert_eq!(codes, vec![Value::from(-32800); IN_FLIGHT], "{runtime} {by:?}");
            let recorded = fs::read_to_string(&file).unwrap();
            let last = recorded.lines().last().unwrap();
            assert!(last.contains(r#"{"end":"#) && last.contains(r#""dropped":0"#), "{last}");
            let responses = recorded.matches(r#""code":-32800"#).count();
            assert_eq!(responses, 2 * IN_FLIGHT, "{runtime} {by:?}: received and sent");
            fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn f104_a_server_that_responds_to_nothing_hears_the_cancels_and_its_client_has_responses() {
    let heard = temporary("heard");
    let server = ["--", "sh", "-c", SILENT, heard.to_str().unwrap()];
    let relay = [&["relay", "--exit-grace", "100ms"][..], &server[..]].concat();
    let mut child = start_saying(&relay, Stdio::piped());
    let mut stderr = child.stderr.take().unwrap();
    let said = lines(child.stdout.take().unwrap());
    say(&mut child, [initialize()]);
    said.recv_timeout(PATIENCE).unwrap();
    say(&mut child, (1..=8).map(sleep));
    let heard_so_far = || fs::read_to_string(&heard).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    while heard_so_far().matches("sleep").count() < 8 {
        assert!(Instant::now() < until, "{}", heard_so_far());
        thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), Signal::TERM);
    assert_eq!(said.iter().count(), 8);
    Program::from(child).wait();
    assert_eq!(heard_so_far().matches("$/cancel_request").count(), 8);
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("the server has 1s to answer 8 requests, cancelled"), "{told}");
    fs::remove_file(heard).unwrap();
}

#[test]
fn f104_a_signal_ends_a_server_that_takes_its_time_and_the_result_is_printed() {
    // Its input has ended, so the result has come.
    let server = r#"trap "" TERM; "$0" serve --dialect jsonrpc; echo ending >&2; sleep 100"#;
    let call = ["call", "--dialect", "jsonrpc", "--exit-grace", "1h", "echo", "[1]"];
    let server = ["--", "sh", "-c", server, RESCIND];
    let mut child = start_saying(&[&call[..], &server[..]].concat(), Stdio::piped());
    let said = lines(child.stderr.take().unwrap());
    while said.recv_timeout(PATIENCE).unwrap() != "ending\n" {}
    signal(child.id(), Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stdout, output.status.code()), (b"[1]\n".to_vec(), Some(0)));
}

#[test]
fn f104_a_signal_ends_a_server_on_standard_input_with_every_response() {
    for runtime in ["blocking", "tokio", "smol"] {
        for by in CAUGHT {
            let codes = codes_after(&["serve", "--runtime", runtime], 4, by);
            assert_eq!(codes, vec![Value::from(-32800); 4], "{runtime} {by:?}");
        }
    }
}

#[test]
fn f104_a_signal_ends_one_thread_and_its_recording_with_an_end() {
    for by in CAUGHT {
        let file = temporary(&format!("single-{by:?}"));
        let mut child =
            start(&["serve", "--runtime", "single", "--record", file.to_str().unwrap()]);
        let said = lines(child.stdout.take().unwrap());
        say(&mut child, [initialize()]);
        said.recv_timeout(PATIENCE).unwrap();
        say(&mut child, [sleep(1)]);
        signal(child.id(), by);
        Program::from(child).wait();
        let recorded = fs::read_to_string(&file).unwrap();
        assert!(recorded.lines().last().unwrap().contains(r#"{"end":"#), "{recorded}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn f104_a_second_signal_ends_a_relay_at_once() {
    let file = temporary("second");
    let path = file.to_str().unwrap();
    let mut child =
        start(&["relay", "--exit-grace", "1h", "--record", path, "--", "sh", "-c", "sleep 1000"]);
    say(&mut child, [initialize()]);
    let recorded = || fs::read_to_string(&file).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    while !recorded().contains(r#""dir":"sent""#) {
        assert!(Instant::now() < until, "{}", recorded());
        thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), Signal::TERM);
    // The first was seen once the client has its response.
    let mut response = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut response).unwrap();
    signal(child.id(), Signal::TERM);
    assert_eq!(Program::from(child).wait().code(), Some(3));
    assert!(recorded().lines().last().unwrap().contains(r#"{"end":"#));
    fs::remove_file(&file).unwrap();
}

#[test]
fn f104_a_signal_ends_a_replay() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replayed/cancelled.jsonl");
    for by in CAUGHT {
        let server = ["--", "sh", "-c", "read line; echo there >&2; sleep 1000"];
        let options = ["replay", recording, "--against", "--wait", "1h", "--exit-grace", "100ms"];
        let mut running = Running::start([&options[..], &server[..]].concat(), &[]);
        running.says(&["there"]);
        signal(running.id(), by);
        assert_eq!(running.end().code, Some(1), "{by:?}");
    }
}

#[test]
fn f106_one_interrupt_ends_a_call_whose_server_never_responds() {
    let interrupted = |by| {
        let heard = temporary(&format!("call-{by:?}"));
        let server = ["--", "sh", "-c", SILENT, heard.to_str().unwrap()];
        let call = ["call", "--trace", "--exit-grace", "100ms", "work"];
        let mut running = Running::start([&call[..], &server[..]].concat(), &[]);
        running.says(&["-->", r#""method":"work""#]);
        signal(running.id(), by);
        let said = running.end();
        assert_eq!(said.code, Some(3), "{by:?}: {said:?}");
        assert!(said.stderr.contains("$/cancel_request"), "{by:?}: {said:?}");
        let _ = fs::remove_file(heard);
    };
    thread::scope(|scope| CAUGHT.map(|by| scope.spawn(move || interrupted(by))).map(drop));
}

#[test]
fn f106_a_call_ends_when_nobody_reads_its_output_any_more() {
    let mut command = Command::new(RESCIND);
    command.args(["call", "--trace", "sleep", r#"{"ms":3600000}"#]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""method":"sleep""#) {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0);
    }
    drop(child.stdout.take());
    errors.read_to_string(&mut line).unwrap();
    Program::from(child).wait();
    assert!(line.contains("$/cancel_request"), "{line}");
}

#[test]
fn f106_a_call_ends_when_the_program_that_started_it_was_killed() {
    // Its output is a file, so that its parent alone tells it.
    let output = temporary("orphaned");
    let script = format!("'{RESCIND}' call --trace sleep '{{\"ms\":3600000}}' >\"$0\"; true");
    let mut command = Command::new("sh");
    command.args(["-c", &script, output.to_str().unwrap()]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    let mut errors = BufReader::new(parent.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""method":"sleep""#) {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0);
    }
    signal(parent.id(), Signal::KILL);
    parent.wait().unwrap();
    // It ends at the end of the call, which holds it open.
    errors.read_to_string(&mut line).unwrap();
    assert!(line.contains("$/cancel_request"), "{line}");
    fs::remove_file(output).unwrap();
}
