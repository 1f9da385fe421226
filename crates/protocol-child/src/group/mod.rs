//! A process and all that it starts.

mod spawned;
#[cfg(target_os = "linux")]
pub(crate) mod supervised;
mod watched;

use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;

pub(crate) use self::spawned::Spawned;
#[cfg(target_os = "linux")]
use self::supervised::{Below, Supervised};
use self::watched::Watched;
use crate::lock::lock;

/// A process and all that it starts, and the means to end them.
#[derive(Debug)]
pub(crate) enum Group {
    Watched(Watched),
    #[cfg(target_os = "linux")]
    Supervised(Supervised),
}

/// A process that was started, or its supervisor.
pub(crate) struct Started {
    pub(crate) group: Group,
    /// The child of this program: the process, or its supervisor.
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: Option<ChildStderr>,
}

/// Spawns a command in a group of its own.
pub(crate) fn spawn(command: &mut Command, grace: Duration) -> io::Result<Started> {
    let (watched, mut child) = Watched::spawn(command, grace)?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
    let stderr = child.stderr.take();
    Ok(Started { group: Group::Watched(watched), child, stdin, stdout, stderr })
}

/// Spawns the supervisor that is this command, and has it start its process.
#[cfg(target_os = "linux")]
pub(crate) fn spawn_supervised(command: &mut Command) -> io::Result<Started> {
    let Below { supervised, child, stdin, stdout, stderr } = supervised::spawn(command)?;
    Ok(Started { group: Group::Supervised(supervised), child, stdin, stdout, stderr })
}

impl Group {
    /// Returns the id of the process, whose supervisor may be the child.
    pub(crate) fn id(&self, child: &Child) -> u32 {
        match self {
            Self::Watched(_) => child.id(),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.id(),
        }
    }

    /// Waits until the process that was spawned has ended.
    pub(crate) fn wait(&self, _: &Mutex<Child>) {
        match self {
            Self::Watched(watched) => watched.wait(),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.wait(),
        }
    }

    /// Reaps the process, and returns its status.
    pub(crate) fn status(&self, child: &Mutex<Child>) -> io::Result<ExitStatus> {
        match self {
            Self::Watched(_) => lock(child).wait(),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.status(child),
        }
    }

    /// Asks every process of it to end, and the one that was spawned.
    pub(crate) fn terminate(&self, spawned: Spawned) {
        match self {
            Self::Watched(watched) => watched.signal(Signal::TERM, spawned),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.terminate(),
        }
    }

    /// Kills every process of it, and the one that was spawned.
    pub(crate) fn kill(&self, spawned: Spawned) {
        match self {
            Self::Watched(watched) => watched.signal(Signal::KILL, spawned),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.kill(),
        }
    }

    /// Returns whether nothing of it is left.
    pub(crate) fn is_empty(&self, child: &Mutex<Child>) -> bool {
        match self {
            Self::Watched(watched) => watched.is_empty(),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.is_empty(child),
        }
    }

    /// Ends whatever keeps watch: nothing of the group is left, or nothing that can be ended.
    pub(crate) fn release(&self, child: &Mutex<Child>) {
        match self {
            Self::Watched(watched) => watched.release(),
            #[cfg(target_os = "linux")]
            Self::Supervised(supervised) => supervised.release(child),
        }
    }
}
