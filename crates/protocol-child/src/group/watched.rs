//! A process group that a small shell leads.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, kill_process, kill_process_group,
    waitid, waitpid,
};

use super::{Group, Started, WATCHED};
use crate::lock::lock;
use crate::processes::{ProcessInfo, pid, processes};
use crate::watchdog::Watchdog;

/// A process group that its watchdog leads.
///
/// So the group is there before the process is, and no process runs whose group nobody knows. The group's id is
/// no other's until the watchdog is dismissed.
struct Watched {
    process: Pid,
    child: Mutex<Child>,
    id: Pid,
    watchdog: Watchdog,
}

/// Spawns a command in a group of its own.
pub(crate) fn spawn(command: &mut Command, grace: Duration) -> io::Result<Started> {
    let watchdog = Watchdog::start(grace)?;
    let group = pid(watchdog.id());
    // It may leave our session before we know its id.
    let mut watched = lock(&WATCHED);
    let spawned = command.process_group(group.as_raw_pid()).spawn();
    let mut child = spawned.inspect_err(|_| watchdog.dismiss())?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
    let (id, stderr) = (child.id(), child.stderr.take());
    watched.insert(id);
    drop(watched);
    let watched = Watched { process: pid(id), child: Mutex::new(child), id: group, watchdog };
    Ok(Started { group: Box::new(watched), id, stdin, stdout, stderr })
}

impl Watched {
    fn signal(&self, signal: Signal, is_reaped: bool) {
        // There may be none any more.
        let _ = kill_process_group(self.id, signal);
        // It may have left the group, as it does with `setsid`. It is not to get the signal twice.
        let has_left = || getpgid(Some(self.process)).is_ok_and(|group| group != self.id);
        if !is_reaped && has_left() {
            let _ = kill_process(self.process, signal);
        }
    }

    /// Lists the processes of the group but for the watchdog, the dead ones too.
    fn members(&self) -> io::Result<impl Iterator<Item = ProcessInfo>> {
        let (group, watchdog) = (self.id.as_raw_pid(), self.watchdog.id());
        Ok(processes()?.filter(move |one| one.group == group && one.id != watchdog))
    }
}

impl Group for Watched {
    /// Leaves the process unreaped, because its id is no other's until then.
    fn wait(&self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // It fails if this program ignores its children's ends: then there is nothing to wait for.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.process), options));
        None
    }

    fn reap(&self) -> io::Result<ExitStatus> {
        let status = lock(&self.child).wait();
        lock(&WATCHED).remove(&self.process.as_raw_pid().unsigned_abs());
        status
    }

    fn terminate(&self, is_reaped: bool) {
        self.signal(Signal::TERM, is_reaped);
    }

    fn kill(&self, is_reaped: bool) {
        self.signal(Signal::KILL, is_reaped);
    }

    /// Returns whether nothing of it is alive any more but the watchdog.
    fn is_empty(&self) -> bool {
        self.members().is_ok_and(|mut all| all.all(|one| one.is_dead))
    }

    fn release(&self) {
        // Orphans are ours if this program is a subreaper, or the first of a container. `reap` is for the process.
        let orphans = self.members().into_iter().flatten().map(|one| pid(one.id));
        for orphan in orphans.filter(|one| *one != self.process) {
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
        // Until here the group's id is no other's.
        self.watchdog.dismiss();
    }
}
