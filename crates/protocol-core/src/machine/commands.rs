//! What our own side asks of the machine.

use core::time::Duration;

use super::calls::{Call, Named, Place};
use super::table::{CallInput, CallStep, LifeInput, LifeStep, RequestInput, Transition};
use super::{
    Action, CallId, CallPhase, CancelOutcome, CancelRefusal, Fate, Machine, RequestHandle,
    RequestPhase, RequestStep, Settlement,
};
use crate::cause::{Cause, CloseReason};
use crate::config::{CallOptions, Shutdown};
use crate::dialect::{Dialect, Grace};
use crate::error::Refusal;
use crate::id::WireId;
use crate::time::Timestamp;

impl<C, R: Default> Machine<C, R> {
    /// Judges whether [`call`](Self::call) would be taken now, and says under which id.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`] or
    /// [`Refusal::UnknownParent`].
    pub fn admit_call(&self, options: &CallOptions) -> Result<CallId, Refusal> {
        let input = match options.parent.map(|parent| self.request_phase(parent)) {
            None => LifeInput::NewCall,
            Some(Some(phase)) if phase.awaits_response() => LifeInput::NewNestedCall,
            Some(_) => return Err(Refusal::UnknownParent),
        };
        match self.life.on(input).step {
            LifeStep::RefuseClosed => Err(Refusal::Closed),
            LifeStep::RefuseShuttingDown => Err(Refusal::ShuttingDown),
            _ if self.calls.len() >= self.config.limits.calls => Err(Refusal::TooManyCalls),
            _ => Ok(self.calls.next_id()),
        }
    }

    /// Makes the call that [`admit_call`](Self::admit_call) has just admitted: its request is to be
    /// sent, under the number of `id`. On behalf of a request that is cancelled already, it is made
    /// and withdrawn.
    ///
    /// `refusal` says why it can't be cancelled on the wire, if its method or params rule that out.
    pub fn call(
        &mut self,
        id: CallId,
        options: &CallOptions,
        refusal: Option<CancelRefusal>,
        data: C,
        now: Timestamp,
    ) {
        let parent = options.parent.map(|parent| parent.slot);
        let (phase, ending) = (CallPhase::Queued, None);
        let place =
            self.calls.insert(Call { id, data, parent, phase, ending, refusal, rare: None });
        if id.is_reissued() {
            self.past.take(&id.number());
        }
        if options.has_times() {
            self.calls.set_times(place, |rare| {
                rare.grace = options.grace;
                rare.deadline = options.timeout.map(|timeout| now + timeout);
                rare.idle_after = options.idle_timeout;
                rare.idle = options.idle_timeout.map(|after| now + after);
                rare.hard_cap = options.hard_cap.map(|cap| now + cap);
            });
        }
        if let Some(parent) = options.parent {
            self.requests.add_child(parent, id);
            if self.request_phase(parent).is_some_and(RequestPhase::is_cancelled) {
                self.cascade_cancel(id, Cause::Parent, now);
            }
        }
    }

    /// Progress with this token is this call's: it restarts the idle timeout.
    pub fn await_progress(&mut self, call: CallId, token: WireId) {
        if self.calls.get(call).is_some() {
            self.awaited.insert(call, token);
        }
    }

