//! Random programs: one host that does anything in any order, and a peer that writes whatever it likes.
//!
//! Most of what a program does makes sense, so that it reaches the depth of the tables. The guarantees
//! that can be checked from outside are checked on the way.

mod dialects;
mod peer;
mod random;

use core::hash::Hasher;
use core::time::Duration;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash};
use std::string::{String, ToString};
use std::vec::Vec;

use protocol_core::{
    CallId, CallOptions, Cause, Connection, Event, Refusal, RequestHandle, Response, Shutdown,
    Timestamp, WireId,
};
use serde_json::value::RawValue;

use dialects::GRACES;
use peer::{Peer, TOKENS, Targets};
use random::Random;

/// Runs the program of a seed.
///
/// # Panics
///
/// A guarantee does not hold.
pub(crate) fn run(seed: u64) {
    let mut random = Random::new(seed);
    let config = dialects::config(&mut random);
    let peer = Peer::new(&config.dialect);
    let mut program = Program::new(Connection::new(config), peer, random);
    let mut left = 100;
    while left > 0 {
        program.step();
        // There is little to do after the end.
        left = if program.is_closed { left.min(10) - 1 } else { left - 1 };
    }
    program.finish();
}

/// A host in the middle of its program.
struct Program {
    connection: Connection<usize, u32>,
    peer: Peer,
    random: Random,
    /// The milliseconds that have passed.
    clock: u64,
    /// The time of this step, which goes back now and then.
    now: Timestamp,
    /// The calls that were accepted. The data of each is its index.
    calls: Vec<CallId>,
    /// The numbers of our messages that are no calls: mostly of cancels.
    others: Vec<u32>,
    /// The indices of the calls that have settled.
    settled: BTreeSet<usize>,
    requests: Vec<RequestHandle>,
    marked: BTreeSet<RequestHandle>,
    /// The requests that the host has responded to or ended.
    responded: BTreeSet<RequestHandle>,
    trees_settled: BTreeSet<RequestHandle>,
    /// Whether something was refused for want of room, and no notice of room came since.
    awaits_room: bool,
    /// The refusals for want of room, less the notices.
    refused: usize,
    is_closed: bool,
}

impl Program {
    fn new(connection: Connection<usize, u32>, peer: Peer, random: Random) -> Self {
        Self {
            connection,
            peer,
            random,
            clock: 0,
            now: Timestamp::ZERO,
            calls: Vec::new(),
            others: Vec::new(),
            settled: BTreeSet::new(),
            requests: Vec::new(),
            marked: BTreeSet::new(),
            responded: BTreeSet::new(),
            trees_settled: BTreeSet::new(),
            awaits_room: false,
            refused: 0,
            is_closed: false,
        }
    }

    fn step(&mut self) {
        self.clock += u64::from(self.random.once_in(3));
        let goes_back = self.random.once_in(20);
        self.now = Timestamp::from_millis(if goes_back { self.clock / 2 } else { self.clock });
        let first = self.connection.machine().next_number();
        let (call, request) = (self.any_call(), self.any_request());
        match (self.random.below(20), call, request) {
            (0..=6, ..) => self.receive(),
            (7 | 8, ..) => self.call(request),
            (9..=11, Some(call), _) => self.cancel(call),
            (12 | 13, _, Some(request)) => self.respond(request),
            (14, _, Some(request)) => self.begin_operation(request),
            (15, _, Some(request)) if self.random.once_in(2) => self.end_request(request),
            (15, _, Some(request)) if self.random.once_in(8) => self.release_request(request),
            (15, _, Some(request)) => {
                let cause = self.random.one_of(Cause::ALL);
                self.connection.cancel_request(request, cause, self.now);
            }
            (16, ..) if self.random.once_in(3) => self.notify(),
            (16, Some(call), _) => match self.random.once_in(2) {
                true => self.connection.detach(call, self.now),
                false => self.connection.progress(call, self.now),
            },
            (17, ..) if self.random.once_in(3) => self.fire_timers(),
            (18, ..) if self.is_closed || self.random.once_in(8) => self.wind_up(),
            (18, ..) if self.random.once_in(3) => self.send_cancel_request(),
            _ => self.transmit(),
        }
        let machine = self.connection.machine();
        let numbers = first..machine.next_number();
        self.others.extend(numbers.filter(|&number| machine.call_numbered(number).is_none()));
        if !self.random.once_in(3) {
            self.poll_events();
        }
    }

