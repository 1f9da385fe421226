//! Faults that were planted once, and that no test noticed then.

use std::cell::Cell;
use std::future::{Future, Pending, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::FutureExt;
use protocol_async::hub::{Hub, Messages};
use protocol_async::relay::relay;
use protocol_async::{Arrival, Canceller, Options, Timer, connect, relay as relays};
use protocol_core::{CallOptions, Cause, Config, Dialect, InputBuffer, Timestamp};
use serde_json::value::RawValue;

/// A clock that stands still.
#[derive(Clone)]
struct Still;

impl Timer for Still {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn sleep_until(&self, _: Timestamp) -> Self::Sleep {
        pending()
    }
}

/// A stream whose reads and writes return what the test put there. Once that is used up they wait.
#[derive(Clone, Default)]
struct Stream(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    reads: Vec<io::Result<Vec<u8>>>,
    writes: Vec<io::Error>,
    /// The number of reads that were asked for.
    asked: usize,
}

impl Stream {
    fn that_reads(reads: impl IntoIterator<Item = io::Result<Vec<u8>>>) -> Self {
        let stream = Self::default();
        stream.0.lock().unwrap().reads.extend(reads);
        stream
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut script = self.0.lock().unwrap();
        script.asked += 1;
        if script.reads.is_empty() {
            return Poll::Pending;
        }
        let bytes = script.reads.remove(0)?;
        room[..bytes.len()].copy_from_slice(&bytes);
        Poll::Ready(Ok(bytes.len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().writes.pop().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls work whose result is ready when its marker is set, with this cause. It may be the marker of a child.
fn tie(cause: Cause, is_child: bool) -> Poll<Result<u8, Cause>> {
    let canceller = Canceller::new();
    let child = is_child.then(|| canceller.marker().child());
    let marker = child.as_ref().unwrap_or(&canceller).marker();
    let is_ready = Cell::new(false);
    let work = poll_fn(|_| if is_ready.get() { Poll::Ready(7) } else { Poll::Pending });
    let mut work = pin!(marker.unless_cancelled(work));
    assert!(poll(work.as_mut()).is_pending());
    is_ready.set(true);
    canceller.cancel(cause);
    poll(work.as_mut()).map_err(|cancelled| cancelled.cause)
}

#[test]
fn a_result_that_is_ready_beats_a_cancel_that_came_with_it() {
    assert_eq!(tie(Cause::Caller, false), Poll::Ready(Ok(7)));
    assert_eq!(tie(Cause::Caller, true), Poll::Ready(Ok(7)));
}

/// A client that stops a turn also settles the question that the turn waits for.
#[test]
fn w18_a_stop_beats_a_result_that_is_ready_with_it() {
    assert_eq!(tie(Cause::Stopped, false), Poll::Ready(Err(Cause::Stopped)));
    assert_eq!(tie(Cause::Stopped, true), Poll::Ready(Err(Cause::Stopped)));
}

#[test]
fn f34_the_error_that_ended_the_input_says_more_than_that_of_a_write() {
    let (hub, peer, _incoming) =
        Hub::new(Options::new(Config::client(Dialect::ACP_V1)), || Timestamp::ZERO);
    hub.fail(&io::Error::other("a write failed"));
    hub.finish(&InputBuffer::new(), Some(&io::Error::other("the process was killed")));
    let closed = peer.closed().now_or_never().unwrap();
    assert_eq!(closed.error.unwrap().to_string(), "the process was killed");
}

#[test]
fn the_driver_returns_the_first_error() {
    let reader = Stream::that_reads([Err(io::Error::other("first"))]);
    let writer = Stream::default();
    let options = Options::new(Config::client(Dialect::ACP_V1));
    let (peer, _incoming, driver) = connect(reader, writer.clone(), Still, options);
    peer.try_notify("n", [1]).unwrap();
    let mut driver = pin!(driver);
    assert!(poll(driver.as_mut()).is_pending(), "its write waits");
    writer.0.lock().unwrap().writes.push(io::Error::other("second"));
    let Poll::Ready(ended) = poll(driver.as_mut()) else { panic!("nothing is left to be done") };
    assert_eq!(ended.unwrap_err().to_string(), "first");
}

#[test]
fn g06_a_call_that_is_detached_with_its_followers_outlives_its_parent() {
    let (hub, peer, incoming) =
        Hub::new(Options::new(Config::server(Dialect::ACP_V1)), || Timestamp::ZERO);
    hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
    let Some(Ok(Arrival::Request(_, responder))) = incoming.receive().now_or_never() else {
        panic!("a request has arrived")
    };
    let options = CallOptions::default().parent(responder.handle());
    let sent = peer.call_with::<Box<RawValue>>("child", (), options);
    let mut out = Messages::default();
    let _ = hub.poll_output(Waker::noop(), &mut out);
    let other = Canceller::new();
    sent.forward_cancellation_from(&other.marker()).detach();
    responder.cancel();
    out.clear();
    let _ = hub.poll_output(Waker::noop(), &mut out);
    assert!(out.is_empty(), "the call goes on");
    other.cancel(Cause::Caller);
    let _ = hub.poll_output(Waker::noop(), &mut out);
    assert!(!out.is_empty(), "the marker that the call follows cancels it");
}

/// The client has broken its framing, sends more, and does not read.
#[test]
fn a_relay_reads_no_more_of_a_side_that_is_closed() {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"unknown/1"}"#;
    let broken = format!("Content-Length: 45\r\n\r\n{request}Content-Length: none\r\n\r\n");
    let broken = Ok(broken.into_bytes());
    let more = (0..40).map(|_| Ok(b"more".to_vec()));
    let client = Stream::that_reads([broken].into_iter().chain(more));
    let dialect = Dialect::LSP_3_17;
    let options = relays::Options::new(Config::server(dialect.clone()), Config::client(dialect));
    let up = (client.clone(), Stream::default());
    let mut relay = pin!(relay(up, (Stream::default(), Stream::default()), Still, options));
    for _ in 0..10 {
        let _ = poll(relay.as_mut());
    }
    let asked = client.0.lock().unwrap().asked;
    assert_eq!(asked, 1, "it has closed");
}
