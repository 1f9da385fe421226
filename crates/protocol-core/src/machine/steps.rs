//! The steps of the tables, carried out on the rows, and the actions that follow for other rows.

use core::time::Duration;

use super::action::Action;
use super::calls::{Fate, RowKey};
use super::state::Machine;
use super::table::{
    self, CallInput, CallStep, LifeInput, LifeStep, RequestInput, RequestStep, Transition,
};
use crate::cause::{Cause, CloseReason, Settlement};
use crate::dialect::Grace;
use crate::handle::{CallId, RequestHandle};
use crate::slot::Slot;

impl<C, R: Default> Machine<C, R> {
    // Calls

    /// Carries out what `input` does to a call, and returns the step.
    ///
    /// `response` is the settlement that the peer's response means, if the input is one.
    #[inline]
    pub(super) fn step_call(
        &mut self,
        key: RowKey,
        input: CallInput,
        response: Option<Settlement>,
    ) -> CallStep {
        use CallStep::*;
        let row = self.calls.row_mut(key);
        let (call, parent) = (row.id, row.parent);
        let Transition { next, step } = row.phase.on(input);
        // A call that settles ends in the phase it was in.
        row.phase = next.unwrap_or(row.phase);
        let (end, fate) = match step {
            Nothing | AwaitToken | Refuse | Stray | Duplicate | Impossible => return step,
            NoteAcknowledgement => {
                self.calls.release_cancel(key);
                return step;
            }
            SendCancel => {
                let is_request = self.config.dialect.cancels_are_requests();
                let number = is_request.then(|| self.calls.number_cancel(key));
                self.actions.push_back(Action::SendCancel { call, number });
                return step;
            }
            Withdraw => (None, Some(Fate::Withdrawn)),
            Settle => (None, Some(Fate::NoResponse)),
            AwaitTokenAndSettle => (None, Some(Fate::AwaitingToken)),
            Complete | WithdrawAndComplete => (response, None),
            CompleteCancelled | WithdrawAndCompleteCancelled => (Some(Settlement::Cancelled), None),
        };
        let (mut done, part) = self.calls.settle(key, end, fate, self.config.limits.abandoned_ids);
        done.is_unsent =
            matches!(step, Withdraw | WithdrawAndComplete | WithdrawAndCompleteCancelled);
        let (is_unsent, settlement, effect) = (done.is_unsent, done.settlement, done.effect);
        self.actions.push_back(Action::Settle(done));
        self.leave_tree(call, parent);
        if let Some(part) = part {
            let has_no_response = response.is_none() && !is_unsent;
            let given_up = effect.and_then(|effect| effect.work?);
            self.leave_work_of_call(&part, call, settlement, has_no_response, given_up);
        }
        step
    }

    /// Carries out a cancellation of a call, and begins or ends its grace.
    pub(super) fn cancel_with(&mut self, key: RowKey, input: CallInput, cause: Cause) -> CallStep {
        let chosen = self.calls.row(key).extras.as_ref().and_then(|extras| extras.grace);
        let chosen = match chosen.unwrap_or(self.config.dialect.grace) {
            Grace::Await => None,
            Grace::Settle(grace) => Some(grace),
        };
        let grace = table::grace(chosen, self.config.abandoned_grace, cause.is_awaited());
        self.calls.record_ending(key, Settlement::Cancelled, cause);
        let step = self.step_call(key, input, None);
        let is_settled =
            matches!(step, CallStep::Withdraw | CallStep::Settle | CallStep::AwaitTokenAndSettle);
        match grace.filter(|_| !is_settled) {
            None => {}
            Some(grace) if !grace.is_zero() => self.shorten_grace(key, grace),
            Some(_) => {
                let end = self.step_call(key, CallInput::GiveUp, None);
                return if step == CallStep::SendCancel { step } else { end };
            }
        }
        step
    }

    pub(super) fn shorten_grace(&mut self, key: RowKey, grace: Duration) {
        let due = self.now + grace;
        self.calls.change_extras(key, |extras| {
            extras.release = Some(extras.release.map_or(due, |earlier| earlier.min(due)));
        });
    }

    pub(super) fn leave_tree(&mut self, call: CallId, parent: Option<Slot>) {
        if let Some(parent) = parent.and_then(|slot| self.requests.in_slot(slot)) {
            self.requests.children.remove(&(parent, call));
            self.end_tree(parent);
        }
    }

    /// Settles every call as lost (G7).
    fn lose_calls(&mut self, cause: Cause) {
        for call in self.calls.in_order() {
            self.lose_call(call, cause);
        }
        self.lose_work();
    }

    /// Settles a call as lost, because its response can't come any more. A settled call stays so.
    pub(crate) fn lose_call(&mut self, call: CallId, cause: Cause) {
        let Some(key) = self.calls.find(call) else { return };
        self.calls.row_mut(key).ending = Some((Settlement::ConnectionLost, cause));
        self.step_call(key, CallInput::GiveUp, None);
    }

    // Requests

    /// Cancels a request, and the calls made on its behalf if this marks it (G6).
    pub(super) fn mark_cancelled(
        &mut self,
        request: RequestHandle,
        input: RequestInput,
        cause: Cause,
    ) -> RequestStep {
        let Some(row) = self.requests.get_mut(request) else { return RequestStep::Completed };
        let Transition { next, step } = row.phase.on(input);
        let is_marked = step == RequestStep::MarkCancelled;
        row.cause = if is_marked { Some(cause) } else { row.cause };
        self.requests.enter(request.slot, next);
        if is_marked {
            self.actions.push_back(Action::MarkCancelled { request, cause });
            let mut last = CallId::MIN;
            while let Some(call) = self.requests.child_after(request, last) {
                self.cancel(call, Cause::Parent, self.now);
                last = call;
            }
        }
        step
    }

    fn cancel_requests(&mut self, input: RequestInput, cause: Cause) {
        for request in self.requests.in_order() {
            self.mark_cancelled(request, input, cause);
        }
    }

    pub(super) fn end_tree(&mut self, request: RequestHandle) {
        if self.requests.remove_if_settled(request) {
            self.actions.push_back(Action::TreeSettled { request });
        }
    }

    // The connection

    pub(super) fn step_life(&mut self, input: LifeInput, reason: CloseReason) {
        use LifeStep::*;
        let Transition { next, step } = self.life.on(input);
        self.life = next;
        match step {
            // Only a call or a request is accepted or refused.
            Accept | RefuseUninitialized | RefuseShuttingDown | RefuseClosed => {}
            Nothing | Impossible => {}
            CancelRequests => self.cancel_requests(RequestInput::Cancel, Cause::Shutdown),
            SilenceRequests => self.cancel_requests(RequestInput::CancelSilently, Cause::Shutdown),
            CancelEverything => {
                self.cancel_requests(RequestInput::Cancel, Cause::Shutdown);
                for call in self.calls.in_order() {
                    self.cancel(call, Cause::Shutdown, self.now);
                }
            }
            AbandonEverything => {
                self.lose_calls(reason.cause());
                self.cancel_requests(RequestInput::CancelSilently, reason.cause());
            }
            LoseEverything => {
                self.lose_calls(reason.cause());
                let is_gone = reason == CloseReason::PeerGone;
                let at_end = self.config.dialect.closed_stream;
                if let Some(cause) = if is_gone { at_end } else { Some(reason.cause()) } {
                    self.cancel_requests(self.mark_input(cause), cause);
                }
            }
            Close => self.lose_work(),
        }
        if matches!(step, AbandonEverything | LoseEverything | Close) {
            self.actions.push_back(Action::Close { reason });
        }
    }
}