    /// Cancels a call (G5); gives what that means for the host, and what is to be done for this call.
    /// Whoever drops a call cancels it with [`Cause::Dropped`], and then its grace is bounded by
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    #[must_use = "the action is still to be done"]
    pub fn cancel(
        &mut self,
        call: CallId,
        cause: Cause,
        now: Timestamp,
    ) -> (CancelOutcome, Option<Action<C>>) {
        let Some(place) = self.calls.find(call) else {
            return (CancelOutcome::AlreadySettled, None);
        };
        let row = self.calls.row(place);
        let refusal = row.refusal.or_else(|| self.refusal());
        let input = self.cancel_input(refusal);
        let refused = refusal.filter(|_| row.phase.on(input).step == CallStep::Refuse);
        let own = row.rare.as_ref().and_then(|rare| rare.grace);
        let is_awaited = !matches!(cause, Cause::Dropped | Cause::Shutdown);
        if let Some(why) = refused {
            if !is_awaited {
                // It is released after a grace all the same.
                self.record_ending(place, Settlement::Cancelled, cause);
                self.shorten_grace(place, self.config.abandoned_grace, now);
            }
            return (CancelOutcome::Refused(why), None);
        }
        // What nobody waits for is never without a limit.
        let longest = self.config.abandoned_grace;
        let grace = match own.unwrap_or(self.config.dialect.grace) {
            grace if is_awaited => grace,
            Grace::Await => Grace::Settle(longest),
            Grace::Settle(grace) => Grace::Settle(grace.min(longest)),
        };
        self.record_ending(place, Settlement::Cancelled, cause);
        let (mut step, mut action) = self.step_call(place, input, None);
        match (grace, &action) {
            (_, Some(Action::Withdraw(_) | Action::Complete(_))) | (Grace::Await, _) => {}
            (Grace::Settle(Duration::ZERO), None) => {
                (step, action) = self.step_call(place, CallInput::Forget, None);
            }
            (Grace::Settle(Duration::ZERO), Some(_)) => self.cascade_step(place, CallInput::Forget),
            (Grace::Settle(grace), _) => self.shorten_grace(place, grace, now),
        }
        let outcome = match step {
            CallStep::Withdraw => CancelOutcome::Withdrawn,
            CallStep::SendCancel => CancelOutcome::Sent,
            CallStep::AwaitToken | CallStep::AwaitTokenAndSettle => CancelOutcome::AwaitsToken,
            CallStep::Settle => CancelOutcome::Settled,
            _ => CancelOutcome::AlreadySent,
        };
        (outcome, action)
    }

    fn shorten_grace(&mut self, place: Place, grace: Duration, now: Timestamp) {
        let due = now + grace;
        self.calls.set_times(place, |rare| {
            rare.release = Some(rare.release.map_or(due, |earlier| earlier.min(due)));
        });
    }

