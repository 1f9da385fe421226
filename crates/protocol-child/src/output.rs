//! The output of a process, which ends with the process.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::ChildStdout;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use event_listener::EventListener;
use futures_io::AsyncRead;
use protocol_async::Timer;

use crate::process::{Life, Process};

/// The time that the status of a process whose output has ended is waited for. Mostly it is about to end.
pub(crate) const LAST_BREATH: Duration = Duration::from_secs(1);

/// When the output of a process is over though somebody holds it open. Where what is left of it can't be
/// told from what is to come, that is when nobody is there any more.
const OVER: Life = if cfg!(unix) { Life::Ended } else { Life::Gone };

/// The standard output of a process for a driver.
///
/// It ends when the process does, once everything is read that was written before. Another process may
/// keep the pipe open meanwhile. Its end is an error that says how the process ended, and calls settle
/// with that. When it is dropped, the rest is read and dropped until the process is gone.
pub struct Output<R, T: Timer> {
    stream: R,
    process: Process,
    timer: T,
    state: State<T::Sleep>,
    /// Of the process's end.
    listener: Option<EventListener>,
}

enum State<S> {
    Open,
    /// It has ended, and the process is given so long to end, too.
    AtEnd(Pin<Box<S>>),
    /// The process has ended, and so much was left. What is written after that is no more of it.
    Rest(usize),
}

impl<R, T: Timer> Output<R, T> {
    /// `stream` is the standard output of that process as the runtime reads it.
    pub fn new(stream: R, process: &Process, timer: T) -> Self {
        Self { stream, process: process.clone(), timer, state: State::Open, listener: None }
    }
}

impl<R: AsyncRead + Unpin, T: Timer + Unpin> AsyncRead for Output<R, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Open => match Pin::new(&mut this.stream).poll_read(cx, buffer) {
                    Poll::Ready(Ok(0)) => {
                        let until = this.timer.now() + LAST_BREATH;
                        this.state = State::AtEnd(Box::pin(this.timer.sleep_until(until)));
                    }
                    Poll::Ready(read) => return Poll::Ready(read),
                    Poll::Pending => {
                        ready!(this.process.poll_life(OVER, &mut this.listener, cx));
                        this.state = State::Rest(this.process.rest_len());
                    }
                },
                State::AtEnd(sleep) => {
                    if this.process.poll_life(Life::Ended, &mut this.listener, cx).is_ready() {
                        return Poll::Ready(Err(this.process.death()));
                    }
                    ready!(sleep.as_mut().poll(cx));
                    return Poll::Ready(Ok(0));
                }
                // Past the runtime, which may not have been told yet that there is something to read.
                State::Rest(left) => {
                    let most = buffer.len().min(*left);
                    return Poll::Ready(match this.process.read_rest(&mut buffer[..most]) {
                        Some(read) if read > 0 => {
                            *left -= read;
                            Ok(read)
                        }
                        _ => Err(this.process.death()),
                    });
                }
            }
        }
    }
}

impl<R, T: Timer> Drop for Output<R, T> {
    fn drop(&mut self) {
        if matches!(self.state, State::Open) {
            self.process.discard_output();
        }
    }
}

impl<R, T: Timer> fmt::Debug for Output<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Output").field(&self.process).finish()
    }
}

/// Another way to the same pipe, for what is left in it when the one who reads it stops.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    #[cfg(unix)]
    pipe: Option<std::os::fd::OwnedFd>,
}

#[cfg(unix)]
impl Rest {
    pub(crate) fn of(stdout: &ChildStdout) -> io::Result<Self> {
        use std::os::fd::AsFd;

        Ok(Self { pipe: Some(stdout.as_fd().try_clone_to_owned()?) })
    }

    /// Returns the number of bytes that are there.
    pub(crate) fn len(&self) -> usize {
        let len = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        len.and_then(|len| len.try_into().ok()).unwrap_or(0)
    }

    /// Reads what is there, and nothing if there is nothing yet.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let pipe = self.pipe.as_ref()?;
        let now = Timespec::default();
        // Whether the pipe itself is set not to wait is up to the runtime.
        let there = poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&now)).ok()?;
        (there > 0).then(|| rustix::io::read(pipe, buffer).ok())?
    }
}

#[cfg(not(unix))]
impl Rest {
    pub(crate) fn of(_: &ChildStdout) -> io::Result<Self> {
        Ok(Self::default())
    }

    pub(crate) fn len(&self) -> usize {
        0
    }

    pub(crate) fn read(&self, _: &mut [u8]) -> Option<usize> {
        Some(0)
    }
}
