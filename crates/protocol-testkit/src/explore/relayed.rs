//! Three peers: a client, a relay, a server, in every order.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::machine::CallPhase;
use protocol_core::{Config, RequestPhase, Role, Timestamp};
use protocol_record::Mark;
use protocol_relay::{Relay, Side};

use super::orderings::Scenario;
use super::system::System;
use crate::guarantee::{Broken, Guarantee};
use crate::host::Host;
use crate::hostile::{Hostile, framed, unframed};
use crate::label::label;
use crate::link::Link;
use crate::operation::{ENDS, Operation, end};
use crate::watch::Watch;
use crate::world::{OPEN_SESSION, both_roles};

/// Every ordering of a [`Scenario`] between a client and a server with a real [`Relay`] between them. The hosts
/// are judged by their reference models. The relay is judged by its messages on either side, and by the
/// agreement of its two connections (G6).
///
/// The operations are the hosts' own; time stands still.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// The client and the server.
    hosts: [Host; 2],
    relay: Relay,
    /// The relay, seen from the client and from the server.
    watches: [Watch; 2],
    /// From the relay, and to it.
    to_hosts: [Link; 2],
    to_relay: [Link; 2],
    scenario: Scenario,
    left: Vec<u8>,
    marks: Option<Vec<Mark>>,
}

/// A choice for the next step of three peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayedChoice {
    /// A host does something.
    Host(Operation),
    /// The next message of the relay for this host leaves.
    Leave(Role),
    /// The relay reads what came from this host: a message, or the end.
    Read(Role, u8),
    /// The relay has nothing left to do on this side, and hangs up.
    HangUp(Role),
}

impl fmt::Display for RelayedChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Host(operation) => operation.fmt(f),
            Self::Leave(to) => write!(f, "relay drain to {}", end(to)),
            Self::Read(from, place) => write!(f, "relay read {} {place}", end(from)),
            Self::HangUp(to) => write!(f, "relay hang up on {}", end(to)),
        }
    }
}

const LANE_OF_RELAY: usize = 1;
const NOW: Timestamp = Timestamp::ZERO;

const fn side(of: Role) -> Side {
    match of {
        Role::Client => Side::Up,
        Role::Server => Side::Down,
    }
}

const fn lane(of: Role) -> usize {
    match of {
        Role::Client => 0,
        Role::Server => 2,
    }
}

impl Relayed {
    /// The beginning of a scenario, with one dialect towards the client and one towards the server.
    ///
    /// There is a session from the beginning, if the scenario opens none and both dialects have one.
    ///
    /// # Panics
    ///
    /// If no session can be opened.
    #[must_use]
    pub fn new(up: Config, down: Config, scenario: Scenario) -> Self {
        let new = Self::before_session(up.clone(), down.clone(), scenario);
        let has_sessions = [up, down].iter().all(|config| config.dialect.session.is_some());
        if scenario.opens_session() || !has_sessions {
            return new;
        }
        new.in_session().unwrap_or_else(|broken| panic!("no session can be opened: {broken}"))
    }

    /// Opens the session, with nothing but fair choices.
    fn in_session(mut self) -> Result<Self, Broken> {
        self.act(&OPEN_SESSION)?;
        loop {
            let mut choices = Vec::new();
            self.fair_choices(&mut choices);
            let Some(choice) = choices.first() else { break };
            self.take(choice)?;
        }
        self.hosts.iter_mut().for_each(Host::forget_past);
        Ok(self)
    }

    fn before_session(up: Config, down: Config, scenario: Scenario) -> Self {
        let ([client, relay_up], [relay_down, server]) =
            (both_roles(up.clone()), both_roles(down.clone()));
        let configs = [up, down];
        let links = || configs.clone().map(|config| Link::new(config.dialect.order, usize::MAX));
        Self {
            hosts: [Host::new(client), Host::new(server)],
            relay: Relay::new(relay_up, relay_down),
            watches: configs.clone().map(|config| Watch::new(&config.dialect)),
            to_hosts: links(),
            to_relay: links(),
            scenario,
            left: scenario.budget.iter().map(|&(_, times)| times).collect(),
            marks: None,
        }
    }

    fn is_of_use(&self, operation: &Operation) -> bool {
        let Some(at) = operation.at() else { return !self.to_relay[0].is_ended() };
        let host = &self.hosts[at as usize];
        match *operation {
            Operation::Cancel { call, .. }
            | Operation::Detach { call, .. }
            | Operation::SendCancel { call, .. } => host.calls() > call.into(),
            Operation::Begin { request, .. } => host.unanswered().contains(&request.into()),
            Operation::Hostile { .. } | Operation::HangUp { .. } => {
                !self.to_relay[at as usize].is_ended() && !host.is_over()
            }
            _ => true,
        }
    }

