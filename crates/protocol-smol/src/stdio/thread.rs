//! Standard streams that a thread reads and writes.

use std::io;

use smol::Unblock;

pub(super) fn read_on_thread(pipe_bytes: usize) -> Unblock<io::Stdin> {
    Unblock::with_capacity(pipe_bytes.max(1), io::stdin())
}

pub(super) fn write_on_thread(pipe_bytes: usize) -> Unblock<io::Stdout> {
    Unblock::with_capacity(pipe_bytes.max(1), io::stdout())
}
