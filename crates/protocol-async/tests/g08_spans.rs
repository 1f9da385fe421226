//! Spans keep nothing. A subscriber raises the level of the whole process, so this test has its own.
#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::RangeInclusive;
use std::task::Waker;

use futures_util::FutureExt;
use heap::Heap;
use protocol_async::hub::{Hub, Messages};
use protocol_async::{Options, SentRequest};
use protocol_core::{CallOptions, Config, Dialect, Timestamp};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Listens to everything, and keeps nothing.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn g08_nothing_is_kept_of_calls_that_only_spans_are_shown() {
    let _guard = tracing::subscriber::set_default(Listener);
    let options = Options::new(Config::client(Dialect::JSON_RPC));
    let (hub, peer, _incoming) = Hub::new(options, || Timestamp::ZERO);
    let heap = Heap::of_thread();
    let mut out = Messages::default();
    let mut after = |calls: RangeInclusive<u32>| {
        for number in calls {
            let call: SentRequest = peer.call_raw("ask", None, CallOptions::default());
            out.clear();
            hub.poll_output(Waker::noop(), &mut out);
            let response = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":7}}"#);
            hub.receive_message(response.as_bytes());
            assert!(call.now_or_never().unwrap().is_ok());
        }
        heap.held()
    };
    let few = after(1..=100);
    let many = after(101..=2_000);
    assert!(many < few + 1_024, "{few} bytes are held after 100 calls, {many} after 2,000");
}
