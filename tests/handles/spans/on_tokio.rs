//! tokio: handlers that are `Send`.

use std::future::Future;
use std::time::Duration;

use protocol_async::{Incoming, Options, Peer};
use tokio_util::compat::{FuturesAsyncReadCompatExt, FuturesAsyncWriteCompatExt};

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite.rs"]
mod suite;

pub(crate) use protocol_router::Router;
pub(crate) type Shared<T> = std::sync::Arc<T>;

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>> + Send) {
    protocol_tokio::connect(reader.compat(), writer.compat_write(), options)
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    runtime.block_on(async { tokio::time::timeout(day, test).await.expect("nothing happens") });
}
