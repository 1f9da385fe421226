//! A client, a chain of relays and a server, joined by links that carry bytes at random paces.
//!
//! The client is end 0, and the server is end 1. Both call, cancel, respond and notify.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_core::{
    CallId, CallOptions, CancelRule, Cause, Config, Dialect, Event, InputBuffer, RequestHandle,
    Response, StreamConnection, Timestamp, Transmit, TransmitKind, Violation,
};
use protocol_relay::{Relay, RelayEvent, Side};
use serde_json::value::RawValue;

/// xorshift64: the same numbers on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    AnswersAll,
    AnswersNothing,
}

pub(crate) struct Chain {
    ends: [End; 2],
    relays: Vec<Relay>,
    /// Link `n` lies before relay `n`; the last one before the server.
    links: Vec<Link>,
    now: Timestamp,
    tokens: u64,
}

struct Link {
    dialect: Dialect,
    /// Towards the server, towards the client.
    ways: [Way; 2],
}

#[derive(Default)]
struct Way {
    written: InputBuffer,
    arrived: InputBuffer,
    end: EndOfInput,
    /// Ids of requests that went this way, and of those that were cancelled.
    requested: BTreeSet<String>,
    cancelled: BTreeSet<String>,
    log: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum EndOfInput {
    #[default]
    Ahead,
    Written,
    Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    HungUp,
}

/// A client or a server. A call's data is the token in its params.
struct End {
    stream: StreamConnection<u64>,
    life: Life,
    /// Everything sent but responses and cancels, in order, and everything received.
    sent: Vec<Sent>,
    received: Vec<Sent>,
    /// Calls that we cancelled while they were in flight.
    cancelled: BTreeSet<u64>,
    /// The outcome of each call, by its token.
    settled: BTreeMap<u64, String>,
    /// Requests that wait for our response.
    pending: Vec<(RequestHandle, u64)>,
    marked: BTreeSet<u64>,
    /// Tokens to which we responded with a result.
    answered: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Request(u64),
    Notification(u64),
}

impl Chain {
    pub(crate) fn new(dialects: Vec<Dialect>, random: &mut Random) -> Self {
        let config = |link: usize| Config::client(dialects[link].clone());
        let depth = dialects.len() - 1;
        let mut relays: Vec<Relay> =
            (0..depth).map(|n| Relay::new(config(n), config(n + 1))).collect();
        // So that one request has another number on every link.
        for relay in &mut relays {
            for side in Side::BOTH {
                for _ in 0..random.below(4) {
                    burn_a_number(relay, side);
                }
            }
        }
        Self {
            ends: [End::new(config(0)), End::new(config(depth))],
            relays,
            links: dialects.into_iter().map(Link::new).collect(),
            now: Timestamp::ZERO,
            tokens: 0,
        }
    }

    /// Does one thing at random.
    pub(crate) fn step(&mut self, random: &mut Random) {
        let (end, link, way) = (random.below(2), random.below(self.links.len()), random.below(2));
        match random.below(16) {
            0 | 1 => self.call(end),
            2 => self.cancel(end, random),
            3 => self.answer(end, random),
            4 => self.notify(end),
            5 => self.now = self.now + Duration::from_secs(1),
            6..=10 => {
                for _ in 0..=random.below(3) {
                    self.write(link, way);
                }
            }
            _ => {
                let len = random.below(200);
                self.carry(link, way, len);
            }
        }
    }

