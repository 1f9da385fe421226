//! Every end of `rescind call`, `relay`, `replay` and `conform` ends the processes that they spawned, and all descendants of those.
//!
//! The matrix (F102) is every command, every end and every way to detach a process. A run of the tests takes a
//! part of it. With `RESCIND_MATRIX=N` in the environment it takes all of it, N times for a relay and 3 times for
//! the others.

use std::fs;
use std::io::{BufRead, BufReader, IoSlice, Read};
use std::iter::repeat_n;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::pipe;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{self, PATIENCE, RESCIND, Running, at_once};

const RELAY_RUNTIMES: [&str; 2] = ["tokio", "smol"];
const CALL_RUNTIMES: [&str; 3] = ["blocking", "tokio", "smol"];

/// A server behind a wrapper, as `npx` and `uvx` are. It does not care for the end of its input.
const WRAPPED: &str = "sh -c 'echo there >&2; sleep 1000; true'; true";

/// The way in which it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    OfInput,
    By(Signal),
}

/// Marks a program and everything that it starts.
const VARIABLE: &str = "RESCIND_ORPHANS_TEST";

fn alive(mark: &str) -> usize {
    marked(mark).len()
}

/// Lists the marked processes. A zombie is none.
fn marked(mark: &str) -> Vec<u32> {
    let entry = format!("{VARIABLE}={mark}").into_bytes();
    let is_marked = |process: &fs::DirEntry| {
        // A process that is gone has none.
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|other| other == entry)
    };
    let marked = fs::read_dir("/proc").unwrap().flatten().filter(is_marked);
    marked.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
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

/// A server that cares for nothing, in the variable `SERVER`. It makes the file `THERE`, since not every command
/// shows what its server says.
const DEAF: &str = r#"trap "" TERM INT HUP; : >"$THERE"; while :; do sleep 1000; done"#;

