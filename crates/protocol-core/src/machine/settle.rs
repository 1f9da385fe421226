//! The steps of a call, carried out on its row.

use super::action::{Action, Completion};
use super::calls::{Calls, Fate, RowKey};
use super::state::Machine;
use super::table::{CallInput, CallPhase, CallStep, Transition};
use crate::cause::{Cause, Settlement};

impl<C, R: Default> Machine<C, R> {
    /// Carries out what `input` does to a call. Returns the step, and the action for this call.
    ///
    /// `response` is the settlement that the peer's response means, if the input is one.
    #[inline]
    pub(super) fn step_call(
        &mut self,
        key: RowKey,
        input: CallInput,
        response: Option<Settlement>,
    ) -> (CallStep, Option<Action<C>>) {
        use CallStep::*;
        let row = self.calls.row_mut(key);
        let call = row.id;
        let Transition { next, step } = row.phase.on(input);
        // A call that settles ends in the phase it was in.
        row.phase = next.unwrap_or(row.phase);
        let (end, fate) = match step {
            Nothing | AwaitToken | Refuse | Stray | Duplicate | Impossible => return (step, None),
            NoteAcknowledgement => {
                self.calls.release_cancel(key);
                return (step, None);
            }
            SendCancel => {
                let is_request = self.config.dialect.cancels_are_requests();
                let number = is_request.then(|| self.calls.number_cancel(key));
                return (step, Some(Action::SendCancel { call, number }));
            }
            Withdraw => (None, Some(Fate::Withdrawn)),
            Settle => (None, Some(Fate::NoResponse)),
            AwaitTokenAndSettle => (None, Some(Fate::AwaitingToken)),
            Complete | WithdrawAndComplete => (response, None),
            CompleteCancelled | WithdrawAndCompleteCancelled => (Some(Settlement::Cancelled), None),
        };
        let part = || self.calls.row(key).extras.as_ref()?.facts.work.clone();
        let may_have_part = !self.works.rows.is_empty() || !self.works.nested.is_empty();
        let part = may_have_part.then(part).flatten();
        let done = self.calls.settle(key, end, fate, self.config.limits.abandoned_ids);
        self.leave_tree(call, done.parent);
        let is_unsent =
            matches!(step, Withdraw | WithdrawAndComplete | WithdrawAndCompleteCancelled);
        if let Some(part) = part {
            let is_silent = response.is_none() && !is_unsent;
            self.leave_work_of_call(&part, call, done.settlement, is_silent);
        }
        let action = if is_unsent { Action::Withdraw(done) } else { Action::Complete(done) };
        (step, Some(action))
    }
}

impl<C> Calls<C> {
    /// Records how the call ends if nobody responds; the first record stays.
    pub(super) fn record_ending(&mut self, key: RowKey, settlement: Settlement, cause: Cause) {
        self.row_mut(key).ending.get_or_insert((settlement, cause));
    }

    /// Settles a call by the peer's response, or with its recorded ending. `fate` tells what a late response is.
    #[inline]
    fn settle(
        &mut self,
        key: RowKey,
        response: Option<Settlement>,
        fate: Option<Fate>,
        limit: usize,
    ) -> Completion<C> {
        let phase = self.row(key).phase;
        if let Some(cancel) = self.release_cancel(key) {
            if let Some(fate) = fate_of_cancel(phase, response.is_some()) {
                self.settled_numbers.insert(cancel, fate, limit);
            }
        }
        let facts = self.row(key).extras.as_ref().map(|extras| &extras.facts);
        let handshake = facts.and_then(|facts| facts.handshake);
        let has_work = facts.is_some_and(|facts| facts.work.is_some());
        let row = self.remove(key);
        // A response after the token of its operation is a duplicate, like every one to a number that
        // nothing is known of.
        let had_token =
            matches!(phase, CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement);
        if let Some(fate) = fate.filter(|_| !had_token) {
            self.settled_numbers.insert(row.id.number(), fate, limit);
        }
        let (ending, cause) = row.ending.unzip();
        let settlement =
            response.or(ending).expect("an ending is recorded before a call is settled");
        // A response has no cause, unless it confirms our cancel.
        let cause = cause.filter(|_| response.is_none_or(|it| it == Settlement::Cancelled));
        let (call, data, parent) = (row.id, row.data, row.parent);
        Completion { call, settlement, cause, data, parent, handshake, has_work }
    }
}

/// Returns the fate of a cancel that is a request, when its call settles in this phase. An acknowledged
/// one has none: a further response is a duplicate.
const fn fate_of_cancel(phase: CallPhase, is_response: bool) -> Option<Fate> {
    match (phase, is_response) {
        (CallPhase::CancelQueued, true) => Some(Fate::Withdrawn),
        (CallPhase::CancelQueued | CallPhase::TokenCancelQueued, _) => Some(Fate::CancelQueued),
        (CallPhase::AwaitingAcknowledgement, true) => None,
        _ => Some(Fate::CancelSent),
    }
}
