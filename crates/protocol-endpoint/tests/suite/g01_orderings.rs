//! Every ordering of a small scenario on two endpoints, with room for one message. The scenario has a call, its
//! cancellation, its response, a caller that drops it, and a notification that waits for room.
//!
//! Each party does something only when it was woken. A party that sleeps while there is something for it leaves
//! the scenario unfinished. So a lost wake-up is found (G1, G2).

use std::collections::BTreeSet;
use std::time::Duration;

use protocol_core::{
    CallOptions, Cause, Config, Dialect, Refusal, RequestHandle, Response, Shutdown, Timestamp,
};
use protocol_endpoint::{
    Arrived, Call, Effect, Effects, Endpoint, Line, Messages, Options, Output, Place,
};
use serde_json::value::RawValue;

/// The parties that wait on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Writer,
    Worker,
    Caller,
    Notifier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Call,
    Cancel,
    Drop,
    /// The caller asks for its outcome.
    Poll,
    /// The notifier sends, or waits for room.
    Notify,
    /// A side writes what it may.
    Write(usize),
    /// A side reads what was written to it.
    Read(usize),
    Take,
    Respond,
    Shutdown,
    /// The next timer of a side runs out. Nothing else happens any more.
    Time(usize),
}

const MOVES: [Move; 12] = [
    Move::Call,
    Move::Cancel,
    Move::Drop,
    Move::Poll,
    Move::Notify,
    Move::Write(0),
    Move::Write(1),
    Move::Read(0),
    Move::Read(1),
    Move::Take,
    Move::Respond,
    Move::Shutdown,
];

struct Side {
    endpoint: Endpoint<Who, Who>,
    effects: Effects<Who, Who>,
    input: Vec<u8>,
    asleep: Vec<Who>,
    is_over: bool,
}

struct World {
    sides: [Side; 2],
    now: Timestamp,
    call: Option<Call>,
    /// The number of times that the call was tried.
    tries: usize,
    is_cancelled: bool,
    is_shut: bool,
    /// The number of outcomes.
    settled: usize,
    is_dropped: bool,
    place: Option<Place>,
    notified: Option<bool>,
    arrived: usize,
    at_work: Vec<RequestHandle>,
}

impl Side {
    fn new(mut config: Config) -> Self {
        config.limits.unsent_messages = 1;
        let (endpoint, effects) = (Endpoint::new(Options::new(config)), Effects::new());
        Self { endpoint, effects, input: Vec::new(), asleep: Vec::new(), is_over: false }
    }

    fn is_awake(&self, who: Who) -> bool {
        !self.asleep.contains(&who)
    }
}

impl World {
    fn new(dialect: &Dialect) -> Self {
        let sides =
            [Config::client(dialect.clone()), Config::server(dialect.clone())].map(Side::new);
        Self {
            sides,
            now: Timestamp::ZERO,
            call: None,
            tries: 0,
            is_cancelled: false,
            is_shut: false,
            settled: 0,
            is_dropped: false,
            place: None,
            notified: None,
            arrived: 0,
            at_work: Vec::new(),
        }
    }

    fn allows(&self, next: Move) -> bool {
        let [client, server] = &self.sides;
        let waits = self.call.is_some() && self.settled == 0 && !self.is_dropped;
        match next {
            Move::Call => self.call.is_none() && self.tries < 2,
            Move::Cancel => waits && !self.is_cancelled,
            Move::Drop => waits,
            Move::Poll => waits && client.is_awake(Who::Caller),
            Move::Notify => self.notified.is_none() && client.is_awake(Who::Notifier),
            Move::Write(side) => {
                self.sides[side].is_awake(Who::Writer) && !self.sides[side].is_over
            }
            Move::Read(side) => !self.sides[side].input.is_empty(),
            Move::Take => server.is_awake(Who::Worker),
            Move::Respond => !self.at_work.is_empty(),
            Move::Shutdown => self.tries > 0 && !self.is_shut,
            Move::Time(side) => self.sides[side].endpoint.due().is_some(),
        }
    }

    fn make(&mut self, next: Move) {
        let now = self.now;
        let [client, server] = &mut self.sides;
        let Side { endpoint, effects, asleep, .. } = client;
        match next {
            Move::Call => {
                self.tries += 1;
                self.call = endpoint.call("m", None, CallOptions::default(), now, effects).ok();
            }
            Move::Cancel => {
                self.is_cancelled = true;
                endpoint.cancel(self.call.unwrap().id, Cause::Caller, None, now, effects);
            }
            Move::Drop => {
                self.is_dropped = true;
                endpoint.drop_call(self.call.unwrap(), now, effects);
                asleep.retain(|who| *who != Who::Caller);
            }
            Move::Poll => match endpoint.poll_outcome(self.call.unwrap(), &mut Some(Who::Caller)) {
                Some(_) => self.settled += 1,
                None => asleep.push(Who::Caller),
            },
            Move::Notify => {
                let place = self.place.as_ref();
                match endpoint.notify_at(place, "n", None, effects) {
                    Err(Refusal::OutboxFull) => {
                        endpoint.wait(
                            Line::Room,
                            &mut self.place,
                            &mut Some(Who::Notifier),
                            effects,
                        );
                        asleep.push(Who::Notifier);
                    }
                    sent => {
                        self.notified = Some(sent.is_ok());
                        if let Some(place) = self.place.take() {
                            endpoint.leave(Line::Room, &place, effects);
                        }
                    }
                }
            }
            Move::Write(side) => self.write(side),
            Move::Read(side) => {
                let Side { endpoint, effects, input, .. } = &mut self.sides[side];
                let used = endpoint.receive(input, now, effects);
                input.drain(..used);
            }
            Move::Take => match server.endpoint.take(&mut server.effects) {
                Some(Arrived::Request(request, _)) => self.at_work.push(request),
                Some(_) => self.arrived += 1,
                None => {
                    let waiter = &mut Some(Who::Worker);
                    let Side { endpoint, effects, .. } = server;
                    endpoint.wait(Line::Arrival, &mut None, waiter, effects);
                    server.asleep.push(Who::Worker);
                }
            },
            Move::Respond => {
                let request = self.at_work.pop().unwrap();
                let response = Response::Result(RawValue::TRUE);
                server.endpoint.respond(request, response, &mut server.effects);
            }
            Move::Shutdown => {
                self.is_shut = true;
                endpoint.shutdown(Shutdown::Drain, now, effects);
            }
            Move::Time(side) => {
                let Side { endpoint, effects, .. } = &mut self.sides[side];
                self.now = endpoint.due().unwrap().max(now) + Duration::from_millis(1);
                endpoint.handle_timeout(self.now, effects);
            }
        }
        for side in &mut self.sides {
            while let Some(effect) = side.effects.pop() {
                let Effect::Wake(who) = effect else { continue };
                let at = side.asleep.iter().position(|other| *other == who);
                side.asleep.swap_remove(at.expect("a party that is woken was asleep"));
            }
        }
    }

