//! The machine that decides: ids, phases, causes, timers, parents. No bytes, no JSON, no payloads.
//!
//! It keeps one row for each of our calls (with the host's `C` in it) and one for each of the peer's
//! requests (with `R` in it). Every command and input looks its cell up in the tables of `table.rs`, carries
//! the step out on the row, and returns what it decided; what follows for other calls and requests is
//! queued, to be taken from [`Machine::poll_action`] until that is empty.
//! [`Connection`](crate::Connection) does so, and carries everything out on messages.

mod action;
mod calls;
mod commands;
mod inputs;
mod progress;
mod recent;
mod requests;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod timers;

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};

pub use action::{Action, CancelOutcome, CancelRefusal, Completion, ResponseKind, Settlement};
pub use calls::CallId;
pub use requests::RequestHandle;
pub use table::{CallPhase, RequestPhase, RequestStep};
pub use timers::TimerReason;

use crate::cause::Cause;
use crate::config::Config;
use crate::dialect::{CancelRule, Cancellers, CapabilityRule, Role};
use crate::id::WireId;
use crate::time::Timestamp;
use calls::{Calls, Named};
use progress::ProgressTokens;
use recent::RecentIds;
use requests::Requests;
use table::Life;

/// Decides what every input means; see the [module](self).
///
/// - **commands**: [`call`](Self::call), [`cancel`](Self::cancel), [`detach`](Self::detach),
///   [`respond`](Self::respond), [`end_request`](Self::end_request),
///   [`cancel_request`](Self::cancel_request), [`shutdown`](Self::shutdown)
/// - **inputs**: [`transmitted`](Self::transmitted), [`receive_request`](Self::receive_request),
///   [`receive_cancel`](Self::receive_cancel), [`receive_response`](Self::receive_response),
///   [`progress`](Self::progress), [`handle_timeout`](Self::handle_timeout),
///   [`close`](Self::close)
/// - **outputs**: [`poll_action`](Self::poll_action), [`poll_timeout`](Self::poll_timeout)
/// - **getters**: the rest
#[derive(Clone, Debug)]
pub struct Machine<C, R> {
    config: Config,
    life: Life,
    /// Whether a message of many parts is being taken: nothing of it is lost by closing in its middle.
    is_in_batch: bool,
    calls: Calls<C>,
    requests: Requests<R>,
    /// The numbers of messages of ours that no row names any more (G12).
    past: RecentIds<u32, Fate>,
    /// The cancels that came before their requests.
    early: RecentIds<WireId, ()>,
    /// What a cancel of an answered request meets, where it is acknowledged.
    finished: RecentIds<WireId, RequestStep>,
    /// The progress tokens of calls that have an idle timeout.
    awaited: ProgressTokens<CallId>,
    /// The progress tokens of requests whose progress is withheld once they are cancelled.
    withheld: ProgressTokens<RequestHandle>,
    /// The tokens of requests that ended in silence.
    retired: RecentIds<WireId, ()>,
    /// Why, as far as was declared, no call can be cancelled on the wire, if none can.
    undeclared: Option<CancelRefusal>,
    /// Whether, as far as was declared, the peer's cancels are obeyed.
    peer_may_cancel: bool,
    /// What follows from a decision for others than those it was asked about.
    cascade: VecDeque<Action<C>>,
}

/// What became of a message of ours whose row is gone or never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    /// It was withdrawn: the peer never saw that number.
    Withdrawn,
    /// Its call was settled here: the peer may still answer.
    Left,
    /// As `Left`, and its cancel follows if the answer brings a token.
    TokenAwaited,
    /// It was answered, late.
    Answered,
    /// It is a cancel that waits in the outbox.
    CancelQueued,
    /// It is a cancel that the peer has yet to acknowledge.
    CancelSent,
}

impl<C, R: Default> Machine<C, R> {
    /// The bytes of a call's row.
    pub(crate) const CALL_ROW: usize = size_of::<calls::Call<C>>();
    /// The bytes of what few calls have.
    pub(crate) const CALL_RARE: usize = size_of::<calls::Rare>();
    /// The bytes of a request's row.
    pub(crate) const REQUEST_ROW: usize = size_of::<requests::Request<R>>();

