//! The two directions of a byte stream, for its drivers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::InputBuffer;

use protocol_endpoint::Messages;

/// The turns that a driver takes in one poll before other tasks have theirs.
pub(crate) const TURNS: usize = 32;
/// The reads in which the last words of a peer are taken that reads no more itself. It is more than any
/// pipe or socket holds.
const LAST_READS: u32 = 256;

pub(crate) struct Reader<R> {
    /// `None` once the input has ended.
    stream: Option<R>,
    /// Nothing is read any more, but for the [rest](Self::poll_rest).
    is_closed: bool,
    /// Whether a closed stream is kept, to be read to its end.
    pub(crate) lingers: bool,
    /// The bytes that were read and not used yet.
    pub(crate) input: InputBuffer,
    /// The bytes asked for in one read.
    room: usize,
    /// The number of reads that are left, once only the bytes that are here already are to be read.
    left: Option<u32>,
}

/// The result of one read.
pub(crate) enum Read {
    /// This many bytes were added to the input.
    Bytes(usize),
    /// Nothing comes any more, perhaps because of this error.
    End(Option<io::Error>),
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(stream: R, room: usize) -> Self {
        // No room at all would look like the end.
        let (input, room) = (InputBuffer::new(), room.max(1));
        Self { stream: Some(stream), is_closed: false, lingers: false, input, room, left: None }
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.is_closed) else {
            return Poll::Pending;
        };
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
                Poll::Ready(Read::Bytes(read))
            }
            (_, Poll::Ready(ended)) => self.end(ended.err()),
        }
    }

    fn end(&mut self, error: Option<io::Error>) -> Poll<Read> {
        self.stream = None;
        Poll::Ready(Read::End(error))
    }

    /// Reads the bytes that are here already, and then ends. The peer reads no more, so it can get no
    /// response to anything later.
    pub(crate) fn end_soon(&mut self) {
        self.left.get_or_insert(LAST_READS);
    }

    /// Returns whether [`poll`](Self::poll) is ready whatever the peer does.
    pub(crate) const fn is_ending(&self) -> bool {
        self.stream.is_some() && self.left.is_some()
    }

    /// Stops reading, and drops what was read.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.stream = self.stream.take().filter(|_| self.lingers);
        self.input = InputBuffer::new();
    }

    /// Discards what comes of a closed stream that is kept. Ready when it has ended.
    pub(crate) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(()) };
        let mut room = [0; 4 << 10];
        for _ in 0..TURNS {
            if !matches!(ready!(Pin::new(&mut *stream).poll_read(cx, &mut room)), Ok(1..)) {
                self.stream = None;
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The first error that ended reading or writing, for the task that runs a driver.
#[derive(Default)]
pub(crate) struct FirstError(Option<io::Error>);

impl FirstError {
    /// Keeps an error, unless it means that the peer went away, which is no failure of ours.
    pub(crate) fn keep(&mut self, error: Option<io::Error>) {
        self.0 = self.0.take().or(error.filter(|error| !is_gone(error)));
    }

    /// Returns the output of a driver that has ended.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }
}

/// Returns whether an error means that the peer went away.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

pub(crate) struct Writer<W> {
    /// `None` once the peer reads no more.
    stream: Option<W>,
    /// The messages to be written. Nothing may be added before all of them are.
    pub(crate) output: Messages,
    written: usize,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self { stream: Some(stream), output: Messages::default(), written: 0 }
    }

    /// Writes the output. It is ready when nothing is left.
    ///
    /// # Errors
    ///
    /// Returns the error after which nothing can be written any more. It does so once, and from then on
    /// everything is dropped.
    #[inline]
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

    /// Returns the number of bytes of the output that are written.
    pub(crate) const fn written(&self) -> usize {
        self.written
    }

    /// Stops writing. It does not close the stream, which might wait for the rest.
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
