//! The cost of `protocol-core` at scale: requests in flight (W5), bytes through a relay (W6),
//! timers (W9), unsent bytes (W2).
//!
//! - `speed MILLISECONDS`: every figure, with so much time for each
//! - `churn IN_FLIGHT TIMES`, `deadlines TIMES`: work of a fixed size, for callgrind
//! - `count` and one of those: the allocations of that work

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use bench_harness::floor::Floor;
use bench_harness::report::number;
use bench_harness::{Payload, Size, clock, heap, report};
use peer_core::{Ends, Hop};
use protocol_core::{CallOptions, Event, Outcome, RequestHandle, Response, TimerReason, Timestamp};
use protocol_relay::Side;
use serde_json::value::{RawValue, to_raw_value};

const NAME: &str = "core";

/// Requests that are begun in one turn.
const TURN: usize = 64;
const DEADLINE: Duration = Duration::from_secs(30);
/// Between two calls, so that no two deadlines are the same.
const STEP: Duration = Duration::from_micros(1);

/// Keeps so many requests in flight, and answers always the oldest.
struct Churn {
    ends: Ends,
    /// The unanswered ones, oldest first.
    hanging: VecDeque<RequestHandle>,
    payload: Payload,
    result: Box<RawValue>,
}

impl Churn {
    fn new(in_flight: usize) -> Self {
        let payload = Size::Small.payload();
        let result = to_raw_value(&payload).expect("a payload");
        let ends = Ends::new(in_flight + 1, 0);
        let mut churn = Self { ends, hanging: VecDeque::new(), payload, result };
        while churn.hanging.len() < in_flight {
            for _ in 0..TURN.min(in_flight - churn.hanging.len()) {
                churn.call();
            }
            churn.turn(0);
        }
        churn
    }

    fn call(&mut self) {
        self.ends.caller.call("bench/hang", &self.payload, CallOptions::default());
    }

    fn turn(&mut self, expected: usize) {
        let mut settled = 0;
        self.ends.turn(
            |request| self.hanging.push_back(request),
            |outcome| {
                assert!(matches!(outcome, Outcome::Result(_)));
                settled += 1;
            },
        );
        assert_eq!(settled, expected);
    }

    /// One new request, and the answer to the oldest one: one request's whole life.
    fn steps(&mut self, times: usize) {
        for _ in 0..times {
            self.call();
            let oldest = self.hanging.pop_front().expect("some are in flight");
            let core = self.ends.callee.stream.connection_mut();
            core.respond(oldest, Response::Result(&self.result)).expect("it is unanswered");
            self.turn(1);
        }
    }
}

/// Echoes whose calls have deadlines that never come, while time passes.
fn deadlines(ends: &mut Ends, payload: &Payload, times: usize) {
    for _ in 0..times {
        ends.caller.now = ends.caller.now + STEP;
        ends.echo(1, payload, CallOptions::default().timeout(DEADLINE));
        black_box(ends.caller.stream.connection().poll_timeout());
    }
}

/// Calls that nobody answers until their deadlines come; nanoseconds of CPU time for each.
fn expiries(count: usize) -> f64 {
    let mut ends = Ends::new(count, 0);
    let payload = Size::Small.payload();
    for _ in 0..count {
        ends.caller.now = ends.caller.now + STEP;
        ends.caller.call("bench/hang", &payload, CallOptions::default().timeout(DEADLINE));
    }
    ends.turn(|_| {}, |outcome| panic!("nothing is answered yet: {outcome:?}"));
    let core = ends.caller.stream.connection_mut();
    assert!(matches!(core.poll_timeout(), Some((_, TimerReason::Deadline))));
    let begun = clock::cpu();
    let mut expired = 0;
    while let Some((due, TimerReason::Deadline)) = core.poll_timeout() {
        core.handle_timeout(due);
        while let Some(event) = core.poll_event() {
            assert!(matches!(event, Event::Settled { outcome: Outcome::TimedOut { .. }, .. }));
            expired += 1;
        }
    }
    let took = clock::cpu() - begun;
    assert_eq!(expired, count);
    took as f64 / count as f64
}

