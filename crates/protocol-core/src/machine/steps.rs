//! Transitions looked up and carried out on the rows.

use core::mem;

use super::calls::Place;
use super::table::{CallInput, CallStep, LifeInput, LifeStep, RequestInput, Transition};
use super::{
    Action, CallId, CallPhase, CancelRefusal, Completion, Fate, Life, Machine, RequestHandle,
    RequestStep, Settlement,
};
use crate::cause::{Cause, CloseReason};
use crate::dialect::{CancelRule, ResponseRule};
use crate::error::Refusal;
use crate::slot::Slot;
use crate::time::Timestamp;

impl<C, R: Default> Machine<C, R> {
    // Calls

    /// Carries a transition of a call out; gives what was done, and what is to be done. `answer` is how
    /// an answer of the peer's settles it.
    #[inline]
    pub(super) fn step_call(
        &mut self,
        place: Place,
        input: CallInput,
        answer: Option<Settlement>,
    ) -> (CallStep, Option<Action<C>>) {
        let row = self.calls.row_mut(place);
        let call = row.id;
        let Transition { next, step } = row.phase.on(input);
        // A call that settles ends in the phase it was in.
        row.phase = next.unwrap_or(row.phase);
        let confirmed = Some(Settlement::Cancelled);
        let action = match step {
            CallStep::Nothing
            | CallStep::AwaitToken
            | CallStep::Refuse
            | CallStep::Stray
            | CallStep::Duplicate => return (step, None),
            CallStep::NoteAcknowledgement => {
                self.calls.release_cancel(place);
                return (step, None);
            }
            CallStep::SendCancel => {
                let is_request = self.config.dialect.cancels_are_requests();
                let number = is_request.then(|| self.calls.number_cancel(place));
                Action::SendCancel { call, number }
            }
            CallStep::Withdraw => Action::Withdraw(self.give_up(place, Fate::Withdrawn)),
            CallStep::AwaitTokenAndSettle => {
                Action::Complete(self.give_up(place, Fate::TokenAwaited))
            }
            CallStep::Settle => Action::Complete(self.give_up(place, Fate::Left)),
            CallStep::Complete => Action::Complete(self.settle(place, answer)),
            CallStep::WithdrawAndComplete => Action::Withdraw(self.settle(place, answer)),
            CallStep::CompleteCancelled => Action::Complete(self.settle(place, confirmed)),
            CallStep::WithdrawAndCompleteCancelled => {
                Action::Withdraw(self.settle(place, confirmed))
            }
        };
        (step, Some(action))
    }

    /// Queues what is decided for a call or a request that nobody asked about, before what follows from
    /// that.
    fn decide_for_other(&mut self, decide: impl FnOnce(&mut Self) -> Option<Action<C>>) {
        let begin = self.cascade.len();
        if let Some(action) = decide(self) {
            self.cascade.insert(begin, action);
        }
    }

    /// As [`step_call`](Self::step_call), for a call that nobody asked about.
    pub(super) fn cascade_step(&mut self, place: Place, input: CallInput) {
        self.decide_for_other(|it| it.step_call(place, input, None).1);
    }

