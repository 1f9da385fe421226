//! Two real connections, in every order.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use protocol_core::machine::CallPhase;
use protocol_core::{Config, ResponseRule};

use super::system::System;
use protocol_record::Mark;

use crate::guarantee::{Broken, Guarantee};
use crate::operation::{Answering, ENDS, Method, Operation, end};
use crate::world::World;

/// Messages are read in pieces of so many bytes; the reference model reads them whole (G11).
const PIECE: u8 = 40;

/// The events of a search beside delivery and answers, and their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The name of the search in the file of counts.
    pub name: &'static str,
    /// Different operations that may each happen this many times, at any moment at which they do something. None of
    /// them happens by itself, as deliveries and responses do, or is the time that goes by.
    pub budget: &'static [(Operation, u8)],
    /// The ways in which hosts may answer.
    pub answers: &'static [Answering],
    /// Whether time may go by until the next timer fires.
    pub timers: bool,
}

impl Scenario {
    /// Returns whether it calls `initialize`. Else there is a session from its beginning, where the dialect
    /// has sessions.
    pub(crate) fn opens_session(&self) -> bool {
        self.budget.iter().any(|(operation, _)| {
            let Operation::Call { asked, .. } = operation else { return false };
            matches!(asked.method, Method::Declare | Method::Initialize)
        })
    }
}

/// Every ordering of a [`Scenario`] between two hosts that are judged by their reference models.
///
/// Delivery is fair, and so are answers: what was sent arrives or the line is cut, and each request
/// is answered some time. Time need not go by.
#[derive(Clone, Debug)]
pub struct Orderings {
    pub(super) world: World,
    rules: Arc<Rules>,
    /// Of each operation of the budget.
    left: Vec<u8>,
}

#[derive(Debug)]
struct Rules {
    scenario: Scenario,
    /// Whether a cancelled call is not answered.
    is_silent: bool,
}

impl Orderings {
    /// Begins a scenario between two such hosts, in a session if the scenario opens none.
    ///
    /// # Panics
    ///
    /// If no session can be opened, or an operation of the budget is there twice or happens by itself.
    #[must_use]
    pub fn new(configs: [Config; 2], scenario: Scenario) -> Self {
        let world = World::new(configs);
        let world = if scenario.opens_session() { Ok(world) } else { world.in_session() };
        let world = world.unwrap_or_else(|broken| panic!("no session can be opened: {broken}"));
        Self::of(world, scenario)
    }

    /// Returns the orderings of a scenario that begins in this world.
    pub(super) fn of(world: World, scenario: Scenario) -> Self {
        for (place, (operation, _)) in scenario.budget.iter().enumerate() {
            let happens_by_itself = matches!(
                operation,
                Operation::Drain { .. }
                    | Operation::Arrive { .. }
                    | Operation::Respond { .. }
                    | Operation::Wait { .. }
            );
            let is_there = scenario.budget[..place].iter().any(|(other, _)| other == operation);
            assert!(!happens_by_itself, "{}: \"{operation}\" happens by itself", scenario.name);
            assert!(!is_there, "{}: \"{operation}\" is in the budget twice", scenario.name);
        }
        let mut dialects = ENDS.into_iter().map(|at| &world.host(at).config().dialect);
        let is_silent = dialects.any(|dialect| dialect.response != ResponseRule::Required);
        let rules = Rules { scenario, is_silent };
        let left = scenario.budget.iter().map(|&(_, times)| times).collect();
        Self { world, rules: Arc::new(rules), left }
    }

    /// Plants a bug into both hosts that breaks this guarantee, to see that a search fails.
    ///
    /// Mostly the host loses the events of the guarantee, and its connection is right. For G12 each event comes twice.
    /// Messages are lost for G2, G4 and G11, and for G10 a refused command changes the connection.
    #[must_use]
    pub fn with_a_bug(mut self, breaks: Guarantee) -> Self {
        self.world.plant(breaks);
        self
    }

    /// Returns whether this operation of the budget would do something now.
    fn is_of_use(&self, operation: &Operation) -> bool {
        match *operation {
            Operation::Call { at, asked } => asked
                .parent
                .is_none_or(|parent| self.world.host(at).unanswered().contains(&parent.into())),
            Operation::Cancel { at, call, .. }
            | Operation::Detach { at, call }
            | Operation::SendCancel { at, call } => self.world.host(at).calls().len() > call.into(),
            Operation::GiveUp { at, request }
            | Operation::End { at, request }
            | Operation::Begin { at, request } => {
                self.world.host(at).unanswered().contains(&request.into())
            }
            Operation::Hostile { to, .. } if !self.world.has_relay() => {
                !self.world.link_to(to).is_ended()
            }
            Operation::Hostile { to: at, .. } | Operation::HangUp { at } => {
                !self.world.link_from(at).is_ended() && !self.world.host(at).is_over()
            }
            Operation::Cut => self.world.links().iter().any(|link| !link.is_ended()),
            _ => true,
        }
    }

    /// Returns whether a call waits for an answer that a dialect that wants silence does not bring: its caller
    /// chose a grace, and only time ends that.
    fn is_any_cancelling(&self) -> bool {
        let mut calls = ENDS.into_iter().flat_map(|at| self.world.host(at).model().calls());
        calls.any(|(_, phase)| !matches!(phase, CallPhase::Queued | CallPhase::Sent))
    }

