//! The steps of a call, carried out on its row.

use super::action::{Action, Completion};
use super::calls::{Calls, Fate, RowKey};
use super::table::{CallInput, CallPhase, CallStep, Transition};
use crate::cause::{Cause, Settlement};
use crate::config::Config;

impl<C> Calls<C> {
    /// Carries out what `input` does to a call. Returns the step, and the action for the host's side.
    ///
    /// `response` is the settlement that the peer's response means, if the input is one.
    #[inline]
    pub(super) fn step(
        &mut self,
        key: RowKey,
        input: CallInput,
        response: Option<Settlement>,
        config: &Config,
    ) -> (CallStep, Option<Action<C>>) {
        use CallStep::*;
        let limit = config.limits.abandoned_ids;
        let row = self.row_mut(key);
        let call = row.id;
        let Transition { next, step } = row.phase.on(input);
        // A call that settles ends in the phase it was in.
        row.phase = next.unwrap_or(row.phase);
        let done = match step {
            Nothing | AwaitToken | Refuse | Stray | Duplicate | Impossible => return (step, None),
            NoteAcknowledgement => {
                self.release_cancel(key);
                return (step, None);
            }
            SendCancel => {
                let is_request = config.dialect.cancels_are_requests();
                let number = is_request.then(|| self.number_cancel(key));
                return (step, Some(Action::SendCancel { call, number }));
            }
            Withdraw => self.give_up(key, Fate::Withdrawn, limit),
            Settle => self.give_up(key, Fate::NoResponse, limit),
            AwaitTokenAndSettle => self.give_up(key, Fate::AwaitingToken, limit),
            Complete | WithdrawAndComplete => self.settle(key, response, limit),
            CompleteCancelled | WithdrawAndCompleteCancelled => {
                self.settle(key, Some(Settlement::Cancelled), limit)
            }
        };
        let action = match step {
            Withdraw | WithdrawAndComplete | WithdrawAndCompleteCancelled => Action::Withdraw(done),
            _ => Action::Complete(done),
        };
        (step, Some(action))
    }

    /// Records how the call ends if nobody responds; the first record stays.
    pub(super) fn record_ending(&mut self, key: RowKey, settlement: Settlement, cause: Cause) {
        self.row_mut(key).ending.get_or_insert((settlement, cause));
    }

    /// Settles a call without a response, so that a late one is recognised.
    fn give_up(&mut self, key: RowKey, fate: Fate, limit: usize) -> Completion<C> {
        let phase = self.row(key).phase;
        let done = self.settle(key, None, limit);
        // A response after the token of its operation is a duplicate, like every one to a number that
        // nothing is known of.
        if !matches!(phase, CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement) {
            self.settled_numbers.insert(done.call.number(), fate, limit);
        }
        done
    }

    /// Settles a call by the peer's response, or with its recorded ending.
    fn settle(&mut self, key: RowKey, response: Option<Settlement>, limit: usize) -> Completion<C> {
        if let Some(cancel) = self.release_cancel(key) {
            if let Some(fate) = fate_of_cancel(self.row(key).phase, response.is_some()) {
                self.settled_numbers.insert(cancel, fate, limit);
            }
        }
        let (row, (handshake, has_work)) = self.remove(key);
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
