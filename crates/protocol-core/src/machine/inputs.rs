//! What comes in: what the peer did, and time.

use core::time::Duration;

use super::{
    Action, Answer, CallId, CallInput, CallPhase, CallStep, CancelReceipt, Input, Life, Machine,
    Owes, PeerCancels, RequestHandle, RequestPhase, RequestRefusal, Settlement, StrayResponse,
    Transition,
};
use crate::cause::{Cause, CloseReason};
use crate::dialect::{CancelRule, ClosedStream, Grace, MessageOrder};
use crate::id::WireId;
use crate::time::Timestamp;

impl Machine {
    /// A message of many parts begins: nothing of it is lost by closing in its middle (G7). To be ended
    /// by [`end_batch`](Self::end_batch).
    pub fn begin_batch(&mut self) {
        self.input = Input::Unfinished;
    }

    /// Every part of the message is taken.
    pub fn end_batch(&mut self) {
        self.input = Input::Finished;
    }

    /// The request of this call has left; it can't be withdrawn any more.
    #[inline]
    pub fn transmitted(&mut self, call: CallId) {
        let Some(entry) = self.calls.get_mut(call) else { return };
        let Transition { next, step } = entry.phase.on(CallInput::Transmitted);
        debug_assert_eq!(step, CallStep::Nothing, "in every phase");
        entry.phase = next.expect("it settles no call");
    }

    /// The peer sent a request. If its cancel came before it, that is
    /// [`receive_early_cancel`](Self::receive_early_cancel)'s to tell.
    ///
    /// # Errors
    ///
    /// Why it is not accepted; it is then to be answered so.
    pub fn receive_request(&mut self, id: WireId) -> Result<RequestHandle, RequestRefusal> {
        if self.requests.by_id(&id).is_some() {
            return Err(RequestRefusal::DuplicateId);
        }
        let refusal = if self.life != Life::Open {
            Some(RequestRefusal::ShuttingDown)
        } else if self.requests.unanswered() >= self.config.limits.requests {
            Some(RequestRefusal::TooManyRequests)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            // Its early cancel was for it, and not for the next request of this id.
            self.early.take(&id);
            return Err(refusal);
        }
        self.finished.take(&id);
        let request = self.requests.insert(id);
        self.actions.push_back(Action::Deliver { request });
        Ok(request)
    }

    /// Whether a request with this id waits for its answer.
    pub(crate) fn owes_answer(&self, id: &WireId) -> bool {
        let entry = self.requests.by_id(id).and_then(|request| self.requests.get(request));
        entry.is_some_and(|entry| entry.owes == Owes::Answer)
    }

    /// Whether the peer may cancel at all, and this token is that of no operation begun here.
    pub(crate) fn is_unknown_operation(&self, token: Option<&WireId>) -> bool {
        let named = token.and_then(|token| self.requests.by_id(token));
        let entry = named.and_then(|request| self.requests.get(request));
        self.peer_cancels() == PeerCancels::Obeyed
            && entry.is_none_or(|entry| entry.owes == Owes::Answer)
    }

    /// Marks a new request cancelled, if its cancel came before it.
    #[inline]
    pub fn receive_early_cancel(&mut self, request: RequestHandle, now: Timestamp) {
        if !self.early.is_empty() {
            self.take_early_cancel(request, now);
        }
    }

    fn take_early_cancel(&mut self, request: RequestHandle, now: Timestamp) {
        let Some(entry) = self.requests.get(request) else { return };
        if self.early.take(&entry.id).is_some() {
            let id = entry.id.clone();
            self.receive_cancel(&id, now);
        }
    }

    /// The peer cancelled the request with this id; ignored if none is in flight (G2), unless the
    /// request may still be under way. An [`Action::SendAcknowledgement`] says what is answered where
    /// cancels are requests.
    pub fn receive_cancel(&mut self, id: &WireId, now: Timestamp) {
        let receipt = self.take_cancel(id, now);
        if let CancelRule::Request { .. } = self.config.dialect.cancel {
            self.actions.push_back(Action::SendAcknowledgement { receipt });
        }
    }

    fn take_cancel(&mut self, id: &WireId, now: Timestamp) -> CancelReceipt {
        if self.peer_cancels() == PeerCancels::Ignored {
            return CancelReceipt::Ignored;
        }
        let Some(request) = self.requests.by_id(id) else {
            if self.config.dialect.order == MessageOrder::MayChange {
                self.early.insert(id, (), self.config.limits.early_cancels);
            }
            return self.finished.get(id).unwrap_or(CancelReceipt::NotFound);
        };
        let entry = self.requests.get(request);
        let found = entry.map(|entry| (entry.phase, entry.cancels, entry.owes));
        let is_operation_wanted = self.config.dialect.has_operations();
        match found {
            Some((_, _, owes)) if is_operation_wanted != (owes == Owes::Nothing) => {
                CancelReceipt::NotFound
            }
            Some((RequestPhase::Running, PeerCancels::Obeyed, _)) => {
                self.cancel_request(request, Cause::Peer, now);
                CancelReceipt::Cancelled
            }
            Some((RequestPhase::Cancelled, PeerCancels::Obeyed, _)) => {
                CancelReceipt::CancelledBefore
            }
            _ => CancelReceipt::Ignored,
        }
    }

    /// The peer ended one of our calls that the dialect lets it end.
    pub fn receive_end(&mut self, number: u32) {
        if let Some(call) = self.calls.by_number(number) {
            if self.call_phase(call) != Some(CallPhase::Queued) {
                self.record_ending(call, Settlement::Cancelled, Cause::Peer);
            }
            self.step_call(call, CallInput::PeerEnds);
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
                    if self.call_refusal(call).is_none() {
                        self.cancel_within(call, cause, Grace::Settle(Duration::ZERO), now);
                    } else {
                        self.record_ending(call, Settlement::TimedOut, cause);
                        self.step_call(call, CallInput::Forget);
                    }
                }
                None => {
                    // A cancelled call keeps its own ending; this one is for a detached call.
                    self.record_ending(call, Settlement::TimedOut, Cause::Dropped);
                    self.step_call(call, CallInput::Forget);
                }
            }
        }
    }

    /// Nothing comes in any more: every call settles, every request is marked cancelled (G7), as far as
    /// the dialect's [`ClosedStream`] says so.
    pub fn close(&mut self, reason: CloseReason, now: Timestamp) {
        if self.is_closed() {
            return;
        }
        self.life = Life::Closed;
        self.lose_calls(reason.cause());
        let cause = match (reason, self.config.dialect.closed_stream) {
            (CloseReason::PeerGone, ClosedStream::NoCancel) => None,
            (CloseReason::PeerGone, ClosedStream::Cancel) => Some(Cause::Peer),
            _ => Some(reason.cause()),
        };
        if let Some(cause) = cause {
            self.cancel_requests(cause, now);
        }
        self.actions.push_back(Action::Close { reason });
    }
}
