//! A thread for each task: the least that can be called a runtime.

use std::future::Future;
use std::thread;

use protocol_async::{Incoming, Options, Peer};

use crate::hand_made::{self, ThreadTimer};
use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = std::sync::Arc<T>;

pub(crate) use protocol_router::Router;

pub(crate) use crate::hand_made::{TICK, sleep};

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>> + Send) {
    protocol_async::connect(reader, writer, ThreadTimer::start(), options)
}

pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    thread::spawn(|| hand_made::run(task));
}

pub(crate) use crate::hand_made::run;
