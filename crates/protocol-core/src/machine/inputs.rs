//! The inputs of the machine, from the transport, the peer and the clock.

use core::mem;

use super::action::{Action, ResponseKind};
use super::calls::{Fate, NumberOwner, TimerReason};
use super::requests::{RequestExtras, Requests};
use super::state::Machine;
use super::table::{
    CallInput, CallPhase, CallStep, LifeInput, LifeStep, RequestInput, RequestStep,
};
use super::works::Part;
use crate::cause::{Cause, CloseReason, Settlement};
use crate::dialect::facts::Facts;
use crate::dialect::{Dialect, MessageOrder, RequestKind, Role};
use crate::handle::{CallId, RequestHandle};
use crate::id::WireId;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};

impl<C, R: Default> Machine<C, R> {
    // From the transport

    /// Notes that our request or cancel with this number has left. It can't be withdrawn any more.
    #[inline]
    pub fn transmitted(&mut self, number: u32) {
        let owner = self.calls.owner_of(number);
        if let Some(NumberOwner::Call(key) | NumberOwner::CancelOf(key)) = owner {
            let row = self.calls.row_mut(key);
            row.phase = row.phase.on(CallInput::Transmitted).next.unwrap_or(row.phase);
        } else if let Some(it @ Fate::CancelQueued) = self.calls.settled_numbers.get_mut(&number) {
            *it = Fate::CancelSent;
        }
    }

    /// Closes the connection: nothing comes in any more.
    ///
    /// Every call settles, and every request is marked cancelled with the cause of the end. For
    /// [`CloseReason::PeerGone`], that is the dialect's [`closed_stream`](crate::Dialect::closed_stream),
    /// which may leave the requests as they are.
    pub fn close(&mut self, reason: CloseReason, now: Timestamp) {
        self.advance_clock(now);
        self.step_life(LifeInput::Lose, reason);
    }

    /// Sets whether the close of a draining connection waits: while a batch, or a notification about work, is taken.
    /// Returns the value before.
    pub const fn set_holds_close(&mut self, holds: bool) -> bool {
        mem::replace(&mut self.holds_close, holds)
    }

    // From the peer

    /// Accepts a request of the peer's. If its cancel came before it, that is queued as a mark.
    ///
    /// The first of these reasons refuses it:
    /// - the session is not open
    /// - the id or the envelope is bad
    /// - the id is in flight
    /// - the connection is shutting down or closed
    /// - too many requests are in flight
    ///
    /// # Errors
    ///
    /// The rule that the request breaks, with `extras` as they were. The request is to be responded to
    /// with an error.
    #[inline]
    pub fn receive_request(
        &mut self,
        id: Result<WireId, EnvelopeProblem>,
        extras: &mut RequestExtras,
    ) -> Result<RequestHandle, Violation> {
        let (id, admission) = self.admit(id, &extras.facts)?;
        if self.requests.by_id(&id).is_some() {
            return Err(Violation::DuplicateId);
        }
        // An early cancel is for this request, and not for the next one with its id.
        let is_cancelled_early = self.requests.early_cancels.take(&id).is_some();
        if admission != LifeStep::Accept {
            return Err(Violation::RequestAfterShutdown);
        }
        if self.requests.awaiting() >= self.config.limits.requests {
            return Err(Violation::TooManyRequests);
        }
        // A cancel that names this id means this request from now on.
        self.requests.finished.take(&id);
        let part = extras.facts.work.clone();
        let request = self.requests.insert(id, extras);
        if let Some(part) = part {
            self.work_in_request(&part, Part::Request(request));
        }
        if is_cancelled_early {
            self.mark_cancelled(request, self.peer_cancel_input(request), Cause::Peer);
        }
        Ok(request)
    }

    /// Judges a cancel of the peer's that is a request, and returns its id.
    ///
    /// `shares_ids` says whether the cancel's id is one of the ids of requests. A cancel with the id of
    /// a request in flight is refused then: nobody could tell the two responses apart (B5).
    ///
    /// # Errors
    ///
    /// The rule that the cancel breaks; the cancel is to be responded to with an error.
    pub fn admit_cancel_request(
        &mut self,
        id: Result<WireId, EnvelopeProblem>,
        facts: &Facts,
        shares_ids: bool,
    ) -> Result<WireId, Violation> {
        let (id, _) = self.admit(id, facts)?;
        let is_taken = shares_ids && self.requests.by_id(&id).is_some();
        if is_taken { Err(Violation::DuplicateId) } else { Ok(id) }
    }

