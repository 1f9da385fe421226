//! The followers of a request's marker, and of its children, go when the request is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::FutureExt;
use heap::Heap;
use protocol_async::hub::{Hub, Messages};
use protocol_async::{Arrival, Canceller, Incoming, Options, Responder};
use protocol_core::{Cause, Config, Dialect, InputBuffer, Timestamp};

const REQUESTS: usize = 20_000;

/// A connection whose peer asks, and reads everything.
struct Served {
    hub: Hub,
    incoming: Incoming,
    input: InputBuffer,
    output: Messages,
}

impl Served {
    fn new() -> Self {
        let options = Options::new(Config::server(Dialect::JSON_RPC));
        let (hub, _, incoming) = Hub::new(options, || Timestamp::ZERO);
        Self { hub, incoming, input: InputBuffer::new(), output: Messages::default() }
    }

    /// Takes one request of the peer.
    fn request(&mut self, id: usize) -> Responder {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#) + "\n";
        let mut message = message.as_bytes();
        self.input.fill(1 << 10, |room| std::io::Read::read(&mut message, room)).unwrap();
        let _ = self.hub.receive(&mut self.input);
        match self.incoming.receive().now_or_never() {
            Some(Ok(Arrival::Request(_, responder))) => responder,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self) {
        let _ = self.hub.poll_output(Waker::noop(), &mut self.output);
        self.output.clear();
    }
}

/// Follows the marker in every way that there is.
fn follow(responder: &Responder, kept: &Arc<[u8; 64]>) {
    let marker = responder.cancellation();
    let kept = || kept.clone();
    let (direct, child, grandchild) = (kept(), kept(), kept());
    marker.on_cancel(move |_| drop(direct)).forever();
    let first = marker.child();
    first.marker().on_cancel(move |_| drop(child)).forever();
    let second = first.marker().child();
    second.marker().on_cancel(move |_| drop(grandchild)).forever();
    let mut waits = second.marker().cancelled();
    assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn f90_what_follows_a_child_for_ever_goes_with_its_request() {
    let mut served = Served::new();
    let kept = Arc::new([0; 64]);
    let heap = Heap::of_thread();
    let mut after_some = 0;
    for id in 0..REQUESTS {
        let responder = served.request(id);
        follow(&responder, &kept);
        assert_eq!(Arc::strong_count(&kept), 4, "all follow it");
        // Some of them are cancelled.
        if id % 3 == 0 {
            responder.cancel();
        }
        responder.answer(Ok(serde_json::value::to_raw_value(&id).unwrap()));
        served.write();
        assert_eq!(Arc::strong_count(&kept), 1, "nothing follows request {id}");
        if id == 1_000 {
            after_some = heap.held();
        }
    }
    let after_all = heap.held();
    assert!(after_all <= after_some + 256, "{after_some} bytes, and then {after_all}");
}

#[test]
fn f90_a_child_that_the_host_can_set_outlives_its_request() {
    let mut served = Served::new();
    let responder = served.request(1);
    let child = responder.cancellation().child();
    let told = Arc::new([0; 64]);
    let kept = told.clone();
    child.marker().on_cancel(move |_| drop(kept)).forever();
    let weak = child.downgrade();
    drop(child);
    responder.answer(Ok(serde_json::value::to_raw_value(&1).unwrap()));
    assert_eq!(Arc::strong_count(&told), 2, "the weak canceller could set it");
    weak.clone().cancel(Cause::Internal);
    assert_eq!(Arc::strong_count(&told), 1);
}

#[test]
fn f90_nobody_follows_what_nobody_can_set() {
    let (canceller, kept) = (Canceller::new(), Arc::new(()));
    let marker = canceller.marker();
    let (early, late) = (kept.clone(), kept.clone());
    let early = marker.on_cancel(move |_| drop(early));
    let copy = canceller.clone();
    drop(canceller);
    assert_eq!(Arc::strong_count(&kept), 3, "its clone could set it");
    drop(copy);
    let late = marker.on_cancel(move |_| drop(late));
    assert_eq!(Arc::strong_count(&kept), 1);
    // Whoever follows it can still stop that.
    drop((early, late));
    assert!(marker.cancelled().now_or_never().is_none());
}
