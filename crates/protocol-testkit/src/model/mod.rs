//! The reference model: the duties of a connection, as the simplest program that states them.
//!
//! It is written from the rules of the protocols and from the guarantees. It keeps maps and lists, looks
//! through all of them each time, and knows nothing of tables, slots or timer queues. After an operation it
//! lists the events for the host ([`Told`]), and the messages that leave ([`Sent`]) in their order. Anything
//! else that happens breaks a [`Guarantee`](crate::Guarantee).
//!
//! It leaves the length of messages open. Its caller judges whether one fits under a limit.

mod abp;
mod acknowledged;
mod commands;
mod dap;
mod inputs;
pub(crate) mod message;
mod outbox;
mod past;
pub(crate) mod reading;
mod revision;
mod seen;
mod steps;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use protocol_core::machine::CallPhase;
use protocol_core::{
    CancelRefusal, CapabilityRule, Cause, Config, Grace, RequestPhase, Settlement, Timestamp,
};

pub(crate) use message::Id;
pub(crate) use message::{Asked, Origin};
pub(crate) use revision::Rules;
pub(crate) use seen::token_member;
pub(crate) use seen::{Acknowledged, Answer, Sent, Told};

/// The duties of one connection. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    config: Rules,
    life: Life,
    /// Our calls in flight, by their number on the wire.
    calls: BTreeMap<u32, Call>,
    /// The numbers up to this one were issued: to calls and to cancels that are requests, and in DAP to
    /// all messages.
    issued: u32,
    /// Our numbers that belong to no call in flight, the oldest first; bounded. They may still be answered, or
    /// were withdrawn. They are those of calls that ended without an answer, and of cancels that are requests.
    past: VecDeque<(u32, Fate)>,
    /// The peer's requests, counted from 1, until they and the calls made for them are over.
    requests: BTreeMap<u64, Request>,
    accepted: u64,
    /// Cancels that came before their requests, the oldest first; bounded.
    early: VecDeque<Id>,
    exchange: Exchange,
    has_session: bool,
    /// The last requests that were answered, and whether they were cancelled, where an
    /// acknowledgement says so; bounded.
    finished: VecDeque<(Id, bool)>,
    /// The cancels that have to leave. They leave before everything else.
    cancels: VecDeque<Leaving>,
    bulk: VecDeque<Leaving>,
    /// By number: the batches that are not answered yet.
    batches: BTreeMap<u64, Batch>,
    opened: u64,
    /// The numbers of the peer's calls in flight that get no response, and no word that there is none.
    silenced: BTreeSet<u32>,
    /// Progress tokens of requests that ended in silence; bounded.
    retired: VecDeque<Id>,
    /// The events that the host has not had yet.
    told: VecDeque<Told>,
    is_told_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Open,
    Draining,
    Closed,
    Abandoned,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    phase: CallPhase,
    /// The end of the call if nobody answers. The first cancel decides it.
    ending: Option<(Settlement, Cause)>,
    /// The caller's wish for the time after a cancel. Without one the dialect decides.
    patience: Option<Grace>,
    deadline: Option<Timestamp>,
    idle: Option<(Duration, Timestamp)>,
    hard_cap: Option<Timestamp>,
    grace: Option<Timestamp>,
    /// The progress tokens that reset its idle time.
    tokens: Vec<Id>,
    parent: Option<u64>,
    /// The reason that it can't be cancelled on the wire.
    uncancellable: Option<CancelRefusal>,
    peer_may_end: bool,
    asked: Asked,
    settles: Settles,
    /// The number of its cancel, where that is a request, until it is acknowledged.
    cancel: Option<u32>,
}

/// The fate of a message of ours that no call in flight accounts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    /// It never leaves.
    Withdrawn,
    /// A call whose answer may still come.
    Unanswered,
    /// The same, and its cancel follows when that answer brings the token of an operation.
    Tokenless,
    /// It was answered after all.
    Answered,
    /// A cancel that has yet to leave.
    CancelQueued,
    /// A cancel that has yet to be acknowledged.
    CancelSent,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    id: Id,
    /// The destination of its answer, if the envelope says more than an id.
    origin: Option<Origin>,
    /// Whether it may go on as an operation.
    may_begin: bool,
    /// The token that was its answer: it goes on as an operation.
    token: Option<Id>,
    settles: Settles,
    phase: RequestPhase,
    cause: Option<Cause>,
    /// Whether the peer may cancel it at all.
    is_cancellable: bool,
    was_parent: bool,
    batch: Option<u64>,
    we_may_end: bool,
    /// The progress tokens that fall silent with it.
    tokens: Vec<Id>,
}