    fn fair_choices(&self, choices: &mut Vec<RelayedChoice>) {
        for at in ENDS {
            let host = &self.hosts[at as usize];
            let mut push = |operation| choices.push(RelayedChoice::Host(operation));
            if host.has_transmit() {
                push(Operation::Drain { at, messages: 1 });
            }
            for place in self.to_hosts[at as usize].arrivals() {
                push(Operation::Arrive { at, place, piece: 0 });
            }
            for request in host.unanswered() {
                let answers = host.answers(request, self.scenario.answers);
                let request = u8::try_from(request).unwrap_or(u8::MAX);
                answers.for_each(|answer| push(Operation::Respond { at, request, answer }));
            }
            if host.is_over() && !self.to_relay[at as usize].is_ended() {
                push(Operation::HangUp { at });
            }
            if self.relay.connection(side(at)).next_transmit_len().is_some() {
                choices.push(RelayedChoice::Leave(at));
            }
            let places = self.to_relay[at as usize].arrivals();
            choices.extend(places.map(|place| RelayedChoice::Read(at, place)));
            if self.relay.is_over(side(at)) && !self.to_hosts[at as usize].is_ended() {
                choices.push(RelayedChoice::HangUp(at));
            }
        }
    }

    fn act(&mut self, operation: &Operation) -> Result<(), Broken> {
        let Some(at) = operation.at() else {
            self.to_hosts.iter_mut().chain(&mut self.to_relay).for_each(Link::cut);
            return Ok(());
        };
        let place_of_host = at as usize;
        self.mark(operation.mark(lane(at)));
        match *operation {
            Operation::Drain { .. } => {
                if let Some(message) = self.hosts[place_of_host].transmit()? {
                    self.mark(Some(Mark::at(lane(at), format!("{} leaves", label(&message)))));
                    self.to_relay[place_of_host].send(message);
                }
                Ok(())
            }
            Operation::Arrive { place, .. } => {
                let link = &mut self.to_hosts[place_of_host];
                if let Some(message) = link.arrive(place.into()) {
                    self.mark(Some(Mark::arrow(LANE_OF_RELAY, lane(at), label(&message))));
                    self.hosts[place_of_host].receive(&message, 0, NOW)
                } else {
                    link.arrive_end();
                    self.mark(Some(Mark::arrow(LANE_OF_RELAY, lane(at), "end".into())));
                    self.hosts[place_of_host].finish(NOW)
                }
            }
            Operation::Hostile { message, id, .. } => {
                let dialect = &self.hosts[place_of_host].stream().connection().config().dialect;
                let message = message.message(Hostile::id(id), dialect);
                self.to_relay[place_of_host].send(framed(&message, dialect.framing));
                Ok(())
            }
            Operation::HangUp { .. } => {
                self.to_relay[place_of_host].end();
                Ok(())
            }
            _ => self.hosts[place_of_host].act(operation, NOW),
        }
    }

    /// The next message of the relay leaves.
    fn leave(&mut self, to: Role) -> Result<(), Broken> {
        let mut framed = Vec::new();
        if let Some(transmit) = self.relay.poll_transmit(side(to), &mut framed) {
            self.mark(Some(Mark::at(LANE_OF_RELAY, format!("{} leaves", label(&framed)))));
            self.watches[to as usize].writes(transmit.message(&framed))?;
            self.to_hosts[to as usize].send(framed);
        }
        Ok(())
    }

    fn read(&mut self, from: Role, place: u8) {
        let (at, framing) = (from as usize, self.framing(from));
        if let Some(message) = self.to_relay[at].arrive(place.into()) {
            self.mark(Some(Mark::arrow(lane(from), LANE_OF_RELAY, label(&message))));
            for decided in self.unsent(from) {
                self.watches[at].decides(&decided);
            }
            self.watches[at].reads(unframed(&message, framing));
            // Its events are for logs.
            let _ = self.relay.receive(side(from), &message, NOW);
        } else {
            self.to_relay[at].arrive_end();
            self.mark(Some(Mark::arrow(lane(from), LANE_OF_RELAY, "end".into())));
            self.relay.handle_eof(side(from), &[], NOW);
        }
        while self.relay.poll_event().is_some() {}
    }

    /// Returns the messages of the relay for this host that have not left yet.
    fn unsent(&self, to: Role) -> Vec<Vec<u8>> {
        if self.relay.connection(side(to)).next_transmit_len().is_none() {
            return Vec::new();
        }
        let mut relay = self.relay.clone();
        let next = || {
            let mut framed = Vec::new();
            let transmit = relay.poll_transmit(side(to), &mut framed)?;
            Some(transmit.message(&framed).to_vec())
        };
        std::iter::from_fn(next).collect()
    }

