//! Transitions looked up and carried out on the rows.

use super::calls::{Call, Place};
use super::requests::{RequestSlot, Tree};
use super::{
    Action, CallId, CallInput, CallPhase, CallStep, CancelReceipt, Completion, Fate, LifeInput,
    LifeStep, Machine, RequestHandle, RequestInput, RequestStep, Settlement, Transition,
};
use crate::cause::{Cause, CloseReason};
use crate::dialect::{AnswerRule, CancelRule};
use crate::id::WireId;
use crate::time::Timestamp;

impl<C, R: Default, X> Machine<C, R, X> {
    // Calls

    /// Carries a transition of a call out; gives what was done, and what is to be done.
    #[inline]
    pub(super) fn step_call(
        &mut self,
        place: Place,
        input: CallInput,
    ) -> (CallStep, Option<Action<C>>) {
        let row = self.calls.row_mut(place);
        let (call, before) = (row.id, row.phase);
        let Transition { next, step } = before.on(input);
        if let Some(next) = next {
            row.phase = next;
        }
        let action = match step {
            CallStep::Nothing
            | CallStep::AwaitToken
            | CallStep::Refuse
            | CallStep::Stray
            | CallStep::Duplicate => None,
            CallStep::NoteAcknowledgement => {
                self.calls.release_cancel(place);
                None
            }
            CallStep::SendCancel | CallStep::SendTokenCancel => {
                let is_request = self.config.dialect.cancels_are_requests();
                let number = is_request.then(|| self.calls.number_cancel(place).number());
                Some(Action::SendCancel { call, number })
            }
            CallStep::SendCancelAndSettle => {
                let number = self
                    .config
                    .dialect
                    .cancels_are_requests()
                    .then(|| self.send_cancel_of_nobody());
                let begin = self.cascade.len();
                let done = self.settle_here(place, before, Fate::Left);
                self.cascade.insert(begin, Action::Complete(done));
                Some(Action::SendCancel { call, number })
            }
            CallStep::Withdraw => {
                Some(Action::Withdraw(self.settle_here(place, before, Fate::Withdrawn)))
            }
            CallStep::AwaitTokenAndSettle => {
                Some(Action::Complete(self.settle_here(place, before, Fate::TokenAwaited)))
            }
            CallStep::Settle => Some(Action::Complete(self.settle_here(place, before, Fate::Left))),
            CallStep::Complete => {
                Some(Action::Complete(self.settle_answered(place, before, input)))
            }
            CallStep::WithdrawAndComplete => {
                Some(Action::Withdraw(self.settle_answered(place, before, input)))
            }
            CallStep::CompleteCancelled => {
                Some(Action::Complete(self.settle_confirmed(place, before)))
            }
            CallStep::WithdrawAndCompleteCancelled => {
                Some(Action::Withdraw(self.settle_confirmed(place, before)))
            }
        };
        (step, action)
    }

    /// As [`step_call`](Self::step_call), for a call that nobody asked about.
    pub(super) fn cascade_step(&mut self, place: Place, input: CallInput) {
        let begin = self.cascade.len();
        let (_, action) = self.step_call(place, input);
        self.insert_action(begin, action);
    }

