//! The process and what it started: a process group.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use crate::watchdog::Watchdog;

/// A process group, which is named by the id of the process that leads it.
///
/// Its id stays its own as long as a process of it is there, be it dead and not reaped. Whoever
/// signals it must have seen one a moment ago: the system gives ids away again, but not soon.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Pid,
    watchdog: Watchdog,
}

/// Spawns a command that leads a group of its own.
pub(crate) fn spawn(command: &mut Command, grace: Duration) -> io::Result<(Group, Child)> {
    // First, so that nothing runs unwatched if there can't be one.
    let watchdog = Watchdog::start(grace)?;
    let spawned = command.process_group(0).spawn();
    let child = spawned.inspect_err(|_| watchdog.call_off())?;
    watchdog.watch(child.id());
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let leader = leader.expect("a process has a positive id");
    Ok((Group { leader, watchdog }, child))
}

impl Group {
    /// Waits until the process that leads it has ended, and leaves it unreaped: until it is reaped,
    /// the group's id is no other's.
    pub(crate) fn wait_for_leader(&self, _: impl FnOnce()) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // It fails if this program ignores its children's ends: then there is nothing to wait for.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.leader), options));
    }

    /// Asks every process of it to end.
    pub(crate) fn terminate(&self) {
        // There may be none any more.
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// Whether no process of it is left alive. To be asked once its leader is reaped.
    pub(crate) fn is_empty(&self) -> bool {
        test_kill_process_group(self.leader) == Err(Errno::SRCH) || is_dead(self.leader)
    }

    /// Nothing of it is left to be watched.
    pub(crate) fn let_go(&self) {
        self.watchdog.dismiss();
    }
}

/// Whether every process of a group is dead: those that are not ours may wait to be reaped for long,
/// and in a container that has no `init` for ever.
#[cfg(target_os = "linux")]
fn is_dead(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let group = group.to_string();
    processes.flatten().all(|process| {
        // It may be gone by now.
        let status = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // After the name, which may hold anything: state, parent, group.
        let mut words = status.rsplit(')').next().unwrap_or_default().split_whitespace();
        let state = words.next();
        words.nth(1) != Some(&group) || matches!(state, Some("Z" | "X"))
    })
}

/// Other systems don't tell so simply.
#[cfg(not(target_os = "linux"))]
fn is_dead(_: Pid) -> bool {
    false
}
