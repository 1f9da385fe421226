//! A process and all that it starts.

#[cfg(windows)]
pub(crate) mod job;
#[cfg(target_os = "linux")]
pub(crate) mod supervised;
#[cfg(unix)]
pub(crate) mod watched;

#[cfg(unix)]
use std::collections::BTreeSet;
use std::io;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
#[cfg(unix)]
use std::sync::Mutex;

/// The processes that were spawned without a supervisor, and are not reaped.
#[cfg(unix)]
static WATCHED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A process and all that it starts, and the means to end them.
pub(crate) trait Group: Send + Sync {
    /// Waits until the process has ended, and returns its status if nothing is left to be reaped.
    fn wait(&self) -> Option<ExitStatus>;

    /// Reaps the process, which has ended. From then on its id may be another's.
    fn reap(&self) -> io::Result<ExitStatus>;

    /// Asks all of it to end. `is_reaped` says whether the process has been.
    fn terminate(&self, is_reaped: bool);

    /// Kills all of it.
    fn kill(&self, is_reaped: bool);

    /// Returns whether nothing of it is left.
    fn is_empty(&self) -> bool;

    /// Ends the program that keeps watch, because no process of the group is left that can be ended.
    /// Called once.
    fn release(&self);
}

/// A process that was started.
pub(crate) struct Started {
    pub(crate) group: Box<dyn Group>,
    pub(crate) id: u32,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: Option<ChildStderr>,
}