    /// Lets a request into the session, if it has a usable id. The step says whether a shutdown refuses it, which the
    /// caller checks after the id.
    #[inline(always)]
    fn admit(
        &self,
        id: Result<WireId, EnvelopeProblem>,
        facts: &Facts,
    ) -> Result<(WireId, LifeStep), Violation> {
        let opens_session = facts.handshake.is_some_and(|handshake| handshake.opens_session);
        let input = if opens_session { LifeInput::OpeningRequest } else { LifeInput::NewRequest };
        match self.life.on(input).step {
            LifeStep::RefuseUninitialized => Err(Violation::NotInitialized),
            step => Ok((id.map_err(|problem| Violation::InvalidRequest { problem })?, step)),
        }
    }

    /// Notes that a request of the peer's was refused for this. If it was one too many, the connection
    /// closes where [`Config::close_over_limit`](crate::Config::close_over_limit) is set.
    pub fn close_if_over_limit(&mut self, violation: Violation) {
        if violation == Violation::TooManyRequests && self.config.close_over_limit {
            self.step_life(LifeInput::Lose, CloseReason::OverLimit);
        }
    }

    /// Takes the peer's cancel of the request with this id, or of the operation with this token.
    ///
    /// Returns the step and the request with that name. There is a step without a request if the peer may not cancel,
    /// or the request is over, and neither if nothing has the name. The latter is remembered for a request that may
    /// still come, if cancels are notifications that can overtake it.
    pub fn receive_cancel(&mut self, id: &WireId) -> (Option<RequestStep>, Option<RequestHandle>) {
        let is_token = self.config.dialect.has_operations();
        let named = if is_token { self.requests.by_token(id) } else { self.requests.by_id(id) };
        let Some(request) = named else {
            if !self.accepts_cancels() {
                return (Some(RequestStep::Ignore), None);
            }
            let step =
                self.requests.finished.get(id).map(|it| it.on(RequestInput::LateCancel).step);
            // A cancel that is a request gets a response at once, so it must not take effect later.
            let is_remembered = step.is_none() && !self.config.dialect.cancels_are_requests();
            if is_remembered && self.config.dialect.order == MessageOrder::MayChange {
                let most = self.config.limits.early_cancels;
                self.requests.early_cancels.insert(id.clone(), (), most);
            }
            return (step, None);
        };
        let input = self.peer_cancel_input(request);
        (Some(self.mark_cancelled(request, input, Cause::Peer)), Some(request))
    }

    /// Returns whether this is the token of no operation begun here, and the peer may cancel at all.
    pub fn is_unknown_operation(&self, token: Option<&WireId>) -> bool {
        self.accepts_cancels() && token.is_none_or(|token| self.requests.by_token(token).is_none())
    }

    /// Returns whether the response to this request would be withheld.
    pub fn withholds_response(&self, request: RequestHandle) -> bool {
        self.requests.get(request).is_some_and(|row| {
            row.phase.on(self.respond_input(row.cause)).step == RequestStep::Withhold
        })
    }

    /// Returns our call with this number, if the dialect lets the peer end it. All other cancels of the
    /// peer name requests of its own (B13).
    ///
    /// Its `number` is read only if there are calls of ours, and the peer is a server: a client may end none.
    pub fn call_that_peer_may_end(&self, number: impl FnOnce() -> Option<u32>) -> Option<CallId> {
        let has_calls = self.calls.len() > 0 && self.config.role == Role::Client;
        let row = self.call_row(has_calls.then(number)??)?;
        row.extras.as_ref().filter(|extras| extras.facts.server_may_end).map(|_| row.id)
    }

    /// Takes the peer's end of one of our calls. A call that has not left stays as it is.
    pub fn receive_end(&mut self, call: CallId) {
        let Some(key) = self.calls.find(call) else { return };
        // The peer can't know of a request that has not left.
        if self.calls.row(key).phase != CallPhase::Queued {
            self.calls.record_ending(key, Settlement::Cancelled, Cause::Peer);
            self.step_call(key, CallInput::GiveUp, None);
        }
    }

    /// Returns whether the message of ours with this number is of the kind that a response names.
    pub fn matches_kind(&self, number: u32, kind: RequestKind) -> bool {
        match self.calls.owner_of(number) {
            Some(NumberOwner::Call(key)) => {
                let extras = self.calls.row(key).extras.as_ref();
                extras.map_or(RequestKind::Ordinary, |extras| extras.facts.kind) == kind
            }
            // A cancel is a message of a type of its own.
            Some(NumberOwner::CancelOf(_)) => kind == RequestKind::Typed,
            None => {
                let fate = self.calls.settled_numbers.get(&number);
                let is_cancel = matches!(fate, Some(Fate::CancelQueued | Fate::CancelSent));
                !is_cancel || kind == RequestKind::Typed
            }
        }
    }

