//! Requests that were taken to be served are bounded, in their number and in the bytes of their params. Their
//! cancels still get through (F44, G3, G8).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;
use std::task::Waker;

use futures_util::FutureExt;
use heap::Heap;
use protocol_async::hub::{Hub, Messages};
use protocol_async::{Arrival, Incoming, Options, Peer, Request, Responder};
use protocol_core::{Cause, Config, Dialect, Timestamp};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

/// One test at a time: the count is of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// A server and its transport.
struct Bench {
    hub: Hub,
    _peer: Peer,
    incoming: Incoming,
    /// The requests that are served, with their responders.
    at_work: Vec<(Request, Responder)>,
}

impl Bench {
    fn new(options: Options) -> Self {
        let (hub, peer, incoming) = Hub::new(options, || Timestamp::ZERO);
        Self { hub, _peer: peer, incoming, at_work: Vec::new() }
    }

    /// Sends a request of the peer's, and takes everything that has arrived.
    fn ask(&mut self, id: usize, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "work", "params": params });
        self.hub.receive_message(request.to_string().as_bytes());
        while let Some(Ok(arrival)) = self.incoming.receive().now_or_never() {
            let Arrival::Request(request, responder) = arrival else { panic!("{arrival:?}") };
            self.at_work.push((request, responder));
        }
    }

    fn cancel(&self, id: usize) {
        let params = json!({ "requestId": id });
        let method = "$/cancel_request";
        let cancel = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.hub.receive_message(cancel.to_string().as_bytes());
    }

    fn answer_first(&mut self) {
        let (_, responder) = self.at_work.remove(0);
        responder.respond(to_raw_value(&7).unwrap());
    }

    /// Returns the ids of the responses that were sent, each with its error code.
    fn answered(&self) -> Vec<(u64, Option<i64>)> {
        let (mut messages, mut answered) = (Messages::default(), Vec::new());
        let _ = self.hub.poll_output(Waker::noop(), &mut messages);
        while let Some(message) = messages.take_next() {
            let answer: Value = serde_json::from_slice(message).unwrap();
            answered.push((answer["id"].as_u64().unwrap(), answer["error"]["code"].as_i64()));
        }
        answered
    }
}

fn options() -> Options {
    Options::new(Config::server(Dialect::ACP_V1))
}

fn overload() -> Option<i64> {
    Some(Dialect::ACP_V1.overload_code)
}

#[test]
fn f44_requests_at_work_are_bounded_in_number() {
    let _alone = ALONE.lock();
    let mut options = options();
    options.work_requests = 3;
    let mut bench = Bench::new(options);
    (1..=4).for_each(|id| bench.ask(id, &Value::Null));
    assert_eq!((bench.at_work.len(), bench.answered()), (3, vec![(4, overload())]));

    bench.answer_first();
    bench.ask(5, &Value::Null);
    bench.ask(6, &Value::Null);
    assert_eq!(bench.at_work.len(), 3, "an answer makes room for one more");
    assert_eq!(bench.answered(), [(1, None), (6, overload())]);

    // Whatever ends a responder gives its place back.
    bench.at_work.clear();
    (7..=9).for_each(|id| bench.ask(id, &Value::Null));
    assert_eq!(bench.at_work.len(), 3);
}

#[test]
fn f44_requests_at_work_are_bounded_in_bytes_of_what_they_ask() {
    let _alone = ALONE.lock();
    let mut options = options();
    options.work_bytes = MIB;
    let mut bench = Bench::new(options);
    let params = json!(["x".repeat(MIB / 8)]);
    let heap = Heap::of_process();
    (0..100).for_each(|id| bench.ask(id, &params));
    let held = heap.held();
    assert!(held < MIB + MIB / 8, "{held} bytes are held");
    assert_eq!((bench.at_work.len(), bench.answered().len()), (7, 93));

    bench.ask(100, &Value::Null);
    assert_eq!(bench.at_work.len(), 8, "a small one still fits");
}

#[test]
fn f44_a_request_that_is_alone_always_fits() {
    let _alone = ALONE.lock();
    let mut options = options();
    (options.work_requests, options.work_bytes) = (0, 0);
    let mut bench = Bench::new(options);
    bench.ask(1, &json!(["x".repeat(MIB)]));
    bench.ask(2, &Value::Null);
    assert_eq!((bench.at_work.len(), bench.answered()), (1, vec![(2, overload())]));
}

#[test]
fn g03_cancels_get_through_when_requests_do_not() {
    let _alone = ALONE.lock();
    let mut options = options();
    options.work_requests = 1;
    let mut bench = Bench::new(options);
    bench.ask(1, &Value::Null);
    bench.ask(2, &Value::Null);
    bench.cancel(1);
    let marker = bench.at_work[0].1.cancellation();
    assert_eq!(marker.cause(), Some(Cause::Peer));
}

#[test]
fn f44_the_defaults_hold_too() {
    let _alone = ALONE.lock();
    let defaults = options();
    let (work_requests, work_bytes) = (defaults.work_requests, defaults.work_bytes);
    assert_eq!((work_requests, work_bytes), (16_384, 64 * MIB));
    let mut bench = Bench::new(options());
    let params = json!(["x".repeat(MIB)]);
    (0..66).for_each(|id| bench.ask(id, &params));
    assert_eq!(bench.at_work.len(), 63);
}
