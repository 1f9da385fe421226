//! The output of a process, which ends with the process.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use event_listener::EventListener;
use futures_io::AsyncRead;
use protocol_async::Timer;

use crate::pipe::OutputPipe;
use crate::process::{LAST_BREATH, Life, Process};

/// The stage in which the output of a process is over though another process holds it open. Windows can't tell
/// what is left from what is to come, so there all processes must be gone.
const IS_OVER: fn(Life) -> bool = if cfg!(unix) { Life::has_ended } else { Life::is_gone };

/// The standard output of a process for a driver.
///
/// It ends when the process does, once everything is read that was written before. Another process may
/// keep the pipe open meanwhile. Its end is an error that says how the process ended, and calls settle
/// with that. After it is dropped, the rest is read and discarded until the process is gone.
pub struct Output<R, T: Timer> {
    stream: R,
    process: Process,
    pipe: Option<Arc<OutputPipe>>,
    timer: T,
    state: State<T::Sleep>,
    /// It hears of the process's end.
    listener: Option<EventListener>,
}

enum State<S> {
    Open,
    /// It has ended, and the process has until then to end, too.
    AtEnd(Pin<Box<S>>),
    /// The process has ended, and so many bytes are left. Others may write more, which no reader sees.
    Rest(usize),
}

impl<R, T: Timer> Output<R, T> {
    /// Creates the output of a process from its standard output, as the runtime reads that.
    pub fn new(stream: R, process: &Process, timer: T) -> Self {
        let (process, pipe) = (process.clone(), process.output());
        Self { stream, process, pipe, timer, state: State::Open, listener: None }
    }
}

impl<R: AsyncRead + Unpin, T: Timer + Unpin> AsyncRead for Output<R, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        // Nothing is read into no space, which is no end.
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Open => match Pin::new(&mut this.stream).poll_read(cx, buffer) {
                    Poll::Ready(Ok(0)) => {
                        let until = this.timer.now() + LAST_BREATH;
                        this.state = State::AtEnd(Box::pin(this.timer.sleep_until(until)));
                        this.pipe = None;
                    }
                    Poll::Ready(read) => return Poll::Ready(read),
                    Poll::Pending => {
                        ready!(this.process.poll_life(IS_OVER, &mut this.listener, cx));
                        this.state =
                            State::Rest(this.pipe.as_ref().map_or(0, |pipe| pipe.unread()));
                    }
                },
                State::AtEnd(sleep) => {
                    if this.process.poll_life(Life::has_ended, &mut this.listener, cx).is_ready() {
                        return Poll::Ready(Err(this.process.death()));
                    }
                    ready!(sleep.as_mut().poll(cx));
                    return Poll::Ready(Ok(0));
                }
                // The runtime may not know yet that there is something to read, so it is not asked.
                State::Rest(left) => {
                    let most = buffer.len().min(*left);
                    let pipe = this.pipe.as_ref();
                    let read = pipe.map(|pipe| pipe.read(&mut buffer[..most], Duration::ZERO));
                    return Poll::Ready(match read {
                        Some(Ok(read @ 1..)) => {
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
        // Those that a dead process has left may write on.
        if let Some(pipe) = self.pipe.take() {
            self.process.discard_output(pipe);
        }
    }
}

impl<R, T: Timer> fmt::Debug for Output<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Output").field(&self.process).finish()
    }
}