    fn call(&mut self, end: usize) {
        self.tokens += 1;
        let (token, now, end) = (self.tokens, self.now, &mut self.ends[end]);
        let params = raw(&format!(r#"{{"token":{token}}}"#));
        let call = end.stream.connection_mut().call(
            "work",
            Some(&params),
            token,
            CallOptions::default(),
            now,
        );
        call.expect("it is open and has room");
        end.sent.push(Sent::Request(token));
    }

    fn cancel(&mut self, end: usize, random: &mut Random) {
        let end = &mut self.ends[end];
        let calls: Vec<(CallId, u64)> =
            end.stream.connection().calls().map(|(call, token)| (call, *token)).collect();
        if !calls.is_empty() {
            let (call, token) = random.pick(&calls);
            end.cancelled.insert(token);
            end.stream.connection_mut().cancel(call, Cause::Caller, self.now);
            end.drain();
        }
    }

    fn answer(&mut self, end: usize, random: &mut Random) {
        let end = &mut self.ends[end];
        if !end.pending.is_empty() {
            let at = random.below(end.pending.len());
            end.answer(at);
        }
    }

    fn notify(&mut self, end: usize) {
        self.tokens += 1;
        let (token, end) = (self.tokens, &mut self.ends[end]);
        let params = raw(&format!(r#"{{"token":{token}}}"#));
        let sent = end.stream.connection_mut().notify("log", Some(&params));
        sent.expect("it is open and has room");
        end.sent.push(Sent::Notification(token));
    }

    /// Lets the node at the beginning of this way write one message, or its end. Returns whether it had any.
    fn write(&mut self, link: usize, way: usize) -> bool {
        let mut out = Vec::new();
        let transmit = match self.writer(link, way) {
            Node::End(end) => self.ends[end].transmit(&mut out),
            Node::Relay(relay, side) => self.relays[relay].poll_transmit(side, &mut out),
        };
        let is_over = match self.writer(link, way) {
            Node::End(end) => self.ends[end].life == Life::HungUp,
            Node::Relay(relay, side) => self.relays[relay].is_over(side),
        };
        let Link { dialect, ways } = &mut self.links[link];
        let way = &mut ways[way];
        if let Some(transmit) = transmit {
            way.check(dialect, transmit, &out);
            way.written.extend_from_slice(&out);
            way.log.extend_from_slice(&out);
            return true;
        }
        if is_over && way.end == EndOfInput::Ahead {
            way.end = EndOfInput::Written;
            return true;
        }
        false
    }

    /// Carries bytes to the node at the end of this way.
    fn carry(&mut self, link: usize, way: usize, len: usize) -> bool {
        let (reader, now) = (self.reader(link, way), self.now);
        let way = &mut self.links[link].ways[way];
        let len = len.min(way.written.unread().len());
        way.arrived.extend_from_slice(&way.written.unread()[..len]);
        way.written.consume(len);
        loop {
            let consumed = match reader {
                Node::End(end) => self.ends[end].receive(way.arrived.unread(), now),
                Node::Relay(relay, side) => {
                    receive(&mut self.relays[relay], side, way.arrived.unread(), now)
                }
            };
            if consumed == 0 {
                break;
            }
            way.arrived.consume(consumed);
        }
        if way.end == EndOfInput::Written && way.written.unread().is_empty() {
            way.end = EndOfInput::Told;
            match reader {
                Node::End(end) => self.ends[end].finish(now),
                Node::Relay(relay, side) => {
                    self.relays[relay].handle_eof(side, way.arrived.unread(), now);
                }
            }
            return true;
        }
        len > 0
    }

    fn writer(&self, link: usize, way: usize) -> Node {
        self.node_at(link + way).facing(if way == 0 { Side::Down } else { Side::Up })
    }

    fn reader(&self, link: usize, way: usize) -> Node {
        self.node_at(link + 1 - way).facing(if way == 0 { Side::Up } else { Side::Down })
    }

    /// Returns the node at a position. The client is node 0, the relays follow, and the server is the last.
    fn node_at(&self, position: usize) -> Node {
        match position {
            0 => Node::End(0),
            last if last == self.relays.len() + 1 => Node::End(1),
            relay => Node::Relay(relay - 1, Side::Up),
        }
    }

    /// Lets everything that is written arrive, until nothing moves.
    pub(crate) fn deliver_everything(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for link in 0..self.links.len() {
                for way in 0..2 {
                    while self.write(link, way) {
                        moved = true;
                    }
                    moved |= self.carry(link, way, usize::MAX);
                }
            }
        }
        for relay in &mut self.relays {
            while let Some((side, event)) = relay.poll_event() {
                check_event(side, &event, relay);
            }
        }
    }

    pub(crate) fn answer_everything(&mut self) {
        // An answer may let a request through that waits behind it.
        while self.ends.iter().any(|end| end.life == Life::Alive && !end.pending.is_empty()) {
            for end in &mut self.ends {
                while !end.pending.is_empty() {
                    end.answer(0);
                }
            }
            self.deliver_everything();
        }
    }

    pub(crate) fn let_every_grace_pass(&mut self) {
        for _ in 0..=self.relays.len() {
            self.now = self.now + Duration::from_secs(31);
            for relay in &mut self.relays {
                relay.handle_timeout(self.now);
            }
            self.deliver_everything();
        }
    }

    pub(crate) fn hang_up(&mut self, end: usize) {
        let end = &mut self.ends[end];
        end.life = Life::HungUp;
        end.stream.connection_mut().handle_eof(self.now);
        end.drain();
        end.pending.clear();
    }

    // What must hold

    /// Asserts which requests are marked once everything is delivered. A live request is marked if and only if
    /// its caller cancelled it and every dialect on the way has a cancel.
    pub(crate) fn assert_cancels_arrived(&self, seed: u64) {
        let reaches = self.links.iter().all(|link| link.dialect.cancel != CancelRule::Local);
        for (near, far) in [(0, 1), (1, 0)] {
            for (_, token) in &self.ends[far].pending {
                let cancelled = self.ends[near].cancelled.contains(token);
                let marked = self.ends[far].marked.contains(token);
                assert_eq!(marked, cancelled && reaches, "schedule {seed}, token {token}");
            }
            let marked = &self.ends[far].marked;
            assert!(marked.is_subset(&self.ends[near].cancelled), "schedule {seed}");
        }
    }

    /// Asserts that every call has settled, with its own response.
    pub(crate) fn assert_all_settled(&self, seed: u64) {
        for (near, far) in [(0, 1), (1, 0)] {
            let (near, far) = (&self.ends[near], &self.ends[far]);
            for sent in &near.sent {
                let Sent::Request(token) = sent else { continue };
                let settled = near.settled.get(token).map(String::as_str);
                let settled = settled.unwrap_or_else(|| panic!("schedule {seed}: {token} hangs"));
                match settled {
                    "result" => assert!(far.answered.contains(token), "schedule {seed}"),
                    "cancelled" => assert!(near.cancelled.contains(token), "schedule {seed}"),
                    _ => assert!(
                        self.ends.iter().any(|end| end.life == Life::HungUp),
                        "schedule {seed}: {token} {settled}"
                    ),
                }
            }
            // In order; only a withdrawn request may be missing, unless somebody hung up.
            let mut received = far.received.iter().peekable();
            for sent in &near.sent {
                if received.next_if_eq(&sent).is_none() {
                    let withdrawn =
                        matches!(sent, Sent::Request(token) if near.cancelled.contains(token));
                    let ended = self.ends.iter().any(|end| end.life == Life::HungUp);
                    assert!(withdrawn || ended, "schedule {seed}: {sent:?} got lost");
                }
            }
            assert_eq!(received.next(), None, "schedule {seed}: nothing is doubled or reordered");
        }
    }

    /// Counts the calls and requests in flight anywhere.
    pub(crate) fn in_flight(&self) -> usize {
        let ends = self.ends.iter().map(|end| {
            let machine = end.stream.connection().machine();
            machine.calls_in_flight() + machine.requests_in_flight()
        });
        ends.sum::<usize>() + self.relayed()
    }

    /// Counts the calls and requests in flight in the relays.
    pub(crate) fn relayed(&self) -> usize {
        let sides = self.relays.iter().flat_map(|relay| Side::BOTH.map(|side| (relay, side)));
        sides
            .map(|(relay, side)| {
                let machine = relay.connection(side).machine();
                machine.calls_in_flight() + machine.requests_in_flight()
            })
            .sum()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.relays.iter().all(|relay| Side::BOTH.iter().all(|&side| relay.is_over(side)))
    }

    pub(crate) fn written(self) -> Vec<Vec<u8>> {
        self.links.into_iter().flat_map(|link| link.ways).map(|way| way.log).collect()
    }
}

#[derive(Clone, Copy)]
enum Node {
    End(usize),
    Relay(usize, Side),
}

impl Node {
    fn facing(self, side: Side) -> Self {
        match self {
            Self::End(_) => self,
            Self::Relay(relay, _) => Self::Relay(relay, side),
        }
    }
}

impl Link {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, ways: [Way::default(), Way::default()] }
    }
}

impl Way {
    /// Asserts that a cancel names a request that went the same way before, and names it once (G4, B25).
    fn check(&mut self, dialect: &Dialect, transmit: Transmit, out: &[u8]) {
        let message: serde_json::Value =
            serde_json::from_slice(transmit.message(out)).expect("it is JSON");
        match transmit.kind {
            TransmitKind::Request => {
                assert!(self.requested.insert(message["id"].to_string()));
            }
            TransmitKind::Cancel => {
                let CancelRule::Notification { method, id, .. } = &dialect.cancel else {
                    panic!("{} has no cancel", dialect.name)
                };
                assert_eq!(message["method"], **method);
                let id = message["params"][&**id].to_string();
                assert!(self.requested.contains(&id), "{message} cancels nothing of this link");
                assert!(self.cancelled.insert(id), "{message} was sent twice");
            }
            _ => {}
        }
    }
}

impl End {
    fn new(config: Config) -> Self {
        Self {
            stream: StreamConnection::new(config),
            life: Life::Alive,
            sent: Vec::new(),
            received: Vec::new(),
            cancelled: BTreeSet::new(),
            settled: BTreeMap::new(),
            pending: Vec::new(),
            marked: BTreeSet::new(),
            answered: BTreeSet::new(),
        }
    }

