//! A host's own handler, in every order.

use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::{Config, Role, Timestamp};

use super::{Scenario, System};
use crate::chart::{Mark, label};
use crate::guarantee::{Broken, Guarantee};
use crate::host::Host;
use crate::hostile::{Hostile, framed, unframed};
use crate::link::Link;
use crate::operation::{Operation, end};
use crate::watch::Watch;
use crate::world::both_roles;

/// What serves requests, to be searched. Clones must be independent, and `Hash` must tell any two
/// of its states apart that can behave differently.
///
/// It speaks in whole messages without framing, so it may be anything: a handler on a
/// [`Connection`](protocol_core::Connection) of its own, or a server that knows nothing of us.
pub trait Handler: Clone + Hash {
    /// A message arrives; what it writes at once goes to `out`.
    fn receive(&mut self, message: &[u8], out: &mut Vec<Vec<u8>>);

    /// The end of input arrives.
    fn finish(&mut self, out: &mut Vec<Vec<u8>>) {
        let _ = out;
    }

    /// The pieces of work that can go on now, each in a word or two, all different.
    fn work(&self) -> Vec<String>;

    /// One of them goes on, and writes to `out`.
    fn go_on(&mut self, work: usize, out: &mut Vec<Vec<u8>>);
}

/// Every ordering of a [`Scenario`] between a correct client and a [`Handler`]. The client's part of
/// the budget counts, and what is [`Operation::Hostile`] towards the server.
///
/// The handler is judged by what it writes ([`Watch`]) and by what it leaves undone: when everything
/// has arrived and all its work is done, each request must be answered, or silent where the dialect
/// wants that. A scenario for a dialect with sessions has to open one: a call of
/// [`Method::Initialize`](crate::Method::Initialize) in its budget. See `examples/wrong_handler.rs`.
#[derive(Clone, Debug)]
pub struct Handling<H> {
    client: Host,
    handler: H,
    watch: Watch,
    to_handler: Link,
    to_client: Link,
    scenario: Scenario,
    left: Vec<u8>,
    marks: Option<Vec<Mark>>,
}

/// What can happen next to a client and a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlingChoice {
    /// The client does something.
    Client(Operation),
    /// The handler reads a message, or the end.
    Read(u8),
    /// A piece of the handler's work goes on.
    Work(usize, String),
}

impl std::fmt::Display for HandlingChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(operation) => operation.fmt(f),
            Self::Read(place) => write!(f, "handler read {place}"),
            Self::Work(_, work) => write!(f, "handler {work}"),
        }
    }
}

const CLIENT: usize = Role::Client as usize;
const HANDLER: usize = Role::Server as usize;
const NOW: Timestamp = Timestamp::ZERO;

impl<H: Handler> Handling<H> {
    /// The beginning of a scenario, with a handler that has seen nothing yet.
    #[must_use]
    pub fn new(config: Config, scenario: Scenario, handler: H) -> Self {
        let link = || Link::new(config.dialect.order, usize::MAX);
        Self {
            client: Host::new(both_roles(config.clone())[CLIENT].clone()),
            handler,
            watch: Watch::new(&config.dialect),
            to_handler: link(),
            to_client: link(),
            scenario,
            left: scenario.budget.iter().map(|&(_, times)| times).collect(),
            marks: None,
        }
    }

    fn config(&self) -> &Config {
        self.client.stream().connection().config()
    }

    fn is_of_use(&self, operation: &Operation) -> bool {
        match *operation {
            Operation::Cancel { at: Role::Client, call, .. }
            | Operation::Detach { at: Role::Client, call } => self.client.calls() > call.into(),
            Operation::Hostile { to: Role::Server, .. }
            | Operation::HangUp { at: Role::Client }
            | Operation::Cut => !self.to_handler.is_ended(),
            _ => operation.at() == Some(Role::Client),
        }
    }

    fn act(&mut self, operation: &Operation) -> Result<(), Broken> {
        let lane = operation.at().map_or(CLIENT, |at| at as usize);
        self.mark(operation.mark(lane));
        match *operation {
            Operation::Drain { .. } => {
                if let Some(message) = self.client.transmit()? {
                    self.mark(Some(Mark::at(CLIENT, format!("{} leaves", label(&message)))));
                    self.to_handler.send(message, NOW);
                }
                Ok(())
            }
            Operation::Arrive { place, .. } => match self.to_client.arrive(place.into()) {
                Some(message) => {
                    self.mark(Some(Mark::arrow(HANDLER, CLIENT, label(&message))));
                    self.client.receive(&message, 0, NOW)
                }
                None => {
                    self.to_client.arrive_end();
                    self.client.finish(NOW)
                }
            },
            Operation::Hostile { message, id, .. } => {
                let dialect = &self.config().dialect;
                let message = message.message(Hostile::id(id), dialect);
                self.to_handler.send(framed(&message, dialect.framing), NOW);
                Ok(())
            }
            Operation::HangUp { .. } => {
                self.to_handler.end();
                Ok(())
            }
            Operation::Cut => {
                self.to_handler.cut();
                self.to_client.cut();
                Ok(())
            }
            _ => self.client.act(operation, NOW),
        }
    }

