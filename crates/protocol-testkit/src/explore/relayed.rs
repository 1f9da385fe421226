//! Three peers: a client, a relay, a server, in every order.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::machine::CallPhase;
use protocol_core::{Config, RequestPhase, Role, Timestamp};
use protocol_record::Mark;
use protocol_relay::{Relay, Side};

use super::orderings::{Orderings, Scenario};
use super::system::System;
use crate::guarantee::{Broken, Guarantee};
use crate::hostile::unframed;
use crate::label::label;
use crate::link::Arrival;
use crate::operation::{ENDS, Operation, end};
use crate::watch::Watch;
use crate::world::{OPEN_SESSION, World, both_roles};

/// Every ordering of a [`Scenario`] between a client and a server with a real [`Relay`] between them. The hosts
/// are judged by their reference models. The relay is judged by its messages on either side, and by the
/// agreement of its two connections (G6).
///
/// The operations are the hosts' own; time stands still.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// The client and the server, and the lines between them and the relay.
    ends: Orderings,
    relay: Relay,
    /// The relay, seen from the client and from the server.
    watches: [Watch; 2],
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

const NOW: Timestamp = Timestamp::ZERO;

const fn side(of: Role) -> Side {
    match of {
        Role::Client => Side::Up,
        Role::Server => Side::Down,
    }
}

impl Relayed {
    /// Begins a scenario, with one dialect towards the client and one towards the server.
    ///
    /// There is a session from the beginning, if the scenario opens none and both dialects have one.
    ///
    /// # Panics
    ///
    /// If no session can be opened, or an operation of the budget is there twice or happens by itself.
    #[must_use]
    pub fn new(up: Config, down: Config, scenario: Scenario) -> Self {
        let has_sessions = [&up, &down].iter().all(|config| config.dialect.session.is_some());
        let watches = [&up, &down].map(|config| Watch::new(&config.dialect));
        let ([client, relay_up], [relay_down, server]) = (both_roles(up), both_roles(down));
        let world = World::around_a_relay([client, server]);
        let ends = Orderings::of(world, Scenario { timers: false, ..scenario });
        let new = Self { ends, relay: Relay::new(relay_up, relay_down), watches };
        if scenario.opens_session() || !has_sessions {
            return new;
        }
        new.in_session().unwrap_or_else(|broken| panic!("no session can be opened: {broken}"))
    }

    /// Opens the session, with nothing but fair choices.
    fn in_session(mut self) -> Result<Self, Broken> {
        self.ends.world.apply(&OPEN_SESSION)?;
        while let Some(choice) = self.choices().into_iter().find(|choice| self.is_fair(choice)) {
            self.take(&choice)?;
        }
        self.ends.world.forget_past();
        Ok(self)
    }

    /// Lets the next message of the relay leave.
    fn leave(&mut self, to: Role) -> Result<(), Broken> {
        let (world, mut framed) = (&mut self.ends.world, Vec::new());
        let ([_, lane], envelope) = (world.lanes(to), world.envelope(to));
        if let Some(transmit) = self.relay.poll_transmit(side(to), &mut framed) {
            world.mark(|| Mark::at(lane, format!("{} leaves", label(&framed, envelope))));
            self.watches[to as usize].writes(transmit.message(&framed))?;
            world.link_to_mut(to).send(framed);
        }
        Ok(())
    }

    fn read(&mut self, from: Role, place: u8) {
        let framing = self.ends.world.host(from).config().dialect.framing;
        let [lane, lane_of_relay] = self.ends.world.lanes(from);
        match self.ends.world.link_from_mut(from).arrive(place) {
            Some(Arrival::Message(message)) => {
                let envelope = self.ends.world.envelope(from);
                let words = || label(&message, envelope);
                self.ends.world.mark(|| Mark::arrow(lane, lane_of_relay, words()));
                for decided in self.unsent(from) {
                    self.watches[from as usize].decides(&decided);
                }
                self.watches[from as usize].reads(unframed(&message, framing));
                // Its events are for logs.
                let _ = self.relay.receive(side(from), &message, NOW);
            }
            Some(Arrival::End) => {
                self.ends.world.mark(|| Mark::arrow(lane, lane_of_relay, "end".into()));
                self.relay.handle_eof(side(from), &[], NOW);
            }
            None => {}
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

    /// Checks that a request which is cancelled on one side is cancelled on the other (G6).
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
}

impl System for Relayed {
    type Choice = RelayedChoice;

    const LANES: &'static [&'static str] = &["client", "relay", "server"];

    fn choices(&self) -> Vec<RelayedChoice> {
        let of_hosts = self.ends.choices().into_iter();
        let mut choices: Vec<_> = of_hosts.map(RelayedChoice::Host).collect();
        for at in ENDS {
            if self.relay.connection(side(at)).next_transmit_len().is_some() {
                choices.push(RelayedChoice::Leave(at));
            }
            let places = self.ends.world.link_from(at).arrivals();
            choices.extend(places.map(|place| RelayedChoice::Read(at, place)));
            if self.relay.is_over(side(at)) && !self.ends.world.link_to(at).is_ended() {
                choices.push(RelayedChoice::HangUp(at));
            }
        }
        choices
    }

    fn is_fair(&self, choice: &RelayedChoice) -> bool {
        match choice {
            RelayedChoice::Host(operation) => self.ends.is_fair(operation),
            _ => true,
        }
    }

    fn take(&mut self, choice: &RelayedChoice) -> Result<(), Broken> {
        match choice {
            RelayedChoice::Host(operation) => self.ends.take(operation)?,
            RelayedChoice::Leave(to) => self.leave(*to)?,
            RelayedChoice::Read(from, place) => self.read(*from, *place),
            RelayedChoice::HangUp(to) => {
                let [_, lane] = self.ends.world.lanes(*to);
                self.ends.world.mark(|| Mark::at(lane, format!("hangs up on {}", end(*to))));
                self.ends.world.link_to_mut(*to).end();
            }
        }
        self.judge_cascade()
    }

    fn unsettled(&self) -> Option<Broken> {
        let unanswered = self.watches.iter().zip(ENDS).find_map(|(watch, at)| {
            // A peer that is gone is owed nothing.
            let id = watch.unanswered().filter(|_| !self.ends.world.link_from(at).is_ended())?;
            let what = format!("the relay never answers request {id} of the {}", end(at));
            Some(Broken::new(Guarantee::G2, what))
        });
        unanswered.or_else(|| self.ends.world.unsettled())
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        (self.ends.fingerprint(), &self.watches).hash(&mut state);
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
        self.ends.record();
    }

    fn take_marks(&mut self) -> Vec<Mark> {
        self.ends.take_marks()
    }
}
