//! G10, G11: any order of method calls is legal, the same inputs give the same outputs, and how
//! bytes were split changes nothing. Two connected hosts do random things, and somebody on the line
//! writes whatever he likes.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use protocol_core::{
    AnswerRule, CallId, CallOptions, Cause, Config, Dialect, Event, Framing, Grace, InputBuffer,
    OverLimit, Params, Reply, RequestHandle, Shutdown, StreamConnection, Timestamp, TransmitKind,
};
use support::{line, millis, raw};

struct Random(u64);

impl Random {
    /// A number below `bound`: xorshift64.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())]) }
    }
}

/// One host with its end of the line.
struct Side {
    stream: StreamConnection<String, u32>,
    input: InputBuffer,
    calls: Vec<CallId>,
    requests: Vec<RequestHandle>,
    settled: BTreeMap<String, usize>,
    requests_sent: BTreeSet<String>,
    cancels_sent: BTreeSet<String>,
    is_closed: bool,
    trace: Vec<String>,
}

impl Side {
    fn new(config: Config) -> Self {
        Self {
            stream: StreamConnection::new(config),
            input: InputBuffer::new(),
            calls: Vec::new(),
            requests: Vec::new(),
            settled: BTreeMap::new(),
            requests_sent: BTreeSet::new(),
            cancels_sent: BTreeSet::new(),
            is_closed: false,
            trace: Vec::new(),
        }
    }

