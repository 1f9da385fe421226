//! The machine that decides: ids, phases, causes, timers, parents. No bytes, no JSON, no payloads.
//!
//! Feed it inputs; after each, take what it wants done from [`Machine::poll_action`] until that is
//! empty. [`Connection`](crate::Connection) does so and carries the actions out on messages. The
//! machine is `Clone + Eq + Hash`, so that its state space can be searched.

mod abandoned;
mod action;
mod calls;
mod requests;
mod slots;
mod table;
mod timers;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

pub use abandoned::StrayResponse;
pub use action::{Action, Answer, CancelOutcome, RequestRefusal, Settlement};
pub use calls::CallId;
pub use requests::RequestHandle;
pub use table::{
    CALL_TABLE, CallInput, CallPhase, CallStep, REQUEST_TABLE, RequestInput, RequestPhase,
    RequestStep, Transition,
};
pub use timers::TimerReason;

use crate::cause::{Cause, CloseReason};
use crate::config::{CallOptions, Config, OverLimit, Shutdown};
use crate::dialect::{AnswerRule, CancelRule, Grace};
use crate::error::Refusal;
use crate::id::WireId;
use crate::time::Timestamp;
use abandoned::{Abandoned, Fate};
use calls::Calls;
use requests::{Requests, Tree};
use timers::{Idle, Timers};