    /// Adds the choices that fairness makes happen: everything leaves, arrives and is answered, and a host that
    /// is done hangs up.
    fn fair_choices(&self, choices: &mut Vec<Operation>) {
        for at in ENDS {
            let host = self.world.host(at);
            if host.has_transmit() {
                choices.push(Operation::Drain { at, messages: 1 });
            }
            if host.is_over() && !self.world.link_from(at).is_ended() {
                choices.push(Operation::HangUp { at });
            }
            for place in self.world.link_to(at).arrivals() {
                choices.push(Operation::Arrive { at, place, piece: PIECE });
            }
            for request in host.unanswered() {
                let answers = host.answers(request, self.rules.scenario.answers);
                let request = u8::try_from(request).unwrap_or(u8::MAX);
                choices.extend(answers.map(|answer| Operation::Respond { at, request, answer }));
            }
        }
    }
}

impl System for Orderings {
    type Choice = Operation;

    const LANES: &'static [&'static str] = &["client", "server"];

    fn choices(&self) -> Vec<Operation> {
        let mut choices = Vec::new();
        self.fair_choices(&mut choices);
        for (&left, (operation, _)) in self.left.iter().zip(self.rules.scenario.budget) {
            if left > 0 && self.is_of_use(operation) {
                choices.push(*operation);
            }
        }
        if let Some(wait) = self.world.next_timer().filter(|_| self.rules.scenario.timers) {
            let millis = u16::try_from(wait.as_millis()).unwrap_or(u16::MAX);
            choices.push(Operation::Wait { millis });
        }
        choices
    }

    fn is_fair(&self, choice: &Operation) -> bool {
        match *choice {
            Operation::Drain { .. } | Operation::Arrive { .. } | Operation::Respond { .. } => true,
            Operation::HangUp { at } => self.world.host(at).is_over(),
            Operation::Wait { .. } => self.rules.is_silent && self.is_any_cancelling(),
            _ => false,
        }
    }

    fn take(&mut self, choice: &Operation) -> Result<(), Broken> {
        if !self.is_fair(choice) {
            let mut budget = self.rules.scenario.budget.iter();
            if let Some(place) = budget.position(|(operation, _)| operation == choice) {
                self.left[place] -= 1;
            }
        }
        self.world.apply(choice)
    }

    fn unsettled(&self) -> Option<Broken> {
        self.world.unsettled()
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        self.world.hash(&mut state);
        self.left.hash(&mut state);
        state.finish()
    }

    fn record(&mut self) {
        self.world.record();
    }

    fn take_marks(&mut self) -> Vec<Mark> {
        self.world.take_marks()
    }
}

impl World {
    /// Returns the first call in flight, which nothing fair settles any more. One whose request was silenced may
    /// wait for ever: somebody other than its caller cancelled it, or its stream was closed, which is up to HTTP.
    pub(super) fn unsettled(&self) -> Option<Broken> {
        ENDS.into_iter().find_map(|at| {
            let peer = self.host(at.other()).model();
            let (call, phase) =
                self.host(at).model().calls().find(|(call, _)| !peer.silences(*call))?;
            let what = format!("call {call} of the {} never settles: {phase:?}", end(at));
            Some(Broken::new(Guarantee::G1, what))
        })
    }

    /// Returns the time until the next timer of either host.
    fn next_timer(&self) -> Option<Duration> {
        let timers = ENDS.map(|at| self.host(at).model().next_timer());
        let due = timers.into_iter().flatten().min()?;
        // Whole milliseconds, so that the phrase of the choice says it all.
        Some(due.since(self.now()).max(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use protocol_core::{Dialect, Role};

    use super::*;
    use crate::hostile::Hostile;
    use crate::operation::Asked;
    use crate::world::both_roles;

    const fn cancel(id: u8) -> Operation {
        Operation::Hostile { to: Role::Server, message: Hostile::Cancel, id }
    }

    const CALL: Operation = Operation::Call { at: Role::Client, asked: Asked::work(1) };
    const CANCELS: [Operation; 2] = [cancel(0), cancel(1)];
    const DRAIN: Operation = Operation::Drain { at: Role::Client, messages: 1 };

    /// Returns what is unsettled after two calls, one of which somebody cancels. The request of the first may be lost.
    fn unsettled(is_first_lost: bool) -> Option<String> {
        let scenario = Scenario {
            name: "two calls",
            budget: &[(CALL, 2), (CANCELS[0], 1), (CANCELS[1], 1)],
            answers: &[Answering::Result],
            timers: false,
        };
        let config = Config::client(Dialect::MCP_2025_11_25);
        let mut orderings = Orderings::new(both_roles(config), scenario);
        let take = |orderings: &mut Orderings, choices: &[Operation]| {
            choices.iter().for_each(|choice| orderings.take(choice).expect("it is right"));
        };
        take(&mut orderings, &[CALL, CALL, DRAIN]);
        if is_first_lost {
            let _ = orderings.world.link_to_mut(Role::Server).arrive(0);
        }
        take(&mut orderings, &[DRAIN, CANCELS[usize::from(is_first_lost)]]);
        while let Some(fair) = orderings.choices().into_iter().find(|it| orderings.is_fair(it)) {
            take(&mut orderings, &[fair]);
        }
        orderings.unsettled().map(|broken| broken.what)
    }

    #[test]
    fn g01_a_call_may_wait_for_ever_only_if_its_own_request_was_silenced() {
        assert_eq!(unsettled(false), None);
        let lost = unsettled(true).expect("a request was lost");
        assert!(lost.starts_with("call 1 of the client never settles"), "{lost}");
    }
}