    /// Ends the input, and checks that everything is over.
    fn finish(mut self) {
        self.now = Timestamp::from_millis(self.clock + 1);
        self.connection.handle_eof(self.now);
        self.poll_events();
        assert!(self.is_closed, "the end is reported (G7)");
        assert_eq!(self.settled.len(), self.calls.len(), "every call settles (G1)");
        assert_eq!(self.connection.calls_in_flight(), 0);
        assert_eq!(self.connection.machine().works().count(), 0, "all work has ended");
        assert_eq!(self.connection.poll_timeout(), None, "nothing is left to time out");
        let can_send = self.connection.config().limits.unsent_messages > 0;
        self.drain();
        for request in self.requests.clone() {
            let is_refused = !self.settle_with(request, Response::Cancelled);
            self.drain();
            if is_refused && can_send {
                let again = self.connection.respond(request, Response::Cancelled);
                assert!(!matches!(again, Err(Refusal::OutboxFull)), "nothing is in the way");
                self.responded.extend(again.is_ok().then_some(request));
            }
        }
        self.drain();
        self.poll_events();
        let in_flight = self.requests.len() - self.responded.len();
        assert_eq!(self.connection.requests_in_flight(), in_flight);
        if in_flight == 0 {
            assert!(!self.awaits_room || !can_send, "room was promised (G8)");
            assert_eq!(self.connection.unsent_bytes(), 0);
        }
    }

    // Calls

    fn call(&mut self, parent: Option<RequestHandle>) {
        let mut options = CallOptions::default();
        let mut time = |times| {
            let has_time = self.random.once_in(times);
            let millis = self.random.below(6) as u64;
            has_time.then_some(Duration::from_millis(millis))
        };
        options.timeout = time(12);
        options.idle_timeout = time(8);
        options.hard_cap = time(16);
        options.grace = self.random.once_in(3).then(|| self.random.one_of(&GRACES));
        options.parent = parent.filter(|_| self.random.once_in(2));
        let method = self.peer.method(&mut self.random);
        let params = self.params();
        let (now, data) = (self.now, self.calls.len());
        let call = self.attempt(|conn| {
            conn.call(&method, Some(raw(&params)), data, options, now).map_err(|refused| {
                assert_eq!(refused.data, data, "a refusal returns the data");
                refused.reason
            })
        });
        self.calls.extend(call);
    }

    fn cancel(&mut self, call: CallId) {
        let is_awaited = self.random.below(4) > 0;
        let cause = if is_awaited { Cause::Caller } else { self.random.one_of(Cause::ALL) };
        if self.random.once_in(4) {
            let grace = self.random.once_in(4).then_some(Duration::from_millis(2));
            self.connection.stop_call(call, cause, grace, self.now);
            return;
        }
        let reason = self.random.once_in(2).then_some("because");
        self.connection.cancel_because(call, cause, reason, self.now);
    }

    fn send_cancel_request(&mut self) {
        let id = self.peer.new_id(&mut self.random);
        let Some(id) = WireId::from_json(&id) else { return };
        self.attempt(|conn| conn.send_cancel_request(&id));
    }

    // Requests

