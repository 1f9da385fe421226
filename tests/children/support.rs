//! Runtimes, and a search for the processes that are left.
// Each test file is a crate of its own and uses some of this.
#![allow(dead_code)]

use std::fs;
use std::future::Future;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use protocol_child::{ChildCommand, ChildConnection};
use protocol_core::{Config, Dialect};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything takes on a loaded machine: a longer wait would never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Spawns and connects, on one of the runtimes.
pub(crate) type Connect = fn(ChildCommand) -> io::Result<ChildConnection>;

pub(crate) fn on_tokio(command: ChildCommand) -> io::Result<ChildConnection> {
    protocol_tokio::child(command, config())
}

pub(crate) fn on_smol(command: ChildCommand) -> io::Result<ChildConnection> {
    protocol_smol::child(command, config())
}

/// Makes a client that does not wait long for responses to calls that were given up.
fn config() -> Config {
    let mut config = Config::client(Dialect::ACP_V1);
    config.abandoned_grace = Duration::from_millis(100);
    config
}

pub(crate) fn run_on_tokio<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test)
}

/// Returns the output of a future, which must not take for ever.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let late = async {
        smol::Timer::after(PATIENCE).await;
        None
    };
    let done = smol::future::or(async { Some(future.await) }, late).await;
    done.unwrap_or_else(|| panic!("{what} does not come"))
}

/// Marks a command and all that it starts, by their environment.
pub(crate) struct Mark(String);

pub(crate) const VARIABLE: &str = "RESCIND_CHILDREN_TEST";

impl Mark {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{VARIABLE}={}-{number}", std::process::id()))
    }

    pub(crate) fn value(&self) -> &str {
        &self.0[VARIABLE.len() + 1..]
    }

    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(VARIABLE, self.value());
        command
    }

    /// The ids of the marked processes that are alive.
    pub(crate) fn alive(&self) -> Vec<u32> {
        let is_marked = |id: &u32| {
            // A process that is gone, and a zombie, has none.
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == self.0.as_bytes())
        };
        processes().filter(is_marked).collect()
    }

    /// Kills the processes that are left; there must be one. A process that is being replaced by
    /// another shows no mark for a moment.
    pub(crate) fn kill_the_rest(&self) {
        eventually("something is left", || {
            let left = self.alive();
            left.iter().for_each(|id| kill(*id));
            !left.is_empty()
        });
    }

    /// Fails unless nothing marked is left. Those that were killed may need a moment to be gone.
    pub(crate) fn assert_gone(&self) {
        eventually("everything that was started is gone", || self.alive().is_empty());
    }
}

pub(crate) fn send(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
}

fn kill(id: u32) {
    send(id, Signal::KILL);
}

fn processes() -> impl Iterator<Item = u32> {
    let names = fs::read_dir("/proc").unwrap();
    names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Our children, zombies and watchdogs included.
pub(crate) fn our_children() -> Vec<u32> {
    let ours = std::process::id().to_string();
    let is_ours = |id: &u32| {
        let status = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name, which may hold anything: the state, and then the parent.
        let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&ours)
    };
    processes().filter(is_ours).collect()
}

pub(crate) fn is_there(id: u32) -> bool {
    fs::exists(format!("/proc/{id}")).unwrap()
}

pub(crate) fn ignores(id: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

pub(crate) fn eventually(what: &str, there: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < until, "not so: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