    /// Gives up interest in a call without cancelling it. It is no longer part of its parent's
    /// tree, and is released after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        let Some(place) = self.calls.find(call) else { return };
        let parent = self.calls.row_mut(place).parent.take();
        self.shorten_grace(place, self.config.abandoned_grace, now);
        self.leave_tree(call, parent);
    }

    /// The wire number that the next call or cancel gets.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.calls.next_id().number()
    }

    /// Takes the next number for a message that is never answered.
    pub fn skip_number(&mut self) {
        self.calls.take_number();
    }

    /// Takes the next number for a cancel that no row waits for, where cancels are requests.
    pub fn number_of_cancel_alone(&mut self) -> u32 {
        let cancel = self.calls.take_number();
        self.remember(cancel.number(), Fate::CancelQueued);
        cancel.number()
    }

    /// What an answer to an unanswered request would do, with its id, which an operation has no more,
    /// and the host's data.
    #[inline]
    #[must_use]
    pub fn answer_step(
        &self,
        request: RequestHandle,
    ) -> Option<(RequestStep, Option<&WireId>, &R)> {
        let row = self.requests.get(request).filter(|row| row.phase.awaits_response())?;
        let step = row.phase.on(self.respond_input(row.cause)).step;
        Some((step, row.id.as_ref(), &row.data))
    }

    /// Whether an answer to this request would be withheld.
    #[must_use]
    pub fn withholds_answer(&self, request: RequestHandle) -> bool {
        self.answer_step(request).is_some_and(|(step, ..)| step == RequestStep::Withhold)
    }

    /// What [`end_request`](Self::end_request) would do.
    #[must_use]
    pub fn end_step(&self, request: RequestHandle) -> Option<RequestStep> {
        Some(self.requests.get(request)?.phase.on(RequestInput::End).step)
    }

    /// Settles a request with the host's answer, of which [`answer_step`](Self::answer_step) says
    /// whether it is to be sent, to be replaced or to be withheld (G2). Gives the host's data back.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`].
    #[inline]
    pub fn respond(&mut self, request: RequestHandle) -> Result<R, Refusal> {
        let row = self.requests.get(request).ok_or(Refusal::AlreadyResponded)?;
        self.end(request, self.respond_input(row.cause))
    }

    /// Settles a request that our side may end, without an answer, as [`respond`](Self::respond) does
    /// it with one.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`].
    pub fn end_request(&mut self, request: RequestHandle) -> Result<R, Refusal> {
        self.end(request, RequestInput::End)
    }

    /// The request is answered with the token of an operation, which is cancelled by that and goes on
    /// until [`respond`](Self::respond), which then only ends it.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], also if it is an operation already; [`Refusal::TokenInUse`].
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        token: WireId,
    ) -> Result<(), Refusal> {
        let phase = self.admit_operation(request, &token)?;
        if let Some(row) = self.requests.get_mut(request) {
            row.phase = phase;
        }
        self.requests.rename(request, token);
        Ok(())
    }

    /// Judges whether [`begin_operation`](Self::begin_operation) would be taken now, and says in which
    /// phase the request would go on.
    ///
    /// # Errors
    ///
    /// As [`begin_operation`](Self::begin_operation).
    pub fn admit_operation(
        &self,
        request: RequestHandle,
        token: &WireId,
    ) -> Result<RequestPhase, Refusal> {
        let row = self.requests.get(request).ok_or(Refusal::AlreadyResponded)?;
        match row.phase.on(RequestInput::BeginOperation) {
            Transition { next: Some(phase), step: RequestStep::SendToken } => {
                let is_taken = self.requests.by_id(token).is_some();
                if is_taken { Err(Refusal::TokenInUse) } else { Ok(phase) }
            }
            _ => Err(Refusal::AlreadyResponded),
        }
    }

    /// Marks a request cancelled and cancels the calls made on its behalf (G6). Says whether it is
    /// marked now: it is not if it was, or if it is answered.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) -> bool {
        self.mark(request, RequestInput::Cancel, cause, now) == RequestStep::MarkCancelled
    }

    /// Shuts down (G5). A later, stronger shutdown takes over from an earlier one.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        let input = match how {
            Shutdown::Drain => LifeInput::Drain,
            Shutdown::CancelAll => LifeInput::CancelAll,
            Shutdown::Abandon => LifeInput::Abandon,
        };
        self.step_life(input, CloseReason::Shutdown, now);
    }

    // What an exchange concludes

    /// A side, which is ours or the peer's, declared whether it can be asked to cancel: the other one
    /// cancels if it did. What a role may never do, it still may not.
    pub fn declared(&mut self, is_ours: bool, can_be_asked: bool) {
        if is_ours {
            self.peer_may_cancel = can_be_asked;
        } else {
            self.undeclared = (!can_be_asked).then_some(CancelRefusal::Undeclared);
        }
    }

    /// The session is open.
    pub fn open_session(&mut self) {
        self.life = self.life.on(LifeInput::OpenSession).next.unwrap_or(self.life);
    }

    /// Another dialect is spoken from now on: the revision of the family that was negotiated.
    pub fn speak(&mut self, dialect: Dialect) {
        self.config.dialect = dialect;
    }

    // What the transport did

    /// The message of ours with this number, a request or a cancel, has left; it can't be withdrawn
    /// any more.
    #[inline]
    pub fn transmitted(&mut self, number: u32) {
        if let Some(Named::Call(place) | Named::CancelOf(place)) = self.calls.named(number) {
            let row = self.calls.row_mut(place);
            row.phase = row.phase.on(CallInput::Transmitted).next.unwrap_or(row.phase);
        } else if let Some(fate @ Fate::CancelQueued) = self.past.get_mut(&number) {
            *fate = Fate::CancelSent;
        }
    }
}
