//! tokio's `LocalSet`, with handlers that are not `Send`.

use std::future::Future;
use std::time::Duration;

use protocol_async::{Incoming, Options, Peer};
use tokio_util::compat::{FuturesAsyncReadCompatExt, FuturesAsyncWriteCompatExt};

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = std::rc::Rc<T>;

pub(crate) use protocol_router::LocalRouter as Router;

/// A short time, on this runtime's clock.
pub(crate) const TICK: Duration = Duration::from_secs(60);

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>>) {
    protocol_tokio::connect(reader.compat(), writer.compat_write(), options)
}

pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(task);
}

pub(crate) use tokio::time::sleep;

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        tokio::time::timeout(day, test).await.expect("nothing happens");
    });
}
