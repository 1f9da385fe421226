//! tokio on several threads.

use std::future::Future;
use std::time::Duration;

use protocol_async::{Incoming, Options, Peer};
use tokio_util::compat::{FuturesAsyncReadCompatExt, FuturesAsyncWriteCompatExt};

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

#[path = "suite/whole.rs"]
mod whole;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = std::sync::Arc<T>;

pub(crate) use protocol_router::Router;

/// A short time, on this runtime's clock.
pub(crate) const TICK: Duration = Duration::from_millis(30);

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>> + Send) {
    protocol_tokio::connect(reader.compat(), writer.compat_write(), options)
}

pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

pub(crate) use tokio::time::sleep;

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let patience = Duration::from_secs(60);
    runtime
        .block_on(async { tokio::time::timeout(patience, test).await.expect("nothing happens") });
}
