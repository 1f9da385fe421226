//! A job of Windows.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use win32job::{ExtendedLimitInfo, Job};

use super::{Group, Started};
use crate::lock::lock;

/// A job that ends with its last handle, which is ours. So it ends with us, however we end.
///
/// The process is put into the job a moment after its beginning. Processes that it starts before that stay outside.
struct OurJob {
    child: Mutex<Child>,
    job: Mutex<Option<Job>>,
}

/// Spawns a command in a job of its own. There is no grace when the job ends with us.
pub(crate) fn spawn(command: &mut Command, _: Duration) -> io::Result<Started> {
    let mut limits = ExtendedLimitInfo::new();
    limits.limit_kill_on_job_close();
    let job = Job::create_with_limit_info(&limits)?;
    let mut child = command.spawn()?;
    if let Err(error) = job.assign_process(child.as_raw_handle() as isize) {
        let _ = child.kill();
        return Err(error.into());
    }
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
    let (id, stderr) = (child.id(), child.stderr.take());
    let group = Box::new(OurJob { child: Mutex::new(child), job: Mutex::new(Some(job)) });
    Ok(Started { group, id, stdin, stdout, stderr })
}

impl Group for OurJob {
    fn wait(&self) -> Option<ExitStatus> {
        self.reap().ok()
    }

    fn reap(&self) -> io::Result<ExitStatus> {
        lock(&self.child).wait()
    }

    /// Does nothing: a process without a window can't be asked to end.
    fn terminate(&self, _: bool) {}

    fn kill(&self, _: bool) {
        drop(lock(&self.job).take());
    }

    fn is_empty(&self) -> bool {
        let job = lock(&self.job);
        let left = job.as_ref().map(Job::query_process_id_list);
        left.is_none_or(|left| left.is_ok_and(|left| left.is_empty()))
    }

    fn release(&self) {
        self.kill(true);
    }
}
