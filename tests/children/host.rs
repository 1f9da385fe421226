//! A host that is killed: this very program, run again with a variable set.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use protocol_child::ChildCommand;
use rustix::process::Signal;

use crate::support::{self, Connect, Mark, ignores, on_smol, on_tokio, run_on_tokio, send};

const VARIABLE: &str = "RESCIND_HOST";

/// Behind a wrapper, deaf to the end of its input and to `SIGTERM`.
const SERVER: &str = r#"sh -c 'trap "" TERM; echo there >&2; while :; do sleep 1000; done'; true"#;

/// Runs in the other program: spawns a child, and waits for its end.
async fn host(connect: Connect) {
    let mark = std::env::var(VARIABLE).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", SERVER]).env(support::VARIABLE, mark);
    let grace = Duration::from_millis(100);
    let child = connect(ChildCommand::new(command).grace(grace)).unwrap();
    let _ = child.process.exit().await;
}

#[test]
fn is_a_host_on_tokio() {
    if std::env::var_os(VARIABLE).is_some() {
        run_on_tokio(host(on_tokio));
    }
}

#[test]
fn is_a_host_on_smol() {
    if std::env::var_os(VARIABLE).is_some() {
        smol::block_on(host(on_smol));
    }
}

/// Another program, which is killed if the test fails.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        // It is dead already if the test passed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host whose server is up.
fn start(test: &str, mark: &Mark) -> Host {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(VARIABLE, mark.value());
    let mut host = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(host.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    Host(host)
}

#[test]
fn f60_a_host_that_is_killed_leaves_nothing() {
    // Our children ignore each signal that we ignore, as jobs in the background of a shell do.
    let signals = [Signal::KILL, Signal::TERM, Signal::INT]
        .into_iter()
        .filter(|signal| !ignores(std::process::id(), *signal));
    for test in ["host::is_a_host_on_tokio", "host::is_a_host_on_smol"] {
        for signal in signals.clone() {
            let mark = Mark::new();
            let mut host = start(test, &mark);
            // At once: perhaps before it could do anything about what it has spawned.
            send(host.0.id(), signal);
            assert!(!host.0.wait().unwrap().success());
            mark.assert_gone();
        }
    }
}
