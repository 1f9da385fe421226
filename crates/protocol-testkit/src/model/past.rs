//! The memory of our messages that no call in flight accounts for (G12).

use protocol_core::machine::CallPhase;

use super::{Fate, Model};

impl Model {
    /// Returns the fate of our message with this number, if it is remembered.
    pub(super) fn fate_mut(&mut self, number: u32) -> Option<&mut Fate> {
        self.past.iter_mut().find(|(other, _)| *other == number).map(|(_, fate)| fate)
    }

    pub(super) fn fate(&self, number: u32) -> Option<Fate> {
        self.past.iter().find(|(other, _)| *other == number).map(|&(_, fate)| fate)
    }

    pub(super) fn remember_number(&mut self, number: u32, fate: Fate) {
        self.past.push_back((number, fate));
        if self.past.len() > self.config.limits.abandoned_ids {
            self.past.pop_front();
        }
    }

    /// A call settles without an answer: its number, and that of its cancel, may still get one.
    pub(super) fn remember_unanswered(&mut self, number: u32) {
        self.remember_cancel(number);
        let fate = match self.calls[&number].phase {
            CallPhase::Queued => Fate::Withdrawn,
            CallPhase::AwaitingToken => Fate::Tokenless,
            // It was answered, with a token.
            CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement => return,
            CallPhase::Sent | CallPhase::CancelQueued | CallPhase::Cancelling => Fate::Unanswered,
        };
        self.remember_number(number, fate);
    }

    /// A call settles whose cancel may be a request of its own, which goes its own way from now on.
    pub(super) fn remember_cancel(&mut self, number: u32) {
        let call = self.call_mut(number);
        let phase = call.phase;
        let Some(cancel) = call.cancel.take() else { return };
        let waits = self.cancels.iter().chain(&self.bulk).any(|it| it.call == Some(number));
        let fate = match phase {
            CallPhase::CancelQueued | CallPhase::TokenCancelQueued if waits => Fate::CancelQueued,
            CallPhase::CancelQueued => Fate::Withdrawn,
            _ => Fate::CancelSent,
        };
        self.remember_number(cancel, fate);
    }

    /// Names the rule that a response to none of our calls in flight breaks (G12, B19). It is late, a
    /// duplicate, or answers a request that never was.
    pub(super) fn stray(&mut self, number: u32) -> &'static str {
        let is_unsent = self.calls.contains_key(&number);
        if number == 0 || number > self.issued || is_unsent {
            return "unknown_response";
        }
        match self.fate_mut(number) {
            Some(Fate::Withdrawn | Fate::CancelQueued) => "unknown_response",
            Some(fate @ (Fate::Unanswered | Fate::Tokenless)) => {
                *fate = Fate::Answered;
                "late_response"
            }
            Some(Fate::Answered | Fate::CancelSent) | None => "duplicate_response",
        }
    }
}
