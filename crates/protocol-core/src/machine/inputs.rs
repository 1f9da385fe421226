//! What comes in: what the peer did, and time.

use alloc::boxed::Box;

use super::{
    Answer, Batch, CANCEL_INPUTS, CallId, CallInput, CallPhase, CallStep, CancelReceipt, Consent,
    Fate, LifeInput, LifeStep, Machine, Named, Patience, PeerCancel, PeerCancels, RequestHandle,
    RequestInput, RequestPhase, RequestRefusal, RequestStep, Session, Settlement, StrayResponse,
};
use crate::cause::{Cause, CloseReason};
use crate::dialect::MessageOrder;
use crate::id::WireId;
use crate::machine::Action;
use crate::time::Timestamp;

impl<C, R: Default, X> Machine<C, R, X> {
    /// A message of many parts begins: nothing of it is lost by closing in its middle (G7). To be ended
    /// by [`end_batch`](Self::end_batch).
    pub fn begin_batch(&mut self) {
        self.batch = Batch::BeingTaken;
    }

    /// Every part of the message is taken.
    pub fn end_batch(&mut self) {
        self.batch = Batch::Taken;
    }

    /// Whether a request is taken for want of nothing but a session, which this one may open.
    #[must_use]
    pub fn lacks_session(&self, opens_session: bool) -> bool {
        self.session == Session::Missing && !opens_session
    }

    /// The peer sent a request. If its cancel came before it, that is queued as a mark.
    ///
    /// # Errors
    ///
    /// Why it is not accepted, and what it had in its box; it is then to be answered so.
    pub fn receive_request(
        &mut self,
        id: WireId,
        cancels: PeerCancels,
        data: R,
        rare: Option<Box<X>>,
        now: Timestamp,
    ) -> Result<RequestHandle, (RequestRefusal, Option<Box<X>>)> {
        if self.requests.by_id(&id).is_some() {
            return Err((RequestRefusal::DuplicateId, rare));
        }
        // Its early cancel was for it, and not for the next request of this id.
        let is_cancelled_early = self.early.take(&id).is_some();
        if self.life.on(LifeInput::NewRequest).step != LifeStep::Accept {
            return Err((RequestRefusal::ShuttingDown, rare));
        }
        if self.requests.unanswered() >= self.config.limits.requests {
            return Err((RequestRefusal::TooManyRequests, rare));
        }
        let request = self.requests.insert(id, cancels, data, rare);
        if is_cancelled_early {
            self.cancel_early(request, now);
        }
        Ok(request)
    }

    /// Marks a request whose cancel came before it.
    fn cancel_early(&mut self, request: RequestHandle, now: Timestamp) {
        let input = self.peer_cancel_input(request);
        if self.mark(request, input, Cause::Peer) == RequestStep::MarkCancelled {
            self.cascade.push_back(Action::MarkCancelled { request, cause: Cause::Peer });
            self.cancel_children(request, now);
        }
    }

    /// Progress with this token is this request's: it is withheld once the request is cancelled.
    pub fn withhold_progress(&mut self, request: RequestHandle, token: WireId) {
        self.retired.take(&token);
        self.withheld.insert(request, token);
    }

    /// Whether any progress is, or may have to be, withheld.
    #[must_use]
    pub fn withholds_any_progress(&self) -> bool {
        !(self.withheld.is_empty() && self.retired.is_empty())
    }

    /// Whether a notification with this token is progress of nothing but cancelled requests.
    #[must_use]
    pub fn withholds_progress(&self, token: &WireId) -> bool {
        let mut owners = self.withheld.owners_of(token).peekable();
        match owners.peek() {
            None => self.retired.get(token).is_some(),
            Some(_) => {
                owners.all(|it| self.request_phase(it).is_some_and(RequestPhase::is_cancelled))
            }
        }
    }

    /// Whether a request with this id, and no operation, waits for its answer.
    #[must_use]
    pub fn owes_answer(&self, id: &WireId) -> bool {
        let phase = self.requests.by_id(id).and_then(|request| self.request_phase(request));
        phase.is_some_and(|phase| !phase.is_operation())
    }

    /// Whether the peer may cancel at all, and this is the token of no operation begun here.
    #[must_use]
    pub fn is_unknown_operation(&self, token: Option<&WireId>) -> bool {
        let request = token.and_then(|token| self.requests.by_id(token));
        let phase = request.and_then(|request| self.request_phase(request));
        self.peer_cancels() == PeerCancels::Obeyed && !phase.is_some_and(RequestPhase::is_operation)
    }

    /// Whether the peer's cancel of this request is obeyed, and what it names, to the table.
    fn peer_cancel_input(&self, request: RequestHandle) -> RequestInput {
        let obeyed = self.requests.get(request).is_some_and(|it| it.cancels == PeerCancels::Obeyed);
        match (obeyed, self.config.dialect.has_operations()) {
            (false, _) => RequestInput::PeerCancelRefused,
            (true, true) => RequestInput::PeerCancelsOperation,
            (true, false) => RequestInput::PeerCancel,
        }
    }

