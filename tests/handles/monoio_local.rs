//! monoio, which has no adapter crate here. Its adapter is this file, written from the guide alone.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use monoio::io::IntoPollIo;
use monoio::net::UnixStream;
use monoio::time::Instant;
use monoio::{LegacyDriver, RuntimeBuilder};
use protocol_async::{CallError, Failure, Incoming, Options, Peer, Timer};
use protocol_core::{Cause, Config, Dialect, Timestamp};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = Rc<T>;

pub(crate) use protocol_router::LocalRouter as Router;

/// A short time.
pub(crate) const TICK: Duration = Duration::from_millis(30);

/// The clock of monoio.
#[derive(Clone)]
struct MonoioTimer(Instant);

impl Timer for MonoioTimer {
    type Sleep = monoio::time::Sleep;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    fn sleep_until(&self, due: Timestamp) -> Self::Sleep {
        monoio::time::sleep_until(self.0 + due.since(Timestamp::ZERO))
    }
}

/// Connects to a socket, and drives the connection on this thread.
fn unix(stream: UnixStream, options: impl Into<Options>) -> io::Result<(Peer, Incoming)> {
    let (reader, writer) = tokio::io::split(stream.into_poll_io()?);
    let timer = MonoioTimer(Instant::now());
    let (reader, writer) = (reader.compat(), writer.compat_write());
    let (peer, incoming, driver) = protocol_async::connect(reader, writer, timer, options);
    // The handles report how the connection ended.
    monoio::spawn(async move { drop(driver.await) });
    Ok((peer, incoming))
}

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = io::Result<()>>) {
    protocol_async::connect(reader, writer, MonoioTimer(Instant::now()), options)
}

pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    monoio::spawn(task);
}

pub(crate) async fn sleep(time: Duration) {
    monoio::time::sleep(time).await;
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let builder = RuntimeBuilder::<LegacyDriver>::new().enable_timer();
    let mut runtime = builder.build().expect("a runtime");
    runtime.block_on(async {
        let ended = monoio::time::timeout(Duration::from_secs(60), test).await;
        ended.expect("something happens");
    });
}

#[test]
fn it_serves_and_calls_over_a_socket() {
    run(async {
        let (near, far) = UnixStream::pair().unwrap();
        let (_server, requests) = unix(far, Config::server(Dialect::ACP_V1)).unwrap();
        spawn(async move {
            let router = Router::new()
                .request("echo", async |(text,): (String,), _| Ok(text))
                .request("work", async |(): (), cx| {
                    cx.cancellation().cancelled().await;
                    Err::<(), _>(Failure::Cancelled)
                });
            router.serve(&requests).await;
        });
        let (client, _arrivals) = unix(near, Config::client(Dialect::ACP_V1)).unwrap();
        let long = "a".repeat(1 << 20);
        assert_eq!(client.call::<String>("echo", (&long,)).await.unwrap(), long);
        let sent = client.call::<()>("work", ());
        assert_eq!(client.call::<String>("echo", ("later",)).await.unwrap(), "later");
        sent.cancel();
        let outcome = sent.await;
        let Err(CallError::Cancelled { cause: Cause::Caller, error: Some(_), .. }) = outcome else {
            panic!("{outcome:?}")
        };
    });
}
