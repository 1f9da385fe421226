//! Random worlds: two connected hosts do random things, and an attacker on the line writes anything. Every
//! guarantee that can be checked from outside is checked on the way.

use std::collections::{BTreeMap, BTreeSet};

use protocol_core::{
    CallId, CallOptions, CancelOutcome, CancelRefusal, CancelRule, Cause, CloseReason, Config,
    Envelope, Event, Grace, InputBuffer, RequestHandle, RequestPhase, Response, Role, Shutdown,
    StreamConnection, Timestamp, TransmitKind,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::hostile::{METHODS, PARAMS, hostile};
use super::{fingerprint, line, millis, raw};

pub(crate) struct Random(u64);

impl Random {
    /// Returns a number below `bound`, by xorshift64.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())].clone()) }
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
    /// The number of the last message that was sent, in an envelope where every message has one.
    seq: Option<u64>,
    cancels_sent: BTreeSet<String>,
    /// The ids of our calls that no cancel may name.
    uncancellable: BTreeSet<String>,
    /// The ids of the peer's requests that we ended.
    ended: Vec<String>,
    /// By id: the peer's requests that may have a response, and the number of responses.
    answerable: BTreeMap<String, usize>,
    answered: BTreeMap<String, usize>,
    /// By id: the peer's cancels that are requests and may be acknowledged, and how often that was
    /// done.
    acknowledgeable: BTreeMap<String, usize>,
    acknowledged: BTreeMap<String, usize>,
    /// By token: the number of our call whose operation it names.
    tokens: BTreeMap<String, String>,
    closed: Option<CloseReason>,
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
            seq: None,
            cancels_sent: BTreeSet::new(),
            uncancellable: BTreeSet::new(),
            ended: Vec::new(),
            answerable: BTreeMap::new(),
            answered: BTreeMap::new(),
            acknowledgeable: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            tokens: BTreeMap::new(),
            closed: None,
            trace: Vec::new(),
        }
    }

    fn take(&mut self, event: &Event<'_, String>) {
        let is_promised = matches!(event, Event::Ready);
        assert!(is_promised || self.closed.is_none(), "nothing after Closed (G7): {event:?}");
        self.trace.push(line(event));
        match event {
            Event::Request { request, id, .. } => {
                self.requests.push(*request);
                *self.answerable.entry(canonical(id)).or_default() += 1;
            }
            Event::Violation { id, .. } => {
                let id = id.as_ref().map_or("null", |id| id.as_json());
                *self.answerable.entry(canonical(id)).or_default() += 1;
            }
            Event::Settled { call, data, .. } => {
                assert_eq!(*data, call.number().to_string(), "its own data (G1)");
                *self.settled.entry(data.clone()).or_default() += 1;
            }
            Event::Closed { reason } => self.closed = Some(*reason),
            _ => {}
        }
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.take(&event);
        }
    }

    /// Reads bytes, in pieces of this size.
    fn read(&mut self, bytes: &[u8], piece: usize, now: Timestamp) {
        for piece in bytes.chunks(piece) {
            self.input.extend_from_slice(piece);
            loop {
                let input = std::mem::take(&mut self.input);
                let received = self.stream.receive(input.unread(), now);
                let consumed = received.consumed;
                let message = received.message.and_then(|text| serde_json::from_slice(text).ok());
                if let Some(message) = message {
                    self.witness(&like_json_rpc(message));
                }
                let was_open = self.closed.is_none();
                if let Some(event) = received.event {
                    self.take(&event);
                }
                self.poll_events();
                if was_open && self.closed == Some(CloseReason::OverLimit) {
                    self.witness_rest(received.message.unwrap_or_default());
                }
                self.input = input;
                self.input.consume(consumed);
                if consumed == 0 {
                    break;
                }
            }
        }
    }

    /// Remembers the parts of a message that no event reports: cancels that are to be acknowledged, and the
    /// tokens of operations.
    fn witness(&mut self, message: &Value) {
        let dialect = self.stream.connection().config().dialect.clone();
        let (method, token) = match dialect.cancel {
            CancelRule::Request { method, .. } => (method, None),
            CancelRule::Operation { method, token, .. } => (method, Some(token)),
            _ => return,
        };
        let kind = if dialect.envelope == Envelope::Abp { "type" } else { "method" };
        let members = message.as_array();
        for member in members.map_or(std::slice::from_ref(message), Vec::as_slice) {
            let id = member["id"].to_string();
            if member[kind] == *method && members.is_some() {
                // Its acknowledgement is among the answers of its batch.
                *self.answerable.entry(id).or_default() += 1;
            } else if member[kind] == *method {
                *self.acknowledgeable.entry(id).or_default() += 1;
            } else if let Some(token) = &token {
                let token = member["result"][&**token].to_string();
                self.tokens.entry(token).or_insert(id);
            }
        }
    }

    /// Adds the rest of a batch that went over the limit, which gets responses too, after the last event. Some
    /// members can't be read as a value, for a key may be half a surrogate.
    fn witness_rest(&mut self, batch: &[u8]) {
        let members: Vec<&RawValue> = serde_json::from_slice(batch).unwrap_or_default();
        for member in members {
            let member: Value = serde_json::from_str(member.get()).unwrap_or_default();
            for id in [&member["id"], &Value::Null] {
                *self.answerable.entry(id.to_string()).or_default() += 1;
            }
        }
    }

    /// Writes up to `most` messages.
    fn write(&mut self, most: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        for _ in 0..most {
            let start = wire.len();
            let Some(transmit) = self.stream.poll_transmit(&mut wire) else { break };
            let text = String::from_utf8(wire[start..].to_vec()).expect("we write UTF-8");
            let json = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body);
            let message: Value = serde_json::from_str(json).expect("we write JSON");
            let envelope = self.stream.connection().config().dialect.envelope;
            let is_foreign = envelope != Envelope::JsonRpc || message.is_array();
            assert_eq!(message["jsonrpc"].is_null(), is_foreign, "one envelope");
            if envelope == Envelope::Dap {
                let seq = message["seq"].as_u64();
                assert!(self.seq < seq, "messages leave in the order of their numbers: {message}");
                self.seq = seq;
            }
            let message = like_json_rpc(message);
            match transmit.kind {
                TransmitKind::Request => self.check_number(&message),
                TransmitKind::Cancel => self.check_cancel(&message),
                TransmitKind::Response => self.check_answers(&message),
                TransmitKind::Acknowledgement => self.check_acknowledgement(&message),
                _ => {}
            }
            self.trace.push(format!("sent {text}"));
        }
        wire
    }

    fn check_number(&mut self, message: &Value) {
        assert!(self.requests_sent.insert(number(&message["id"])), "one id a message: {message}");
    }

    fn check_cancel(&mut self, message: &Value) {
        let (rule, envelope) = {
            let dialect = &self.stream.connection().config().dialect;
            (dialect.cancel.clone(), dialect.envelope)
        };
        let params =
            if envelope == Envelope::Abp { &message["payload"] } else { &message["params"] };
        let id = match rule {
            CancelRule::Notification { id, .. } => params[&*id].to_string(),
            CancelRule::Request { id: member, .. } => {
                self.check_number(message);
                number(&params[&*member])
            }
            CancelRule::Operation { token, .. } => {
                self.check_number(message);
                let call = self.tokens[&params[&*token].to_string()].clone();
                if self.settled.contains_key(&call) {
                    self.trace.push("cancel follows".into());
                }
                call
            }
            _ => panic!("the dialect has no cancel: {message}"),
        };
        let conn = self.stream.connection();
        if let Some(at) = self.ended.iter().position(|ended| *ended == id) {
            self.ended.swap_remove(at);
            return;
        }
        let refusal = conn.machine().cancel_refusal();
        let never = [CancelRefusal::BeforeExchange, CancelRefusal::NotOurs];
        assert!(!refusal.is_some_and(|why| never.contains(&why)), "never sent: {refusal:?}");
        assert!(!self.uncancellable.contains(&id), "never sent for such a call");
        assert!(self.requests_sent.contains(&id), "after its request (G4)");
        assert!(self.cancels_sent.insert(id), "at most one (G4)");
    }

    fn check_answers(&mut self, message: &Value) {
        for answer in message.as_array().map_or(std::slice::from_ref(message), Vec::as_slice) {
            let call = answer["payload"].get("callId").filter(|_| {
                let kind = answer["type"].as_str();
                kind == Some("capabilities/call-result")
            });
            let id = call.unwrap_or(&answer["id"]).to_string();
            let times = self.answered.entry(id.clone()).or_default();
            *times += 1;
            let most = self.answerable.get(&id).copied();
            assert!(Some(*times) <= most, "one answer a request (G2): {answer}");
        }
    }

    fn check_acknowledgement(&mut self, message: &Value) {
        let id = message["id"].to_string();
        let times = self.acknowledged.entry(id.clone()).or_default();
        *times += 1;
        let most = self.acknowledgeable.get(&id).copied();
        assert!(Some(*times) <= most, "one acknowledgement a cancel: {message}");
    }

    /// Runs a command, and asserts that a refused one leaves everything as it was (G10).
    fn attempt<T, E>(
        &mut self,
        command: impl FnOnce(&mut protocol_core::Connection<String, u32>) -> Result<T, E>,
    ) -> Option<T> {
        let conn = self.stream.connection_mut();
        let state = |conn: &protocol_core::Connection<String, u32>| {
            (fingerprint(conn.machine()), conn.unsent_bytes())
        };
        let before = state(conn);
        let done = command(conn);
        assert!(done.is_ok() || before == state(conn), "changed by a refusal");
        self.trace.push(format!("taken {}", done.is_ok()));
        done.ok()
    }

    fn act(&mut self, random: &mut Random, now: Timestamp) {
        let (call, request) = (random.pick(&self.calls), random.pick(&self.requests));
        match (random.below(16), call, request) {
            (0..=2, ..) => self.call(random, request, now),
            (3 | 4, Some(call), _) => self.cancel(random, call, now),
            (5, Some(call), _) => self.stream.connection_mut().detach(call, now),
            (6..=9, _, Some(request)) => self.respond(random, request),
            (10, _, Some(request)) => {
                self.stream.connection_mut().cancel_request(request, Cause::Internal, now);
            }
            (11, _, Some(request)) if random.below(3) == 0 => self.end(request),
            (11 | 12, ..) => {
                let params = [
                    r#"{"sessionId":1,"token":1,"progressToken":1}"#,
                    r#"{"sessionId":2,"token":2,"progressToken":2}"#,
                ];
                let params = Some(raw(random.pick(&params).expect("two")));
                let methods = ["session/update", "$/progress", "notifications/progress"];
                let method = random.pick(&methods).expect("three");
                self.attempt(|conn| conn.notify(method, params));
            }
            (13, ..) if random.below(40) == 0 => {
                let how = [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon];
                let how = random.pick(&how).expect("three");
                self.stream.connection_mut().shutdown(how, now);
            }
            (14 | 15, _, Some(request)) => self.begin(random, request),
            _ => self.stream.connection_mut().handle_timeout(now),
        }
    }

    /// Responds to a request with a token, if it starts an operation.
    fn begin(&mut self, random: &mut Random, request: RequestHandle) {
        // A token is in use now and then.
        let entropy = [random.below(200) as u8; 16];
        if self.attempt(|conn| conn.begin_operation(request, entropy)).is_some() {
            assert!(self.stream.connection().operation(request).is_some());
            self.trace.push("begun".into());
        }
    }

    fn call(&mut self, random: &mut Random, parent: Option<RequestHandle>, now: Timestamp) {
        let number = self.stream.connection().machine().next_number();
        let graces = [None, Some(Grace::Await), Some(Grace::Settle(millis(9)))];
        let options = CallOptions::default()
            .timeout(random.pick(&[None, Some(millis(30))]).flatten())
            .idle_timeout(random.pick(&[None, Some(millis(20))]).flatten())
            .hard_cap(random.pick(&[None, None, Some(millis(50))]).flatten())
            .grace(random.pick(&graces).flatten())
            .parent(random.pick(&[None, parent]).flatten());
        let method = random.pick(&METHODS).expect("some");
        let params = random.pick(&PARAMS).expect("some");
        let named = Some(raw(params));
        let call = self.attempt(|conn| conn.call(method, named, number.to_string(), options, now));
        let dialect = &self.stream.connection().config().dialect;
        let held = &dialect.uncancellable;
        let is_nameless = dialect.envelope == Envelope::Abp && method != "m"
            || dialect.has_operations() && dialect.starts_operation(method).is_none();
        let is_held = is_nameless
            || held.methods.iter().any(|it| it == method)
            || held.params.iter().any(|member| params.contains(&format!("\"{member}\":{{")));
        if call.is_some() && is_held {
            self.uncancellable.insert(number.to_string());
        }
        self.calls.extend(call);
    }

    fn cancel(&mut self, random: &mut Random, call: CallId, now: Timestamp) {
        let causes = [Cause::Caller, Cause::Dropped, Cause::Deadline];
        let cause = random.pick(&causes).expect("three");
        let conn = self.stream.connection_mut();
        let before = fingerprint(conn.machine());
        let outcome = match random.below(2) {
            0 => conn.cancel(call, cause, now),
            _ => conn.cancel_because(call, cause, Some(&"why ".repeat(random.below(300))), now),
        };
        let is_refused = matches!(outcome, CancelOutcome::Refused(_));
        assert!(
            !is_refused || cause == Cause::Dropped || before == fingerprint(conn.machine()),
            "a refused cancel leaves everything as it was"
        );
        self.trace.push(format!("{outcome:?}"));
    }

    fn respond(&mut self, random: &mut Random, request: RequestHandle) {
        let text = format!("\"{}\"", "x".repeat(random.below(300)));
        let reply = match random.below(5) {
            0 => Response::Cancelled,
            1 => Response::Error { code: -1, message: "no", data: None },
            2 => Response::Result(raw(&text)),
            3 => {
                Response::Result(raw(r#"{"agentCapabilities":{"cancellation":{"request":true}}}"#))
            }
            _ => Response::Result(raw(r#"{"agentCapabilities":{"cancellation":{"request":1}}}"#)),
        };
        let conn = self.stream.connection();
        let (is_withheld, before) =
            (conn.machine().withholds_response(request), conn.unsent_bytes());
        let answer = self.attempt(|conn| conn.respond(request, reply));
        let after = self.stream.connection().unsent_bytes();
        if is_withheld {
            assert!(answer.is_some(), "silence needs no room");
            // The last member of a batch ends it.
            assert!(after <= before + 1, "silence is demanded (G2)");
            self.trace.push("withheld".into());
        } else {
            assert_eq!(answer.is_some(), after > before, "one answer a request (G2)");
        }
    }

    fn end(&mut self, request: RequestHandle) {
        let machine = self.stream.connection().machine();
        let id = machine.request_id(request).map(|id| canonical(id.as_json()));
        let is_told =
            matches!(
                machine.request_phase(request),
                Some(RequestPhase::Running | RequestPhase::Cancelled)
            ) && matches!(machine.config().dialect.cancel, CancelRule::Notification { .. });
        if self.attempt(|conn| conn.end_request(request, Some("over"))).is_some() {
            self.ended.extend(id.filter(|_| is_told));
            self.trace.push("ended".into());
        }
    }

    fn assert_bounded(&self) {
        let conn = self.stream.connection();
        let (machine, limits) = (conn.machine(), conn.config().limits);
        assert!(machine.calls_in_flight() <= limits.calls);
        assert!(machine.requests_in_flight() <= limits.requests);
        let tokens = (128 + limits.id_bytes) * (limits.calls + limits.abandoned_ids);
        let above = match conn.config().dialect.has_operations() {
            true => tokens + 192 * limits.requests,
            false => 128 * limits.calls,
        };
        assert!(conn.unsent_bytes() <= limits.unsent_bytes + above, "G8");
    }

    /// Ends the connection. Asserts that everything has settled, and nothing is left.
    fn finish(&mut self, now: Timestamp) {
        let input = std::mem::take(&mut self.input);
        self.stream.handle_eof(input.unread(), now);
        self.poll_events();
        self.assert_marked();
        self.write(usize::MAX);
        for request in std::mem::take(&mut self.requests) {
            while self.stream.connection().machine().request_phase(request).is_some() {
                let conn = self.stream.connection_mut();
                if conn.respond(request, Response::Cancelled).is_err() {
                    assert!(!self.write(1).is_empty(), "writing makes room");
                }
            }
        }
        self.write(usize::MAX);
        self.poll_events();
        assert!(self.closed.is_some());
        assert_eq!(self.settled.len(), self.calls.len(), "every call settles (G1)");
        assert!(self.settled.values().all(|&times| times == 1), "exactly once (G1)");
        assert!(self.ended.is_empty() || self.is_abandoned(), "every end has left for the peer");
        let conn = self.stream.connection();
        let machine = conn.machine();
        assert_eq!((machine.calls_in_flight(), machine.requests_in_flight()), (0, 0));
        assert_eq!((conn.poll_timeout(), conn.unsent_bytes()), (None, 0));
    }

    /// Returns whether we hung up, and took back the messages that had not left.
    fn is_abandoned(&self) -> bool {
        self.closed == Some(CloseReason::Shutdown)
    }

    /// Asserts that the end has marked every request, unless it is no cancel (G7).
    fn assert_marked(&self) {
        let conn = self.stream.connection();
        let is_cancel = self.closed != Some(CloseReason::PeerGone)
            || conn.config().dialect.closed_stream.is_some();
        for &request in &self.requests {
            let phase = conn.machine().request_phase(request);
            assert!(!is_cancel || phase != Some(RequestPhase::Running), "marked at the end (G7)");
        }
    }
}

/// Returns one spelling of an id that can be written in many.
fn canonical(id: &str) -> String {
    let value: Value = serde_json::from_str(id).expect("a readable id is JSON");
    value.to_string()
}

/// Returns a message of DAP with the names that JSON-RPC has for its members. It returns any other as it is.
fn like_json_rpc(mut message: Value) -> Value {
    let names = match message["type"].as_str() {
        Some("request") => [("seq", "id"), ("command", "method"), ("arguments", "params")],
        Some("response") => [("request_seq", "id"), ("body", "result"), ("message", "error")],
        _ => return message,
    };
    for (name, like) in names {
        if let Some(members) = message.as_object_mut() {
            let value = members.remove(name);
            members.extend(value.map(|value| (like.to_owned(), value)));
        }
    }
    message
}

/// Returns the number in an id of ours, which is a string in some envelopes.
fn number(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Sets limits so small that all of them are met.
pub(crate) fn limited(mut config: Config) -> Config {
    config.abandoned_grace = millis(40);
    config.limits.message_bytes = 700;
    config.limits.id_bytes = 60;
    config.limits.calls = 6;
    config.limits.requests = 5;
    config.limits.unsent_bytes = 900;
    config.limits.abandoned_ids = 3;
    config.limits.batch_members = 3;
    config.limits.early_cancels = 2;
    config
}

/// Returns a client and a server.
pub(crate) fn both_roles(config: Config) -> [Config; 2] {
    let mut server = config.clone();
    server.role = Role::Server;
    [config, server]
}

/// Runs one random world between two such hosts. Returns everything that happened on both sides.
pub(crate) fn run(
    seed: u64,
    piece: usize,
    configure: impl FnOnce(&mut Random) -> [Config; 2],
) -> Vec<String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let configs = configure(&mut random);
    let mut sides = configs.clone().map(Side::new);
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
            7 => lines[at].extend(hostile(&mut random, &configs[at].dialect)),
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

/// Asserts that the same world follows from a seed again, and in whatever pieces its bytes come.
pub(crate) fn assert_determined(seed: u64, configure: fn(&mut Random) -> [Config; 2]) {
    let whole = run(seed, usize::MAX, configure);
    assert_eq!(run(seed, usize::MAX, configure), whole, "seed {seed}, again (G10)");
    assert_eq!(run(seed, 1, configure), whole, "seed {seed}, byte by byte (G11)");
    assert_eq!(run(seed, 7, configure), whole, "seed {seed}, in pieces of 7 (G11)");
}

/// Asserts that each of these events happened in some world. A test that never meets its subject proves
/// nothing.
pub(crate) fn assert_met(seeds: u64, configure: fn(&mut Random) -> [Config; 2], all: &[&str]) {
    let trace: Vec<_> = (1..=seeds).flat_map(|seed| run(seed, usize::MAX, configure)).collect();
    for what in all {
        assert!(trace.iter().any(|line| line.contains(what)), "{what} never happened");
    }
}
