//! The output of a process, which ends with the process, for a thread that blocks.

use std::io::{self, Read};
use std::process::ChildStdout;
use std::sync::Arc;

use crate::pipe::OutputPipe;
use crate::process::{LAST_BREATH, Process};

/// The standard output of a process, as [`Output`](crate::Output) reads it, for a thread that blocks.
#[derive(Debug)]
pub struct BlockingOutput {
    stdout: ChildStdout,
    process: Process,
    /// `None` at the end of the output.
    pipe: Option<Arc<OutputPipe>>,
    /// Ends when the process does.
    #[cfg(unix)]
    ended: std::os::unix::net::UnixStream,
    /// The bytes that are left to read, once the process has ended.
    left: Option<usize>,
}

impl BlockingOutput {
    /// Creates the output of a process from its standard output.
    ///
    /// # Errors
    ///
    /// There are no more descriptors.
    pub fn new(stdout: ChildStdout, process: &Process) -> io::Result<Self> {
        let (process, pipe) = (process.clone(), process.output());
        #[cfg(unix)]
        let ended = process.end_as_stream()?;
        Ok(Self {
            stdout,
            process,
            pipe,
            #[cfg(unix)]
            ended,
            left: None,
        })
    }

    /// Waits until there is something to read, or the end, and returns how much of it may be read.
    #[cfg(unix)]
    fn wait(&mut self) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, poll};

        if let Some(left) = self.left {
            return Ok(left);
        }
        let mut either =
            [PollFd::new(&self.stdout, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut either, None))?;
        if either[1].revents().is_empty() {
            return Ok(usize::MAX);
        }
        Ok(*self.left.insert(crate::pipe::unread(&self.stdout)))
    }

    #[cfg(not(unix))]
    fn wait(&mut self) -> io::Result<usize> {
        Ok(self.left.unwrap_or(usize::MAX))
    }
}

impl Read for BlockingOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.wait()?;
        if left > 0 {
            let most = buffer.len().min(left);
            let read = self.stdout.read(&mut buffer[..most])?;
            self.left = self.left.map(|left| left - read);
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.pipe = None;
            if !self.process.wait_for_end(LAST_BREATH) {
                return Ok(0);
            }
        }
        Err(self.process.death())
    }
}

impl Drop for BlockingOutput {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.process.discard_output(pipe);
        }
    }
}