    fn respond(&mut self, request: RequestHandle) {
        let result = self.peer.result(&mut self.random);
        let response = match self.random.below(5) {
            0 => Response::Cancelled,
            1 => Response::Error { code: -1, message: "no\n", data: None },
            2 => Response::ErrorRaw(raw(r#"{"code":1,"message":"x"}"#)),
            _ => Response::Result(raw(&result)),
        };
        self.settle_with(request, response);
    }

    /// Responds to a request; returns whether it has its response now or had it before.
    fn settle_with(&mut self, request: RequestHandle, response: Response<'_>) -> bool {
        self.settle_request(request, |conn| conn.respond(request, response).map(|_| ()));
        self.responded.contains(&request)
    }

    fn end_request(&mut self, request: RequestHandle) {
        self.settle_request(request, |conn| conn.end_request(request, Some("over")).map(|_| ()));
    }

    fn release_request(&mut self, request: RequestHandle) {
        self.settle_request(request, |conn| conn.release_request(request).map(|_| ()));
    }

    fn settle_request(
        &mut self,
        request: RequestHandle,
        settle: impl FnOnce(&mut Connection<usize, u32>) -> Result<(), Refusal>,
    ) {
        if self.attempt(settle).is_some() {
            assert!(self.responded.insert(request), "one response a request (G2)");
        }
    }

    fn begin_operation(&mut self, request: RequestHandle) {
        let token = [self.random.one_of(&TOKENS); 16];
        if self.attempt(|conn| conn.begin_operation(request, token)).is_some() {
            assert_eq!(self.connection.operation(request), Some(token));
        }
    }

    // The connection

    fn notify(&mut self) {
        let method = self.peer.method(&mut self.random);
        let params = self.params();
        self.attempt(|conn| conn.notify(&method, Some(raw(&params))));
    }

    /// Shuts down, or ends the input.
    fn wind_up(&mut self) {
        let now = self.now;
        match self.random.below(4) {
            0 => self.connection.handle_eof(now),
            1 => self.connection.shutdown(Shutdown::Drain, now),
            2 => self.connection.shutdown(Shutdown::CancelAll, now),
            _ => self.connection.shutdown(Shutdown::Abandon, now),
        }
    }

    fn fire_timers(&mut self) {
        match self.connection.poll_timeout() {
            Some((due, _)) if self.random.once_in(2) => {
                self.connection.handle_timeout(due);
                let next = self.connection.poll_timeout();
                assert!(next.is_none_or(|(next, _)| next > due), "no timer fires for ever");
            }
            _ => self.connection.handle_timeout(self.now),
        }
    }

    /// Runs a command, and asserts that a refused one leaves everything as it was (G10).
    fn attempt<T>(
        &mut self,
        command: impl FnOnce(&mut Connection<usize, u32>) -> Result<T, Refusal>,
    ) -> Option<T> {
        let before = self.random.once_in(4).then(|| state(&self.connection));
        let done = command(&mut self.connection);
        if let (Some(before), Err(refusal)) = (before, &done) {
            assert_eq!(before, state(&self.connection), "{refusal:?} changed something");
        }
        if let Err(Refusal::OutboxFull) = done {
            (self.awaits_room, self.refused) = (true, self.refused + 1);
        }
        done.ok()
    }

    // The peer, and the transport

    fn receive(&mut self) {
        let targets = self.targets();
        let message = self.peer.message(&mut self.random, &targets);
        if let Some(event) = self.connection.receive(message.as_bytes(), self.now) {
            let event = event.into_owned();
            self.note(&event);
        }
    }

    /// Sends one message, or all.
    fn transmit(&mut self) {
        match self.random.once_in(2) {
            true => _ = self.send_one(),
            false => self.drain(),
        }
    }

    fn drain(&mut self) {
        while self.send_one() {}
    }

    fn send_one(&mut self) -> bool {
        let (mut message, next) = (Vec::new(), self.connection.next_transmit_len());
        let transmit = self.connection.poll_transmit(&mut message);
        assert_eq!(transmit.map(|it| it.len), next, "the length is known before");
        if transmit.is_none() {
            return false;
        }
        let text = core::str::from_utf8(&message).expect("we write UTF-8");
        assert!(!text.contains('\n') && serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
        true
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.note(&event);
        }
    }

    fn note(&mut self, event: &Event<'_, usize>) {
        let may_follow = matches!(event, Event::Ready);
        assert!(!self.is_closed || may_follow, "nothing follows the end (G7): {event:?}");
        match event {
            Event::Request { request, .. } => self.requests.push(*request),
            Event::Cancelled { request, .. } => {
                assert!(!self.responded.contains(request), "it had its response (G2)");
                assert!(self.marked.insert(*request), "it was marked before (G5)");
            }
            Event::Settled { call, data, .. } => {
                assert_eq!(self.calls.get(*data), Some(call), "its own data returns (G1)");
                assert!(self.settled.insert(*data), "it settled before (G1)");
            }
            Event::TreeSettled { request } => {
                assert!(self.responded.contains(request), "its host still works on it (G6)");
                assert!(self.trees_settled.insert(*request), "its tree settled before (G6)");
            }
            Event::Ready => {
                assert!(self.refused > 0, "a notice that nobody waits for");
                self.refused -= 1;
                self.awaits_room = false;
            }
            Event::Closed { .. } => self.is_closed = true,
            _ => {}
        }
    }

    fn params(&mut self) -> String {
        let targets = self.targets();
        self.peer.params(&mut self.random, &targets)
    }

    /// Returns a call, mostly one in flight.
    fn any_call(&mut self) -> Option<CallId> {
        let in_flight: Vec<CallId> = self.connection.calls().map(|(call, _)| call).collect();
        let is_any = in_flight.is_empty() || self.random.once_in(4);
        self.random.recent(if is_any { &self.calls } else { &in_flight })
    }

    /// Returns a request, mostly one that awaits its response.
    fn any_request(&mut self) -> Option<RequestHandle> {
        let in_flight: Vec<RequestHandle> = self.connection.requests().map(|(it, _)| it).collect();
        let is_any = in_flight.is_empty() || self.random.once_in(4);
        self.random.recent(if is_any { &self.requests } else { &in_flight })
    }

    /// Chooses the calls and requests that a message is about: mostly some that are in flight.
    fn targets(&mut self) -> Targets {
        let number = match self.random.once_in(3) {
            true => self.random.recent(&self.others),
            false => self.any_call().map(CallId::number),
        };
        let request = self.any_request();
        let machine = self.connection.machine();
        let request = request.and_then(|request| {
            let id = machine.request_id(request).map(|id| id.as_json().into());
            id.or_else(|| Some(peer::written(self.connection.operation(request)?)))
        });
        let latest = machine.next_number().saturating_sub(self.random.below(3) as u32);
        Targets {
            call: number.filter(|_| !self.random.once_in(8)).unwrap_or(latest),
            request: request.unwrap_or_else(|| self.random.below(6).to_string()),
        }
    }
}

/// Returns all that a refused command must leave as it was. The next message to leave is no part of it.
/// Responses that wait for the rest of their batch leave early once a message waits for their room.
fn state(connection: &Connection<usize, u32>) -> (u64, usize) {
    let mut hasher = DefaultHasher::new();
    connection.machine().hash(&mut hasher);
    (hasher.finish(), connection.unsent_bytes())
}

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).expect("it is JSON")
}
