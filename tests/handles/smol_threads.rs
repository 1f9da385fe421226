//! smol's global executor.

use std::future::Future;
use std::time::Duration;

use protocol_async::{Incoming, Options, Peer};
use smol::Timer;

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = std::sync::Arc<T>;

pub(crate) use protocol_router::Router;

/// A short time.
pub(crate) const TICK: Duration = Duration::from_millis(30);

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>> + Send) {
    protocol_smol::connect(reader, writer, options)
}

pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    smol::spawn(task).detach();
}

pub(crate) async fn sleep(time: Duration) {
    Timer::after(time).await;
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    smol::block_on(smol::future::or(test, async {
        sleep(Duration::from_secs(60)).await;
        panic!("nothing happens");
    }));
}
