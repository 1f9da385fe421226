//! The machine that decides: ids, phases, causes, timers, parents. No bytes, no JSON, no payloads.
//!
//! Feed it inputs; after each, take what it wants done from [`Machine::poll_action`] until that is
//! empty. [`Connection`](crate::Connection) does so and carries the actions out on messages. The
//! machine is `Clone + Eq + Hash`, so that its state space can be searched.

mod abandoned;
mod action;
mod calls;
mod commands;
mod consent;
mod inputs;
mod requests;
mod slots;
mod table;
mod timers;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

pub use abandoned::StrayResponse;
pub use action::{Action, Answer, CancelOutcome, CancelReceipt, RequestRefusal, Settlement};
pub use calls::CallId;
pub use consent::{CancelRefusal, PeerCancels};
pub use requests::RequestHandle;
pub use table::{
    CALL_TABLE, CallInput, CallPhase, CallStep, REQUEST_TABLE, RequestInput, RequestPhase,
    RequestStep, Transition,
};
pub use timers::TimerReason;

use crate::cause::{Cause, CloseReason};
use crate::config::{Config, OverLimit};
use crate::dialect::{CancelRule, Cancellers, CapabilityRule, Grace, Role};
use crate::id::WireId;
use crate::time::Timestamp;
use abandoned::{Abandoned, Fate};
use calls::Calls;
pub(crate) use consent::RecentIds;
use requests::{Owes, Request, RequestSlot, Requests, Tree};
use timers::Timers;

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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    config: Config,
    life: Life,
    input: Input,
    calls: Calls,
    requests: Requests,
    timers: Timers,
    abandoned: Abandoned,
    /// The cancels that came before their requests.
    early: RecentIds,
    /// The requests that are answered, where a cancel of one is acknowledged.
    finished: RecentIds<CancelReceipt>,
    /// Why, as far as was declared, no call can be cancelled on the wire, if none can.
    undeclared: Option<CancelRefusal>,
    /// Whether, as far as was declared, the peer's cancels are obeyed.
    cancels: PeerCancels,
    actions: VecDeque<Action>,
}

/// Whether the message that is being taken has more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Input {
    Finished,
    Unfinished,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Open,
    /// Shutting down: nothing new, and closed once nothing is in flight.
    Draining,
    /// Nothing comes in any more; what the host still answers is sent.
    Closed,
    /// Nothing comes in or goes out any more.
    Abandoned,
}