    /// Returns whether a response with this number could be one to a call in flight or to its cancel,
    /// because that message has left.
    pub fn expects_response(&self, number: u32) -> bool {
        let phase = |key| self.calls.row(key).phase;
        match self.calls.owner_of(number) {
            Some(NumberOwner::Call(key)) => phase(key) != CallPhase::Queued,
            Some(NumberOwner::CancelOf(key)) => {
                matches!(phase(key), CallPhase::Cancelling | CallPhase::AwaitingAcknowledgement)
            }
            None => false,
        }
    }

    /// Takes the peer's response to the message of ours with this number.
    ///
    /// Returns the rule that the response breaks if nothing waits for it (G12).
    #[inline]
    pub fn receive_response(&mut self, number: u32, response: ResponseKind) -> Option<Violation> {
        let (to_call, to_cancel, settlement) = response.meaning();
        let (key, input) = match self.calls.owner_of(number) {
            Some(NumberOwner::Call(key)) => {
                let row = self.calls.row(key);
                // A result to a call that has not left is a stray, and confirms nothing.
                if response == ResponseKind::Stopped && row.phase != CallPhase::Queued {
                    self.confirm_stop(Part::Call(row.id));
                }
                (key, to_call)
            }
            Some(NumberOwner::CancelOf(key)) => (key, to_cancel),
            None => return self.receive_late_response(number, response),
        };
        match self.step_call(key, input, Some(settlement)) {
            CallStep::Stray => Some(Violation::UnknownResponse),
            CallStep::Duplicate => Some(Violation::DuplicateResponse),
            _ => None,
        }
    }

    /// Judges a response to a number that is not in flight.
    fn receive_late_response(&mut self, number: u32, response: ResponseKind) -> Option<Violation> {
        let Some(call) = self.calls.last.latest_numbered(number) else {
            return Some(Violation::UnknownResponse);
        };
        let Some(fate) = self.calls.settled_numbers.get_mut(&number) else {
            return Some(Violation::DuplicateResponse);
        };
        if matches!(fate, Fate::Withdrawn | Fate::CancelQueued) {
            return Some(Violation::UnknownResponse);
        }
        match mem::replace(fate, Fate::RespondedLate) {
            Fate::CancelSent => return None,
            Fate::RespondedLate => return Some(Violation::DuplicateResponse),
            Fate::AwaitingToken if response == ResponseKind::Token => {
                let number = Some(self.number_ownerless_cancel());
                self.actions.push_back(Action::SendCancel { call, number });
            }
            _ => {}
        }
        Some(Violation::LateResponse)
    }

    // Progress and time

    /// Returns whether a notification is progress of silenced requests alone. Its `token` is read only if
    /// any progress may have to be withheld.
    pub fn withholds_progress(&self, token: impl FnOnce() -> Option<WireId>) -> bool {
        let Requests { tokens, silenced_tokens, .. } = &self.requests;
        if tokens.is_empty() && silenced_tokens.is_empty() {
            return false;
        }
        token().is_some_and(|token| {
            tokens.is_silenced(&token).unwrap_or_else(|| silenced_tokens.get(&token).is_some())
        })
    }

    /// Takes progress of one call: its idle timeout starts anew.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        let now = self.advance_clock(now);
        if let Some(key) = self.calls.find(call) {
            self.calls.restart_idle_timeout(key, now);
        }
    }

    /// Restarts the idle timeouts of the calls with this token. `token` runs only if a call waits for progress.
    #[inline]
    pub fn progress_with(&mut self, token: impl FnOnce(&Dialect) -> Option<WireId>) {
        let tokens = &mut self.calls.tokens;
        if let Some(token) = if tokens.is_empty() { None } else { token(&self.config.dialect) } {
            tokens.progress(&token, self.now);
        }
    }

    /// Fires every timer that is due: first those of stopped work, and then those of calls in the order of their times.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.advance_clock(now);
        self.expire_work();
        // A call that timed out is cancelled like any other. If that did not settle it, it ends here.
        while let Some((key, reason)) = self.calls.due_timer(now) {
            let row = self.calls.row(key);
            let (call, refusal) = (row.id, row.refusal.or_else(|| self.cancel_refusal()));
            self.calls.record_ending(key, Settlement::TimedOut, reason.cause());
            if reason != TimerReason::Grace {
                self.step_call(key, self.cancel_input(refusal), None);
            }
            if let Some(key) = self.calls.find(call) {
                self.step_call(key, CallInput::GiveUp, None);
            }
        }
    }

    /// Moves the clock on, never back, and returns its time. Messages of the peer arrive at that time.
    #[inline]
    pub fn advance_clock(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }
}
