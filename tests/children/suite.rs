//! The guarantees that hold on every runtime.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use protocol_async::{CallError, SentRequest};
use protocol_child::{ChildCommand, Pushed, Stderr};
use protocol_core::Cause;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use smol::channel::{Receiver, bounded};

use crate::support::{Connect, Mark, PATIENCE, is_there, soon};

/// A tenth of a second for each step.
pub(crate) fn hasty(command: Command) -> ChildCommand {
    ChildCommand::new(command).grace(Duration::from_millis(100))
}

/// So long that whatever obeys `SIGTERM` has done so, also on a busy machine.
pub(crate) fn unhurried(command: Command) -> ChildCommand {
    ChildCommand::new(command).grace(Duration::from_secs(2))
}

/// Longer than any test may take.
pub(crate) fn patient(command: Command) -> ChildCommand {
    ChildCommand::new(command).grace(2 * PATIENCE)
}

/// Tells when something is written to stderr.
pub(crate) fn first_words() -> (Stderr, Receiver<()>) {
    let (there, told) = bounded(1);
    // Only the first is waited for.
    let show = Box::new(move |_: &[u8]| {
        let _ = there.try_send(());
    });
    (Stderr::Lines(show), told)
}

async fn lost(sent: SentRequest<Value>) -> String {
    match soon("an outcome", sent).await {
        Err(CallError::ConnectionLost { cause: Cause::PeerGone, how }) => {
            how.map_or_else(String::new, String::from)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn f32_a_death_behind_an_open_pipe_settles_calls_with_the_status(
    connect: Connect,
) {
    let mark = Mark::new();
    let command = mark.shell("read line; sleep 1000 & exit 3");
    let child = connect(patient(command)).unwrap();
    let id = child.process.id();
    let sent = child.peer.call::<Value>("work", ());
    let unsent = child.peer.call::<Value>("more", ());
    assert_eq!(lost(sent).await, "the process ended: exit status: 3");
    assert_eq!(lost(unsent).await, "the process ended: exit status: 3");
    assert!(!is_there(id), "it is no zombie");
    // The processes that are left have their grace; nobody has to drop a handle.
    mark.kill_the_rest();
    let status = soon("its end", child.process.exit()).await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(child.process.pushed(), Pushed::No);
}

pub(crate) async fn f32_an_output_that_ends_with_the_process_tells_the_status(connect: Connect) {
    // More than once: the end of the output mostly comes first.
    for round in 0..20 {
        let child = connect(hasty(Mark::new().shell("read line; exit 3"))).unwrap();
        let told = lost(child.peer.call("work", ())).await;
        assert_eq!(told, "the process ended: exit status: 3", "round {round}");
    }
}

pub(crate) async fn f32_what_was_written_before_the_death_arrives(connect: Connect) {
    // More than once: it is a race between the pipe and the process's end.
    for round in 0..20 {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":true}"#;
        let script = format!("read line; echo '{answer}'; sleep 1000 & kill -9 $$");
        let child = connect(hasty(Mark::new().shell(&script))).unwrap();
        let answered = soon("an answer", child.peer.call::<bool>("work", ())).await;
        assert!(answered.unwrap(), "round {round}");
        let late = child.peer.call::<Value>("late", ());
        assert!(soon("a refusal", late).await.is_err());
    }
}

pub(crate) async fn f32_one_that_left_the_group_keeps_nobody_waiting(connect: Connect) {
    let mark = Mark::new();
    let script = r#"read line; setsid sh -c 'echo left >&2; exec sleep 1000' & read line; exit 4"#;
    let (stderr, told) = first_words();
    let child = connect(patient(mark.shell(script)).stderr(stderr)).unwrap();
    let sent = child.peer.call::<Value>("work", ());
    soon("its leave", told.recv()).await.unwrap();
    child.peer.try_notify("go", ()).unwrap();
    assert_eq!(lost(sent).await, "the process ended: exit status: 4");
    // It holds stderr, too, which is not read for another grace.
    assert_eq!(soon("its end", child.process.exit()).await.unwrap().code(), Some(4));
    // A daemon is its own.
    mark.kill_the_rest();
    mark.assert_gone();
}

pub(crate) async fn f34_a_call_that_could_not_be_written_is_told_the_status_too(connect: Connect) {
    let (stderr, told) = first_words();
    let script = "exec <&-; echo deaf >&2; exec sleep 1000";
    let child = connect(hasty(Mark::new().shell(script)).stderr(stderr)).unwrap();
    soon("its word", told.recv()).await.unwrap();
    let sent = child.peer.call("work", ());
    soon("a failed write", child.peer.flushed()).await;
    kill_process(Pid::from_raw(child.process.id() as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(lost(sent).await, "the process ended: signal: 9 (SIGKILL)");
}

pub(crate) async fn f32_an_output_that_ends_before_the_process_settles_calls(connect: Connect) {
    let mark = Mark::new();
    // It is not told the end of its input as long as its output is waited for.
    let child = connect(patient(mark.shell("exec >&-; cat >/dev/null"))).unwrap();
    assert_eq!(lost(child.peer.call("work", ())).await, "");
    drop((child.peer, child.incoming));
    assert!(soon("its end", child.process.exit()).await.unwrap().success());
    mark.assert_gone();
}

pub(crate) async fn f32_stderr_never_stops_the_process(connect: Connect) {
    let seen = Arc::new(Mutex::new(0));
    let sum = seen.clone();
    let sinks = [
        Stderr::Discard,
        Stderr::Last { bytes: 1000 },
        Stderr::Lines(Box::new(move |line| *sum.lock().unwrap() += line.len() + 1)),
    ];
    for stderr in sinks {
        let what = format!("{stderr:?}");
        let script = r#"read line
            head -c 400000 /dev/zero | tr '\0' x >&2
            yes yyyyyyy | head -c 400000 >&2
            echo '{"jsonrpc":"2.0","id":1,"result":true}'
            cat"#;
        let child = connect(patient(Mark::new().shell(script)).stderr(stderr)).unwrap();
        assert!(soon(&what, child.peer.call::<bool>("work", ())).await.unwrap());
        drop((child.peer, child.incoming));
        soon("its end", child.process.exit()).await.unwrap();
        let tail = child.process.stderr_tail();
        assert_eq!(tail, if what == "Last" { "yyyyyyy\n".repeat(124) } else { String::new() });
    }
    // The long line came in 25 pieces, the last of which ended with the next line.
    assert_eq!(*seen.lock().unwrap(), 800_000 + 24);
}

pub(crate) async fn f32_the_tail_of_stderr_and_the_id_are_told(connect: Connect) {
    let command = Mark::new().shell("echo $$ >&2; exit 1");
    let child = connect(patient(command).stderr(Stderr::Last { bytes: 100 })).unwrap();
    assert_eq!(soon("its end", child.process.exit()).await.unwrap().code(), Some(1));
    assert_eq!(child.process.stderr_tail(), format!("{}\n", child.process.id()));
    assert_eq!(child.process.pushed(), Pushed::No);
}

pub(crate) async fn f60_the_end_of_input_ends_what_is_behind_a_wrapper(connect: Connect) {
    let mark = Mark::new();
    let child = connect(patient(mark.shell("sh -c 'cat; true'; exit 5"))).unwrap();
    drop((child.peer, child.incoming));
    assert_eq!(soon("its end", child.process.exit()).await.unwrap().code(), Some(5));
    assert_eq!(child.process.pushed(), Pushed::No);
    mark.assert_gone();
}

pub(crate) async fn f60_what_ignores_its_input_is_terminated(connect: Connect) {
    let mark = Mark::new();
    let child = connect(unhurried(mark.shell("sh -c 'sleep 1000; true'; true"))).unwrap();
    let begun = Instant::now();
    drop((child.peer, child.incoming));
    let status = soon("its end", child.process.exit()).await.unwrap();
    assert!(!status.success());
    assert!(begun.elapsed() >= Duration::from_secs(2), "it had its grace");
    assert_eq!(child.process.pushed(), Pushed::Terminated);
    mark.assert_gone();
}

pub(crate) async fn f60_what_ignores_sigterm_is_killed(connect: Connect) {
    let mark = Mark::new();
    // The wrapper goes at once, the server stays.
    let server = r#"trap "" TERM; echo there >&2; while :; do sleep 1000; done"#;
    let (stderr, told) = first_words();
    let command = mark.shell(&format!("sh -c '{server}'; true"));
    let child = connect(hasty(command).stderr(stderr)).unwrap();
    soon("its trap", told.recv()).await.unwrap();
    drop((child.peer, child.incoming));
    soon("its end", child.process.exit()).await.unwrap();
    assert_eq!(child.process.pushed(), Pushed::Killed);
    mark.assert_gone();
}

pub(crate) async fn f60_a_process_that_leaves_its_group_is_ended_itself(connect: Connect) {
    let mark = Mark::new();
    let child = connect(unhurried(mark.shell("exec setsid sleep 1000"))).unwrap();
    drop((child.peer, child.incoming));
    soon("its end", child.process.exit()).await.unwrap();
    assert_eq!(child.process.pushed(), Pushed::Terminated);
    mark.assert_gone();
}

pub(crate) async fn f62_what_is_written_after_the_end_of_input_is_read(connect: Connect) {
    // More than a pipe holds.
    let script =
        r#"cat >/dev/null; yes '{"jsonrpc":"2.0","method":"bye"}' | head -c 400000 || exit 1"#;
    let child = connect(patient(Mark::new().shell(script))).unwrap();
    drop((child.peer, child.incoming));
    let status = soon("its end", child.process.exit()).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(child.process.pushed(), Pushed::No);
}
