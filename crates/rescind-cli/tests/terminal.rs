//! Output is text, and never stops anything (F67, F68). Output that can't be printed is reported (F69).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use crate::support::{Program, RESCIND, Running, rescind, terminal};

const CALL_RUNTIMES: [&str; 3] = ["blocking", "tokio", "smol"];
const RELAY_RUNTIMES: [&str; 2] = ["tokio", "smol"];
const SERVE_RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];

// F68

/// Each kind of bytes that a terminal obeys or reads the wrong way round, as a shell's `printf` makes it. They
/// are an escape that sets the clipboard, one of C1 that clears the screen, DEL, a forged line, and an
/// override.
const HOSTILE: &str = r"\033]52;c;aGk=\007\302\2332J\177\rforged\342\200\256";

/// The same in a member of JSON, which can't have the controls of C0 unescaped.
const HOSTILE_JSON: &str = r"\302\2332J\177\342\200\256";

/// Returns a server that sends these bytes wherever it can.
fn hostile_server() -> String {
    let json = HOSTILE_JSON;
    format!(
        r#"read line; printf '{HOSTILE}\n'
        printf '{{"jsonrpc":"2.0","method":"{json}","params":["{json}"]}}\n'
        printf '{{"jsonrpc":"2.0","id":"{json}","method":17}}\n'
        printf '{{"jsonrpc":"2.0","id":1,"result":{{}}}}\n'
        read line; read line
        case "$line" in
        *fail*) printf '{{"jsonrpc":"2.0","id":2,"error":{{"code":1,"message":"{json}\\u001b[2J","data":"{json}"}}}}\n';;
        *) printf '{{"jsonrpc":"2.0","id":2,"result":["{json}"]}}\n';;
        esac; read line"#
    )
}

#[track_caller]
fn assert_harmless(said: &str) {
    let is_obeyed =
        |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let found: Vec<char> = said.chars().filter(|c| is_obeyed(*c)).collect();
    assert!(found.is_empty(), "{found:?} in {said:?}");
}

#[test]
fn f68_whatever_a_peer_says_is_shown_and_not_obeyed() {
    let server = hostile_server();
    for traced in [&[][..], &["--trace"]] {
        for method in ["work", "fail"] {
            let relay = [RESCIND, "relay"];
            for relay in [&[][..], &[&relay[..], traced, &["--"]].concat()] {
                let call = [&["call", method], traced, &["--"], relay].concat();
                let said = rescind([&call[..], &["sh", "-c", &server]].concat());
                assert_eq!(said.code, Some(i32::from(method == "fail")), "{said:?}");
                assert_harmless(&said.stderr);
                for shown in [r"\u001b]52;c;aGk=\u0007\u009b2J\u007f\rforged\u202e", r"id "] {
                    assert!(said.stderr.contains(shown), "{shown} is not in {said:?}");
                }
            }
        }
    }
}

#[test]
fn f68_a_result_is_exact_for_programs_and_harmless_on_a_terminal() {
    let server = hostile_server();
    let arguments = ["call", "work", "--", "sh", "-c", &server];
    let exact = "[\"\u{9b}2J\u{7f}\u{202e}\"]\n";
    assert_eq!(rescind(arguments).stdout, exact);

    let (mut ours, theirs) = terminal();
    let mut command = Command::new(RESCIND);
    command.args(arguments).stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null());
    let status = command.status().unwrap();
    // So that reading ends: it holds the program's end.
    drop(command);
    let mut shown = Vec::new();
    // A terminal that everybody has left ends with an error.
    let _ = ours.read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    assert!(status.success());
    assert_eq!(shown.trim_end(), r#"["\u009b2J\u007f\u202e"]"#);
}

// F67

/// Runs a server that floods before it responds, behind a standard error that nobody reads. The result comes
/// out all the same.
#[track_caller]
fn floods(arguments: &[&str], flood: &str) {
    let script = format!(
        r#"read line; {flood}; printf '{{"jsonrpc":"2.0","id":1,"result":{{}}}}\n'
        read line; printf '{{"jsonrpc":"2.0","id":2,"result":"done"}}\n'; read line; true"#
    );
    let mut command = Command::new(RESCIND);
    command.args(arguments).args(["--", "sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut input, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let _unread = child.stderr.take().unwrap();
    let mut program = Program::from(child);
    let mut stdout = BufReader::new(stdout);
    if arguments[0] == "relay" {
        for id in [1, 2] {
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#).unwrap();
        }
    }
    let mut line = String::new();
    while !line.contains("\"done\"") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "{arguments:?} {flood}");
    }
    drop(input);
    assert!(program.wait().success(), "{arguments:?} {flood}");
}

