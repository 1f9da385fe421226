//! What our own side asks of the machine.

use super::timers::Idle;
use super::{
    Action, CallId, CallPhase, CancelOutcome, CancelReceipt, CancelRefusal, Life, Machine, Owes,
    PeerCancels, Request, RequestHandle, RequestInput, RequestPhase, RequestStep, Settlement,
    Transition,
};
use crate::cause::{Cause, CloseReason};
use crate::config::{CallOptions, Shutdown};
use crate::dialect::{AnswerRule, CancelRule, CancelTarget};
use crate::error::Refusal;
use crate::id::WireId;
use crate::time::Timestamp;

impl Machine {
    /// Judges whether [`call`](Self::call) would be taken now, and says under which wire number.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn admit_call(&self, options: &CallOptions) -> Result<u32, Refusal> {
        let parent_lives = match options.parent {
            None => false,
            Some(parent) => match self.requests.get(parent).map(|entry| entry.phase) {
                Some(RequestPhase::Running | RequestPhase::Cancelled) => true,
                Some(RequestPhase::Answered) | None => return Err(Refusal::UnknownParent),
            },
        };
        match self.life {
            Life::Closed | Life::Abandoned => Err(Refusal::Closed),
            Life::Draining if !parent_lives => Err(Refusal::ShuttingDown),
            _ if self.calls.len() >= self.config.limits.calls => Err(Refusal::TooManyCalls),
            _ => Ok(self.calls.next_id().number()),
        }
    }

    /// Makes a call. On behalf of a request that is cancelled already, it is made and withdrawn.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`] or
    /// [`Refusal::UnknownParent`]; the machine is as it was.
    pub fn call(&mut self, options: &CallOptions, now: Timestamp) -> Result<CallId, Refusal> {
        self.admit_call(options).map(|number| self.make_call(number, options, now))
    }

    /// Makes a call that was admitted under this number.
    pub(crate) fn make_call(
        &mut self,
        number: u32,
        options: &CallOptions,
        now: Timestamp,
    ) -> CallId {
        let grace = options.grace.filter(|grace| *grace != self.config.dialect.grace);
        let call = self.calls.insert(grace, options.parent);
        if call.is_reissued() {
            self.abandoned.reissued(number);
        }
        if options.has_timers() {
            self.timers.update(call, |timers| {
                timers.deadline = options.timeout.map(|timeout| now + timeout);
                timers.idle = options.idle_timeout.map(|after| Idle { after, due: now + after });
                timers.hard_cap = options.hard_cap.map(|cap| now + cap);
            });
        }
        self.actions.push_back(Action::SendRequest { call, number });
        if let Some(parent) = options.parent {
            self.requests.add_child(parent, call);
            let phase = self.requests.get(parent).map(|entry| entry.phase);
            if phase == Some(RequestPhase::Cancelled) {
                self.cancel(call, Cause::Parent, now);
            }
        }
        call
    }

    /// Cancels a call (G5). Whoever drops a call cancels it with [`Cause::Dropped`], and then its
    /// grace is bounded by [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        let Some(entry) = self.calls.get(call) else { return CancelOutcome::AlreadySettled };
        let grace = self.calls.grace(call).unwrap_or(self.config.dialect.grace);
        let grace = match cause {
            Cause::Dropped | Cause::Shutdown => self.config.bounded(grace),
            _ => grace,
        };
        match (entry.phase, self.call_refusal(call)) {
            // Its cancel can be withdrawn with it, or was sent while that was allowed.
            (CallPhase::Queued | CallPhase::Cancelling, _) | (_, None) => {
                self.cancel_within(call, cause, grace, now)
            }
            (_, Some(why)) => self.refuse_cancel(call, cause, why, now),
        }
    }

    /// Nobody waits for a dropped call any more, so it is released after a grace all the same; any
    /// other goes on.
    fn refuse_cancel(
        &mut self,
        call: CallId,
        cause: Cause,
        why: CancelRefusal,
        now: Timestamp,
    ) -> CancelOutcome {
        if matches!(cause, Cause::Dropped | Cause::Shutdown) {
            self.record_ending(call, Settlement::Cancelled, cause);
            self.shorten_grace(call, self.config.abandoned_grace, now);
        }
        CancelOutcome::Refused(why)
    }

    /// This call can't be cancelled on the wire: its timers settle it here, and tell nobody.
    pub fn refuse_cancels_of(&mut self, call: CallId, why: CancelRefusal) {
        if let Some(entry) = self.calls.get_mut(call) {
            entry.refusal = Some(why);
        }
    }

    /// The capabilities are exchanged: whether the peer's cancels are obeyed, and why ours are
    /// refused, if they are. What a role may never do, it still may not.
    pub fn exchanged(&mut self, refusal: Option<CancelRefusal>, cancels: PeerCancels) {
        self.undeclared = refusal;
        self.cancels = cancels;
    }

    /// Whether the peer's cancels of this request are obeyed.
    pub fn take_cancels_of(&mut self, request: RequestHandle, cancels: PeerCancels) {
        if let Some(entry) = self.requests.get_mut(request) {
            entry.cancels = cancels;
        }
    }

    /// Gives up interest in a call without cancelling it. It is no longer part of its parent's
    /// tree, and is released after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        let Some(entry) = self.calls.get_mut(call) else { return };
        let parent = entry.parent.take();
        self.shorten_grace(call, self.config.abandoned_grace, now);
        self.leave_tree(call, parent);
    }

    /// The wire number that the next call or cancel gets.
    pub(crate) fn next_number(&self) -> u32 {
        self.calls.next_id().number()
    }

    /// Takes a wire number out of the row for a message that is no call: a cancel that is a request.
    pub(crate) fn take_number(&mut self) -> u32 {
        self.calls.take_number()
    }

    /// Settles a request with the host's answer. An [`Action::SendResponse`] says whether the
    /// answer is to be sent or withheld (G2).
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`].
    pub fn respond(&mut self, request: RequestHandle) -> Result<(), Refusal> {
        let entry = self.requests.get(request).ok_or(Refusal::AlreadyAnswered)?;
        self.settle_request(request, self.respond_input(entry))
    }

    /// Settles a request that our side may end, without an answer.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`].
    pub fn end_request(&mut self, request: RequestHandle) -> Result<(), Refusal> {
        self.settle_request(request, RequestInput::End)
    }

    /// Whether an answer to this request would be withheld.
    #[must_use]
    pub fn withholds_answer(&self, request: RequestHandle) -> bool {
        self.respond_step(request).is_some_and(|(step, _)| step == RequestStep::Withhold)
    }

    /// What an answer to an unanswered request would do, and its id.
    #[inline]
    pub(crate) fn respond_step(&self, request: RequestHandle) -> Option<(RequestStep, &WireId)> {
        let entry = self.requests.get(request).filter(|entry| entry.phase.is_unanswered())?;
        Some((entry.phase.on(self.respond_input(entry)).step, &entry.id))
    }

    /// The request is answered with the token of an operation, which is cancelled by that and goes on
    /// until [`respond`](Self::respond), which then only ends it.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`], also if it is an operation already; [`Refusal::TokenInUse`].
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        token: WireId,
    ) -> Result<(), Refusal> {
        match self.requests.get(request) {
            Some(entry) if entry.phase.is_unanswered() && entry.owes == Owes::Answer => {}
            _ => return Err(Refusal::AlreadyAnswered),
        }
        if self.requests.by_id(&token).is_some() {
            return Err(Refusal::TokenInUse);
        }
        self.requests.begin_operation(request, token);
        Ok(())
    }

    #[inline]
    fn respond_input(&self, entry: &Request) -> RequestInput {
        if entry.owes == Owes::Nothing {
            return RequestInput::End;
        }
        match (self.config.dialect.answer, self.life) {
            (_, Life::Abandoned) => RequestInput::RespondUnlessCancelled,
            (AnswerRule::Answered, _) => RequestInput::Respond,
            // It asked for no silence, and may still be reading.
            (_, _) if entry.cause == Some(Cause::PeerGone) => RequestInput::Respond,
            (AnswerRule::Silent | AnswerRule::SilentWithProgress, _) => {
                RequestInput::RespondUnlessCancelled
            }
        }
    }

    fn settle_request(
        &mut self,
        request: RequestHandle,
        input: RequestInput,
    ) -> Result<(), Refusal> {
        let entry = self.requests.get_mut(request).ok_or(Refusal::AlreadyAnswered)?;
        let Transition { next, step } = entry.phase.on(input);
        match step {
            RequestStep::Refuse => return Err(Refusal::AlreadyAnswered),
            RequestStep::SendResponse => self.actions.push_back(Action::SendResponse { request }),
            RequestStep::Withhold | RequestStep::Nothing | RequestStep::MarkCancelled => {}
        }
        if let CancelRule::Request { target: CancelTarget::Id { .. }, .. } =
            &self.config.dialect.cancel
        {
            let receipt = match entry.phase {
                RequestPhase::Cancelled => CancelReceipt::CancelledBefore,
                RequestPhase::Running | RequestPhase::Answered => CancelReceipt::Completed,
            };
            self.finished.insert(&entry.id, receipt, self.config.limits.abandoned_ids);
        }
        entry.phase = next.expect("only remove_if_settled ends a request");
        self.requests.release_id(request);
        self.end_tree(request);
        Ok(())
    }

    /// Marks a request cancelled and cancels the calls made on its behalf (G6). No effect on one
    /// that is cancelled or answered already.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        let Some(entry) = self.requests.get_mut(request) else { return };
        let Transition { next, step } = entry.phase.on(RequestInput::Cancel);
        entry.phase = next.expect("only remove_if_settled ends a request");
        if step != RequestStep::MarkCancelled {
            return;
        }
        entry.cause = Some(cause);
        self.actions.push_back(Action::MarkCancelled { request, cause });
        let mut last = CallId::MIN;
        while let Some(call) = self.requests.child_after(request, last) {
            self.cancel(call, Cause::Parent, now);
            last = call;
        }
    }

    /// Shuts down (G5). A later, stronger shutdown takes over from an earlier one.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        if self.is_closed() {
            // The end of input may have left requests running, for a peer that comes back.
            if how != Shutdown::Drain {
                self.cancel_requests(Cause::Shutdown, now);
            }
            if how == Shutdown::Abandon {
                self.life = Life::Abandoned;
            }
            return;
        }
        self.life = Life::Draining;
        match how {
            Shutdown::Drain => {}
            Shutdown::CancelAll => {
                self.cancel_requests(Cause::Shutdown, now);
                for call in self.calls.in_order() {
                    self.cancel(call, Cause::Shutdown, now);
                }
            }
            Shutdown::Abandon => {
                self.lose_calls(Cause::Shutdown);
                self.cancel_requests(Cause::Shutdown, now);
                self.life = Life::Abandoned;
                self.actions.push_back(Action::Close { reason: CloseReason::Shutdown });
            }
        }
    }
}
