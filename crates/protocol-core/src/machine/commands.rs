//! The commands of the host, and what it reads.

use super::action::{Action, CancelOutcome, ResponseKind};
use super::calls::{Call, Fate, NumberOwner, TimerReason};
use super::permits::{NewCall, NewOperation, Responding};
use super::recent::RecentIds;
use super::requests::{Request, RequestExtras};
use super::state::Machine;
use super::table::{
    CallInput, CallPhase, CallStep, Life, LifeInput, LifeStep, RequestInput, RequestPhase,
    RequestStep, Transition,
};
use crate::cause::{Cause, CloseReason, Settlement};
use crate::config::{CallOptions, Config, Shutdown};
use crate::dialect::signs::News;
use crate::dialect::{
    CancelRule, Cancellers, CapabilityRule, Dialect, MessageOrder, ResponseRule, Role,
};
use crate::error::{CancelRefusal, Refusal};
use crate::handle::{CallId, RequestHandle};
use crate::id::WireId;
use crate::time::Timestamp;

impl<C, R: Default> Machine<C, R> {
    /// Classifies the cancellation of a call. A refusal rules out a cancel on the wire.
    pub(super) const fn cancel_input(&self, refusal: Option<CancelRefusal>) -> CallInput {
        match self.config.dialect.cancel {
            _ if refusal.is_some() => CallInput::CancelRefused,
            CancelRule::Local | CancelRule::ClosedStream => CallInput::GiveUp,
            CancelRule::Operation { .. } => CallInput::CancelOperation,
            CancelRule::Notification { .. } | CancelRule::Request { .. } => CallInput::Cancel,
        }
    }

    /// Classifies the host's response to a request. `cause` is that of its cancellation, if it was cancelled.
    pub(super) fn respond_input(&self, cause: Option<Cause>) -> RequestInput {
        let Dialect { response, partial_results, .. } = self.config.dialect;
        // A peer that is gone has had no acknowledgement, and may still be reading.
        let is_announced = self.cancels_are_acknowledged() && cause != Some(Cause::PeerGone);
        let is_fixed = response == ResponseRule::Required && !partial_results && is_announced;
        if is_fixed { RequestInput::RespondAcknowledged } else { RequestInput::Respond }
    }

    /// Classifies the cancellation of a request for this cause. Only a cancel of the peer's is followed by
    /// silence, where the dialect wants that.
    pub(super) fn mark_input(&self, cause: Cause) -> RequestInput {
        let wants_silence = self.config.dialect.response != ResponseRule::Required;
        let is_silent = cause == Cause::Peer && wants_silence;
        if is_silent { RequestInput::CancelSilently } else { RequestInput::Cancel }
    }

    /// Classifies the peer's cancel of this request.
    pub(super) fn peer_cancel_input(&self, request: RequestHandle) -> RequestInput {
        let refusal = self.requests.get(request).and_then(|row| row.refusal);
        let is_refused = refusal.is_some() || !self.accepts_cancels();
        if is_refused { RequestInput::CancelRefused } else { self.mark_input(Cause::Peer) }
    }

    // Negotiation

    /// Notes that a side declared whether it can be asked to cancel; the other side cancels if it did.
    ///
    /// A role that may never cancel still may not.
    pub fn set_consent(&mut self, is_ours: bool, can_be_asked: bool) {
        if is_ours {
            self.peer_may_cancel = can_be_asked;
        } else {
            self.consent_refusal = (!can_be_asked).then_some(CancelRefusal::Undeclared);
        }
    }

    /// Opens the session.
    pub fn open_session(&mut self) {
        self.step_life(LifeInput::OpenSession, CloseReason::Shutdown);
    }

    /// Speaks another dialect from now on: the revision of the family that was negotiated.
    ///
    /// A revision with another rule of consent begins without any. Facts of requests in flight stay.
    /// Work is no longer watched if the other revision has other rules for it.
    pub fn set_dialect(&mut self, dialect: Dialect) {
        if dialect.capability != self.config.dialect.capability {
            let needs_consent = dialect.capability != CapabilityRule::NotNeeded;
            self.consent_refusal = needs_consent.then_some(CancelRefusal::BeforeExchange);
            self.peer_may_cancel = !needs_consent;
        }
        if dialect.work != self.config.dialect.work {
            self.calls.given_up = RecentIds::new();
            self.lose_work();
            self.works.nested.clear();
        }
        self.config.dialect = dialect;
    }

    // Commands