#[test]
fn f67_a_standard_error_that_nobody_reads_stops_nothing() {
    // More than a pipe holds, of each kind that is printed.
    let noise = "seq 20000";
    let notifications = r#"seq -f '{"jsonrpc":"2.0","method":"n","params":[%.0f]}' 15000"#;
    thread::scope(|scope| {
        for runtime in CALL_RUNTIMES {
            let call = ["call", "--runtime", runtime, "work"];
            scope.spawn(move || {
                floods(&call, noise);
                floods(&call, notifications);
                floods(&[&call[..], &["--trace"]].concat(), notifications);
            });
        }
        for runtime in RELAY_RUNTIMES {
            let relay = ["relay", "--runtime", runtime];
            scope.spawn(move || {
                floods(&relay, noise);
                floods(&[&relay[..], &["--trace"]].concat(), notifications);
            });
        }
    });
}

#[test]
fn f67_a_server_serves_on_when_nobody_reads_its_complaints() {
    for runtime in SERVE_RUNTIMES {
        let mut command = Command::new(RESCIND);
        command.args(["serve", "--runtime", runtime]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut input, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let _unread = child.stderr.take().unwrap();
        let mut program = Program::from(child);
        let mut lines = BufReader::new(stdout).lines();
        for id in 0..5_000 {
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":17}}"#).unwrap();
            assert!(lines.next().unwrap().unwrap().contains("-32600"), "{runtime}");
        }
        drop(input);
        assert!(program.wait().success(), "{runtime}");
    }
}

#[test]
fn f67_what_is_said_again_is_counted_and_what_is_long_is_cut() {
    let flood = "i=0; while [ $i -lt 500 ]; do echo same; i=$((i+1)); done
        head -c 1000000 /dev/zero | tr '\\0' x; echo";
    let script =
        format!("read line; {flood}; printf '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}}\\n'");
    let said = rescind(["call", "--dialect", "jsonrpc", "m", "--", "sh", "-c", &script]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let same = said.stderr.lines().filter(|line| line.contains(": same ")).count();
    assert!(same <= 3, "{said:?}");
    assert!(said.stderr.contains("(the same line "), "{said:?}");
    assert!(said.stderr.contains("the server's output: 501 lines were no messages\n"), "{said:?}");
    assert!(said.stderr.contains("… (999800 bytes more)"), "{said:?}");
    assert!(said.stderr.len() < 4_000, "{said:?}");
}

#[test]
fn f67_what_is_said_again_and_again_is_counted_while_it_comes() {
    let script = "read line; while echo same; do sleep 0.1; done";
    let call = ["call", "--dialect", "jsonrpc", "m", "--", "sh", "-c", script];
    let mut running = Running::start(call, &[]);
    running.says(&["(the same line "]);
    running.says(&["(the same line "]);
}

// F69

/// Returns outputs that can't be written, each with its error: a full disk, and a pipe that nobody reads any
/// more.
fn unwritable() -> [(&'static str, Stdio); 2] {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    [("No space left on device", full.into()), ("Broken pipe", writer.into())]
}

/// Runs the program on that input. Asserts that its last line and its exit code report the lost output.
#[track_caller]
fn loses(arguments: &[&str], input: &str) {
    for (why, stdout) in unwritable() {
        let mut command = Command::new(RESCIND);
        command.args(arguments).stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let mut program = Program::from(child);
        let status = program.wait();
        drop(stdin);
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(7), "{arguments:?} {why}: {said}");
        let last = said.lines().last().unwrap_or_default();
        let expected = format!("error: standard output can't be written: {why}");
        assert!(last.starts_with(&expected), "{arguments:?}: {said}");
    }
}

const ECHO: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\n";

#[test]
fn f69_a_result_that_is_lost_is_an_error() {
    for runtime in CALL_RUNTIMES {
        loses(&["call", "--runtime", runtime, "echo", "[1]"], "");
    }
}

#[test]
fn f69_answers_that_are_lost_are_an_error() {
    for runtime in SERVE_RUNTIMES {
        loses(&["serve", "--runtime", runtime], ECHO);
    }
    for runtime in RELAY_RUNTIMES {
        loses(&["relay", "--runtime", runtime, "--", RESCIND, "serve"], ECHO);
    }
}

#[test]
fn f69_answers_that_are_lost_once_the_input_has_ended_are_an_error() {
    let sleep = r#"{"jsonrpc":"2.0","id":1,"method":"sleep","params":{"ms":200}}"#;
    for runtime in SERVE_RUNTIMES {
        let mut command = Command::new(RESCIND);
        command.args(["serve", "--runtime", runtime]).stdin(Stdio::piped());
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{sleep}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{runtime}: {output:?}");
    }
}

#[test]
fn f69_steps_that_are_lost_are_an_error() {
    loses(&["step"], "{\"notify\":{\"method\":\"m\"}}\n");
}

#[test]
fn f110_help_that_is_lost_is_an_error() {
    for arguments in [&["--help"][..], &["--version"], &["relay", "--help"], &["help", "call"]] {
        loses(arguments, "");
    }
}

#[test]
fn f110_a_directory_as_standard_input_is_named() {
    for arguments in [&["serve"][..], &["relay", "--", "cat"]] {
        let mut command = Command::new(RESCIND);
        command.args(arguments).stdin(File::open("/").unwrap());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(output.stderr, b"error: standard input is a directory\n", "{output:?}");
    }
}
