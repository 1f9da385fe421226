//! This process's standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
#[cfg(not(unix))]
use smol::Unblock;

#[cfg(unix)]
mod direct;
mod thread;
#[cfg(unix)]
use self::direct::{Input, Output};

/// A thread that blocks, which every system has.
#[cfg(not(unix))]
type Input = Unblock<io::Stdin>;
#[cfg(not(unix))]
type Output = Unblock<io::Stdout>;

/// The standard input of this process, made by [`stdin`].
#[derive(Debug)]
pub struct Stdin(Input);

/// The standard output of this process, made by [`stdout`].
#[derive(Debug)]
pub struct Stdout(Output);

/// Opens standard input, as fast as the system lets it be read.
///
/// smol's reactor waits for a pipe (on Linux) and for a stream socket (on every Unix). No mode changes
/// that others who share them could notice. Anything else, such as a file or a terminal, is read on a
/// thread, at most `pipe_bytes` ahead. Nothing can interrupt that thread.
///
/// Bytes that [`std::io::stdin`] has buffered are not in it.
#[must_use]
pub fn stdin(pipe_bytes: usize) -> Stdin {
    #[cfg(unix)]
    return Stdin(Input::new(pipe_bytes));
    #[cfg(not(unix))]
    Stdin(thread::read_on_thread(pipe_bytes))
}

/// Opens standard output, which is written as [`stdin`] is read.
///
/// It stays open when this is dropped or closed, until the process ends.
#[must_use]
pub fn stdout(pipe_bytes: usize) -> Stdout {
    #[cfg(unix)]
    return Stdout(Output::new(pipe_bytes));
    #[cfg(not(unix))]
    Stdout(thread::write_on_thread(pipe_bytes))
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, room)
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}
