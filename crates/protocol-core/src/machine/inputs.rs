//! What comes in: what the peer did, and time.

use core::mem;

use super::table::{CallInput, CallStep, LifeInput, LifeStep, RequestInput};
use super::{
    Action, CallId, CallPhase, CancelRefusal, Fate, Machine, Named, RequestHandle, RequestPhase,
    RequestStep, ResponseKind, Settlement, TimerReason,
};
use crate::cause::{Cause, CloseReason};
use crate::dialect::MessageOrder;
use crate::id::WireId;
use crate::time::Timestamp;
use crate::violation::Violation;

impl<C, R: Default> Machine<C, R> {
    /// A message of many parts begins: nothing of it is lost by closing in its middle (G7). To be ended
    /// by [`end_batch`](Self::end_batch).
    pub fn begin_batch(&mut self) {
        self.is_in_batch = true;
    }

    /// Every part of the message is taken.
    pub fn end_batch(&mut self) {
        self.is_in_batch = false;
    }

    /// Judges whether a request of the peer's is let into the session: before that is open, only the one
    /// that opens it. To be asked of each request first: it goes before whatever else may be wrong.
    ///
    /// # Errors
    ///
    /// [`Violation::NotInitialized`].
    pub fn admit_to_session(&self, opens_session: bool) -> Result<(), Violation> {
        let input = if opens_session { LifeInput::OpeningRequest } else { LifeInput::NewRequest };
        let is_refused = self.life.on(input).step == LifeStep::RefuseUninitialized;
        if is_refused { Err(Violation::NotInitialized) } else { Ok(()) }
    }

    /// The peer sent a request that was [let in](Self::admit_to_session). If its cancel came before it, that
    /// is queued as a mark. `refusal` says why the peer can't cancel it, if its method or params rule that
    /// out.
    ///
    /// # Errors
    ///
    /// Why it is not accepted, with `data` given back; it is then to be answered so.
    pub fn receive_request(
        &mut self,
        id: WireId,
        refusal: Option<CancelRefusal>,
        data: R,
        now: Timestamp,
    ) -> Result<RequestHandle, (Violation, R)> {
        if self.requests.by_id(&id).is_some() {
            return Err((Violation::DuplicateId, data));
        }
        // Its early cancel was for it, and not for the next request of this id.
        let is_cancelled_early = self.early.take(&id).is_some();
        // What is let into the session is taken as what opens it would be.
        if self.life.on(LifeInput::OpeningRequest).step != LifeStep::Accept {
            return Err((Violation::RequestAfterShutdown, data));
        }
        if self.requests.unanswered() >= self.config.limits.requests {
            return Err((Violation::TooManyRequests, data));
        }
        let request = self.requests.insert(id, refusal, data);
        if is_cancelled_early {
            self.cascade_mark(request, self.peer_cancel_input(request), Cause::Peer, now);
        }
        Ok(request)
    }

    /// Progress with this token is this request's: it is withheld once the request is cancelled.
    pub fn withhold_progress(&mut self, request: RequestHandle, token: WireId) {
        self.retired.take(&token);
        self.withheld.insert(request, token);
    }

    /// Whether a notification is progress of nothing but cancelled requests. Its `token` is asked for
    /// only if any progress is, or may have to be, withheld.
    #[must_use]
    pub fn withholds_progress(&self, token: impl FnOnce() -> Option<WireId>) -> bool {
        if self.withheld.is_empty() && self.retired.is_empty() {
            return false;
        }
        let Some(token) = token() else { return false };
        let mut owners = self.withheld.owners_of(&token).peekable();
        match owners.peek() {
            None => self.retired.get(&token).is_some(),
            Some(_) => {
                owners.all(|it| self.request_phase(it).is_some_and(RequestPhase::is_cancelled))
            }
        }
    }

    /// Whether the peer may cancel at all, and this is the token of no operation begun here.
    #[must_use]
    pub fn is_unknown_operation(&self, token: Option<&WireId>) -> bool {
        let request = token.and_then(|token| self.requests.by_id(token));
        let phase = request.and_then(|request| self.request_phase(request));
        self.obeys_cancels() && !phase.is_some_and(RequestPhase::is_operation)
    }

    /// Whether the peer's cancel of this request is obeyed, and what it names, to the table.
    fn peer_cancel_input(&self, request: RequestHandle) -> RequestInput {
        match self.requests.get(request).and_then(|row| row.refusal) {
            Some(_) => RequestInput::PeerCancelRefused,
            None if !self.obeys_cancels() => RequestInput::PeerCancelRefused,
            None if self.config.dialect.has_operations() => RequestInput::PeerCancelsOperation,
            None => RequestInput::PeerCancel,
        }
    }