    /// Returns a permit to make a call, which [`NewCall::commit`] does.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`] or
    /// [`Refusal::UnknownParent`].
    pub fn call<'m>(&'m mut self, options: &'m CallOptions) -> Result<NewCall<'m, C, R>, Refusal> {
        let input = match options.parent.map(|parent| self.request_phase(parent)) {
            None => LifeInput::NewCall,
            Some(Some(phase)) if phase.awaits_response() => LifeInput::NewNestedCall,
            Some(_) => return Err(Refusal::UnknownParent),
        };
        match self.life.on(input).step {
            LifeStep::RefuseClosed => Err(Refusal::Closed),
            LifeStep::RefuseShuttingDown => Err(Refusal::ShuttingDown),
            _ if self.calls.len() >= self.config.limits.calls => Err(Refusal::TooManyCalls),
            _ => Ok(NewCall { id: self.calls.next_id(), options, machine: self }),
        }
    }

    /// Cancels a call.
    ///
    /// Nobody awaits a call that is cancelled with [`Cause::Dropped`] or [`Cause::Shutdown`]. Its grace is
    /// bounded by [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        self.advance_clock(now);
        let Some(key) = self.calls.find(call) else { return CancelOutcome::AlreadySettled };
        let row = self.calls.row(key);
        let refusal = row.refusal.or_else(|| self.cancel_refusal());
        let input = self.cancel_input(refusal);
        if let (Some(why), CallStep::Refuse) = (refusal, row.phase.on(input).step) {
            let part = row.extras.as_ref().and_then(|extras| extras.facts.work.as_deref());
            // Over HTTP nobody reads the response to a call that has settled.
            let is_read = self.config.dialect.order == MessageOrder::Kept;
            let asked = part.filter(|part| part.news == News::Asked && is_read);
            let stop = asked.and_then(|part| self.config.dialect.stop_of(part.rule));
            let awaits_name = stop.map(|_| CancelOutcome::AwaitsToken);
            if !cause.is_awaited() {
                // Nobody waits for it, so it is released after a grace all the same.
                self.calls.record_ending(key, Settlement::Cancelled, cause);
                self.shorten_grace(key, self.config.abandoned_grace);
            } else if awaits_name.is_some() {
                self.cancel_with(key, input, cause);
            }
            return awaits_name.unwrap_or(CancelOutcome::Refused(why));
        }
        match self.cancel_with(key, input, cause) {
            CallStep::Withdraw => CancelOutcome::Withdrawn,
            CallStep::SendCancel => CancelOutcome::Sent,
            CallStep::AwaitToken | CallStep::AwaitTokenAndSettle => CancelOutcome::AwaitsToken,
            CallStep::Settle => CancelOutcome::Settled,
            _ => CancelOutcome::AlreadySent,
        }
    }

    /// Gives up interest in a call without cancelling it.
    ///
    /// The call is no longer part of its parent's tree, and is released after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        self.advance_clock(now);
        let Some(key) = self.calls.find(call) else { return };
        let parent = self.calls.row_mut(key).parent.take();
        self.shorten_grace(key, self.config.abandoned_grace);
        self.leave_tree(call, parent);
    }

    /// Returns the wire number of the next call or cancel.
    pub fn next_number(&self) -> u32 {
        self.calls.next_id().number()
    }

    /// Takes the next number for a message that is neither a call nor a cancel, if every message has one.
    pub fn skip_number(&mut self) {
        if self.config.dialect.envelope.numbers_every_message() {
            self.calls.take_number();
        }
    }

    /// Takes the next number for a cancel that is a request and belongs to no call in flight.
    pub fn number_ownerless_cancel(&mut self) -> u32 {
        let number = self.calls.take_number();
        let remembered = self.config.limits.abandoned_ids;
        self.calls.settled_numbers.insert(number, Fate::CancelQueued, remembered);
        number
    }

    /// Returns a permit to respond to a request, which [`Responding::commit`] does. It says whether the
    /// response is to be sent, replaced or withheld.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`].
    #[inline]
    pub fn respond(&mut self, request: RequestHandle) -> Result<Responding<'_, C, R>, Refusal> {
        self.permit(request, |machine, row| machine.respond_input(row.cause))
    }

    /// Returns a permit to end a request without a response.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`] or [`Refusal::NotOursToEnd`].
    pub fn end_request(&mut self, request: RequestHandle) -> Result<Responding<'_, C, R>, Refusal> {
        let permit = self.permit(request, |_, _| RequestInput::End)?;
        let may_end = permit.extras().is_some_and(|extras| extras.facts.server_may_end);
        // The end may overtake the response that settles an older revision. Before that, the client takes it for a
        // notification without a meaning.
        let Dialect { order, cancellers, .. } = &permit.machine.config.dialect;
        let is_understood = *order == MessageOrder::Kept || *cancellers != Cancellers::Both;
        if may_end && is_understood { Ok(permit) } else { Err(Refusal::NotOursToEnd) }
    }

    /// Returns a permit to release a request whose response can never be sent.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`].
    pub fn release_request(
        &mut self,
        request: RequestHandle,
    ) -> Result<Responding<'_, C, R>, Refusal> {
        self.permit(request, |_, _| RequestInput::Release)
    }

    /// Returns a permit to respond with the token of an operation, which [`NewOperation::commit`] does.
    ///
    /// The token names the operation until [`respond`](Self::respond), which then only ends it.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], also if it is an operation already; [`Refusal::NoOperation`];
    /// [`Refusal::TokenInUse`].
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        token: WireId,
    ) -> Result<NewOperation<'_, C, R>, Refusal> {
        let has_operations = self.config.dialect.has_operations();
        let is_taken = self.requests.by_token(&token).is_some();
        let request = self.permit(request, |_, _| RequestInput::BeginOperation)?;
        let may_begin = request.extras().is_some_and(|extras| extras.facts.starts_operation);
        match (has_operations && may_begin, is_taken) {
            (false, _) => Err(Refusal::NoOperation),
            (true, true) => Err(Refusal::TokenInUse),
            (true, false) => Ok(NewOperation { request, token }),
        }
    }

    /// Returns a permit for the step that `input` leads to, unless the host may not take it.
    #[inline]
    fn permit(
        &mut self,
        request: RequestHandle,
        input: impl FnOnce(&Self, &Request<R>) -> RequestInput,
    ) -> Result<Responding<'_, C, R>, Refusal> {
        let row = self.requests.get(request).ok_or(Refusal::AlreadyResponded)?;
        let Transition { next, step } = row.phase.on(input(self, row));
        match step {
            RequestStep::RefuseResponded => Err(Refusal::AlreadyResponded),
            _ => {
                let response = (step == RequestStep::SendResponse).then_some(ResponseKind::Result);
                Ok(Responding { machine: self, request, next, step, response })
            }
        }
    }

    /// Marks a request cancelled, and cancels the calls made on its behalf. One that was marked before, or has its
    /// response, stays as it is.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        self.advance_clock(now);
        self.mark_cancelled(request, self.mark_input(cause), cause);
    }

    /// Shuts down. A later, stronger shutdown takes over from an earlier one.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.advance_clock(now);
        let input = match how {
            Shutdown::Drain => LifeInput::Drain,
            Shutdown::CancelAll => LifeInput::CancelAll,
            Shutdown::Abandon => LifeInput::Abandon,
        };
        self.step_life(input, CloseReason::Shutdown);
    }

    // Outputs

    /// Returns whether a decision waits for [`poll_action`](Self::poll_action).
    #[inline]
    pub(crate) fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Returns whether [`poll_action`](Self::poll_action) may have a decision.
    #[inline]
    pub(crate) fn may_have_actions(&self) -> bool {
        self.has_actions() || self.life == Life::Draining
    }

    /// Returns the next decision. The host calls this after every command and input, until there is none.
    /// A connection that drains is closed here, once nothing is in flight.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action<C>> {
        self.calls.assert_consistent();
        self.requests.assert_consistent();
        if self.actions.is_empty() && self.life == Life::Draining && self.is_idle() {
            self.step_life(LifeInput::Idle, CloseReason::Shutdown);
        }
        let action = self.actions.pop_front();
        if let Some(Action::WorkBegan { work }) = action {
            self.works.reported = work.0;
        }
        action
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    ///
    /// The time of an idle timeout may be too early: progress moves the timer when it is looked at.
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        let work = self.works.due.first().map(|&(due, _)| (due, TimerReason::Grace));
        self.calls.next_timer().into_iter().chain(work).min()
    }

    // Getters

    /// Returns the configuration, in the dialect that is spoken now.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the latest time of any input or command.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns whether nothing comes in any more.
    pub const fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed)
    }

    /// Returns the number of our calls in flight.
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of the peer's requests that await their response.
    pub fn requests_in_flight(&self) -> usize {
        self.requests.awaiting()
    }

    /// Returns the call in flight whose request has this wire number.
    pub fn call_numbered(&self, number: u32) -> Option<CallId> {
        self.call_row(number).map(|row| row.id)
    }

    pub(super) fn call_row(&self, number: u32) -> Option<&Call<C>> {
        match self.calls.owner_of(number)? {
            NumberOwner::Call(key) => Some(self.calls.row(key)),
            NumberOwner::CancelOf(_) => None,
        }
    }

    /// Returns the phase of a call; `None` once it has settled.
    pub fn call_phase(&self, call: CallId) -> Option<CallPhase> {
        self.calls.get(call).map(|row| row.phase)
    }

    /// Returns the cause of a call's cancellation, if it was cancelled and still awaits its response.
    pub fn call_cause(&self, call: CallId) -> Option<Cause> {
        self.calls.get(call)?.ending.map(|(_, cause)| cause)
    }

    /// Returns the reason why this call can't be cancelled on the wire, if it can't.
    pub fn call_refusal(&self, call: CallId) -> Option<CancelRefusal> {
        self.calls.get(call)?.refusal.or_else(|| self.cancel_refusal())
    }

    /// Returns the host's data on a call in flight.
    pub fn call_data_mut(&mut self, call: CallId) -> Option<&mut C> {
        self.calls.find(call).map(|key| &mut self.calls.row_mut(key).data)
    }

    /// Returns our calls in flight with the host's data on them, in the order they were made.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &C)> {
        let calls = self.calls.in_order().into_iter();
        calls.filter_map(|call| Some((call, &self.calls.get(call)?.data)))
    }

    /// Returns the requests that await their response with the host's data, in the order they came.
    pub fn requests(&self) -> impl Iterator<Item = (RequestHandle, &R)> {
        let requests = self.requests.in_order().into_iter();
        requests.filter_map(|it| Some((it, &self.requests.get(it)?.data)))
    }

    /// Returns the request that awaits its response under this wire id.
    pub fn request_named(&self, id: &WireId) -> Option<RequestHandle> {
        self.requests.by_id(id)
    }

    /// Returns the phase of a request; `None` once it and its calls have settled.
    pub fn request_phase(&self, request: RequestHandle) -> Option<RequestPhase> {
        self.requests.get(request).map(|row| row.phase)
    }

    /// Returns the cause of a request's cancellation, until the request and its calls have settled.
    pub fn request_cause(&self, request: RequestHandle) -> Option<Cause> {
        self.requests.get(request)?.cause
    }

    /// Returns the wire id of a request that awaits its response. An operation has none: its token is a
    /// secret.
    pub fn request_id(&self, request: RequestHandle) -> Option<&WireId> {
        self.requests.get(request).filter(|row| !row.phase.is_operation())?.id.as_ref()
    }

    /// Returns the host's data on a request that awaits its response.
    pub fn request_data_mut(&mut self, request: RequestHandle) -> Option<&mut R> {
        let row = self.requests.get_mut(request).filter(|row| row.phase.awaits_response())?;
        Some(&mut row.data)
    }

    /// Returns the token of a request's operation, if it goes on as one.
    pub(crate) fn operation_token(&self, request: RequestHandle) -> Option<&WireId> {
        self.requests.get(request).filter(|row| row.phase.is_operation())?.id.as_ref()
    }

    pub(crate) fn extras_mut(&mut self, request: RequestHandle) -> Option<&mut RequestExtras> {
        self.requests.extras_mut(request)
    }

    /// Returns the reason why no call can be cancelled on the wire, if none can.
    pub fn cancel_refusal(&self) -> Option<CancelRefusal> {
        let is_ruled_out = self.config.role == Role::Server && self.only_clients_cancel();
        is_ruled_out.then_some(CancelRefusal::NotOurs).or(self.consent_refusal)
    }

    /// Returns whether the peer's cancels are accepted, as far as its role and consent go.
    pub(super) fn accepts_cancels(&self) -> bool {
        let is_ruled_out = self.config.role == Role::Client && self.only_clients_cancel();
        self.peer_may_cancel && !is_ruled_out
    }

    const fn only_clients_cancel(&self) -> bool {
        matches!(self.config.dialect.cancellers, Cancellers::Client { .. })
    }

    /// Returns whether a cancel is acknowledged with what became of the request that it names.
    pub(super) const fn cancels_are_acknowledged(&self) -> bool {
        matches!(self.config.dialect.cancel, CancelRule::Request { .. })
    }

    fn is_idle(&self) -> bool {
        self.calls.len() == 0 && self.requests.awaiting() == 0 && !self.holds_close
    }
}
