//! This process's standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(unix)]
mod direct;
#[cfg(unix)]
use self::direct::{Input, Output};

/// What tokio has everywhere: a thread that blocks.
#[cfg(not(unix))]
type Input = tokio::io::Stdin;
#[cfg(not(unix))]
type Output = tokio::io::Stdout;

/// This process's standard input: what [`stdin`] gives.
#[derive(Debug)]
pub struct Stdin(Input);

/// This process's standard output: what [`stdout`] gives.
#[derive(Debug)]
pub struct Stdout(Output);

/// Standard input, as fast as the system lets it be read.
///
/// A pipe (on Linux) and a stream socket (on every Unix) are read by the runtime itself, with no mode changed that others
/// could notice who have the same pipe or socket. Anything else, such as a file or a terminal, is
/// [`tokio::io::stdin`], which reads on a thread that nothing can interrupt.
///
/// What [`std::io::stdin`] holds already is not in it.
///
/// # Panics
///
/// Outside a tokio runtime that does I/O.
#[must_use]
pub fn stdin() -> Stdin {
    #[cfg(unix)]
    return Stdin(Input::new());
    #[cfg(not(unix))]
    Stdin(tokio::io::stdin())
}

/// Standard output, as fast as the system lets it be written; as [`stdin`] in everything.
///
/// It stays open when this is dropped or shut down, until the process ends.
///
/// # Panics
///
/// Outside a tokio runtime that does I/O.
#[must_use]
pub fn stdout() -> Stdout {
    #[cfg(unix)]
    return Stdout(Output::new());
    #[cfg(not(unix))]
    Stdout(tokio::io::stdout())
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
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

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
