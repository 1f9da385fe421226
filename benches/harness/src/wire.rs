//! The wire of every peer that has one: tokio's in-memory pipe, counted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Bytes that one direction holds before its writer has to wait: as many as a pipe of Linux.
const PIPE_BYTES: usize = 64 << 10;

/// One end. It needs no runtime.
pub struct Pipe(DuplexStream);

/// The traffic on all pipes. On a real pipe each write and each read would be a system call.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Writes that took bytes.
    pub writes: u64,
    /// Reads that gave bytes, or the end.
    pub reads: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

static WRITES: AtomicU64 = AtomicU64::new(0);
static READS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

static IS_TAPPED: AtomicBool = AtomicBool::new(false);
static TAPPED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Both ends of a new pipe.
#[must_use]
pub fn pipe() -> (Pipe, Pipe) {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    (Pipe(near), Pipe(far))
}

/// Returns the traffic on all pipes until now.
#[must_use]
pub fn traffic() -> Traffic {
    Traffic { writes: WRITES.load(Relaxed), reads: READS.load(Relaxed), bytes: BYTES.load(Relaxed) }
}

/// Keeps the bytes that are written from now on.
pub fn tap() {
    IS_TAPPED.store(true, Relaxed);
}

/// Returns the bytes that were written since [`tap`], and stops keeping them.
#[must_use]
pub fn tapped() -> String {
    IS_TAPPED.store(false, Relaxed);
    let bytes = TAPPED.lock().map_or_else(|_| Vec::new(), |bytes| bytes.clone());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Load and store, not add: the figures are read only where one thread has both ends.
fn bump(counter: &AtomicU64, by: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(by as u64), Relaxed);
}

fn wrote<'a>(written: usize, parts: impl Iterator<Item = &'a [u8]>) {
    bump(&WRITES, 1);
    bump(&BYTES, written);
    if IS_TAPPED.load(Relaxed) {
        let bytes: Vec<u8> = parts.flatten().take(written).copied().collect();
        if let Ok(mut tapped) = TAPPED.lock() {
            tapped.extend(bytes);
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.0).poll_read(cx, room));
        bump(&READS, 1);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.0).poll_write(cx, bytes))?;
        wrote(written, [bytes].into_iter());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.0).poll_write_vectored(cx, parts))?;
        wrote(written, parts.iter().map(|part| &**part));
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