    fn framing(&self, of: Role) -> protocol_core::Framing {
        self.relay.connection(side(of)).config().dialect.framing
    }

    /// A request that is cancelled on one side is cancelled on the other (G6).
    fn judge_cascade(&self) -> Result<(), Broken> {
        for near in Side::BOTH {
            let (here, there) = (self.relay.connection(near), self.relay.connection(near.other()));
            for (request, call) in here.requests() {
                let Some(call) = *call else { continue };
                let phase = here.machine().request_phase(request);
                let is_cancelled = phase.is_some_and(RequestPhase::is_cancelled);
                let is_passed_on = match there.machine().call_phase(call) {
                    Some(CallPhase::Queued | CallPhase::Sent) => {
                        there.machine().call_refusal(call).is_some()
                    }
                    _ => true,
                };
                Broken::unless(!is_cancelled || is_passed_on, Guarantee::G6, || {
                    format!("the cancel of request {} stays on its side", request.number())
                })?;
            }
        }
        Ok(())
    }

    fn mark(&mut self, mark: Option<Mark>) {
        if let Some(marks) = &mut self.marks {
            marks.extend(mark);
        }
    }
}

impl System for Relayed {
    type Choice = RelayedChoice;

    const LANES: &'static [&'static str] = &["client", "relay", "server"];

    fn choices(&self) -> Vec<RelayedChoice> {
        let mut choices = Vec::new();
        self.fair_choices(&mut choices);
        for (&left, (operation, _)) in self.left.iter().zip(self.scenario.budget) {
            if left > 0 && self.is_of_use(operation) {
                choices.push(RelayedChoice::Host(*operation));
            }
        }
        choices
    }

    fn is_fair(&self, choice: &RelayedChoice) -> bool {
        let RelayedChoice::Host(operation) = choice else { return true };
        match *operation {
            Operation::Drain { .. } | Operation::Arrive { .. } | Operation::Respond { .. } => true,
            Operation::HangUp { at } => self.hosts[at as usize].is_over(),
            _ => false,
        }
    }

    fn take(&mut self, choice: &RelayedChoice) -> Result<(), Broken> {
        match choice {
            RelayedChoice::Host(operation) => {
                let mut budget = self.scenario.budget.iter();
                let place = budget.position(|(other, _)| other == operation);
                if let Some(place) = place.filter(|_| !self.is_fair(choice)) {
                    self.left[place] -= 1;
                }
                self.act(operation)?;
            }
            RelayedChoice::Leave(to) => self.leave(*to)?,
            RelayedChoice::Read(from, place) => self.read(*from, *place),
            RelayedChoice::HangUp(to) => {
                self.mark(Some(Mark::at(LANE_OF_RELAY, format!("hangs up on {}", end(*to)))));
                self.to_hosts[*to as usize].end();
            }
        }
        self.judge_cascade()
    }

    fn unsettled(&self) -> Option<Broken> {
        let unanswered = self.watches.iter().zip(ENDS).find_map(|(watch, at)| {
            // A peer that is gone is owed nothing.
            let id = watch.unanswered().filter(|_| !self.to_relay[at as usize].is_ended())?;
            let what = format!("the relay never answers request {id} of the {}", end(at));
            Some(Broken::new(Guarantee::G2, what))
        });
        unanswered.or_else(|| {
            self.hosts.iter().zip(ENDS).find_map(|(host, at)| {
                let (call, phase) = host.model().calls().next()?;
                let what = format!("call {call} of the {} never settles: {phase:?}", end(at));
                Some(Broken::new(Guarantee::G1, what))
            })
        })
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        self.hosts.hash(&mut state);
        self.to_hosts.hash(&mut state);
        self.to_relay.hash(&mut state);
        self.watches.hash(&mut state);
        self.left.hash(&mut state);
        for side in Side::BOTH {
            let connection = self.relay.connection(side);
            connection.machine().hash(&mut state);
            connection.config().dialect.name.hash(&mut state);
            connection.unsent_bytes().hash(&mut state);
            connection.calls().for_each(|call| call.hash(&mut state));
            connection.requests().for_each(|request| request.hash(&mut state));
        }
        ENDS.map(|to| self.unsent(to)).hash(&mut state);
        state.finish()
    }

    fn record(&mut self) {
        self.marks = Some(Vec::new());
    }

    fn take_marks(&mut self) -> Vec<Mark> {
        self.marks.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