/// Decides what every input means; see the [module](self).
///
/// - **commands**: [`call`](Self::call), [`cancel`](Self::cancel), [`detach`](Self::detach),
///   [`respond`](Self::respond), [`cancel_request`](Self::cancel_request),
///   [`shutdown`](Self::shutdown)
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
    calls: Calls,
    requests: Requests,
    timers: Timers,
    abandoned: Abandoned,
    actions: VecDeque<Action>,
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
        Self {
            config,
            life: Life::Open,
            calls: Calls::new(),
            requests: Requests::new(),
            timers: Timers::default(),
            abandoned: Abandoned::new(config.limits.abandoned_ids),
            actions: VecDeque::new(),
        }
    }

    // Commands

    /// Judges whether [`call`](Self::call) would be taken now, and says under which wire number.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn admit_call(&self, options: &CallOptions) -> Result<u32, Refusal> {
        let parent_lives = match options.parent {
            None => false,
            Some(parent) => match self.requests.get(parent).map(|entry| entry.phase) {
                Some(RequestPhase::Running | RequestPhase::Cancelled) => true,
                Some(RequestPhase::Answered) | None => return Err(Refusal::UnknownParent),
            },
        };
        match self.life {
            Life::Closed | Life::Abandoned => Err(Refusal::Closed),
            Life::Draining if !parent_lives => Err(Refusal::ShuttingDown),
            _ if self.calls.len() >= self.config.limits.calls => Err(Refusal::TooManyCalls),
            _ => Ok(self.calls.next_id().number()),
        }
    }

    /// Makes a call. On behalf of a request that is cancelled already, it is made and withdrawn.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`] or
    /// [`Refusal::UnknownParent`]; the machine is as it was.
    pub fn call(&mut self, options: &CallOptions, now: Timestamp) -> Result<CallId, Refusal> {
        let number = self.admit_call(options)?;
        let grace = options.grace.unwrap_or(self.config.dialect.grace);
        let call = self.calls.insert(grace, options.parent);
        self.abandoned.reissued(number);
        self.timers.update(call, |timers| {
            timers.deadline = options.timeout.map(|timeout| now + timeout);
            timers.idle = options.idle_timeout.map(|after| Idle { after, due: now + after });
            timers.hard_cap = options.hard_cap.map(|cap| now + cap);
        });
        self.actions.push_back(Action::SendRequest { call, number });
        if let Some(parent) = options.parent {
            self.requests.add_child(parent, call);
            let phase = self.requests.get(parent).map(|entry| entry.phase);
            if phase == Some(RequestPhase::Cancelled) {
                self.cancel(call, Cause::Parent, now);
            }
        }
        Ok(call)
    }

    /// Cancels a call (G5). Whoever drops a call cancels it with [`Cause::Dropped`], and then its
    /// grace is bounded by [`Config::abandoned_grace`].
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        let Some(entry) = self.calls.get(call) else { return CancelOutcome::AlreadySettled };
        let grace = match cause {
            Cause::Dropped | Cause::Shutdown => self.config.bounded(entry.grace),
            _ => entry.grace,
        };
        self.cancel_within(call, cause, grace, now)
    }

    /// Gives up interest in a call without cancelling it. It is no longer part of its parent's
    /// tree, and is released after [`Config::abandoned_grace`].
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        let Some(entry) = self.calls.get_mut(call) else { return };
        let parent = entry.parent.take();
        self.shorten_grace(call, self.config.abandoned_grace, now);
        self.leave_tree(call, parent);
    }

    /// Settles a request with the host's answer. An [`Action::SendResponse`] says whether the
    /// answer is to be sent or withheld (G2).
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`].
    pub fn respond(&mut self, request: RequestHandle) -> Result<(), Refusal> {
        let input = match (self.config.dialect.answer, self.life) {
            (AnswerRule::Silent, _) | (_, Life::Abandoned) => RequestInput::RespondUnlessCancelled,
            (AnswerRule::Answered, _) => RequestInput::Respond,
        };
        let entry = self.requests.get_mut(request).ok_or(Refusal::AlreadyAnswered)?;
        let Transition { next, step } = entry.phase.on(input);
        match step {
            RequestStep::Refuse => return Err(Refusal::AlreadyAnswered),
            RequestStep::SendResponse => self.actions.push_back(Action::SendResponse { request }),
            RequestStep::Withhold | RequestStep::Nothing | RequestStep::MarkCancelled => {}
        }
        entry.phase = next.expect("only remove_if_settled ends a request");
        self.requests.release_id(request);
        self.end_tree(request);
        Ok(())
    }

    /// Marks a request cancelled and cancels the calls made on its behalf (G6). No effect on one
    /// that is cancelled or answered already.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        let Some(entry) = self.requests.get_mut(request) else { return };
        let Transition { next, step } = entry.phase.on(RequestInput::Cancel);
        entry.phase = next.expect("only remove_if_settled ends a request");
        if step != RequestStep::MarkCancelled {
            return;
        }
        self.actions.push_back(Action::MarkCancelled { request, cause });
        let mut last = CallId::MIN;
        while let Some(call) = self.requests.child_after(request, last) {
            self.cancel(call, Cause::Parent, now);
            last = call;
        }
    }

    /// Shuts down (G5). A later, stronger shutdown takes over from an earlier one.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        if self.is_closed() {
            if how == Shutdown::Abandon {
                self.life = Life::Abandoned;
            }
            return;
        }
        self.life = Life::Draining;
        match how {
            Shutdown::Drain => {}
            Shutdown::CancelAll => {
                for request in self.requests.unanswered_in_order() {
                    self.cancel_request(request, Cause::Shutdown, now);
                }
                for call in self.calls.in_order() {
                    self.cancel(call, Cause::Shutdown, now);
                }
            }
            Shutdown::Abandon => {
                self.lose_everything(Cause::Shutdown, now);
                self.life = Life::Abandoned;
                self.actions.push_back(Action::Close { reason: CloseReason::Shutdown });
            }
        }
    }

    // Inputs

    /// The request of this call has left; it can't be withdrawn any more.
    pub fn transmitted(&mut self, call: CallId) {
        self.step_call(call, CallInput::Transmitted);
    }

    /// The peer sent a request.
    ///
    /// # Errors
    ///
    /// Why it is not accepted; it is then to be answered so.
    pub fn receive_request(&mut self, id: WireId) -> Result<RequestHandle, RequestRefusal> {
        if self.requests.by_id(&id).is_some() {
            return Err(RequestRefusal::DuplicateId);
        }
        if self.life != Life::Open {
            return Err(RequestRefusal::ShuttingDown);
        }
        if self.requests.unanswered() >= self.config.limits.requests {
            return Err(RequestRefusal::TooManyRequests);
        }
        let request = self.requests.insert(id);
        self.actions.push_back(Action::Deliver { request });
        Ok(request)
    }

    /// The peer cancelled the request with this id; ignored if none is in flight (G2).
    pub fn receive_cancel(&mut self, id: &WireId, now: Timestamp) {
        if let Some(request) = self.requests.by_id(id) {
            self.cancel_request(request, Cause::Peer, now);
        }
    }

    /// The peer answered the call with this wire number.
    ///
    /// # Errors
    ///
    /// What the response is instead, when that call is not waiting for one (G12).
    pub fn receive_response(
        &mut self,
        number: u32,
        answer: Answer,
    ) -> Result<CallId, StrayResponse> {
        let input = match answer {
            Answer::Result => CallInput::Result,
            Answer::Error => CallInput::Error,
            Answer::CancelError => CallInput::CancelError,
            Answer::Malformed => CallInput::Malformed,
        };
        if let Some(call) = self.calls.by_number(number) {
            return match self.step_call(call, input) {
                CallStep::Stray => Err(StrayResponse::Unknown),
                _ => Ok(call),
            };
        }
        Err(match self.calls.was_issued(number) {
            true => self.abandoned.classify(number),
            false => StrayResponse::Unknown,
        })
    }

    /// Progress arrived for a call: its idle timeout starts anew.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        if self.calls.get(call).is_some() {
            self.timers.update(call, |timers| {
                if let Some(idle) = &mut timers.idle {
                    idle.due = now + idle.after;
                }
            });
        }
    }

    /// Fires every timer that is due, in the order of their times.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((due, call, reason)) = self.timers.next() {
            if due > now {
                return;
            }
            match reason.cause() {
                Some(cause) => {
                    self.cancel_within(call, cause, Grace::Settle(Duration::ZERO), now);
                }
                None => {
                    // A cancelled call keeps its own ending; this one is for a detached call.
                    self.record_ending(call, Settlement::TimedOut, Cause::Dropped);
                    self.step_call(call, CallInput::Forget);
                }
            }
        }
    }

    /// Nothing comes in any more: every call settles, every request is marked cancelled (G7).
    pub fn close(&mut self, reason: CloseReason, now: Timestamp) {
        if self.is_closed() {
            return;
        }
        self.life = Life::Closed;
        self.lose_everything(reason.cause(), now);
        self.actions.push_back(Action::Close { reason });
    }

    // Outputs

    /// The next thing to do. To be drained after every command and input.
    pub fn poll_action(&mut self) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        self.assert_consistent();
        let idle = self.calls.len() == 0 && self.requests.unanswered() == 0;
        if self.life != Life::Draining || !idle {
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

    /// The wire id of a request that is not settled yet.
    #[must_use]
    pub fn request_id(&self, request: RequestHandle) -> Option<&WireId> {
        self.requests.get(request).map(|entry| &entry.id)
    }

    /// Whether a request over [`Limits::requests`](crate::Limits::requests) ends the connection.
    pub(crate) fn closes_over_limit(&self) -> bool {
        self.config.over_limit == OverLimit::Close
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
            (CancelRule::Local, _) => CallInput::Forget,
            (CancelRule::Notification { .. }, Grace::Settle(Duration::ZERO)) => {
                CallInput::CancelNow
            }
            (CancelRule::Notification { .. }, _) => CallInput::Cancel,
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
        let Transition { next, step } = entry.phase.on(input);
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
                self.recall_cancel(call);
                let settlement = match input {
                    CallInput::Result => Settlement::Result,
                    CallInput::Malformed => Settlement::Malformed,
                    _ => Settlement::Error,
                };
                self.settle(call, settlement, None);
            }
            CallStep::CompleteCancelled => {
                let cause = entry.ending.map(|(_, cause)| cause);
                self.recall_cancel(call);
                self.settle(call, Settlement::Cancelled, cause);
            }
        }
        step
    }

    /// The call is answered: a cancel that has not left has nothing to cancel any more. (When we
    /// settle it ourselves it still has to leave: the peer is at work, B18.)
    fn recall_cancel(&mut self, call: CallId) {
        if self.call_phase(call) == Some(CallPhase::Cancelling) {
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

    fn leave_tree(&mut self, call: CallId, parent: Option<RequestHandle>) {
        if let Some(parent) = parent {
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

    fn lose_everything(&mut self, cause: Cause, now: Timestamp) {
        for call in self.calls.in_order() {
            if let Some(entry) = self.calls.get_mut(call) {
                entry.ending = Some((Settlement::ConnectionLost, cause));
            }
            self.step_call(call, CallInput::Forget);
        }
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
