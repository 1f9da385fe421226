//! What drivers of byte streams poll: the two directions.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::InputBuffer;

use crate::outgoing::Messages;

/// Turns that a driver takes in one poll: then other tasks have theirs.
pub(crate) const TURNS: usize = 32;
/// Reads in which the last words of a peer are taken that reads no more itself: more than any pipe or
/// socket holds.
const LAST_READS: u32 = 256;

pub(crate) struct Reader<R> {
    /// `None` once the input has ended.
    stream: Option<R>,
    /// What was read and not used yet.
    pub(crate) input: InputBuffer,
    /// Bytes asked for in one read.
    room: usize,
    /// How many reads are left, once only what is there already is still to be read.
    left: Option<u32>,
}

/// What one read gave.
pub(crate) enum Read {
    /// There are more bytes in the input.
    Bytes,
    /// Nothing comes any more, perhaps because of this.
    End(Option<io::Error>),
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(stream: R, room: usize) -> Self {
        // No room at all would look like the end.
        Self { stream: Some(stream), input: InputBuffer::new(), room: room.max(1), left: None }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(stream) = &mut self.stream else { return Poll::Pending };
        if self.left == Some(0) {
            return self.end(None);
        }
        let mut filled = Poll::Pending;
        let read = self.input.fill(self.room, |room| {
            filled = Pin::new(stream).poll_read(cx, room);
            match &filled {
                Poll::Ready(Ok(read)) => Ok(*read),
                _ => Err(()),
            }
        });
        match (read, filled) {
            (_, Poll::Pending) if self.left.is_some() => self.end(None),
            (_, Poll::Pending) => Poll::Pending,
            (Ok(read), _) if read > 0 => {
                self.left = self.left.map(|left| left - 1);
                Poll::Ready(Read::Bytes)
            }
            (_, Poll::Ready(ended)) => self.end(ended.err()),
        }
    }

    fn end(&mut self, error: Option<io::Error>) -> Poll<Read> {
        self.stream = None;
        Poll::Ready(Read::End(error))
    }

    /// Reads what is there already, and then ends: the peer reads no more, so nothing it says later can
    /// be answered.
    pub(crate) fn end_soon(&mut self) {
        self.left.get_or_insert(LAST_READS);
    }

    /// Whether [`poll`](Self::poll) is ready whatever the peer does.
    pub(crate) const fn is_ending(&self) -> bool {
        self.stream.is_some() && self.left.is_some()
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
    pub(crate) output: Messages,
    written: usize,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self { stream: Some(stream), output: Messages::default(), written: 0 }
    }

    /// Writes what there is; ready when nothing is left of it.
    ///
    /// # Errors
    ///
    /// Why nothing can be written any more: once, and from then on everything is dropped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let written = match &mut self.stream {
            Some(stream) => ready!(write_all(stream, self.output.bytes(), &mut self.written, cx)),
            None => Ok(()),
        };
        if written.is_err() {
            self.stream = None;
        }
        self.output.clear();
        self.written = 0;
        Poll::Ready(written)
    }

    /// How many bytes of what there is are written.
    pub(crate) const fn written(&self) -> usize {
        self.written
    }

    /// Writes no more of what is left, and does not close the stream, which might wait for that.
    pub(crate) fn give_up(&mut self) {
        self.stream = None;
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