impl Machine {
    /// A machine with nothing in flight.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let exchange_is_needed = config.dialect.capability != CapabilityRule::NotNeeded;
        Self {
            config,
            early: RecentIds::new(),
            finished: RecentIds::new(),
            undeclared: exchange_is_needed.then_some(CancelRefusal::BeforeExchange),
            cancels: if exchange_is_needed { PeerCancels::Ignored } else { PeerCancels::Obeyed },
            life: Life::Open,
            input: Input::Finished,
            calls: Calls::new(),
            requests: Requests::new(),
            timers: Timers::default(),
            abandoned: Abandoned::new(config.limits.abandoned_ids),
            actions: VecDeque::new(),
        }
    }

    // Outputs

    /// The next thing to do. To be drained after every command and input.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions
            .pop_front()
            .or_else(|| if self.has_more() { self.close_drained() } else { None })
    }

    /// Whether [`poll_action`](Self::poll_action) may have anything.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.assert_consistent();
        !self.actions.is_empty() || self.life == Life::Draining
    }

    /// Takes the next action, for whoever knew that it would be this one and does it at once.
    #[inline]
    pub(crate) fn take_action(&mut self, expected: Action) {
        let next = self.actions.pop_front();
        debug_assert_eq!(next, Some(expected), "the action that was known before");
    }

    /// Takes the next action if it is one that `wanted` makes something of, for whoever does it at once.
    #[inline]
    pub(crate) fn take_action_if<T>(
        &mut self,
        wanted: impl FnOnce(&Action) -> Option<T>,
    ) -> Option<T> {
        let taken = wanted(self.actions.front()?)?;
        self.actions.pop_front();
        Some(taken)
    }

    fn close_drained(&mut self) -> Option<Action> {
        let idle = self.calls.len() == 0 && self.requests.unanswered() == 0;
        if !idle || self.input == Input::Unfinished {
            return None;
        }
        self.life = Life::Closed;
        Some(Action::Close { reason: CloseReason::Shutdown })
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        self.timers.next().map(|(due, _, reason)| (due, reason))
    }

    // Getters

    /// The configuration it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
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

    /// Whether nothing comes in any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed | Life::Abandoned)
    }

    /// The call in flight with this wire number.
    #[must_use]
    pub fn call_numbered(&self, number: u32) -> Option<CallId> {
        self.calls.by_number(number)
    }

    /// Whether a response with this wire number could settle a call.
    #[must_use]
    pub fn expects_response(&self, number: u32) -> bool {
        let phase = self.calls.by_number(number).and_then(|call| self.call_phase(call));
        phase.is_some_and(|phase| phase != CallPhase::Queued)
    }

    /// The phase of a call; `None` once it has settled.
    #[must_use]
    pub fn call_phase(&self, call: CallId) -> Option<CallPhase> {
        self.calls.get(call).map(|entry| entry.phase)
    }

    /// Why a call was cancelled, if it was and still waits for its answer.
    #[must_use]
    pub fn call_cause(&self, call: CallId) -> Option<Cause> {
        self.calls.get(call)?.ending.map(|(_, cause)| cause)
    }

    /// Our calls in flight, in the order they were made.
    #[must_use]
    pub fn calls_in_order(&self) -> Vec<CallId> {
        self.calls.in_order()
    }

    /// The peer's requests that wait for our answer, in the order they came.
    #[must_use]
    pub fn requests_in_order(&self) -> Vec<RequestHandle> {
        self.requests.unanswered_in_order()
    }

    /// The phase of a request; `None` once it and its calls have settled.
    #[must_use]
    pub fn request_phase(&self, request: RequestHandle) -> Option<RequestPhase> {
        self.requests.get(request).map(|entry| entry.phase)
    }

    /// Why a request was cancelled, if it was and is not settled.
    #[must_use]
    pub fn request_cause(&self, request: RequestHandle) -> Option<Cause> {
        self.requests.get(request)?.cause
    }

    /// The wire id of a request that is not settled yet.
    #[must_use]
    pub fn request_id(&self, request: RequestHandle) -> Option<&WireId> {
        self.requests.get(request).map(|entry| &entry.id)
    }

    /// The unsettled request with this wire id.
    pub(crate) fn request_named(&self, id: &WireId) -> Option<RequestHandle> {
        self.requests.by_id(id)
    }

    /// Whether a request over [`Limits::requests`](crate::Limits::requests) ends the connection.
    pub(crate) fn closes_over_limit(&self) -> bool {
        self.config.over_limit == OverLimit::Close
    }

    /// Why no call can be cancelled on the wire, if none can.
    #[must_use]
    pub fn refusal(&self) -> Option<CancelRefusal> {
        match (self.config.dialect.cancellers, self.config.role) {
            (Cancellers::Client { .. }, Role::Server) => Some(CancelRefusal::NotOurs),
            (Cancellers::Client { .. }, Role::Client) | (Cancellers::Both, _) => self.undeclared,
        }
    }

    /// Why this call can't be cancelled on the wire, if it can't.
    #[must_use]
    pub fn call_refusal(&self, call: CallId) -> Option<CancelRefusal> {
        self.calls.get(call)?.refusal.or_else(|| self.refusal())
    }

    /// Whether any of the peer's cancels is obeyed.
    fn peer_cancels(&self) -> PeerCancels {
        match (self.config.dialect.cancellers, self.config.role) {
            (Cancellers::Client { .. }, Role::Client) => PeerCancels::Ignored,
            (Cancellers::Client { .. }, Role::Server) | (Cancellers::Both, _) => self.cancels,
        }
    }

    // Steps

    fn cancel_within(
        &mut self,
        call: CallId,
        cause: Cause,
        grace: Grace,
        now: Timestamp,
    ) -> CancelOutcome {
        let settlement =
            if cause.is_timer() { Settlement::TimedOut } else { Settlement::Cancelled };
        self.record_ending(call, settlement, cause);
        let input = match (self.config.dialect.cancel, grace) {
            (CancelRule::Local | CancelRule::ClosedStream, _) => CallInput::Forget,
            (
                CancelRule::Notification { .. } | CancelRule::Request { .. },
                Grace::Settle(Duration::ZERO),
            ) => CallInput::CancelNow,
            (CancelRule::Notification { .. } | CancelRule::Request { .. }, _) => CallInput::Cancel,
        };
        let step = self.step_call(call, input);
        if let Grace::Settle(grace) = grace {
            self.shorten_grace(call, grace, now);
        }
        match step {
            CallStep::Withdraw => CancelOutcome::Withdrawn,
            CallStep::SendCancel | CallStep::SendCancelAndSettle => CancelOutcome::Sent,
            CallStep::Settle => CancelOutcome::Settled,
            _ => CancelOutcome::AlreadySent,
        }
    }

    /// Looks the transition up and carries its step out.
    fn step_call(&mut self, call: CallId, input: CallInput) -> CallStep {
        let Some(entry) = self.calls.get_mut(call) else { return CallStep::Nothing };
        let before = entry.phase;
        let Transition { next, step } = before.on(input);
        if let Some(next) = next {
            entry.phase = next;
        }
        let number = call.number();
        match step {
            CallStep::Nothing | CallStep::Stray => {}
            CallStep::Withdraw => {
                self.actions.push_back(Action::Withdraw { call });
                self.settle_here(call, Fate::Withdrawn);
            }
            CallStep::Settle => self.settle_here(call, Fate::Left),
            CallStep::SendCancel => self.actions.push_back(Action::SendCancel { call, number }),
            CallStep::SendCancelAndSettle => {
                self.settle_here(call, Fate::Left);
                self.actions.push_back(Action::SendCancel { call, number });
            }
            CallStep::Complete => {
                self.recall_cancel(call, before);
                let settlement = match input {
                    CallInput::Result => Settlement::Result,
                    CallInput::Malformed => Settlement::Malformed,
                    _ => Settlement::Error,
                };
                self.settle(call, settlement, None);
            }
            CallStep::CompleteCancelled => {
                let cause = entry.ending.map(|(_, cause)| cause);
                self.recall_cancel(call, before);
                self.settle(call, Settlement::Cancelled, cause);
            }
        }
        step
    }

    /// The call is answered, in this phase: a cancel that has not left has nothing to cancel any more. (When we
    /// settle it ourselves it still has to leave: the peer is at work, B18.)
    fn recall_cancel(&mut self, call: CallId, before: CallPhase) {
        if before == CallPhase::Cancelling {
            self.actions.push_back(Action::Withdraw { call });
        }
    }

    /// Settles a call without an answer; a late one will be recognised.
    fn settle_here(&mut self, call: CallId, fate: Fate) {
        let entry = self.calls.get(call).expect("step_call found it");
        let (settlement, cause) =
            entry.ending.expect("whoever settles here records an ending first");
        self.abandoned.insert(call.number(), fate);
        self.settle(call, settlement, Some(cause));
    }

    fn settle(&mut self, call: CallId, settlement: Settlement, cause: Option<Cause>) {
        let entry = self.calls.remove(call).expect("step_call found it");
        self.timers.remove(call);
        self.actions.push_back(Action::CompleteCall { call, settlement, cause });
        self.leave_tree(call, entry.parent);
    }

    fn leave_tree(&mut self, call: CallId, parent: Option<RequestSlot>) {
        if let Some(parent) = parent.and_then(|slot| self.requests.in_slot(slot)) {
            self.requests.remove_child(parent, call);
            self.end_tree(parent);
        }
    }

    fn end_tree(&mut self, request: RequestHandle) {
        if self.requests.remove_if_settled(request) == Some(Tree::Parent) {
            self.actions.push_back(Action::TreeSettled { request });
        }
    }

    fn record_ending(&mut self, call: CallId, settlement: Settlement, cause: Cause) {
        if let Some(entry) = self.calls.get_mut(call) {
            entry.ending.get_or_insert((settlement, cause));
        }
    }

    fn shorten_grace(&mut self, call: CallId, grace: Duration, now: Timestamp) {
        if self.calls.get(call).is_some() {
            let due = now + grace;
            self.timers.update(call, |timers| {
                timers.grace = Some(timers.grace.map_or(due, |earlier| earlier.min(due)));
            });
        }
    }

    fn lose_calls(&mut self, cause: Cause) {
        for call in self.calls.in_order() {
            if let Some(entry) = self.calls.get_mut(call) {
                entry.ending = Some((Settlement::ConnectionLost, cause));
            }
            self.step_call(call, CallInput::Forget);
        }
    }

    fn cancel_requests(&mut self, cause: Cause, now: Timestamp) {
        for request in self.requests.unanswered_in_order() {
            self.cancel_request(request, cause, now);
        }
    }

    fn assert_consistent(&self) {
        self.calls.assert_consistent();
        self.requests.assert_consistent();
        self.timers.assert_consistent();
    }
}