    /// Judges and sends what the handler wrote.
    fn send(&mut self, out: Vec<Vec<u8>>) -> Result<(), Broken> {
        let framing = self.config().dialect.framing;
        for message in out {
            self.mark(Some(Mark::at(HANDLER, format!("{} leaves", label(&message)))));
            self.watch.writes(&message)?;
            self.to_client.send(framed(&message, framing), NOW);
        }
        Ok(())
    }

    fn read(&mut self, place: u8) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        if let Some(message) = self.to_handler.arrive(place.into()) {
            self.mark(Some(Mark::arrow(CLIENT, HANDLER, label(&message))));
            let message = unframed(&message, self.config().dialect.framing);
            self.watch.reads(message);
            self.handler.receive(message, &mut out);
        } else {
            self.to_handler.arrive_end();
            self.mark(Some(Mark::arrow(CLIENT, HANDLER, "end".into())));
            self.handler.finish(&mut out);
        }
        out
    }

    fn mark(&mut self, mark: Option<Mark>) {
        if let Some(marks) = &mut self.marks {
            marks.extend(mark);
        }
    }
}

impl<H: Handler> System for Handling<H> {
    type Choice = HandlingChoice;

    const LANES: &'static [&'static str] = &["client", "handler"];

    fn choices(&self) -> Vec<HandlingChoice> {
        let mut choices = Vec::new();
        let at = Role::Client;
        if self.client.has_transmit() {
            choices.push(HandlingChoice::Client(Operation::Drain { at, messages: 1 }));
        }
        for place in self.to_client.arrivals() {
            choices.push(HandlingChoice::Client(Operation::Arrive { at, place, piece: 0 }));
        }
        choices.extend(self.to_handler.arrivals().map(HandlingChoice::Read));
        let work = self.handler.work().into_iter().enumerate();
        choices.extend(work.map(|(number, work)| HandlingChoice::Work(number, work)));
        for (&left, (operation, _)) in self.left.iter().zip(self.scenario.budget) {
            if left > 0 && self.is_of_use(operation) {
                choices.push(HandlingChoice::Client(*operation));
            }
        }
        choices
    }

    fn is_fair(&self, choice: &HandlingChoice) -> bool {
        match choice {
            HandlingChoice::Client(operation) => {
                matches!(operation, Operation::Drain { .. } | Operation::Arrive { .. })
            }
            HandlingChoice::Read(_) | HandlingChoice::Work(..) => true,
        }
    }

    fn take(&mut self, choice: &HandlingChoice) -> Result<(), Broken> {
        let out = match choice {
            HandlingChoice::Client(operation) => {
                let mut budget = self.scenario.budget.iter();
                let place = budget.position(|(other, _)| other == operation);
                if let Some(place) = place.filter(|_| !self.is_fair(choice)) {
                    self.left[place] -= 1;
                }
                return self.act(operation);
            }
            HandlingChoice::Read(place) => self.read(*place),
            HandlingChoice::Work(number, work) => {
                self.mark(Some(Mark::at(HANDLER, work.clone())));
                let mut out = Vec::new();
                self.handler.go_on(*number, &mut out);
                out
            }
        };
        self.send(out)
    }

    fn unsettled(&self) -> Option<Broken> {
        let unanswered = self.watch.unanswered().filter(|_| !self.to_handler.is_ended());
        if let Some(id) = unanswered {
            let what = format!("the {} never answers request {id}", end(Role::Server));
            return Some(Broken::new(Guarantee::G2, what));
        }
        None
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        self.client.hash(&mut state);
        self.handler.hash(&mut state);
        self.watch.hash(&mut state);
        self.to_handler.hash(&mut state);
        self.to_client.hash(&mut state);
        self.left.hash(&mut state);
        state.finish()
    }

    fn record(&mut self) {
        self.marks = Some(Vec::new());
    }

    fn take_marks(&mut self) -> Vec<Mark> {
        self.marks.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
