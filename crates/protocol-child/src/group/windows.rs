//! The process and what it started: a job.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use win32job::{ExtendedLimitInfo, Job};

use crate::lock::lock;

/// A job, which ends with its last handle: ours. So it ends with us, however we end.
///
/// What the process starts before it is in the job, a moment after it began, stays outside.
#[derive(Debug)]
pub(crate) struct Group {
    job: Mutex<Option<Job>>,
}

/// A process that was started.
pub(crate) struct Started {
    pub(crate) group: Group,
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: Option<ChildStderr>,
}

/// Spawns a command in a job of its own. There is no grace when the job ends with us.
pub(crate) fn spawn(command: &mut Command, _: Duration) -> io::Result<Started> {
    let mut limits = ExtendedLimitInfo::new();
    limits.limit_kill_on_job_close();
    let job = Job::create_with_limit_info(&limits)?;
    let mut child = command.spawn()?;
    if let Err(error) = job.assign_process(child.as_raw_handle() as isize) {
        child.kill()?;
        return Err(error.into());
    }
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
    let (group, stderr) = (Group { job: Mutex::new(Some(job)) }, child.stderr.take());
    Ok(Started { group, child, stdin, stdout, stderr })
}

/// Whether the process that was spawned can still be named by its id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spawned {
    Unreaped,
    Reaped,
}

impl Group {
    /// Returns the id of the process.
    pub(crate) fn id(&self, child: &Child) -> u32 {
        child.id()
    }

    /// Waits until the process that was spawned has ended.
    pub(crate) fn wait(&self, child: &Mutex<Child>) {
        // The status is asked for once more.
        let _ = lock(child).wait();
    }

    /// Returns the status of a process that has ended.
    pub(crate) fn status(&self, child: &Mutex<Child>) -> io::Result<ExitStatus> {
        lock(child).wait()
    }

    /// There is no way to ask a process without a window to end.
    pub(crate) fn terminate(&self, _: Spawned) {}

    pub(crate) fn kill(&self, _: Spawned) {
        drop(lock(&self.job).take());
    }

    /// Returns whether no process of it is left.
    pub(crate) fn is_empty(&self, _: &Mutex<Child>) -> bool {
        let job = lock(&self.job);
        let left = job.as_ref().map(Job::query_process_id_list);
        left.is_none_or(|left| left.is_ok_and(|left| left.is_empty()))
    }

    /// Ends the job: nothing of it is left to be watched.
    pub(crate) fn release(&self, _: &Mutex<Child>) {
        self.kill(Spawned::Reaped);
    }
}
