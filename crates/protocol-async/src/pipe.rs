//! What every driver polls: the two directions of a byte stream, and the timer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::{InputBuffer, Timestamp};

use crate::driver::Timer;

/// Turns that a driver takes in one poll: then other tasks have theirs.
pub(crate) const TURNS: usize = 32;
/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;

pub(crate) struct Reader<R> {
    /// `None` once the input has ended.
    stream: Option<R>,
    /// What was read and not used yet.
    pub(crate) input: InputBuffer,
}

/// What one read gave.
pub(crate) enum Read {
    /// There are more bytes in the input.
    Bytes,
    /// Nothing comes any more; and why, if it was more than the end.
    End(Option<io::Error>),
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) const fn new(stream: R) -> Self {
        Self { stream: Some(stream), input: InputBuffer::new() }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(stream) = &mut self.stream else { return Poll::Pending };
        let mut filled = Poll::Pending;
        let read = self.input.fill(READ_BYTES, |room| {
            filled = Pin::new(stream).poll_read(cx, room);
            match &filled {
                Poll::Ready(Ok(read)) => Ok(*read),
                _ => Err(()),
            }
        });
        match (read, ready!(filled)) {
            (Ok(read), _) if read > 0 => Poll::Ready(Read::Bytes),
            (_, ended) => {
                self.stream = None;
                Poll::Ready(Read::End(ended.err()))
            }
        }
    }

    /// Reads no more.
    pub(crate) fn close(&mut self) {
        self.stream = None;
        self.input = InputBuffer::new();
    }
}

/// What the peer's going away looks like to a reader; it is no failure of ours.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

pub(crate) struct Writer<W> {
    /// `None` once the peer reads no more.
    stream: Option<W>,
    /// What is to be written. Nothing may be added before all of it is.
    pub(crate) output: Vec<u8>,
    written: usize,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(crate) const fn new(stream: W) -> Self {
        Self { stream: Some(stream), output: Vec::new(), written: 0 }
    }

    /// Writes what there is; ready when nothing is left of it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.output.is_empty() {
            return Poll::Ready(());
        }
        if let Some(stream) = &mut self.stream {
            // The peer reads no more if this fails. What it has already written is still to be
            // read, so the connection lives until the input ends.
            if ready!(write_all(stream, &self.output, &mut self.written, cx)).is_err() {
                self.stream = None;
            }
        }
        self.output.clear();
        self.written = 0;
        Poll::Ready(())
    }

    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.output.is_empty() {
            // It was given up in the middle, and closing might wait for the rest.
            self.stream = None;
        }
        if let Some(stream) = &mut self.stream {
            // A peer that is gone can't be said goodbye to.
            let _ = ready!(Pin::new(stream).poll_close(cx));
            self.stream = None;
        }
        Poll::Ready(())
    }
}

fn write_all(
    stream: &mut (impl AsyncWrite + Unpin),
    output: &[u8],
    written: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while *written < output.len() {
        match ready!(Pin::new(&mut *stream).poll_write(cx, &output[*written..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            more => *written += more,
        }
    }
    Pin::new(stream).poll_flush(cx)
}

/// Wakes a driver when a timer of the core is due.
pub(crate) struct Alarm<T: Timer> {
    timer: T,
    /// What the timer was asked for last.
    sleep: Option<(Timestamp, Pin<Box<T::Sleep>>)>,
}

impl<T: Timer> Alarm<T> {
    pub(crate) const fn new(timer: T) -> Self {
        Self { timer, sleep: None }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.timer.now()
    }

    /// Ready when it is that time.
    pub(crate) fn poll(&mut self, due: Option<Timestamp>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else {
            self.sleep = None;
            return Poll::Pending;
        };
        if self.sleep.as_ref().is_none_or(|(set, _)| *set != due) {
            self.sleep = Some((due, Box::pin(self.timer.sleep_until(due))));
        }
        let (_, sleep) = self.sleep.as_mut().expect("it is set above");
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }
}
