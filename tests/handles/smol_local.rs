//! smol's executor for one thread, with handlers that are not `Send`.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use protocol_async::{Incoming, Options, Peer};
use smol::{LocalExecutor, Timer};

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = Rc<T>;

pub(crate) use protocol_router::LocalRouter as Router;

/// A short time.
pub(crate) const TICK: Duration = Duration::from_millis(30);

thread_local! {
    static EXECUTOR: Rc<LocalExecutor<'static>> = Rc::default();
}

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>>) {
    protocol_smol::connect(reader, writer, options)
}

pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    EXECUTOR.with(|executor| executor.spawn(task).detach());
}

pub(crate) async fn sleep(time: Duration) {
    Timer::after(time).await;
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let executor = EXECUTOR.with(Rc::clone);
    smol::block_on(executor.run(smol::future::or(test, async {
        sleep(Duration::from_secs(60)).await;
        panic!("nothing happens");
    })));
}
