//! The process and what it started: a job.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use win32job::{ExtendedLimitInfo, Job};

/// A job, which ends with its last handle: ours. So it ends with us, however we end.
///
/// What the process starts before it is in the job, a moment after it began, stays outside.
#[derive(Debug)]
pub(crate) struct Group {
    job: Mutex<Option<Job>>,
}

/// Spawns a command in a job of its own. There is no grace when the job ends with us.
pub(crate) fn spawn(command: &mut Command, _: Duration) -> io::Result<(Group, Child)> {
    let mut limits = ExtendedLimitInfo::new();
    limits.limit_kill_on_job_close();
    let job = Job::create_with_limit_info(&limits)?;
    let mut child = command.spawn()?;
    match job.assign_process(child.as_raw_handle() as isize) {
        Ok(()) => Ok((Group { job: Mutex::new(Some(job)) }, child)),
        Err(error) => {
            child.kill()?;
            Err(error.into())
        }
    }
}

/// Whether the process that was spawned can still be named by its id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spawned {
    Unreaped,
    Reaped,
}

impl Group {
    /// Waits until the process that was spawned has ended.
    pub(crate) fn wait(&self, wait: impl FnOnce()) {
        wait();
    }

    /// There is no way to ask a process without a window to end.
    pub(crate) fn terminate(&self, _: Spawned) {}

    pub(crate) fn kill(&self, _: Spawned) {
        drop(self.job.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whether no process of it is left.
    pub(crate) fn is_empty(&self) -> bool {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        let left = job.as_ref().map(Job::query_process_id_list);
        left.is_none_or(|left| left.is_ok_and(|left| left.is_empty()))
    }

    /// Nothing of it is left to be watched.
    pub(crate) fn let_go(&self) {
        self.kill(Spawned::Reaped);
    }
}
