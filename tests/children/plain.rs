//! The guarantees that hold without any runtime.

use std::fs;
use std::io::{self, Read};
use std::pin::Pin;
use std::process::Command;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use protocol_child::{BlockingOutput, ChildCommand, Output, Pushed, Spawned, spawn};
use protocol_smol::SmolTimer;
use rustix::process::{Pid, Signal, getpgid};
use smol::io::{AsyncRead, AsyncReadExt};

use crate::suite::{first_words, hasty, patient, unhurried};
use crate::support::{
    Mark, PATIENCE, eventually, ignores, is_there, on_tokio, run_on_tokio, send, soon,
};

/// Behind a wrapper, and not interested in the end of its input.
const SERVER: &str = "sh -c 'sleep 1000; true'; true";

fn stubborn(mark: &Mark) -> ChildCommand {
    hasty(mark.shell(SERVER))
}

#[test]
fn f60_dropping_needs_no_runtime() {
    let mark = Mark::new();
    let Spawned { owner, stdin, stdout, .. } = spawn(unhurried(mark.shell(SERVER))).unwrap();
    let process = owner.process().clone();
    drop((stdin, stdout));
    thread::spawn(move || drop(owner)).join().unwrap();
    assert!(!process.wait().unwrap().success());
    assert_eq!(process.pushed(), Pushed::Terminated);
    mark.assert_gone();
}

#[test]
fn f60_a_panic_ends_the_process() {
    let mark = Mark::new();
    let spawned = spawn(stubborn(&mark)).unwrap();
    let process = spawned.owner.process().clone();
    let panicked = thread::spawn(move || {
        let _spawned = spawned;
        panic!("a host's mistake");
    });
    assert!(panicked.join().is_err());
    process.wait().unwrap();
    mark.assert_gone();
}

#[test]
fn f60_a_runtime_that_goes_takes_its_processes_along() {
    let mark = Mark::new();
    let child = run_on_tokio(async { on_tokio(stubborn(&mark)).unwrap() });
    child.process.wait().unwrap();
    mark.assert_gone();
}

#[test]
fn f60_outside_a_runtime_nothing_is_left_running() {
    let mark = Mark::new();
    let command = stubborn(&mark);
    assert!(thread::spawn(move || on_tokio(command)).join().is_err(), "tokio panics");
    eventually("it is ended all the same", || mark.alive().is_empty());
}

#[test]
fn f60_a_grace_without_end_is_one() {
    let command = ChildCommand::new(Command::new("cat")).grace(Duration::MAX);
    assert!(format!("{command:?}").contains("31536000s"), "a year: {command:?}");
    let spawned = spawn(command).unwrap();
    let process = spawned.owner.process().clone();
    drop(spawned);
    assert!(smol::block_on(soon("its end", process.exit())).unwrap().success());
    assert_eq!(process.pushed(), Pushed::No);
}

#[test]
fn f60_a_watchdog_that_was_stopped_keeps_nobody_waiting() {
    let Spawned { owner, stdin, stdout, .. } = spawn(patient(Command::new("cat"))).unwrap();
    let process = owner.process().clone();
    let id = Pid::from_raw(i32::try_from(process.id()).unwrap());
    let watchdog = getpgid(id).unwrap().as_raw_pid().cast_unsigned();
    eventually("a terminal does not stop it", || {
        [Signal::TSTP, Signal::TTIN, Signal::TTOU].iter().all(|signal| ignores(watchdog, *signal))
    });
    send(watchdog, Signal::STOP);
    drop((stdin, stdout, owner));
    assert!(smol::block_on(soon("its end", process.exit())).unwrap().success());
}

