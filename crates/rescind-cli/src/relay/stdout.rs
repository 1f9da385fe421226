//! Standard output, which a client reads.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use smol::io::AsyncWrite;

/// The reason that standard output can't be written any more, if it can't.
pub(super) type Lost = Arc<OnceLock<io::Error>>;

/// Bytes written at once: what is written by another thread is not seen to be read before all of it is.
pub(super) const AT_ONCE: usize = 64 << 10;

/// Standard output. It remembers the first error, which the relay may take for a hang-up.
pub(super) struct Stdout<W> {
    pub(super) stream: W,
    pub(super) lost: Lost,
}

impl<W> Stdout<W> {
    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        written.map(|written| {
            written.map_err(|error| {
                let kind = error.kind();
                self.lost.get_or_init(|| error);
                kind.into()
            })
        })
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Stdout<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(flushed)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_close(cx);
        self.note(closed)
    }
}
