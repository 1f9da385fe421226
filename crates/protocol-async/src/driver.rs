//! The one future that moves bytes.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::Timestamp;

use crate::hub::{Hub, Output};
use crate::incoming::Incoming;
use crate::options::Options;
use crate::peer::Peer;
use crate::pipe::{FirstError, Read, Reader, TURNS, Writer};
use crate::timer::{Alarm, Timer};

/// The bytes that one poll reads before other tasks have their turn (F47).
const READ_BYTES: usize = 64 << 10;

/// Makes a connection out of two byte streams. Nothing happens until the driver is polled.
pub fn connect<R, W, T>(
    reader: R,
    writer: W,
    timer: T,
    options: impl Into<Options>,
) -> (Peer, Incoming, Driver<R, W, T>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    T: Timer,
{
    let (clock, options) = (timer.clone(), options.into());
    let reader = Reader::new(reader, options.pipe_bytes);
    let patience = options.patience;
    let (hub, peer, incoming) = Hub::new(options, move || clock.now());
    let (writer, alarm, error) = (Writer::new(writer), Alarm::new(timer), FirstError::default());
    let driver = Driver { hub, reader, writer, alarm, patience, close_by: None, error };
    (peer, incoming.yielding(T::yield_now), driver)
}

/// Moves the bytes of one connection: a future for an executor to run.
///
/// It reads and marks cancels while handlers run, while the outbox is full and while the peer isn't
/// reading (G3). It writes many messages at once, and fires the timers.
///
/// It ends when nothing can come any more and every response is written, and closes the writer then. A
/// writer that can't be closed is dropped after [`Options::patience`](protocol_endpoint::Options::patience).
/// Dropping the driver settles everything in flight as lost.
///
/// Its output is the error that ended reading or writing, if one did. An error that means that the peer
/// went away is none. [`Peer::closed`] reports every error.
#[must_use = "nothing is read or written unless it is polled"]
pub struct Driver<R, W, T: Timer> {
    hub: Hub,
    reader: Reader<R>,
    writer: Writer<W>,
    alarm: Alarm<T>,
    patience: Duration,
    /// The time until which the writer may take to close, and the reader linger, once nothing else is left to do.
    close_by: Option<Timestamp>,
    error: FirstError,
}

impl<R, W, T> Future for Driver<R, W, T>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    T: Timer + Unpin,
{
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (mut is_idle, mut left) = (false, READ_BYTES);
        for _ in 0..TURNS {
            let read = this.poll_read(cx).map(|bytes| left = left.saturating_sub(bytes));
            if read.is_pending() && is_idle {
                return Poll::Pending;
            }
            // Mostly what was read has left nothing to be written or timed.
            let (timers, write) = if read.is_ready() && this.hub.awaits(cx.waker()) {
                (Poll::Pending, Output::Idle)
            } else {
                this.poll_hub(cx)
            };
            if write == Output::Over {
                return this.poll_close(cx).map(|()| this.error.take());
            }
            // Only what is read gives them more to do, or somebody who wakes us.
            is_idle = timers.is_pending() && write == Output::Idle;
            if read.is_pending() && is_idle {
                return Poll::Pending;
            }
            if left == 0 {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R, W, T: Timer> Driver<R, W, T> {
    /// Reads on once the writer is closed, until the peer's end, and discards that. It takes
    /// [`Options::patience`](protocol_endpoint::Options::patience) at most.
    ///
    /// A TCP stream that is dropped before its peer has ended can lose written responses: anything that comes
    /// then resets it.
    pub const fn lingering(mut self) -> Self {
        self.reader.lingers = true;
        self
    }
}

impl<R, W, T> Driver<R, W, T>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    T: Timer + Unpin,
{
    /// Reads, and returns the number of bytes.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if !self.hub.may_read() && !self.hub.poll_may_read(cx.waker()) {
            return Poll::Pending;
        }
        match ready!(self.reader.poll(cx)) {
            Read::Bytes(read) => {
                if self.hub.receive(&mut self.reader.input).is_break() {
                    self.reader.close();
                }
                Poll::Ready(read)
            }
            Read::End(error) => {
                self.hub.finish(&self.reader.input, error.as_ref());
                self.reader.close();
                self.error.keep(error);
                Poll::Ready(0)
            }
        }
    }

    /// Writes. An error ends the connection, once the peer's last words are read (F34). The hub waits a
    /// while for them, because the end of the input may carry the reason, such as a process's exit
    /// status.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let before = self.writer.written();
        let written = self.writer.poll(cx);
        if written.is_pending() && self.writer.written() > before {
            self.hub.note_progress();
        }
        if let Err(error) = ready!(written) {
            self.hub.fail(&error);
            self.error.keep(Some(error));
        }
        Poll::Ready(())
    }

    /// Fires timers and writes. The first value is ready when a timer was due.
    fn poll_hub(&mut self, cx: &mut Context<'_>) -> (Poll<()>, Output) {
        if self.poll_write(cx).is_ready() {
            let first = self.poll_next(cx);
            if first.1 != Output::Write {
                return first;
            }
            // Output is mostly written at once, and then there is mostly no more of it.
            if self.poll_write(cx).is_ready() {
                return self.poll_next(cx);
            }
        }
        // A deadline frees its caller however stuck the peer is (G5).
        let due = self.hub.poll_timers(cx.waker());
        (self.alarm.poll(due, cx), self.wait_for_writer())
    }

    /// Fires timers, and takes what is to be written next.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> (Poll<()>, Output) {
        let (due, output) = self.hub.poll(cx.waker(), &mut self.writer.output);
        (self.alarm.poll(due, cx), output)
    }

    /// Closes the writer and lets the reader linger, or gives that up in the end.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A peer that was given up has lost what lingering would save.
        self.reader.lingers &= !self.hub.is_abandoned();
        self.reader.close();
        if self.writer.poll_close(cx).is_ready() && self.reader.poll_rest(cx).is_ready() {
            return Poll::Ready(());
        }
        let by = *self.close_by.get_or_insert_with(|| self.alarm.now() + self.patience);
        self.alarm.poll_until(by, cx)
    }

    fn wait_for_writer(&self) -> Output {
        // The connection may have been given up during a write.
        if self.hub.is_over() { Output::Over } else { Output::Idle }
    }
}

impl<R, W, T: Timer> fmt::Debug for Driver<R, W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("hub", &self.hub).finish_non_exhaustive()
    }
}
