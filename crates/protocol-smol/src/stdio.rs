//! The standard input and output of this process, which smol's reactor waits for.

use std::io::{self, ErrorKind, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_stdio::NonBlocking;
use smol::{Async, Unblock};

/// The standard input of this process, opened by [`stdin`].
#[derive(Debug)]
pub struct Stdin {
    stream: Stream<io::Stdin>,
    /// The last read found no more than it returned, so the reactor is asked before the next one.
    is_drained: bool,
}

/// The standard output of this process, opened by [`stdout`].
#[derive(Debug)]
pub struct Stdout(Stream<io::Stdout>);

#[derive(Debug)]
enum Stream<T> {
    /// A pipe or a socket.
    Direct(Async<NonBlocking>),
    /// Anything else. A thread blocks in it.
    Thread(Unblock<T>),
}

/// Opens standard input, as fast as the system lets it be read.
///
/// smol's reactor waits for a pipe (on Linux) and for a stream socket (on every Unix). No mode changes
/// that others who share them could notice. Anything else, such as a file or a terminal, is read on a
/// thread, at most `pipe_bytes` ahead. Nothing can interrupt that thread.
///
/// Bytes that [`std::io::stdin`] has buffered are not in it.
#[must_use]
pub fn stdin(pipe_bytes: usize) -> Stdin {
    let stream = Stream::new(NonBlocking::reader(io::stdin()), io::stdin(), pipe_bytes);
    Stdin { stream, is_drained: false }
}

/// Opens standard output, which is written as [`stdin`] is read.
///
/// It stays open when this is dropped or closed, until the process ends.
#[must_use]
pub fn stdout(pipe_bytes: usize) -> Stdout {
    Stdout(Stream::new(NonBlocking::writer(io::stdout()), io::stdout(), pipe_bytes))
}

impl<T> Stream<T> {
    fn new(direct: Option<NonBlocking>, blocking: T, pipe_bytes: usize) -> Self {
        match direct.and_then(|direct| Async::new_nonblocking(direct).ok()) {
            Some(direct) => Self::Direct(direct),
            None => Self::Thread(Unblock::with_capacity(pipe_bytes.max(1), blocking)),
        }
    }
}

/// Returns whether a call did something, or failed for good.
fn is_done<T>(tried: &io::Result<T>) -> bool {
    let kind = tried.as_ref().err().map(io::Error::kind);
    !matches!(kind, Some(ErrorKind::WouldBlock | ErrorKind::Interrupted))
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, is_drained } = &mut *self;
        let direct = match stream {
            Stream::Direct(direct) => direct,
            Stream::Thread(thread) => return Pin::new(thread).poll_read(cx, room),
        };
        loop {
            if *is_drained {
                ready!(direct.poll_readable(cx))?;
            }
            let read = direct.get_ref().read(room);
            // A pipe or a stream socket that had more would have filled the room. The end is read again.
            *is_drained = read.as_ref().map_or(true, |&len| 0 < len && len < room.len());
            if is_done(&read) {
                return Poll::Ready(read);
            }
        }
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let direct = match &mut self.0 {
            Stream::Direct(direct) => direct,
            Stream::Thread(thread) => return Pin::new(thread).poll_write(cx, bytes),
        };
        loop {
            let written = direct.get_ref().write(bytes);
            if is_done(&written) {
                return Poll::Ready(written);
            }
            ready!(direct.poll_writable(cx))?;
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Direct(_) => Poll::Ready(Ok(())),
            Stream::Thread(thread) => Pin::new(thread).poll_flush(cx),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