    /// Cancels a call that nobody asked about.
    pub(super) fn cascade_cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) {
        let begin = self.cascade.len();
        let cancelled = self.cancel(call, cause, now);
        self.insert_action(begin, cancelled.action);
    }

    /// Queues an action before what followed from it.
    fn insert_action(&mut self, begin: usize, action: Option<Action<C>>) {
        if let Some(action) = action {
            self.cascade.insert(begin, action);
        }
    }

    /// Settles a call with what the peer answered.
    fn settle_answered(
        &mut self,
        place: Place,
        before: CallPhase,
        input: CallInput,
    ) -> Completion<C> {
        let settlement = match input {
            CallInput::Result | CallInput::Token => Settlement::Result,
            CallInput::Malformed | CallInput::CancelMalformed => Settlement::Malformed,
            _ => Settlement::Error,
        };
        self.remember_cancel(place, before, Answered::Yes);
        self.settle(place, |_| (settlement, None))
    }

    /// Settles a call as cancelled, as the peer confirmed.
    fn settle_confirmed(&mut self, place: Place, before: CallPhase) -> Completion<C> {
        self.remember_cancel(place, before, Answered::Yes);
        self.settle(place, |row| (Settlement::Cancelled, row.ending.map(|(_, cause)| cause)))
    }

    /// Settles a call without an answer; a late one will be recognised.
    fn settle_here(&mut self, place: Place, before: CallPhase, fate: Fate) -> Completion<C> {
        self.remember_cancel(place, before, Answered::No);
        // An answer behind the token of its operation is a duplicate, as all that nothing is known of.
        if !matches!(before, CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement) {
            self.remember(self.calls.row(place).id.number(), fate);
        }
        self.settle(place, |row| {
            let (settlement, cause) =
                row.ending.expect("whoever settles here records an ending first");
            (settlement, Some(cause))
        })
    }

    fn settle(
        &mut self,
        place: Place,
        ending: impl FnOnce(&Call<C>) -> (Settlement, Option<Cause>),
    ) -> Completion<C> {
        let row = self.calls.remove(place);
        let (call, (settlement, cause)) = (row.id, ending(&row));
        self.awaited.remove(call);
        self.leave_tree(call, row.parent);
        Completion { call, settlement, cause, data: row.data }
    }

    /// A call settles, whose cancel may be a request of its own: what its number is from now on.
    fn remember_cancel(&mut self, place: Place, before: CallPhase, answered: Answered) {
        let Some(cancel) = self.calls.release_cancel(place) else { return };
        let fate = match (before, answered) {
            (CallPhase::CancelQueued, Answered::Yes) => Fate::Withdrawn,
            (CallPhase::CancelQueued | CallPhase::TokenCancelQueued, _) => Fate::CancelQueued,
            // It was acknowledged: all that nothing is known of is a duplicate.
            (CallPhase::AwaitingAcknowledgement, Answered::Yes) => return,
            _ => Fate::CancelSent,
        };
        self.remember(cancel, fate);
    }

    /// Takes a number for a cancel that no row waits for.
    pub(super) fn send_cancel_of_nobody(&mut self) -> u32 {
        let cancel = self.calls.take_number();
        self.remember(cancel.number(), Fate::CancelQueued);
        cancel.number()
    }

    pub(super) fn remember(&mut self, number: u32, fate: Fate) {
        self.past.insert(number, fate, self.config.limits.abandoned_ids);
    }

    pub(super) fn leave_tree(&mut self, call: CallId, parent: Option<RequestSlot>) {
        if let Some(parent) = parent.and_then(|slot| self.requests.in_slot(slot)) {
            self.requests.remove_child(parent, call);
            self.end_tree(parent);
        }
    }

    fn end_tree(&mut self, request: RequestHandle) {
        if self.requests.remove_if_settled(request) == Some(Tree::Parent) {
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

    /// Marks a request cancelled, if this input does that.
    pub(super) fn mark(
        &mut self,
        request: RequestHandle,
        input: RequestInput,
        cause: Cause,
    ) -> RequestStep {
        let Some(row) = self.requests.get_mut(request) else { return RequestStep::Nothing };
        let Transition { next, step } = row.phase.on(input);
        row.phase = next.unwrap_or(row.phase);
        if step == RequestStep::MarkCancelled {
            row.cause = Some(cause);
        }
        step
    }

    /// Cancels the calls made on behalf of a request that was just marked (G6).
    pub(super) fn cancel_children(&mut self, request: RequestHandle, now: Timestamp) {
        let mut last = CallId::MIN;
        while let Some(call) = self.requests.child_after(request, last) {
            self.cascade_cancel(call, Cause::Parent, now);
            last = call;
        }
    }

    fn cancel_requests(&mut self, cause: Cause, now: Timestamp) {
        for request in self.requests.unanswered_in_order() {
            if self.mark(request, RequestInput::Cancel, cause) == RequestStep::MarkCancelled {
                self.cascade.push_back(Action::MarkCancelled { request, cause });
                self.cancel_children(request, now);
            }
        }
    }

    /// Which input the host's answer to this request is.
    pub(super) fn respond_input(&self, cause: Option<Cause>) -> RequestInput {
        let dialect = &self.config.dialect;
        let is_acknowledged = matches!(dialect.cancel, CancelRule::Request { .. });
        match dialect.answer {
            _ if self.life == super::Life::Abandoned => RequestInput::RespondUnlessCancelled,
            // It asked for no silence, and may still be reading.
            _ if cause == Some(Cause::PeerGone) => RequestInput::Respond,
            AnswerRule::Silent | AnswerRule::SilentWithProgress => {
                RequestInput::RespondUnlessCancelled
            }
            AnswerRule::Answered if is_acknowledged && !dialect.partial_results => {
                RequestInput::RespondAsCancelled
            }
            AnswerRule::Answered => RequestInput::Respond,
        }
    }

    /// Ends a request, and frees its id.
    pub(super) fn settle_request(&mut self, request: RequestHandle, ended: Ended) {
        let Some(row) = self.requests.get_mut(request) else { return };
        let receipt = match row.phase.is_cancelled() {
            true => CancelReceipt::CancelledBefore,
            false => CancelReceipt::Completed,
        };
        row.phase = super::RequestPhase::Answered;
        if let Some(id) = self.requests.release_id(request) {
            self.remember_finished(id, receipt);
        }
        for token in self.withheld.remove(request) {
            if ended == Ended::Silently {
                self.retired.insert(token, (), self.config.limits.abandoned_ids);
            }
        }
        self.end_tree(request);
    }

    fn remember_finished(&mut self, id: WireId, receipt: CancelReceipt) {
        if let CancelRule::Request { .. } = self.config.dialect.cancel {
            self.finished.insert(id, receipt, self.config.limits.abandoned_ids);
        }
    }

    // The connection

    /// Carries a transition of the connection's life out.
    pub(super) fn step_life(&mut self, input: LifeInput, reason: CloseReason, now: Timestamp) {
        let Transition { next, step } = self.life.on(input);
        self.life = next.unwrap_or(self.life);
        match step {
            LifeStep::Nothing
            | LifeStep::Accept
            | LifeStep::RefuseShuttingDown
            | LifeStep::RefuseClosed => {}
            LifeStep::CancelEverything => {
                self.cancel_requests(Cause::Shutdown, now);
                for call in self.calls.in_order() {
                    self.cascade_cancel(call, Cause::Shutdown, now);
                }
            }
            LifeStep::CancelRequests => self.cancel_requests(Cause::Shutdown, now),
            LifeStep::AbandonEverything => {
                self.lose_calls(Cause::Shutdown);
                self.cancel_requests(Cause::Shutdown, now);
                self.cascade.push_back(Action::Close { reason });
            }
            LifeStep::LoseEverything => {
                self.lose_calls(reason.cause());
                if let Some(cause) = self.config.dialect.cause_of_close(reason) {
                    self.cancel_requests(cause, now);
                }
                self.cascade.push_back(Action::Close { reason });
            }
            LifeStep::Close => self.cascade.push_back(Action::Close { reason }),
        }
    }

    /// A shutdown is over once nothing is in flight (G5).
    pub(super) fn close_if_idle(&mut self) -> Option<Action<C>> {
        let is_idle = self.calls.len() == 0 && self.requests.unanswered() == 0;
        if is_idle && self.batch == super::Batch::Taken {
            self.step_life(LifeInput::Idle, CloseReason::Shutdown, Timestamp::ZERO);
        }
        self.cascade.pop_front()
    }
}

/// Whether a call settles with an answer of the peer's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}

/// How a request ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    WithAnswer,
    Silently,
}
