//! The standard input and output of this process, which the runtime itself waits for.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use protocol_stdio::NonBlocking;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The standard input of this process, opened by [`stdin`].
#[derive(Debug)]
pub struct Stdin(Stream<tokio::io::Stdin>);

/// The standard output of this process, opened by [`stdout`].
#[derive(Debug)]
pub struct Stdout(Stream<tokio::io::Stdout>);

#[derive(Debug)]
enum Stream<T> {
    /// A pipe or a socket.
    Direct(AsyncFd<NonBlocking>),
    /// Anything else. A thread blocks in it.
    Thread(T),
}

/// Opens standard input, as fast as the system lets it be read.
///
/// The runtime itself reads a pipe (on Linux) and a stream socket (on every Unix). No mode changes that
/// others who share them could notice. Anything else, such as a file or a terminal, is
/// [`tokio::io::stdin`], which reads on a thread that nothing can interrupt.
///
/// Bytes that [`std::io::stdin`] has buffered are not in it.
///
/// # Panics
///
/// Outside a tokio runtime that does I/O.
#[must_use]
pub fn stdin() -> Stdin {
    let direct = NonBlocking::reader(io::stdin());
    Stdin(Stream::new(direct, Interest::READABLE, tokio::io::stdin))
}

/// Opens standard output, which is written as [`stdin`] is read.
///
/// It stays open when this is dropped or shut down, until the process ends.
///
/// # Panics
///
/// Outside a tokio runtime that does I/O.
#[must_use]
pub fn stdout() -> Stdout {
    let direct = NonBlocking::writer(io::stdout());
    Stdout(Stream::new(direct, Interest::WRITABLE, tokio::io::stdout))
}

impl<T> Stream<T> {
    fn new(direct: Option<NonBlocking>, interest: Interest, thread: fn() -> T) -> Self {
        #[allow(deprecated, reason = "it is for what may close its descriptor; this one does not")]
        let direct = direct.and_then(|direct| AsyncFd::with_interest(direct, interest).ok());
        direct.map_or_else(|| Self::Thread(thread()), Self::Direct)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let direct = match &mut self.0 {
            Stream::Direct(direct) => direct,
            Stream::Thread(thread) => return Pin::new(thread).poll_read(cx, buffer),
        };
        let room = buffer.initialize_unfilled();
        loop {
            let mut ready = ready!(direct.poll_read_ready(cx))?;
            let Ok(read) = ready.try_io(|direct| direct.get_ref().read(room)) else { continue };
            let read = read?;
            if read < room.len() {
                // It is drained, and one call to find that out is saved.
                ready.clear_ready();
            }
            buffer.advance(read);
            return Poll::Ready(Ok(()));
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
            let mut ready = ready!(direct.poll_write_ready(cx))?;
            if let Ok(written) = ready.try_io(|direct| direct.get_ref().write(bytes)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Direct(_) => Poll::Ready(Ok(())),
            Stream::Thread(thread) => Pin::new(thread).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