    fn write(&mut self, side: usize) {
        let mut out = Messages::default();
        let Side { endpoint, effects, asleep, is_over, .. } = &mut self.sides[side];
        match endpoint.poll_output(&mut out, effects) {
            Output::Write => self.sides[1 - side].input.extend_from_slice(out.bytes()),
            Output::Idle => {
                endpoint.wait_for_output(&mut Some(Who::Writer));
                asleep.push(Who::Writer);
            }
            Output::Over => *is_over = true,
        }
    }

    /// Returns the state, as far as anything that happens from now on depends on it.
    fn key(&self) -> String {
        let phase = self.call.map(|call| {
            let machine = self.sides[0].endpoint.core().machine();
            (machine.call_phase(call.id), machine.call_cause(call.id))
        });
        let request = self
            .at_work
            .first()
            .and_then(|request| self.sides[1].endpoint.core().machine().request_phase(*request));
        let sides =
            self.sides.each_ref().map(|Side { endpoint, input, asleep, is_over, .. }| {
                let mut asleep: Vec<_> = asleep.iter().map(|who| *who as u8).collect();
                asleep.sort_unstable();
                let core = endpoint.core();
                let counts = [
                    core.calls_in_flight(),
                    core.requests_in_flight(),
                    core.unsent_bytes(),
                    core.next_transmit_len().unwrap_or(0),
                    endpoint.arrivals(),
                ];
                let flags = [
                    endpoint.is_full(),
                    endpoint.is_flushed(),
                    *is_over,
                    endpoint.closed().is_some(),
                ];
                format!("{input:?} {asleep:?} {counts:?} {flags:?} {:?}", endpoint.due())
            });
        let flags = [self.is_cancelled, self.is_shut, self.is_dropped];
        let counts = [self.tries, self.settled, self.arrived, self.at_work.len()];
        format!("{phase:?} {request:?} {sides:?} {flags:?} {counts:?} {:?}", self.notified)
    }

    /// Judges a state in which every party that has something to do is asleep.
    fn judge(&self, path: &[Move]) {
        let [client, server] = &self.sides;
        let has_outcome = self.call.is_none() || self.is_dropped || self.settled == 1;
        assert!(has_outcome, "G1: the call never settles: {path:?}");
        let in_flight = client.endpoint.core().calls_in_flight();
        assert_eq!(in_flight, 0, "G1: a call is never released: {path:?}");
        let owed = server.endpoint.core().requests_in_flight();
        assert_eq!(owed, 0, "G2: a request never gets its response: {path:?}");
        assert!(self.notified.is_some(), "the notifier waits for ever: {path:?}");
        let notified = usize::from(self.notified == Some(true));
        assert!(self.arrived >= notified, "the notification is lost: {path:?}");
        for side in &self.sides {
            assert!(side.endpoint.is_flushed(), "something is never written: {path:?}");
            assert!(!side.endpoint.is_full(), "room is never noticed: {path:?}");
        }
        assert_eq!(server.endpoint.arrivals(), 0, "something is never taken: {path:?}");
    }
}

/// Visits every state. Returns their number, and that of the states in which all is over.
fn search(dialect: &Dialect) -> (usize, usize) {
    let (mut known, mut ends) = (BTreeSet::new(), 0);
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let mut world = World::new(dialect);
        path.iter().for_each(|next| world.make(*next));
        if !known.insert(world.key()) {
            continue;
        }
        let mut next: Vec<Move> = MOVES.into_iter().filter(|next| world.allows(*next)).collect();
        // A shutdown may come, and need not.
        if next.is_empty() || next == [Move::Shutdown] {
            let times = [Move::Time(0), Move::Time(1)].into_iter();
            let times: Vec<Move> = times.filter(|time| world.allows(*time)).collect();
            if times.is_empty() {
                world.judge(&path);
                ends += 1;
            }
            next.extend(times);
        }
        paths.extend(next.into_iter().map(|next| [&path[..], &[next]].concat()));
    }
    (known.len(), ends)
}

#[test]
fn g01_every_ordering_of_a_call_its_cancel_and_a_notification_ends() {
    for dialect in [&Dialect::ACP_V1, &Dialect::LSP_3_17, &Dialect::MCP_2025_11_25] {
        let (states, ends) = search(dialect);
        println!("{}: {states} states, {ends} ends", dialect.name);
        assert!(states > 1_000 && ends > 10, "{states} states, {ends} ends: that shows little");
    }
}
