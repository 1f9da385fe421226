//! The process and all that it starts: a process group that a small shell leads.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, kill_process, kill_process_group, waitid,
};

use super::spawned::Spawned;
use crate::processes::{pid, processes};
use crate::watchdog::Watchdog;

/// A process group that its watchdog leads.
///
/// So it is there before the process is, and there is no moment in which the process runs and nobody
/// knows its group. The group's id is no other's until the watchdog is dismissed.
#[derive(Debug)]
pub(crate) struct Watched {
    process: Pid,
    id: Pid,
    watchdog: Watchdog,
}

impl Watched {
    /// Spawns a command in a group of its own.
    pub(super) fn spawn(command: &mut Command, grace: Duration) -> io::Result<(Self, Child)> {
        let watchdog = Watchdog::start(grace)?;
        let id = pid(watchdog.id());
        let spawned = command.process_group(id.as_raw_pid()).spawn();
        let child = spawned.inspect_err(|_| watchdog.dismiss())?;
        Ok((Self { process: pid(child.id()), id, watchdog }, child))
    }

    /// Waits until the process that was spawned has ended, and leaves it unreaped: until it is reaped,
    /// its id is no other's.
    pub(super) fn wait(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // It fails if this program ignores its children's ends: then there is nothing to wait for.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.process), options));
    }

    /// Sends a signal to every process of it, and to the one that was spawned.
    pub(super) fn signal(&self, signal: Signal, spawned: Spawned) {
        // There may be none any more.
        let _ = kill_process_group(self.id, signal);
        // It may have left the group, as it does with `setsid`. It is not to get the signal twice.
        let has_left = || getpgid(Some(self.process)).is_ok_and(|group| group != self.id);
        if spawned == Spawned::Unreaped && has_left() {
            let _ = kill_process(self.process, signal);
        }
    }

    /// Returns whether nothing of it is alive any more but the watchdog.
    pub(super) fn is_empty(&self) -> bool {
        let (group, watchdog) = (self.id.as_raw_pid(), self.watchdog.id());
        processes().is_ok_and(|mut all| {
            !all.any(|one| one.group == group && one.id != watchdog && !one.is_dead)
        })
    }

    /// Ends the watchdog.
    pub(super) fn release(&self) {
        self.watchdog.dismiss();
    }
}