    fn transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        match self.life {
            Life::Alive => self.stream.poll_transmit(out),
            Life::HungUp => None,
        }
    }

    fn receive(&mut self, unread: &[u8], now: Timestamp) -> usize {
        let received = self.stream.receive(unread, now);
        if let Some(event) = received.event {
            self.take(event);
        }
        self.drain();
        received.consumed
    }

    fn finish(&mut self, now: Timestamp) {
        self.stream.connection_mut().handle_eof(now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.take(event);
        }
    }

    fn take(&mut self, event: Event<'_, u64>) {
        match event {
            Event::Request { request, params, .. } => {
                let token = token(params.as_deref());
                self.received.push(Sent::Request(token));
                self.pending.push((request, token));
            }
            Event::Notification { params, .. } => {
                self.received.push(Sent::Notification(token(params.as_deref())));
            }
            Event::Cancelled { request, cause: Cause::Peer, .. } => {
                let pending = self.pending.iter().find(|(handle, _)| *handle == request);
                let (_, token) = pending.expect("only live requests are cancelled");
                assert!(self.marked.insert(*token), "marked twice");
            }
            Event::Settled { outcome, data, .. } => {
                if let Some(value) =
                    outcome.value().filter(|_| outcome.settlement().as_str() == "result")
                {
                    assert_eq!(value.get(), data.to_string(), "another call's result");
                }
                let before = self.settled.insert(data, outcome.settlement().as_str().into());
                assert_eq!(before, None, "settled twice");
            }
            Event::Violation { violation, .. } => {
                assert_eq!(violation, Violation::LateResponse);
            }
            _ => {}
        }
    }