/// The ways from a command to its server, by name.
const WAYS: [(&str, &[&str]); 6] = [
    ("sh", &["sh", "-c", r#"sh -c "$SERVER"; true"#]),
    ("npx", &["sh", "-c", r#"sh -c 'sh -c "$SERVER"; true'; true"#]),
    (
        "python",
        &[
            "python3",
            "-c",
            r#"import os, subprocess; subprocess.call(["sh", "-c", os.environ["SERVER"]])"#,
        ],
    ),
    ("setsid", &["sh", "-c", r#"setsid sh -c "$SERVER" & wait"#]),
    (
        "double fork",
        &[
            "sh",
            "-c",
            r#"trap "" TERM INT HUP; (setsid sh -c "$SERVER" </dev/null >/dev/null &)
               while :; do sleep 1000; done"#,
        ],
    ),
    (
        "node",
        &[
            "node",
            "-e",
            r#"const { spawn } = require("child_process");
               const stdio = ["ignore", "ignore", "inherit"];
               spawn("sh", ["-c", process.env.SERVER], { detached: true, stdio }).unref();
               setInterval(() => {}, 1000000);"#,
        ],
    ),
];

/// The commands, with graces of 100 ms. None of them ends by itself.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("relay", &["relay", "--grace", "100ms", "--answer-after-end", "100ms"]),
    ("call", &["call", "work"]),
    (
        "replay",
        &[
            "replay",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replayed/cancelled.jsonl"),
            "--against",
            "--wait",
            "1h",
        ],
    ),
    ("conform server", &["conform", "server", "--patience", "1h"]),
    ("conform client", &["conform", "client", "--patience", "1h"]),
    ("conform relay", &["conform", "relay", "--patience", "1h"]),
];

/// Everything that ends a command.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Signal(Signal),
    EndOfInput,
    /// The program that started it is killed, and holds its pipes.
    DeathOfParent,
}

const CAUSES: [Cause; 6] = [
    Cause::Signal(Signal::TERM),
    Cause::Signal(Signal::INT),
    Cause::Signal(Signal::HUP),
    Cause::Signal(Signal::KILL),
    Cause::EndOfInput,
    Cause::DeathOfParent,
];

/// The environment of the matrix: how often the whole of it is gone through for a relay.
const WHOLE: &str = "RESCIND_MATRIX";

/// The number of cells that are gone through at the same time.
const CELLS_AT_ONCE: usize = 4;

/// Returns the file that a server makes once it is there.
fn witness(number: u32) -> PathBuf {
    std::env::temp_dir().join(format!("rescind-orphans-{}-{number}", std::process::id()))
}

/// Whether a program is on this machine.
fn is_there(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs one cell of the matrix, and returns the time from the cause until nothing was left.
fn cell(command: &str, options: &[&str], (way, server): (&str, &[&str]), cause: Cause) -> Duration {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let what = format!("{command}, {way}, {cause:?}");
    let mark = format!("{} matrix {number}: {what}", std::process::id());
    let there = witness(number);
    let mut parent = match cause {
        Cause::DeathOfParent => {
            let mut shell = Command::new("sh");
            shell.args(["-c", r#""$@"; true"#, "sh", RESCIND]);
            shell
        }
        _ => Command::new(RESCIND),
    };
    parent.args(options).args(["--exit-grace", "100ms", "--"]).args(server);
    parent.env(VARIABLE, &mark).env("SERVER", DEAF).env("THERE", &there);
    parent.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = Killed(parent.spawn().unwrap());
    let begun = Instant::now();
    while !there.exists() {
        assert!(begun.elapsed() < PATIENCE, "{what} starts no server");
        thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(there).unwrap();
    let begun = Instant::now();
    match cause {
        Cause::Signal(by) => support::signal(program.0.id(), by),
        Cause::EndOfInput => drop(program.0.stdin.take()),
        Cause::DeathOfParent => {
            support::signal(program.0.id(), Signal::KILL);
            drop((program.0.stdin.take(), program.0.stdout.take()));
        }
    }
    while alive(&mark) > 0 {
        assert!(begun.elapsed() < PATIENCE, "{what} leaves {}", alive(&mark));
        thread::sleep(Duration::from_millis(5));
    }
    program.0.wait().unwrap();
    begun.elapsed()
}

#[test]
fn f102_nothing_that_descends_from_a_server_is_left_however_it_detached() {
    let whole: Option<usize> = std::env::var(WHOLE).ok().map(|times| times.parse().unwrap());
    let there = WAYS.into_iter().filter(|(way, server)| {
        let is_there = !matches!(server[0], "python3" | "node") || is_there(server[0]);
        if !is_there {
            println!("{way} is left out: there is no {} here", server[0]);
        }
        is_there
    });
    let there: Vec<_> = there.collect();
    let mut cells = Vec::new();
    for (row, (command, options)) in COMMANDS.into_iter().enumerate() {
        for (column, way) in there.iter().enumerate() {
            for (number, cause) in CAUSES.into_iter().enumerate() {
                // Only a relay reads its input.
                if command != "relay" && matches!(cause, Cause::EndOfInput) {
                    continue;
                }
                // A part of it takes every third cell, of each command, way and cause.
                let times = match whole {
                    Some(times) if command == "relay" => times,
                    Some(_) => 3,
                    None => usize::from((row + column + number) % 3 == 0),
                };
                cells.extend(repeat_n((command, options, *way, cause), times));
            }
        }
    }
    let ended = Mutex::new(Vec::new());
    at_once(CELLS_AT_ONCE, cells, |(command, options, way, cause)| {
        let took = catch_unwind(|| cell(command, options, way, cause));
        ended.lock().unwrap().push((took.ok(), (command, way.0, cause)));
    });
    let (ended, failed): (Vec<_>, Vec<_>) =
        ended.into_inner().unwrap().into_iter().partition(|(took, _)| took.is_some());
    let longest = ended.iter().max_by_key(|(took, _)| *took);
    assert!(failed.is_empty(), "{failed:#?}");
    println!("the slowest cell: {longest:?}");
}

#[test]
fn f102_a_test_that_is_over_leaves_what_its_server_detached_only_where_that_is_asked_for() {
    let server = r#"rm -f "$THERE"
        setsid sh -c ': >"$THERE"; exec sleep 1000' </dev/null >/dev/null 2>&1 &
        until [ -e "$THERE" ]; do sleep 0.01; done
        exec "$0" serve"#;
    let there = witness(0);
    for options in [&[][..], &["--leave-detached"]] {
        let mark = format!("{} is over {options:?}", std::process::id());
        let mut command = Command::new(RESCIND);
        command.args(["conform", "server", "--only", "cancel/one-read", "--exit-grace", "1h"]);
        command.args(["--slow", "sleep", r#"{"ms":"$MS"}"#]).args(options);
        command.args(["--", "sh", "-c", server, RESCIND]);
        let said = command.env(VARIABLE, &mark).env("THERE", &there).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        if options.is_empty() {
            assert_gone(&mark);
        } else {
            kill_what_is_left(&mark);
        }
    }
    fs::remove_file(there).unwrap();
}

#[test]
fn f102_a_tool_that_is_killed_while_its_server_starts_leaves_nothing() {
    let mark = format!("{} starts", std::process::id());
    // The tool passes the pipes of the server, and is gone before the server is.
    let (tool, theirs) = UnixStream::pair().unwrap();
    let ((stdin, _to), (_from, stdout)) = (pipe().unwrap(), pipe().unwrap());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut passed = SendAncillaryBuffer::new(&mut space);
    let pipes = [stdin.as_fd(), stdout.as_fd()];
    assert!(passed.push(SendAncillaryMessage::ScmRights(&pipes)));
    sendmsg(&tool, &[IoSlice::new(b"\n")], &mut passed, SendFlags::empty()).unwrap();
    drop(tool);
    let mut command = Command::new(RESCIND);
    command.args(["supervise", "--grace", "100ms", "--", "sh", "-c", WRAPPED]);
    command.env(VARIABLE, &mark).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    let mut supervisor = Killed(command.stderr(Stdio::null()).spawn().unwrap());
    assert!(supervisor.0.wait().unwrap().success(), "it ends last");
    assert_eq!(alive(&mark), 0);
}

/// Starts a relay whose server detaches another, and returns the relay, its standard error and the mark.
fn detaching(
    grace: &str,
    options: &[&str],
) -> (Killed, BufReader<std::process::ChildStderr>, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{} detaching {number}", std::process::id());
    let server = r#"setsid sh -c 'exec 0<&- 1>&-; echo there >&2; exec 2>&-; exec sleep 1000' &
        cat >/dev/null"#;
    let mut command = Command::new(RESCIND);
    command.args(["relay", "--exit-grace", grace]).args(options).args(["--", "sh", "-c", server]);
    command.env(VARIABLE, &mark);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut relay = Killed(command.spawn().unwrap());
    let mut errors = BufReader::new(relay.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("there") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0);
    }
    (relay, errors, mark)
}

fn assert_gone(mark: &str) {
    let until = Instant::now() + PATIENCE;
    while alive(mark) > 0 {
        assert!(Instant::now() < until, "{} are left", alive(mark));
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until only processes that don't end by themselves are left, at least one, and kills them.
fn kill_what_is_left(mark: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let left: Vec<_> = marked(mark).into_iter().map(|id| (id, command(id))).collect();
        if !left.is_empty() && left.iter().all(|(_, command)| command.starts_with("sleep\0")) {
            return left.into_iter().for_each(|(id, _)| support::signal(id, Signal::KILL));
        }
        assert!(Instant::now() < until, "left is {left:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the arguments of the process, each with a NUL behind it. A process that is gone has none.
fn command(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default()
}

#[test]
fn f102_a_process_that_had_detached_is_named_when_it_is_ended() {
    // So long that the server ends by itself on a busy machine, too.
    let (mut relay, mut errors, mark) = detaching("2s", &[]);
    drop(relay.0.stdin.take());
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(said.contains("rescind: ended `sleep 1000` ("), "{said}");
    assert!(relay.0.wait().unwrap().success(), "the server ended by itself: {said}");
    assert_gone(&mark);
}

#[test]
fn f102_a_supervisor_of_ours_is_none_that_had_detached_itself() {
    let stubborn =
        r#"trap "" TERM; echo there >&2; while :; do sleep 1000; done # until it is killed"#;
    let nested = [RESCIND, "relay", "--exit-grace", "1h", "--", "sh", "-c", stubborn];
    let relay = ["relay", "--exit-grace", "100ms", "--"].into_iter().chain(nested);
    let mut running = Running::start(relay, &[]);
    running.says(&["there"]);
    let said = running.end().stderr;
    let first =
        r#"rescind: ended `sh -c trap "" TERM; echo there >&2; while :; do sleep 1000; …` ("#;
    assert!(said.contains(first) && said.contains("ended `sleep 1000` ("), "{said}");
    assert!(!said.contains("exe") && !said.contains("supervise"), "{said}");
}

#[test]
fn f102_what_is_detached_on_purpose_is_left_where_that_is_asked_for() {
    let (mut relay, mut errors, mark) = detaching("100ms", &["--leave-detached"]);
    drop(relay.0.stdin.take());
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(!said.contains("ended"), "{said}");
    assert!(relay.0.wait().unwrap().success(), "{said}");
    kill_what_is_left(&mark);
}

#[test]
fn f102_a_supervisor_that_is_killed_leaves_nothing() {
    let (mut relay, _errors, mark) = detaching("100ms", &[]);
    let supervisor = marked(&mark).into_iter().find(|id| command(*id).contains("supervise\0"));
    support::signal(supervisor.unwrap(), Signal::KILL);
    assert!(!relay.0.wait().unwrap().success());
    assert_gone(&mark);
}

#[test]
fn f132_a_supervisor_that_was_stopped_is_ended_with_all_that_it_has() {
    let (mut relay, _errors, mark) = detaching("100ms", &[]);
    let supervisor = marked(&mark).into_iter().find(|id| command(*id).contains("supervise\0"));
    support::signal(supervisor.unwrap(), Signal::STOP);
    drop(relay.0.stdin.take());
    let until = Instant::now() + PATIENCE;
    while relay.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the relay waits for its supervisor");
        thread::sleep(Duration::from_millis(5));
    }
    assert_gone(&mark);
}

#[test]
fn f132_a_tool_that_ends_at_once_ends_what_a_supervisor_has_that_was_stopped() {
    let (mut relay, _errors, mark) = detaching("1h", &[]);
    let supervisor = marked(&mark).into_iter().find(|id| command(*id).contains("supervise\0"));
    support::signal(supervisor.unwrap(), Signal::STOP);
    let until = Instant::now() + PATIENCE;
    while relay.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the relay waits for its supervisor");
        support::signal(relay.0.id(), Signal::TERM);
        thread::sleep(Duration::from_millis(50));
    }
    assert_gone(&mark);
}

#[test]
fn f107_a_server_that_asks_on_the_terminal_has_none_and_goes_on() {
    let (terminal, theirs) = support::terminal();
    // With a session of its own the command has the terminal, and its server would be stopped at it.
    let script = r#"exec setsid -c "$@" 2>&1"#;
    let asks = r#"read -r line </dev/tty || echo nothing to ask on >&2; cat >/dev/null"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", RESCIND, "call", "--timeout", "1h", "work"]);
    command.args(["--", "sh", "-c", asks]);
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let program = Killed(command.spawn().unwrap());
    let said = support::lines(terminal);
    let mut all = String::new();
    while !all.contains("nothing to ask on") {
        all.push_str(&said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("only {all}")));
    }
    drop(program);
}

#[test]
fn f101_a_terminal_obeys_nothing_that_a_server_writes_to_its_standard_error() {
    let hostile = r#"printf '\033]0;title\007\033]52;c;aGk=\007\033[2J\302\233end\n' >&2; exit 1"#;
    let (terminal, theirs) = support::terminal();
    let mut command = Command::new(RESCIND);
    command.args(["call", "work", "--", "sh", "-c", hostile]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(theirs);
    let mut program = Killed(command.spawn().unwrap());
    let said = support::lines(terminal);
    let line =
        std::iter::from_fn(|| said.recv_timeout(PATIENCE).ok()).find(|line| line.contains("end"));
    let line = line.unwrap();
    assert!(
        line.contains(r"\u001b]0;title\u0007\u001b]52;c;aGk=\u0007\u001b[2J\u009bend"),
        "{line:?}"
    );
    program.0.wait().unwrap();
}

#[test]
fn f101_a_server_that_floods_its_standard_error_has_a_rate() {
    let flood = "seq 1 100000 >&2; exit 1";
    let said = Running::start(["call", "work", "--", "sh", "-c", flood], &[]).end();
    assert!(said.stderr.lines().count() < 50_000, "{}", said.stderr.len());
    assert!(said.stderr.contains("more lines like this are missing"), "{}", said.stderr.len());
}
