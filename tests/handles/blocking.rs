//! The blocking adapter: threads move the bytes, and the same handles are waited for.

use std::future::{Future, poll_fn, ready};
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::thread;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::{Incoming, Options, Peer};
use protocol_blocking::block_on;
use protocol_blocking::threaded::connect;

use crate::hand_made;
use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

#[path = "suite/whole.rs"]
mod whole;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Threads;

pub(crate) type Shared<T> = std::sync::Arc<T>;

pub(crate) use protocol_router::Router;

pub(crate) use crate::hand_made::{TICK, run, sleep};

/// A pipe's end that blocks.
struct Blocking<P>(P);

impl Read for Blocking<PipeReader> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        block_on(poll_fn(|cx| Pin::new(&mut self.0).poll_read(cx, room)))
    }
}

impl Write for Blocking<PipeWriter> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block_on(poll_fn(|cx| Pin::new(&mut self.0).poll_write(cx, bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        block_on(poll_fn(|cx| Pin::new(&mut self.0).poll_flush(cx)))
    }
}

/// Nothing has to be driven: the threads are there.
pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = io::Result<()>> + Send) {
    let (peer, incoming) = connect(Blocking(reader), Blocking(writer), options);
    (peer, incoming, ready(Ok(())))
}

pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    thread::spawn(|| hand_made::run(task));
}