#[test]
fn a_command_that_can_not_be_started_is_an_error() {
    let error = spawn(Command::new("/no/such/program")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

/// A stream of a runtime that is never told that there is something to read.
struct Untold;

impl AsyncRead for Untold {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
}

#[test]
fn f32_what_was_written_before_the_death_is_read_whatever_the_runtime_knows() {
    let mark = Mark::new();
    let Spawned { owner, stdin, stdout, .. } =
        spawn(patient(mark.shell("echo hello; sleep 1000 & exit 3"))).unwrap();
    let mut output = Output::new(Untold, owner.process(), SmolTimer::start());
    let mut said = Vec::new();
    let error = smol::block_on(output.read_to_end(&mut said)).unwrap_err();
    assert_eq!(
        (&*said, &*error.to_string()),
        (&b"hello\n"[..], "the process ended: exit status: 3")
    );
    drop((stdin, stdout));
    mark.kill_the_rest();
}

#[test]
fn f32_what_a_process_wrote_is_read_when_nothing_of_it_is_left() {
    let mark = Mark::new();
    let command = || hasty(mark.shell("echo hello; exit 3"));
    let assert_all = |read: io::Result<usize>, said: &[u8]| {
        assert_eq!(
            (said, &*read.unwrap_err().to_string()),
            (&b"hello\n"[..], "the process ended: exit status: 3")
        );
    };

    let Spawned { owner, stdout, .. } = spawn(command()).unwrap();
    let mut output = BlockingOutput::new(stdout, owner.process()).unwrap();
    owner.process().wait().unwrap();
    let mut said = Vec::new();
    assert_all(output.read_to_end(&mut said), &said);

    let Spawned { owner, stdout, .. } = spawn(command()).unwrap();
    let mut output = Output::new(Untold, owner.process(), SmolTimer::start());
    owner.process().wait().unwrap();
    let mut said = Vec::new();
    assert_all(smol::block_on(output.read_to_end(&mut said)), &said);
    drop(stdout);
}

#[test]
fn f32_a_read_into_an_empty_buffer_ends_no_output() {
    let mark = Mark::new();
    let Spawned { owner, stdout, .. } = spawn(hasty(mark.shell("echo hello; exit 3"))).unwrap();
    owner.process().wait().unwrap();
    smol::block_on(async {
        let mut byte = [0];
        let mut rest = Output::new(Untold, owner.process(), SmolTimer::start());
        let mut open = Output::new(smol::io::repeat(b'h'), owner.process(), SmolTimer::start());
        for _ in 0..2 {
            assert_eq!(open.read(&mut []).await.unwrap(), 0);
            assert_eq!((open.read(&mut byte).await.unwrap(), byte), (1, *b"h"));
            assert_eq!(rest.read(&mut []).await.unwrap(), 0);
        }
        assert_eq!((rest.read(&mut byte).await.unwrap(), byte), (1, *b"h"));
    });
    drop(stdout);
}

#[test]
fn f32_a_blocking_reader_ends_with_the_process() {
    let mark = Mark::new();
    let Spawned { owner, stdout, .. } =
        spawn(patient(mark.shell("echo hello; sleep 1000 & exit 3"))).unwrap();
    let mut output = BlockingOutput::new(stdout, owner.process()).unwrap();
    let mut said = Vec::new();
    let begun = Instant::now();
    let error = output.read_to_end(&mut said).unwrap_err();
    assert!(begun.elapsed() < PATIENCE, "before the group is ended");
    assert_eq!(
        (&*said, &*error.to_string()),
        (&b"hello\n"[..], "the process ended: exit status: 3")
    );
    mark.kill_the_rest();
}

#[test]
fn f32_a_blocking_reader_whose_input_ends_is_told_how_the_process_ended() {
    // More than once: the end of the output mostly comes first.
    for round in 0..20 {
        let Spawned { owner, stdout, .. } =
            spawn(patient(Mark::new().shell("echo hello; exit 3"))).unwrap();
        let mut output = BlockingOutput::new(stdout, owner.process()).unwrap();
        let mut said = Vec::new();
        let error = output.read_to_end(&mut said).unwrap_err();
        assert_eq!(
            (&*said, &*error.to_string()),
            (&b"hello\n"[..], "the process ended: exit status: 3"),
            "round {round}"
        );
    }
}

#[test]
fn f32_a_blocking_reader_whose_input_ends_before_the_process_is_told_no_death() {
    let Spawned { owner, stdin, stdout, .. } =
        spawn(patient(Mark::new().shell("exec >&-; cat >/dev/null"))).unwrap();
    let mut output = BlockingOutput::new(stdout, owner.process()).unwrap();
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(stdin);
    assert!(owner.process().wait().unwrap().success());
}

#[test]
fn f32_one_that_floods_an_output_it_was_left_keeps_nobody_reading() {
    let mark = Mark::new();
    let spawned = || {
        let spawned = spawn(patient(mark.shell("yes & exit 3"))).unwrap();
        eventually("it is dead", || !is_there(spawned.owner.process().id()));
        spawned
    };
    let more_than_a_pipe_holds = 10 << 20;

    let Spawned { owner: first, stdout, .. } = spawned();
    let output = BlockingOutput::new(stdout, first.process()).unwrap();
    let read = Read::take(output, more_than_a_pipe_holds).read_to_end(&mut Vec::new());
    assert_eq!(read.unwrap_err().to_string(), "the process ended: exit status: 3");

    let Spawned { owner: second, stdout: _kept, .. } = spawned();
    let output = Output::new(Untold, second.process(), SmolTimer::start());
    let mut output = AsyncReadExt::take(output, more_than_a_pipe_holds);
    let read = smol::block_on(output.read_to_end(&mut Vec::new()));
    assert_eq!(read.unwrap_err().to_string(), "the process ended: exit status: 3");
    mark.kill_the_rest();
}

#[test]
fn f62_what_is_written_after_a_blocking_reader_has_gone_is_read() {
    let mark = Mark::new();
    // More than a pipe holds.
    let script = "cat >/dev/null; yes | head -c 400000 || exit 1";
    let Spawned { owner, stdin, stdout, .. } = spawn(patient(mark.shell(script))).unwrap();
    drop(BlockingOutput::new(stdout, owner.process()).unwrap());
    drop(stdin);
    let status = smol::block_on(soon("its end", owner.process().exit())).unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(owner.process().pushed(), Pushed::No);
}

#[test]
fn f62_what_is_written_by_those_that_a_dead_process_has_left_is_read() {
    let mark = Mark::new();
    let (stderr, told) = first_words();
    // More than a pipe holds, once nobody reads it any more.
    let script = "{ cat >/dev/null; yes | head -c 400000 && echo done >&2; } <&0 & exit 3";
    let Spawned { owner, stdin, stdout, .. } =
        spawn(patient(mark.shell(script)).stderr(stderr)).unwrap();
    let mut output = Output::new(Untold, owner.process(), SmolTimer::start());
    let read = smol::block_on(output.read_to_end(&mut Vec::new()));
    assert_eq!(read.unwrap_err().to_string(), "the process ended: exit status: 3");
    drop((output, stdin, stdout));
    smol::block_on(soon("its word that all is written", told.recv())).unwrap();
    smol::block_on(soon("its end", owner.process().exit())).unwrap();
    assert_eq!(owner.process().pushed(), Pushed::No);
}

/// A thread that reads unwanted output holds up nobody who ends the process.
#[test]
fn f60_a_silent_process_whose_blocking_reader_has_gone_is_ended() {
    let mark = Mark::new();
    let Spawned { owner, stdin, stdout, .. } = spawn(stubborn(&mark)).unwrap();
    drop(BlockingOutput::new(stdout, owner.process()).unwrap());
    let process = owner.process().clone();
    drop((stdin, owner));
    let (tell, told) = channel();
    thread::spawn(move || tell.send(process.wait().map(|_| ())));
    told.recv_timeout(PATIENCE).expect("it is ended").unwrap();
    mark.assert_gone();
}

fn threads() -> impl Iterator<Item = String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // One may be gone by now.
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
}

#[test]
fn f32_an_output_that_a_daemon_holds_is_not_read_for_ever() {
    let mark = Mark::new();
    let (stderr, told) = first_words();
    let script = "setsid sh -c 'echo left >&2; exec sleep 1000' & cat >/dev/null";
    let Spawned { owner, stdin, stdout, .. } =
        spawn(hasty(mark.shell(script)).stderr(stderr)).unwrap();
    smol::block_on(soon("its leave", told.recv())).unwrap();
    drop(BlockingOutput::new(stdout, owner.process()).unwrap());
    let process = owner.process().clone();
    drop((stdin, owner));
    smol::block_on(soon("its end", process.exit())).unwrap();
    eventually("no thread reads any more", || threads().all(|name| name != "child-stdout\n"));
    mark.kill_the_rest();
}

/// A daemon ends when nobody can read it any more.
#[test]
fn f133_a_process_that_is_gone_holds_no_pipe_open_though_its_handle_is_kept() {
    let mark = Mark::new();
    let Spawned { owner, stdin, stdout, .. } =
        spawn(hasty(mark.shell("setsid yes & exit 3"))).unwrap();
    let process = owner.process().clone();
    let output = Output::new(Untold, &process, SmolTimer::start());
    drop((stdin, stdout, owner));
    assert!(!process.wait().unwrap().success());
    drop(output);
    eventually("the daemon is gone", || mark.alive().is_empty());
    assert!(process.has_ended());
}

#[test]
fn its_output_can_be_read_by_anyone() {
    let mut echo = Command::new("echo");
    echo.arg("hello");
    let mut spawned = spawn(echo).unwrap();
    let mut said = String::new();
    spawned.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello\n");
    assert!(spawned.owner.process().wait().unwrap().success());
}