/// The facts about the connection that a result settles when it answers a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Settles {
    opens_session: bool,
    /// The declaration that the request makes, if it is the exchange of capabilities.
    declares: Option<bool>,
    /// The member of the result that names the revision, if it is an exchange that settles that.
    names_revision: Option<Cow<'static, str>>,
}

/// Whether the sides said that they can be asked to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Exchange {
    NotNeeded,
    Awaited,
    Done { ours: bool, peers: bool },
}

/// A message that has to leave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leaving {
    message: Sent,
    /// The number of our call that it is the request or the cancel of.
    call: Option<u32>,
    /// Whether it tells the peer what holds about cancels: none may overtake it.
    concludes: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Batch {
    unanswered: usize,
    answers: Vec<Answer>,
    is_read: bool,
    /// The facts about cancels that hold once its answers leave.
    concludes: Option<Conclusion>,
}

/// The facts about cancels that our answer to an exchange settles, as soon as it is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Conclusion {
    /// Whether we declared that we can be asked to cancel, and whether the peer did.
    declared: Option<(bool, bool)>,
    /// The rules of the revision that is spoken from then on.
    rules: Option<Rules>,
}

impl Model {
    /// Creates a connection with nothing in flight.
    pub(crate) fn new(config: Config) -> Self {
        let exchange = match config.dialect.capability {
            CapabilityRule::NotNeeded => Exchange::NotNeeded,
            CapabilityRule::Declared { .. } => Exchange::Awaited,
            ref other => panic!("the model does not know {other:?}"),
        };
        let has_session = config.dialect.session.is_none();
        Self {
            config: Rules::new(config),
            life: Life::Open,
            calls: BTreeMap::new(),
            issued: 0,
            past: VecDeque::new(),
            requests: BTreeMap::new(),
            accepted: 0,
            early: VecDeque::new(),
            exchange,
            has_session,
            finished: VecDeque::new(),
            cancels: VecDeque::new(),
            bulk: VecDeque::new(),
            batches: BTreeMap::new(),
            opened: 0,
            silenced: BTreeSet::new(),
            retired: VecDeque::new(),
            told: VecDeque::new(),
            is_told_closed: false,
        }
    }

    /// Returns the event that the host must get next.
    pub(crate) fn next_told(&self) -> Option<&Told> {
        self.told.front()
    }

    /// Takes the event that the host must get next.
    pub(crate) fn take_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// Returns our calls in flight by number, and how far they are.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (u32, CallPhase)> {
        self.calls.iter().map(|(&number, call)| (number, call.phase))
    }

    /// Returns the peer's requests that are not over, counted from 1, and how far they are.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (u64, RequestPhase)> {
        self.requests.iter().map(|(&number, request)| (number, request.phase))
    }

    /// Returns the number of requests that wait for an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.requests().filter(|(_, phase)| *phase != RequestPhase::Responded).count()
    }

    /// Returns whether the peer's call of this number gets no response, and no word that there is none.
    pub(crate) fn silences(&self, call: u32) -> bool {
        self.silenced.contains(&call)
    }

    /// Forgets which calls of the peer's were silenced, except for these, so that equal states stay equal.
    pub(crate) fn forget_silence(&mut self, is_in_flight: impl Fn(u32) -> bool) {
        self.silenced.retain(|&call| is_in_flight(call));
    }

    /// Returns whether nothing comes in any more.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed | Life::Abandoned)
    }

    /// Returns when the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.calls.values().filter_map(Call::next_timer).map(|(due, _)| due).min()
    }
}

// The meaning of phases and methods is written out here: the model asks nothing of the core that it judges.
impl Request {
    const fn awaits_response(&self) -> bool {
        !matches!(self.phase, RequestPhase::Responded)
    }

    const fn is_cancelled(&self) -> bool {
        use RequestPhase::{Cancelled, OperationCancelled, Silenced};
        matches!(self.phase, Cancelled | Silenced | OperationCancelled)
    }

    /// Returns whether its response was the token of an operation.
    const fn is_operation(&self) -> bool {
        matches!(self.phase, RequestPhase::Operation | RequestPhase::OperationCancelled)
    }
}

impl Call {
    /// Returns the first of its timers, and what it makes of the call: `None` for its grace.
    fn next_timer(&self) -> Option<(Timestamp, Option<Cause>)> {
        let timers = [
            (self.deadline, Some(Cause::Deadline)),
            (self.idle.map(|(_, due)| due), Some(Cause::IdleTimeout)),
            (self.hard_cap, Some(Cause::HardCap)),
            (self.grace, None),
        ];
        // `min_by_key` takes the first of equals.
        timers
            .into_iter()
            .filter_map(|(due, cause)| Some((due?, cause)))
            .min_by_key(|&(due, _)| due)
    }
}
