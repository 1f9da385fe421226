//! The cost of a peer that sends requests and does not read. Responses that wait for room are
//! bounded in bytes, and other input costs no more because of them (F31, F46).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the suite uses the rest")]
mod pipe;

use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::FutureExt;
use heap::Heap;
use pipe::{ENDLESS, PipeReader, PipeWriter, pipe};
use protocol_async::{
    Arrival, Cancellation, Driver, Incoming, Options, Peer, Responder, Timer, connect,
};
use protocol_core::{Cause, Config, Dialect, Timestamp};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

const MIB: usize = 1 << 20;

/// Time stands still.
#[derive(Clone)]
struct Still;

impl Timer for Still {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn sleep_until(&self, _: Timestamp) -> Pending<()> {
        pending()
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// One test at a time: the counts are of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// A server, and a peer that asks and reads only when it is told to.
struct Bench {
    _peer: Peer,
    incoming: Incoming,
    driver: Driver<PipeReader, PipeWriter, Still>,
    asks: PipeWriter,
    answers: PipeReader,
}

impl Bench {
    fn new(unsent_bytes: usize) -> Self {
        let mut config = Config::server(Dialect::ACP_V1);
        config.limits.unsent_bytes = unsent_bytes;
        let ((reader, asks), (answers, writer)) = (pipe(ENDLESS), pipe(64 << 10));
        let (peer, incoming, driver) = connect(reader, writer, Still, Options::new(config));
        Self { _peer: peer, incoming, driver, asks, answers }
    }

    /// Moves bytes until there is nothing to move.
    fn run(&mut self) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = woken.clone().into();
        while woken.0.swap(false, Relaxed) {
            let _ = Pin::new(&mut self.driver).poll(&mut Context::from_waker(&waker));
        }
    }

    fn send(&mut self, message: &str) {
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        for bytes in [message.as_bytes(), b"\n"] {
            let written = Pin::new(&mut self.asks).poll_write(cx, bytes);
            assert!(matches!(written, std::task::Poll::Ready(Ok(len)) if len == bytes.len()));
        }
    }

    fn request(&mut self, id: usize) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"big"}}"#));
    }

    fn take(&self) -> Option<Responder> {
        match self.incoming.receive().now_or_never()? {
            Ok(Arrival::Request(_, responder)) => Some(responder),
            other => panic!("{other:?} is no request"),
        }
    }

    /// Answers all requests that are there with this.
    fn serve(&self, result: &RawValue) {
        while let Some(responder) = self.take() {
            responder.answer(Ok(result.to_owned()));
        }
    }

    /// Reads every answer to so many requests; says for each id whether it is a result.
    fn read(&mut self, count: usize) -> Vec<bool> {
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let (mut lines, mut line) = (vec![None; count], Vec::new());
        let mut bytes = vec![0; 64 << 10];
        while lines.contains(&None) {
            self.run();
            let std::task::Poll::Ready(Ok(read)) =
                Pin::new(&mut self.answers).poll_read(cx, &mut bytes)
            else {
                panic!("some are never answered")
            };
            for part in bytes[..read].split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    let answer: Value = serde_json::from_slice(&line).unwrap();
                    let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
                    let is_result = answer.get("result").is_some();
                    assert!(
                        is_result || answer["error"]["code"] == -32800,
                        "{:?}",
                        answer["error"]
                    );
                    assert_eq!(lines[id].replace(is_result), None, "two answers");
                    line.clear();
                }
            }
        }
        lines.into_iter().flatten().collect()
    }
}

/// With the figures of the program that found it, which measured 1,009 MiB.
#[test]
fn f31_answers_that_wait_for_room_are_bounded() {
    const REQUESTS: usize = 1_000;
    let _alone = ALONE.lock();
    let mut bench = Bench::new(4 * MIB);
    let result = to_raw_value(&"x".repeat(MIB)).unwrap();
    bench.request(0);
    bench.run();
    let at_work = bench.take().unwrap();
    let marker: Cancellation = at_work.cancellation();
    (1..REQUESTS - 1).for_each(|id| bench.request(id));
    bench.run();
    let heap = Heap::of_process();
    bench.serve(&result);
    let peak = heap.peak();
    // One answer is being made, one is being written, and the rows of the others.
    assert!(peak <= (4 + 64 + 3) * MIB, "{} MiB", peak / MIB);
    assert!(peak >= 64 * MIB, "the limit is used");

    // Nothing more is served, but cancels get through (G3).
    bench.request(REQUESTS - 1);
    bench.send(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#);
    bench.run();
    assert!(bench.take().is_none());
    assert_eq!(marker.cause(), Some(Cause::Peer));
    at_work.answer(Ok(result));

    let answered = bench.read(REQUESTS);
    let results = answered.iter().filter(|is_result| **is_result).count();
    assert!((66..=70).contains(&results), "{results}");

    // There is room again.
    bench.request(0);
    bench.run();
    bench.serve(&RawValue::from_string("7".into()).unwrap());
    assert_eq!(bench.read(1), [true]);
}

/// 300 of them took 985 ms with two answers in waiting, and 0.5 ms without.
#[test]
fn f31_what_arrives_costs_the_same_while_answers_wait() {
    let _alone = ALONE.lock();
    let mut bench = Bench::new(17 * MIB);
    let result = to_raw_value(&"x".repeat(10 * MIB)).unwrap();
    (0..4).for_each(|id| bench.request(id));
    bench.run();
    bench.serve(&result);
    bench.run();
    let before = heap::taken();
    for _ in 0..300 {
        bench.send(r#"{"jsonrpc":"2.0","method":"n"}"#);
        bench.run();
    }
    let taken = heap::taken() - before;
    assert!(taken < MIB, "{} KiB for 300 notifications", taken >> 10);
    assert_eq!(bench.read(4), [true; 4]);
}