    /// Responds to a cancelled request as cancelled, most of the time.
    fn answer(&mut self, at: usize) {
        let (request, token) = self.pending.swap_remove(at);
        let result = raw(&token.to_string());
        let stops = self.marked.contains(&token) && token % 4 != 0;
        let reply = if stops { Response::Cancelled } else { Response::Result(&result) };
        if !stops {
            self.answered.insert(token);
        }
        self.stream.connection_mut().respond(request, reply).expect("it is unanswered");
        self.drain();
    }
}

/// Asserts that a relay may report this event while both peers behave.
fn check_event(side: Side, event: &RelayEvent, relay: &Relay) {
    match event {
        RelayEvent::Violation { violation: Violation::LateResponse, .. } => {
            let closing = relay.connection(side.other()).machine().is_closed();
            let local = relay.connection(side).config().dialect.cancel == CancelRule::Local;
            assert!(local || closing, "{event}");
        }
        RelayEvent::Violation { violation: Violation::RequestAfterShutdown, .. }
        | RelayEvent::Closed { .. } => {}
        RelayEvent::RequestRefused { .. } | RelayEvent::NotificationDropped { .. } => {
            assert!(relay.connection(side.other()).machine().is_closed(), "{event}");
        }
        event => panic!("{event}"),
    }
}

/// Feeds bytes to a relay. Returns the number of bytes that it consumed.
fn receive(relay: &mut Relay, side: Side, unread: &[u8], now: Timestamp) -> usize {
    let received = relay.receive(side, unread, now);
    if let Some((side, event)) = received.event {
        check_event(side, &event, relay);
    }
    received.consumed
}

/// Lets a request pass and get its response.
fn burn_a_number(relay: &mut Relay, near: Side) {
    let now = Timestamp::ZERO;
    let mut out = Vec::new();
    let peers = [near, near.other()].map(|side| relay.connection(side).config().dialect.framing);
    let frame = |framing, message: String| match framing {
        protocol_core::Framing::ContentLength => {
            format!("Content-Length: {}\r\n\r\n{message}", message.len())
        }
        _ => format!("{message}\n"),
    };
    let request = r#"{"jsonrpc":"2.0","id":"burn","method":"burn"}"#.to_owned();
    let receive_all = |relay: &mut Relay, side, bytes: String| {
        let mut unread = bytes.as_bytes();
        while !unread.is_empty() {
            unread = &unread[receive(relay, side, unread, now)..];
        }
    };
    receive_all(relay, near, frame(peers[0], request));
    let transmit = relay.poll_transmit(near.other(), &mut out).expect("it is forwarded");
    let message: serde_json::Value =
        serde_json::from_slice(transmit.message(&out)).expect("it is JSON");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":null}}"#, message["id"]);
    receive_all(relay, near.other(), frame(peers[1], answer));
    relay.poll_transmit(near, &mut out).expect("it is answered");
}

fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).expect("it is JSON")
}

fn token(params: Option<&RawValue>) -> u64 {
    let params = params.expect("everything sent here has params").get();
    let digits = params.trim_start_matches(r#"{"token":"#).trim_end_matches('}');
    digits.parse().expect("passed verbatim")
}
