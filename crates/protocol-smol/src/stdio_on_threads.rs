//! The standard input and output of this process, on systems whose reactor can't wait for them.

use std::io;

use smol::Unblock;

/// The standard input of this process, opened by [`stdin`].
pub type Stdin = Unblock<io::Stdin>;

/// The standard output of this process, opened by [`stdout`].
pub type Stdout = Unblock<io::Stdout>;

/// Opens standard input, which a thread reads, at most `pipe_bytes` ahead. Nothing can interrupt that
/// thread.
#[must_use]
pub fn stdin(pipe_bytes: usize) -> Stdin {
    Unblock::with_capacity(pipe_bytes.max(1), io::stdin())
}

/// Opens standard output, which is written as [`stdin`] is read.
#[must_use]
pub fn stdout(pipe_bytes: usize) -> Stdout {
    Unblock::with_capacity(pipe_bytes.max(1), io::stdout())
}