    fn take(&mut self, event: &Event<'_, String>) {
        assert!(!self.is_closed, "Closed is the last event (G7): {event:?}");
        self.trace.push(line(event));
        match event {
            Event::Request { request, .. } => self.requests.push(*request),
            Event::Settled { call, data, .. } => {
                assert_eq!(*data, call.number().to_string(), "its own data (G1)");
                *self.settled.entry(data.clone()).or_default() += 1;
            }
            Event::Closed { .. } => self.is_closed = true,
            _ => {}
        }
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.take(&event);
        }
    }

    /// Bytes arrive, in pieces of this size.
    fn read(&mut self, bytes: &[u8], piece: usize, now: Timestamp) {
        for piece in bytes.chunks(piece) {
            self.input.extend_from_slice(piece);
            loop {
                let input = std::mem::take(&mut self.input);
                let (used, events) = self.stream.receive(input.unread(), now);
                for event in events {
                    self.take(&event);
                }
                self.input = input;
                self.input.consume(used);
                if used == 0 {
                    break;
                }
            }
        }
    }

    /// Up to `most` messages leave.
    fn write(&mut self, most: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        for _ in 0..most {
            let start = wire.len();
            let Some(transmit) = self.stream.poll_transmit(&mut wire) else { break };
            let text = String::from_utf8(wire[start..].to_vec()).expect("we write UTF-8");
            let json = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body);
            let message: serde_json::Value = serde_json::from_str(json).expect("we write JSON");
            match transmit.kind {
                TransmitKind::Request => {
                    assert!(self.requests_sent.insert(message["id"].to_string()), "one id a call");
                }
                TransmitKind::Cancel => {
                    let params = message["params"].as_object().expect("params name the id");
                    let id = params.values().next().expect("one member").to_string();
                    assert!(self.requests_sent.contains(&id), "after its request (G4)");
                    assert!(self.cancels_sent.insert(id), "at most one (G4)");
                }
                _ => {}
            }
            self.trace.push(format!("sent {text}"));
        }
        wire
    }

    /// A refused command leaves everything as it was (G10).
    fn attempt<T, E>(
        &mut self,
        command: impl FnOnce(&mut protocol_core::Connection<String, u32>) -> Result<T, E>,
    ) -> Option<T> {
        let conn = self.stream.connection_mut();
        let before = (conn.machine().clone(), conn.unsent_bytes(), conn.next_transmit_len());
        let done = command(conn);
        let after = (conn.machine(), conn.unsent_bytes(), conn.next_transmit_len());
        assert!(done.is_ok() || (&before.0, before.1, before.2) == after, "changed by a refusal");
        self.trace.push(format!("taken {}", done.is_ok()));
        done.ok()
    }

    fn act(&mut self, random: &mut Random, now: Timestamp) {
        let (call, request) = (random.pick(&self.calls), random.pick(&self.requests));
        match (random.below(12), call, request) {
            (0..=2, ..) => {
                let number = self.stream.connection().machine().admit_call(&CallOptions::default());
                let Ok(number) = number else { return };
                let options = CallOptions::default()
                    .timeout(random.pick(&[None, Some(millis(30))]).flatten())
                    .idle_timeout(random.pick(&[None, Some(millis(20))]).flatten())
                    .hard_cap(random.pick(&[None, None, Some(millis(50))]).flatten())
                    .grace(
                        random
                            .pick(&[None, Some(Grace::Await), Some(Grace::Settle(millis(9)))])
                            .flatten(),
                    )
                    .parent(random.pick(&[None, request]).flatten());
                let params = Params::Raw(raw(r#"{"sessionId":1,"workDoneToken":1}"#));
                let call =
                    self.attempt(|conn| conn.call("m", params, number.to_string(), options, now));
                self.calls.extend(call);
            }
            (3, Some(call), _) => {
                let cause = random.pick(&[Cause::Caller, Cause::Dropped, Cause::Deadline]);
                let outcome = self.stream.connection_mut().cancel(call, cause.expect("three"), now);
                self.trace.push(format!("{outcome:?}"));
            }
            (4, Some(call), _) => self.stream.connection_mut().detach(call, now),
            (5..=8, _, Some(request)) => {
                let text = format!("\"{}\"", "x".repeat(random.below(300)));
                let reply = match random.below(3) {
                    0 => Reply::Cancelled,
                    1 => Reply::Error { code: -1, message: "no", data: None },
                    _ => Reply::Result(raw(&text)),
                };
                self.attempt(|conn| conn.respond(request, reply));
            }
            (9, _, Some(request)) => {
                self.stream.connection_mut().cancel_request(request, Cause::Internal, now);
            }
            (10, ..) => {
                let params = Params::Raw(raw(r#"{"sessionId":1,"token":1}"#));
                let method = random.pick(&["session/update", "$/progress"]).expect("two");
                self.attempt(|conn| conn.notify(method, params));
            }
            (11, ..) if random.below(40) == 0 => {
                let how = [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon];
                let how = random.pick(&how).expect("three");
                self.stream.connection_mut().shutdown(how, now);
            }
            _ => self.stream.connection_mut().handle_timeout(now),
        }
    }

    fn assert_bounded(&self) {
        let conn = self.stream.connection();
        let (machine, limits) = (conn.machine(), conn.config().limits);
        assert!(machine.calls_in_flight() <= limits.calls);
        assert!(machine.requests_in_flight() <= limits.requests);
        assert!(conn.unsent_bytes() <= limits.unsent_bytes + 128 * limits.calls, "G8");
    }

    /// The end: everything settles, and nothing is left.
    fn finish(&mut self, now: Timestamp) {
        let input = std::mem::take(&mut self.input);
        for event in self.stream.finish(input.unread(), now) {
            self.take(&event);
        }
        self.poll_events();
        self.write(usize::MAX);
        for request in std::mem::take(&mut self.requests) {
            while self.stream.connection().machine().request_phase(request).is_some() {
                let conn = self.stream.connection_mut();
                if conn.respond(request, Reply::Cancelled).is_err() {
                    assert!(!self.write(1).is_empty(), "writing makes room");
                }
            }
        }
        self.write(usize::MAX);
        self.poll_events();
        assert!(self.is_closed);
        assert_eq!(self.settled.len(), self.calls.len(), "every call settles (G1)");
        assert!(self.settled.values().all(|&times| times == 1), "exactly once (G1)");
        let conn = self.stream.connection();
        let machine = conn.machine();
        assert_eq!((machine.calls_in_flight(), machine.requests_in_flight()), (0, 0));
        assert_eq!((conn.poll_timeout(), conn.unsent_bytes()), (None, 0));
    }
}

fn config(random: &mut Random) -> Config {
    let mut config = Config::new(random.pick(&Dialect::PRESETS).expect("three"));
    config.dialect.answer = random.pick(&[AnswerRule::Answered, AnswerRule::Silent]).expect("two");
    config.over_limit = match random.below(4) {
        0 => OverLimit::Close,
        _ => OverLimit::Refuse,
    };
    config.abandoned_grace = millis(40);
    config.limits.message_bytes = 700;
    config.limits.calls = 6;
    config.limits.requests = 5;
    config.limits.unsent_bytes = 900;
    config.limits.abandoned_ids = 3;
    config.limits.batch_members = 3;
    config
}

/// Something on the line that no well-behaved peer would write, framed.
fn hostile(random: &mut Random, dialect: &Dialect) -> Vec<u8> {
    let id =
        random.pick(&["1", "2", "3", "\"1\"", "null", "[]", "1.0", "\"\\u0031\""]).expect("some");
    let message = match random.below(10) {
        0 => support::request(id, "m"),
        1 => support::result(id, "1"),
        2 => support::error(id, -32800),
        3 => support::cancel(id),
        4 => format!(r#"{{"jsonrpc":"2.0","method":"$\/cancelRequest","params":{{"id":{id}}}}}"#),
        5 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1,"error":2}}"#),
        6 => format!("[{},{},1]", support::request(id, "m"), support::result(id, "1")),
        7 => format!(r#"[{},{{"\ud800":{id}}}]"#, support::request(id, "m")),
        8 => "x".repeat(random.below(1_500)),
        _ => format!(r#"{{"id":{id}}}"#),
    };
    match dialect.framing {
        Framing::ContentLength if random.below(60) == 0 => b"no length\r\n\r\n".to_vec(),
        Framing::ContentLength => {
            format!("content-length: {}\r\n\r\n{message}", message.len()).into_bytes()
        }
        _ => format!("{message}\n").into_bytes(),
    }
}

/// Runs one random world; says everything that happened on both sides.
fn run(seed: u64, piece: usize) -> Vec<String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let config = config(&mut random);
    let mut sides = [Side::new(config), Side::new(config)];
    // To each side: bytes on their way.
    let mut lines = [Vec::new(), Vec::new()];
    let mut now = Timestamp::ZERO;
    for _ in 0..300 {
        let at = random.below(2);
        match random.below(9) {
            0..=3 => sides[at].act(&mut random, now),
            4 => lines[1 - at].extend(sides[at].write(random.below(4))),
            5 | 6 => {
                let bytes = std::mem::take(&mut lines[at]);
                sides[at].read(&bytes, piece, now);
            }
            7 => lines[at].extend(hostile(&mut random, &config.dialect)),
            _ => {
                now = now + millis(random.below(15) as u64);
                sides[at].stream.connection_mut().handle_timeout(now);
            }
        }
        sides[at].poll_events();
        sides[at].assert_bounded();
    }
    for (side, bytes) in sides.iter_mut().zip(&lines) {
        side.read(bytes, piece, now);
        side.finish(now);
    }
    sides.into_iter().flat_map(|side| side.trace).collect()
}

#[test]
fn g10_any_order_of_calls_is_legal_and_the_same_inputs_give_the_same_outputs() {
    for seed in 1..=400 {
        let whole = run(seed, usize::MAX);
        assert_eq!(run(seed, usize::MAX), whole, "seed {seed}, again");
        assert_eq!(run(seed, 1), whole, "seed {seed}, byte by byte (G11)");
        assert_eq!(run(seed, 7), whole, "seed {seed}, in pieces of 7 (G11)");
    }
}

/// A test that never meets what it is about proves nothing.
#[test]
fn the_random_worlds_meet_everything() {
    let trace: Vec<_> = (1..=400).flat_map(|seed| run(seed, usize::MAX)).collect();
    for what in [
        "settled",
        "result",
        "malformed",
        "timed_out deadline",
        "timed_out idle_timeout",
        "timed_out hard_cap",
        "cancelled caller",
        "cancelled dropped",
        "cancelled parent",
        "connection_lost peer_gone",
        "connection_lost shutdown",
        "connection_lost internal",
        "tree_settled",
        "ready",
        "violation late_response",
        "violation duplicate_response",
        "violation unknown_response",
        "violation duplicate_id",
        "violation too_many_requests",
        "violation request_after_shutdown",
        "violation parse",
        "violation message_too_large",
        "violation malformed_response",
        "violation malformed_cancel",
        "violation invalid_request",
        "violation batch_refused",
        "violation answer_dropped",
        "closed peer_gone",
        "closed shutdown",
        "closed over_limit",
        "closed broken_framing",
        "taken false",
        "Withdrawn",
        "AlreadySent",
        "Sent",
        "Settled",
        "AlreadySettled",
        "sent [{",
    ] {
        assert!(trace.iter().any(|line| line.contains(what)), "{what} never happened");
    }
}