    /// A machine with nothing in flight.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let exchange_is_needed = config.dialect.capability != CapabilityRule::NotNeeded;
        let life = if config.dialect.session.is_some() { Life::Opening } else { Life::Open };
        Self {
            life,
            is_in_batch: false,
            calls: Calls::new(),
            requests: Requests::new(),
            past: RecentIds::new(),
            early: RecentIds::new(),
            finished: RecentIds::new(),
            awaited: ProgressTokens::new(),
            withheld: ProgressTokens::new(),
            retired: RecentIds::new(),
            undeclared: exchange_is_needed.then_some(CancelRefusal::BeforeExchange),
            peer_may_cancel: !exchange_is_needed,
            cascade: VecDeque::new(),
            config,
        }
    }

    // Outputs

    /// The next thing to do of what follows from the decisions made so far. To be drained after every
    /// command and input.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action<C>> {
        self.assert_consistent();
        if self.life == Life::Draining && self.cascade.is_empty() {
            self.close_if_idle();
        }
        self.cascade.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        self.calls.next_timer().map(|(due, _, reason)| (due, reason))
    }

    // Getters

    /// The configuration it was made with, in the dialect that is spoken now.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether nothing comes in any more.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed | Life::Abandoned)
    }

    /// Our calls in flight.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// The peer's requests that wait for our answer.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.requests.unanswered()
    }

    /// The call in flight whose request has this wire number, and the host's data of it.
    #[must_use]
    pub fn call_numbered(&self, number: u32) -> Option<(CallId, &C)> {
        match self.calls.named(number)? {
            Named::Call(place) => Some(self.calls.row(place)).map(|row| (row.id, &row.data)),
            Named::CancelOf(_) => None,
        }
    }

    /// Whether this is the wire number of a cancel of ours that waits for its answer.
    #[must_use]
    pub fn is_cancel(&self, number: u32) -> bool {
        match self.calls.named(number) {
            Some(Named::CancelOf(_)) => true,
            Some(Named::Call(_)) => false,
            None => matches!(self.past.get(&number), Some(Fate::CancelQueued | Fate::CancelSent)),
        }
    }

    /// Whether a response with this wire number could be one to a call in flight, or to the cancel of
    /// one: that message has left.
    #[must_use]
    pub fn expects_response(&self, number: u32) -> bool {
        match self.calls.named(number) {
            Some(Named::Call(call)) => self.calls.row(call).phase != CallPhase::Queued,
            Some(Named::CancelOf(call)) => matches!(
                self.calls.row(call).phase,
                CallPhase::Cancelling | CallPhase::AwaitingAcknowledgement
            ),
            None => false,
        }
    }

    /// The phase of a call; `None` once it has settled.
    #[must_use]
    pub fn call_phase(&self, call: CallId) -> Option<CallPhase> {
        self.calls.get(call).map(|row| row.phase)
    }

    /// Why a call was cancelled, if it was and still waits for its answer.
    #[must_use]
    pub fn call_cause(&self, call: CallId) -> Option<Cause> {
        self.calls.get(call)?.ending.map(|(_, cause)| cause)
    }

    /// The host's data on a call in flight.
    pub fn call_data_mut(&mut self, call: CallId) -> Option<&mut C> {
        self.calls.get_mut(call).map(|row| &mut row.data)
    }

    /// Our calls in flight with the host's data on them, in the order they were made.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &C)> {
        let calls = self.calls.in_order().into_iter();
        calls.filter_map(|call| Some((call, &self.calls.get(call)?.data)))
    }

    /// The peer's unanswered requests with the host's data on them, in the order they came.
    pub fn requests(&self) -> impl Iterator<Item = (RequestHandle, &R)> {
        let requests = self.requests.unanswered_in_order().into_iter();
        requests.filter_map(|it| Some((it, &self.requests.get(it)?.data)))
    }

    /// The unanswered request with this wire id.
    #[must_use]
    pub fn request_named(&self, id: &WireId) -> Option<RequestHandle> {
        self.requests.by_id(id)
    }

    /// The phase of a request; `None` once it and its calls have settled.
    #[must_use]
    pub fn request_phase(&self, request: RequestHandle) -> Option<RequestPhase> {
        self.requests.get(request).map(|row| row.phase)
    }

    /// Why a request was cancelled, if it was and is not settled.
    #[must_use]
    pub fn request_cause(&self, request: RequestHandle) -> Option<Cause> {
        self.requests.get(request)?.cause
    }

    /// The wire id of a request that waits for its answer. The token of an operation is a secret, and
    /// not told.
    #[must_use]
    pub fn request_id(&self, request: RequestHandle) -> Option<&WireId> {
        let row = self.requests.get(request).filter(|row| !row.phase.is_operation())?;
        row.id.as_ref()
    }

    /// The host's data on an unanswered request.
    #[must_use]
    pub fn request_data(&self, request: RequestHandle) -> Option<&R> {
        let row = self.requests.get(request).filter(|row| row.phase.awaits_response())?;
        Some(&row.data)
    }

    /// The host's data on an unanswered request.
    pub fn request_data_mut(&mut self, request: RequestHandle) -> Option<&mut R> {
        let row = self.requests.get_mut(request).filter(|row| row.phase.awaits_response())?;
        Some(&mut row.data)
    }

    /// The token of a request's operation, if it goes on as one.
    pub(crate) fn operation_token(&self, request: RequestHandle) -> Option<&WireId> {
        let row = self.requests.get(request).filter(|row| row.phase.is_operation())?;
        row.id.as_ref()
    }

    /// Why no call can be cancelled on the wire, if none can.
    #[must_use]
    pub fn refusal(&self) -> Option<CancelRefusal> {
        let is_ruled_out = self.config.role == Role::Server && self.only_clients_cancel();
        is_ruled_out.then_some(CancelRefusal::NotOurs).or(self.undeclared)
    }

    /// Whether the peer's cancels are obeyed, as far as its role and consent go.
    fn obeys_cancels(&self) -> bool {
        let is_ruled_out = self.config.role == Role::Client && self.only_clients_cancel();
        self.peer_may_cancel && !is_ruled_out
    }

    const fn only_clients_cancel(&self) -> bool {
        matches!(self.config.dialect.cancellers, Cancellers::Client { .. })
    }

    /// Why this call can't be cancelled on the wire, if it can't.
    #[must_use]
    pub fn call_refusal(&self, call: CallId) -> Option<CancelRefusal> {
        self.calls.get(call)?.refusal.or_else(|| self.refusal())
    }

    /// Whether a cancel says what became of the request that it names.
    const fn cancels_are_acknowledged(&self) -> bool {
        matches!(self.config.dialect.cancel, CancelRule::Request { .. })
    }

    fn assert_consistent(&self) {
        self.calls.assert_consistent();
        self.requests.assert_consistent();
        debug_assert!(
            self.calls.len() > 0 || self.awaited.is_empty(),
            "only calls in flight have progress tokens"
        );
    }
}

/// Hashes what decides the machine's future, for searches through its states. Two machines that hash
/// alike do the same from now on, but for the slots that handles of later requests hold. The host's
/// data tells no two states apart, and neither does the configuration, but for the dialect: peers can
/// agree on another one while they speak. There is no equality, for the tables can be equal while
/// their free places are not.
impl<C, R> Hash for Machine<C, R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.config.dialect.name.hash(state);
        (self.life, self.is_in_batch).hash(state);
        (self.undeclared, self.peer_may_cancel).hash(state);
        (&self.calls, &self.requests, &self.past, &self.early, &self.finished).hash(state);
        (&self.awaited, &self.withheld, &self.retired).hash(state);
        self.cascade.len().hash(state);
    }
}