/// Cancels of requests that have left, behind 32 MiB of notifications that have not: nanoseconds of
/// CPU time for each, until it is written ahead of them.
fn cancels_of_a_full_outbox(count: usize) -> f64 {
    let mut ends = Ends::new(count, 0);
    let payload = Size::Small.payload();
    let call = |_| ends.caller.call("bench/hang", &payload, CallOptions::default());
    let calls: Vec<_> = (0..count).map(call).collect();
    ends.turn(|_| {}, |outcome| panic!("nothing is answered yet: {outcome:?}"));
    let bulk = to_raw_value(&Size::Nested100K.payload()).expect("a payload");
    let core = ends.caller.stream.connection_mut();
    while core.unsent_bytes() < 32 << 20 {
        core.notify("bench/bulk", Some(&bulk)).expect("there is room");
    }
    let mut output = Vec::with_capacity(256 * count);
    let begun = clock::cpu();
    for call in calls {
        ends.caller.cancel(call);
    }
    for _ in 0..count {
        ends.caller.stream.poll_transmit(&mut output).expect("a cancel");
    }
    let took = clock::cpu() - begun;
    let lines = output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let cancel = br#"{"jsonrpc":"2.0","method":"$/cancel_request""#;
    assert_eq!(lines.filter(|line| line.starts_with(cancel)).count(), count);
    took as f64 / count as f64
}

/// Bytes of params that a relay passes on in a nanosecond, of 1 MiB each.
fn passed(budget: Duration) -> f64 {
    let params = to_raw_value(&Size::Text1M.payload()).expect("a payload");
    let mut ends = Ends::new(16, 0);
    let mut hop = Hop::new(16);
    let mut request = Vec::new();
    let core = ends.caller.stream.connection_mut();
    core.call("bench/echo", Some(&params), (), CallOptions::default(), Timestamp::ZERO)
        .expect("there is room");
    ends.caller.stream.poll_transmit(&mut request).expect("the request");
    let answer = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n".to_vec();
    let mut id = 0_usize;
    let cost = clock::cpu_per_step(budget, 1, |times| {
        for _ in 0..times {
            id += 1;
            let sent = hop.pass(Side::Up, &request);
            assert!(sent.len() >= params.get().len(), "it passes whole");
            // Its id on the other side counts up from 1.
            let answer = String::from_utf8_lossy(&answer).replace(":1,", &format!(":{id},"));
            let back = hop.pass(Side::Down, answer.as_bytes());
            assert_eq!(back, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
        }
    });
    params.get().len() as f64 / cost
}

fn speed(budget: Duration) {
    let figure = |metric: &str, value| report::figure(NAME, metric, value);
    for in_flight in [1, 1_000, 1_000_000] {
        let mut churn = Churn::new(in_flight);
        let cost = clock::cpu_per_step(budget, 1, |times| churn.steps(times));
        figure(&format!("w5.{in_flight}.cpu_ns"), cost);
    }
    figure("w6.passed_gb_s", passed(budget));

    let payload = Size::Small.payload();
    let mut ends = Ends::new(TURN, 0);
    let cost = clock::cpu_per_step(budget, 1, |times| deadlines(&mut ends, &payload, times));
    figure("w9.echo_cpu_ns", cost);
    let mut ends = Ends::new(TURN, 0);
    let options = CallOptions::default();
    let cost = clock::cpu_per_step(budget, 1, |times| {
        (0..times).for_each(|_| ends.echo(1, &payload, options));
    });
    figure("w9.echo_without_cpu_ns", cost);
    let least = |one: &dyn Fn() -> f64| (0..5).map(|_| one()).fold(f64::INFINITY, f64::min);
    figure("w9.expiry_cpu_ns", least(&|| expiries(100_000)));
    figure("w2.full_outbox_cancel_cpu_ns", least(&|| cancels_of_a_full_outbox(1024)));

    let mut floor = Floor::default();
    let cost = clock::cpu_per_step(budget, 1, |times| floor.echo(times, &payload));
    figure("floor.scaling.cpu_ns", cost);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["speed", milliseconds] => speed(Duration::from_millis(number(milliseconds) as u64)),
        ["count", ref work @ ..] => println!("{}", heap::count(|| fixed(work)).allocations),
        ref work => fixed(work),
    }
}

/// Work of a fixed size.
fn fixed(work: &[&str]) {
    match *work {
        ["churn", in_flight, times] => Churn::new(number(in_flight)).steps(number(times)),
        ["deadlines", times] => {
            deadlines(&mut Ends::new(TURN, 0), &Size::Small.payload(), number(times));
        }
        _ => panic!("asked for {work:?}; see the source for what there is to ask for"),
    }
}