    /// Cancels a call that nobody asked about.
    pub(super) fn cascade_cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) {
        self.decide_for_other(|it| it.cancel(call, cause, now).1);
    }

    /// What cancelling a call is to the table.
    pub(super) const fn cancel_input(&self, refusal: Option<CancelRefusal>) -> CallInput {
        match (refusal, &self.config.dialect.cancel) {
            (Some(_), _) => CallInput::CancelRefused,
            (None, CancelRule::Local | CancelRule::ClosedStream) => CallInput::Forget,
            (None, CancelRule::Operation { .. }) => CallInput::CancelOperation,
            (None, CancelRule::Notification { .. } | CancelRule::Request { .. }) => {
                CallInput::Cancel
            }
        }
    }

    /// Settles a call without an answer; a late one will be recognised.
    fn give_up(&mut self, place: Place, fate: Fate) -> Completion<C> {
        let phase = self.calls.row(place).phase;
        let done = self.settle(place, None);
        // An answer behind the token of its operation is a duplicate, as all that nothing is known of.
        if !matches!(phase, CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement) {
            self.remember(done.call.number(), fate);
        }
        done
    }

    /// Settles a call as the peer answered, or with its recorded ending.
    fn settle(&mut self, place: Place, answer: Option<Settlement>) -> Completion<C> {
        if let Some(cancel) = self.calls.release_cancel(place) {
            self.remember_cancel(cancel, self.calls.row(place).phase, answer);
        }
        let row = self.calls.remove(place);
        let (ending, cause) = row.ending.unzip();
        let settlement = answer.or(ending).expect("whoever settles here records an ending first");
        // An answer has no cause, unless it confirms our cancel.
        let cause = cause.filter(|_| answer.is_none_or(|it| it == Settlement::Cancelled));
        self.awaited.remove(row.id);
        self.leave_tree(row.id, row.parent);
        Completion { call: row.id, settlement, cause, data: row.data }
    }

    /// A call settles whose cancel is a request of its own: what the number of that is from now on.
    fn remember_cancel(&mut self, cancel: u32, phase: CallPhase, answer: Option<Settlement>) {
        let fate = match (phase, answer) {
            (CallPhase::CancelQueued, Some(_)) => Fate::Withdrawn,
            (CallPhase::CancelQueued | CallPhase::TokenCancelQueued, _) => Fate::CancelQueued,
            // It was acknowledged: all that nothing is known of is a duplicate.
            (CallPhase::AwaitingAcknowledgement, Some(_)) => return,
            _ => Fate::CancelSent,
        };
        self.remember(cancel, fate);
    }

    pub(super) fn remember(&mut self, number: u32, fate: Fate) {
        self.past.insert(number, fate, self.config.limits.abandoned_ids);
    }

    pub(super) fn leave_tree(&mut self, call: CallId, parent: Option<Slot>) {
        if let Some(parent) = parent.and_then(|slot| self.requests.in_slot(slot)) {
            self.requests.remove_child(parent, call);
            self.end_tree(parent);
        }
    }

    fn end_tree(&mut self, request: RequestHandle) {
        if self.requests.remove_if_settled(request) {
            self.cascade.push_back(Action::TreeSettled { request });
        }
    }

    pub(super) fn record_ending(&mut self, place: Place, settlement: Settlement, cause: Cause) {
        self.calls.row_mut(place).ending.get_or_insert((settlement, cause));
    }

    /// Loses every call (G7).
    fn lose_calls(&mut self, cause: Cause) {
        for call in self.calls.in_order() {
            let Some(place) = self.calls.find(call) else { continue };
            self.calls.row_mut(place).ending = Some((Settlement::ConnectionLost, cause));
            self.cascade_step(place, CallInput::Forget);
        }
    }

    // Requests

    /// Marks a request cancelled, if this input does that, and cancels the calls made on its behalf
    /// (G6).
    pub(super) fn mark(
        &mut self,
        request: RequestHandle,
        input: RequestInput,
        cause: Cause,
        now: Timestamp,
    ) -> RequestStep {
        let Some(row) = self.requests.get_mut(request) else { return RequestStep::Nothing };
        let Transition { next, step } = row.phase.on(input);
        row.phase = next.unwrap_or(row.phase);
        if step == RequestStep::MarkCancelled {
            row.cause = Some(cause);
            let mut last = CallId::MIN;
            while let Some(call) = self.requests.child_after(request, last) {
                self.cascade_cancel(call, Cause::Parent, now);
                last = call;
            }
        }
        step
    }

    /// As [`mark`](Self::mark), for a request that nobody asked about.
    pub(super) fn cascade_mark(
        &mut self,
        request: RequestHandle,
        input: RequestInput,
        cause: Cause,
        now: Timestamp,
    ) {
        self.decide_for_other(|it| {
            let step = it.mark(request, input, cause, now);
            (step == RequestStep::MarkCancelled).then_some(Action::MarkCancelled { request, cause })
        });
    }

    fn cancel_requests(&mut self, cause: Cause, now: Timestamp) {
        for request in self.requests.unanswered_in_order() {
            self.cascade_mark(request, RequestInput::Cancel, cause, now);
        }
    }

    /// Which input the host's answer to this request is.
    pub(super) fn respond_input(&self, cause: Option<Cause>) -> RequestInput {
        let dialect = &self.config.dialect;
        match dialect.response {
            _ if self.life == Life::Abandoned => RequestInput::RespondUnlessCancelled,
            // It asked for no silence, and may still be reading.
            _ if cause == Some(Cause::PeerGone) => RequestInput::Respond,
            ResponseRule::Required
                if self.cancels_are_acknowledged() && !dialect.partial_results =>
            {
                RequestInput::RespondAsCancelled
            }
            ResponseRule::Required => RequestInput::Respond,
            _ => RequestInput::RespondUnlessCancelled,
        }
    }

    /// Ends a request, frees its id, and gives what the host kept with it.
    pub(super) fn end(
        &mut self,
        request: RequestHandle,
        input: RequestInput,
    ) -> Result<R, Refusal> {
        let row = self.requests.get_mut(request).ok_or(Refusal::AlreadyResponded)?;
        let (before, Transition { next, step }) = (row.phase, row.phase.on(input));
        if step == RequestStep::Refuse {
            return Err(Refusal::AlreadyResponded);
        }
        row.phase = next.unwrap_or(before);
        let (data, id) = (mem::take(&mut row.data), row.id.take());
        self.requests.forget_id(request, id.as_ref());
        if let Some(id) = id.filter(|_| self.cancels_are_acknowledged()) {
            let met = match before.is_cancelled() {
                true => RequestStep::CancelledBefore,
                false => RequestStep::Completed,
            };
            self.finished.insert(id, met, self.config.limits.abandoned_ids);
        }
        let is_silent = matches!(step, RequestStep::Withhold | RequestStep::SendEnd);
        if let Some(tokens) = self.withheld.remove(request).filter(|_| is_silent) {
            for token in tokens {
                self.retired.insert(token, (), self.config.limits.abandoned_ids);
            }
        }
        self.end_tree(request);
        Ok(data)
    }

    // The connection

    /// Carries a transition of the connection's life out.
    pub(super) fn step_life(&mut self, input: LifeInput, reason: CloseReason, now: Timestamp) {
        let Transition { next, step } = self.life.on(input);
        self.life = next.unwrap_or(self.life);
        match step {
            LifeStep::Nothing
            | LifeStep::Accept
            | LifeStep::RefuseUninitialized
            | LifeStep::RefuseShuttingDown
            | LifeStep::RefuseClosed => return,
            LifeStep::CancelRequests => return self.cancel_requests(Cause::Shutdown, now),
            LifeStep::CancelEverything => {
                self.cancel_requests(Cause::Shutdown, now);
                for call in self.calls.in_order() {
                    self.cascade_cancel(call, Cause::Shutdown, now);
                }
                return;
            }
            LifeStep::AbandonEverything | LifeStep::LoseEverything => {
                self.lose_calls(reason.cause());
                if let Some(cause) = self.config.dialect.cause_of_close(reason) {
                    self.cancel_requests(cause, now);
                }
            }
            LifeStep::Close => {}
        }
        self.cascade.push_back(Action::Close { reason });
    }

    /// A shutdown is over once nothing is in flight (G5).
    pub(super) fn close_if_idle(&mut self) {
        if self.calls.len() == 0 && self.requests.unanswered() == 0 && !self.is_in_batch {
            self.step_life(LifeInput::Idle, CloseReason::Shutdown, Timestamp::ZERO);
        }
    }
}