    /// The peer cancelled the request with this id, or the operation with this token; ignored if none is
    /// in flight (G2), unless the request may still be under way: then it counts if the peer may cancel
    /// both now and when that comes. Gives what the cancel met, and the
    /// request that is marked cancelled now, cause `peer`.
    #[must_use = "the host is to be told of the mark"]
    pub fn receive_cancel(
        &mut self,
        id: &WireId,
        now: Timestamp,
    ) -> (RequestStep, Option<RequestHandle>) {
        let Some(request) = self.requests.by_id(id) else {
            if !self.obeys_cancels() {
                return (RequestStep::Ignore, None);
            }
            if self.config.dialect.order == MessageOrder::MayChange {
                self.early.insert(id.clone(), (), self.config.limits.early_cancels);
            }
            return (self.finished.get(id).copied().unwrap_or(RequestStep::NotFound), None);
        };
        let step = self.mark(request, self.peer_cancel_input(request), Cause::Peer, now);
        (step, Some(request).filter(|_| step == RequestStep::MarkCancelled))
    }

    /// The peer ended one of our calls that the dialect lets it end. Gives what is to be done.
    #[must_use = "the action is still to be done"]
    pub fn receive_end(&mut self, call: CallId) -> Option<Action<C>> {
        let place = self.calls.find(call)?;
        if self.calls.row(place).phase != CallPhase::Queued {
            self.record_ending(place, Settlement::Cancelled, Cause::Peer);
        }
        self.step_call(place, CallInput::PeerEnds, None).1
    }

    /// The peer answered the message of ours with this wire number. Gives what is to be done, and what
    /// is wrong with a response that nothing waits for (G12).
    #[inline]
    #[must_use = "the action is still to be done"]
    pub fn receive_response(
        &mut self,
        number: u32,
        answer: ResponseKind,
    ) -> (Option<Action<C>>, Option<Violation>) {
        let (of_call, of_cancel, settlement) = answer.meaning();
        let (place, input) = match self.calls.named(number) {
            Some(Named::Call(place)) => (place, of_call),
            Some(Named::CancelOf(place)) => (place, of_cancel),
            None => return self.receive_past(number, answer),
        };
        let (step, action) = self.step_call(place, input, Some(settlement));
        let violation = match step {
            CallStep::Stray => Some(Violation::UnknownResponse),
            CallStep::Duplicate => Some(Violation::DuplicateResponse),
            _ => None,
        };
        (action, violation)
    }

    /// Judges a response to a number that is not in flight.
    fn receive_past(
        &mut self,
        number: u32,
        answer: ResponseKind,
    ) -> (Option<Action<C>>, Option<Violation>) {
        let Some(call) = self.calls.issued(number) else {
            return (None, Some(Violation::UnknownResponse));
        };
        let Some(fate) = self.past.get_mut(&number) else {
            return (None, Some(Violation::DuplicateResponse));
        };
        if matches!(fate, Fate::Withdrawn | Fate::CancelQueued) {
            return (None, Some(Violation::UnknownResponse));
        }
        match mem::replace(fate, Fate::Answered) {
            Fate::CancelSent => (None, None),
            Fate::Answered => (None, Some(Violation::DuplicateResponse)),
            Fate::TokenAwaited if answer == ResponseKind::Token => {
                let number = Some(self.number_of_cancel_alone());
                (Some(Action::SendCancel { call, number }), Some(Violation::LateResponse))
            }
            _ => (None, Some(Violation::LateResponse)),
        }
    }

    /// Progress arrived for a call: its idle timeout starts anew.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        self.calls.restart_idle_timeout(call, now);
    }

    /// Whether any call waits for progress.
    #[must_use]
    pub fn awaits_progress(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Progress arrived with this token: the idle timeouts of its calls start anew.
    pub fn progress_with(&mut self, token: &WireId, now: Timestamp) {
        for call in self.awaited.owners_of(token) {
            self.calls.restart_idle_timeout(call, now);
        }
    }

    /// Fires every timer that is due, in the order of their times.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((due, call, reason)) = self.calls.next_timer() {
            if due > now {
                return;
            }
            let Some(place) = self.calls.find(call) else { return };
            self.record_ending(place, Settlement::TimedOut, reason.cause());
            if reason != TimerReason::Grace {
                self.cascade_step(place, self.cancel_input(self.call_refusal(call)));
            }
            if self.calls.find(call).is_some() {
                self.cascade_step(place, CallInput::Forget);
            }
        }
    }

    /// Nothing comes in any more: every call settles, every request is marked cancelled (G7), as far as
    /// the dialect's [`closed_stream`](crate::Dialect::closed_stream) says so.
    pub fn close(&mut self, reason: CloseReason, now: Timestamp) {
        self.step_life(LifeInput::Lose, reason, now);
    }
}