    /// The peer cancelled the request with this id, or the operation with this token; ignored if none is
    /// in flight (G2), unless the request may still be under way.
    pub fn receive_cancel(&mut self, id: &WireId, now: Timestamp) -> PeerCancel {
        if self.peer_cancels() == PeerCancels::Ignored {
            return PeerCancel { receipt: CancelReceipt::Ignored, marked: None };
        }
        let Some(request) = self.requests.by_id(id) else {
            if self.config.dialect.order == MessageOrder::MayChange {
                self.early.insert(id.clone(), (), self.config.limits.early_cancels);
            }
            let receipt = self.finished.get(id).copied().unwrap_or(CancelReceipt::NotFound);
            return PeerCancel { receipt, marked: None };
        };
        let step = self.mark(request, self.peer_cancel_input(request), Cause::Peer);
        let is_marked = step == RequestStep::MarkCancelled;
        if is_marked {
            self.cancel_children(request, now);
        }
        PeerCancel { receipt: step.receipt(), marked: is_marked.then_some(request) }
    }

    /// The peer ended one of our calls that the dialect lets it end.
    pub fn receive_end(&mut self, call: CallId) -> Option<Action<C>> {
        let place = self.calls.find(call)?;
        if self.calls.row(place).phase != CallPhase::Queued {
            self.record_ending(place, Settlement::Cancelled, Cause::Peer);
        }
        self.step_call(place, CallInput::PeerEnds).1
    }

    /// The peer answered the message of ours with this wire number.
    ///
    /// # Errors
    ///
    /// What the response is instead, when nothing waits for it (G12).
    #[inline]
    pub fn receive_response(
        &mut self,
        number: u32,
        answer: Answer,
    ) -> Result<Option<Action<C>>, StrayResponse> {
        let (place, input) = match self.calls.named(number) {
            Some(Named::Call(place)) => (place, answer.as_input()),
            Some(Named::CancelOf(place)) => (place, answer.as_input_of_cancel()),
            None => return self.receive_past(number, answer),
        };
        match self.step_call(place, input) {
            (CallStep::Stray, _) => Err(StrayResponse::Unknown),
            (CallStep::Duplicate, _) => Err(StrayResponse::Duplicate),
            (_, action) => Ok(action),
        }
    }

    /// Judges a response to a number that is not in flight.
    fn receive_past(
        &mut self,
        number: u32,
        answer: Answer,
    ) -> Result<Option<Action<C>>, StrayResponse> {
        if !self.calls.was_issued(number) {
            return Err(StrayResponse::Unknown);
        }
        let Some(fate) = self.past.get_mut(&number) else { return Err(StrayResponse::Duplicate) };
        let before = *fate;
        match before {
            Fate::Withdrawn | Fate::CancelQueued => return Err(StrayResponse::Unknown),
            Fate::Answered => return Err(StrayResponse::Duplicate),
            Fate::Left | Fate::TokenAwaited | Fate::CancelSent => *fate = Fate::Answered,
        }
        match before {
            Fate::CancelSent => Ok(None),
            Fate::TokenAwaited if answer == Answer::Token => {
                Err(StrayResponse::LateToken { number: self.send_cancel_of_nobody() })
            }
            _ => Err(StrayResponse::Late),
        }
    }

    /// Progress arrived for a call: its idle timeout starts anew.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        let Some(place) = self.calls.find(call) else { return };
        if self.calls.row(place).rare.is_some() {
            self.calls.set_timers(place, |timers| {
                if let Some(idle) = &mut timers.idle {
                    idle.due = now + idle.after;
                }
            });
        }
    }

    /// Whether any call waits for progress.
    #[must_use]
    pub fn awaits_progress(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Progress arrived with this token: the idle timeouts of its calls start anew.
    pub fn progress_with(&mut self, token: &WireId, now: Timestamp) {
        let mut last = CallId::MIN;
        while let Some(call) = self.awaited.owner_after(token, last) {
            self.progress(call, now);
            last = call;
        }
    }

    /// Fires every timer that is due, in the order of their times.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((due, call, reason)) = self.calls.next_timer() {
            if due > now {
                return;
            }
            let Some(place) = self.calls.find(call) else { return };
            let input = match reason.cause() {
                Some(cause) => {
                    self.record_ending(place, Settlement::TimedOut, cause);
                    let consent = match self.call_refusal(call) {
                        Some(_) => Consent::RefusedAndTimedOut,
                        None => Consent::Granted,
                    };
                    let form = self.cancel_form() as usize;
                    CANCEL_INPUTS[form][consent as usize][Patience::Leaves as usize]
                }
                None => {
                    // A cancelled call keeps its own ending; this one is for a detached call.
                    self.record_ending(place, Settlement::TimedOut, Cause::Dropped);
                    CallInput::Forget
                }
            };
            self.cascade_step(place, input);
        }
    }

    /// Nothing comes in any more: every call settles, every request is marked cancelled (G7), as far as
    /// the dialect's [`closed_stream`](crate::Dialect::closed_stream) says so.
    pub fn close(&mut self, reason: CloseReason, now: Timestamp) {
        self.step_life(LifeInput::Lose, reason, now);
    }
}

impl Answer {
    /// What an answer to a call's own request is to the table.
    const fn as_input(self) -> CallInput {
        match self {
            Self::Result => CallInput::Result,
            Self::Token => CallInput::Token,
            Self::Error => CallInput::Error,
            Self::CancelError => CallInput::CancelError,
            Self::Malformed => CallInput::Malformed,
        }
    }

    /// What an answer to a call's cancel is to the table.
    const fn as_input_of_cancel(self) -> CallInput {
        match self {
            Self::Result | Self::Token | Self::CancelError => CallInput::Acknowledged,
            Self::Error => CallInput::CancelFailed,
            Self::Malformed => CallInput::CancelMalformed,
        }
    }
}
