//! A second way to the output of a process.

use std::io;
use std::process::ChildStdout;
use std::time::Duration;

/// A second descriptor of the pipe that a process writes to, for the rest that a reader leaves in it.
#[derive(Debug)]
pub(crate) struct OutputPipe {
    #[cfg(unix)]
    pipe: std::os::fd::OwnedFd,
}

#[cfg(unix)]
impl OutputPipe {
    pub(crate) fn of(stdout: &ChildStdout) -> io::Result<Self> {
        use std::os::fd::AsFd;

        Ok(Self { pipe: stdout.as_fd().try_clone_to_owned()? })
    }

    /// Returns the number of bytes that can be read.
    pub(crate) fn unread(&self) -> usize {
        unread(&self.pipe)
    }

    /// Reads, and waits at most so long for something to read. Then the error is
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub(crate) fn read(&self, buffer: &mut [u8], patience: Duration) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::io::retry_on_intr;

        let patience = patience.try_into().map_err(io::Error::other)?;
        // The runtime decides whether a read of the pipe itself waits.
        let mut pipe = [PollFd::new(&self.pipe, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut pipe, Some(&patience)))? == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(retry_on_intr(|| rustix::io::read(&self.pipe, &mut *buffer))?)
    }
}

/// Returns the number of bytes that can be read of a pipe.
#[cfg(unix)]
pub(crate) fn unread(pipe: impl std::os::fd::AsFd) -> usize {
    let bytes = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
    bytes.try_into().unwrap_or(usize::MAX)
}

/// There is no such way on Windows.
#[cfg(not(unix))]
impl OutputPipe {
    pub(crate) fn of(_: &ChildStdout) -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) fn unread(&self) -> usize {
        0
    }

    pub(crate) fn read(&self, _: &mut [u8], _: Duration) -> io::Result<usize> {
        Ok(0)
    }
}
