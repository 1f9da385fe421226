//! The process and what it starts: a process group.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, kill_process, kill_process_group, waitid,
};

use crate::watchdog::Watchdog;

/// A process group that its watchdog leads.
///
/// So it is there before the process is, and there is no moment in which the process runs and nobody
/// knows its group. The group's id is no other's until the watchdog is dismissed.
#[derive(Debug)]
pub(crate) struct Group {
    process: Pid,
    id: Pid,
    watchdog: Watchdog,
}

/// Spawns a command in a group of its own.
pub(crate) fn spawn(command: &mut Command, grace: Duration) -> io::Result<(Group, Child)> {
    let watchdog = Watchdog::start(grace)?;
    let id = pid(watchdog.id());
    let spawned = command.process_group(id.as_raw_pid()).spawn();
    let child = spawned.inspect_err(|_| watchdog.dismiss())?;
    Ok((Group { process: pid(child.id()), id, watchdog }, child))
}

fn pid(id: u32) -> Pid {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.expect("a process has a positive id that fits")
}

impl Group {
    /// Waits until the process that was spawned has ended, and leaves it unreaped: until it is reaped,
    /// its id is no other's.
    pub(crate) fn wait(&self, _: impl FnOnce()) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // It fails if this program ignores its children's ends: then there is nothing to wait for.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.process), options));
    }

    /// Asks every process of it to end, and the one that was spawned.
    pub(crate) fn terminate(&self, spawned: Spawned) {
        self.signal(Signal::TERM, spawned);
    }

    pub(crate) fn kill(&self, spawned: Spawned) {
        self.signal(Signal::KILL, spawned);
    }

    fn signal(&self, signal: Signal, spawned: Spawned) {
        // There may be none any more.
        let _ = kill_process_group(self.id, signal);
        // It may have left the group, as it does with `setsid`. It is not to get the signal twice.
        let has_left = || getpgid(Some(self.process)).is_ok_and(|group| group != self.id);
        if spawned == Spawned::Unreaped && has_left() {
            let _ = kill_process(self.process, signal);
        }
    }

    /// Whether nothing of it is alive any more but the watchdog.
    pub(crate) fn is_empty(&self) -> bool {
        let (group, watchdog) = (self.id.as_raw_pid(), self.watchdog.id());
        processes().is_ok_and(|mut all| {
            !all.any(|one| one.group == group && one.id != watchdog && !one.is_dead)
        })
    }

    /// Nothing of it is left to be watched.
    pub(crate) fn let_go(&self) {
        self.watchdog.dismiss();
    }
}

/// Whether the process that was spawned can still be named by its id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spawned {
    Unreaped,
    Reaped,
}

/// One of all processes.
struct One {
    id: u32,
    group: i32,
    /// It only waits to be reaped. In a container without an `init` it does so for ever.
    is_dead: bool,
}

impl One {
    /// From its id, and its state and group in words.
    fn read(id: &str, state: &str, group: &str) -> Option<Self> {
        let is_dead = state.starts_with(['Z', 'X']);
        Some(Self { id: id.parse().ok()?, group: group.parse().ok()?, is_dead })
    }
}

#[cfg(target_os = "linux")]
fn processes() -> io::Result<impl Iterator<Item = One>> {
    Ok(std::fs::read_dir("/proc")?.filter_map(|entry| {
        let entry = entry.ok()?;
        // It may be gone by now, or be no process.
        let status = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // After the name, which may hold anything: state, parent, group.
        let mut words = status.rsplit(')').next()?.split_whitespace();
        One::read(entry.file_name().to_str()?, words.next()?, words.nth(1)?)
    }))
}

#[cfg(not(target_os = "linux"))]
fn processes() -> io::Result<impl Iterator<Item = One>> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,stat=,pgid="]).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        One::read(words.next()?, words.next()?, words.next()?)
    };
    Ok(listed.lines().filter_map(read).collect::<Vec<_>>().into_iter())
}
