//! What the host asks of a connection.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::special::Special;
use super::{Cargo, Connection, Incoming, Outgoing, ServerEnds, Session, stamp, write_reply};
use crate::cause::Cause;
use crate::config::{CallOptions, Shutdown};
use crate::dialect::{CancelRule, Dialect, Envelope, Role, SessionRule, Text, Uncancellable};
use crate::error::{Refusal, SendError};
use crate::event::{Params, Reply, TransmitKind};
use crate::id::WireId;
use crate::machine::{
    Action, CallId, CancelOutcome, CancelRefusal, RequestHandle, RequestPhase, RequestStep,
};
use crate::outbox::{Full, Staged};
use crate::slot::put;
use crate::time::Timestamp;
use crate::wire::abp::{self, Asked};
use crate::wire::{decode, encode};

impl<O, I: Default> Connection<O, I> {
    /// Calls the peer. An accepted call settles exactly once, with `data` (G1).
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`],
    /// [`Refusal::UnknownParent`], [`Refusal::InvalidParams`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`], with `data` given back.
    pub fn call(
        &mut self,
        method: &str,
        params: Params<'_>,
        data: O,
        options: CallOptions,
        now: Timestamp,
    ) -> Result<CallId, SendError<O>> {
        let envelope = self.config().dialect.envelope;
        let asked = match envelope {
            Envelope::JsonRpc => Asked::Other,
            Envelope::Abp => Asked::by(method),
        };
        let is_payload = envelope == Envelope::Abp && asked == Asked::Other;
        let params = match structured(params, is_payload) {
            Ok(params) => params,
            Err(reason) => return Err(SendError { reason, data }),
        };
        self.pass(now);
        let number = match self.machine.admit_call(&options) {
            Ok(number) => number,
            Err(reason) => return Err(SendError { reason, data }),
        };
        let (limit, config, latest) = (self.stage_limit(), self.machine.config(), self.now);
        let staged = match self.outbox.stage(limit, |out| match envelope {
            Envelope::JsonRpc => encode::request(out, number, method, params),
            Envelope::Abp => {
                let stamp = stamp(config, latest);
                abp::request(out, number, method, params, options.timeout, stamp);
            }
        }) {
            Ok(staged) => staged,
            Err(full) => return Err(SendError { reason: self.promise_room(full), data }),
        };
        let call = self.machine.make_call(number, &options, now);
        self.machine.take_action(Action::SendRequest { call, number });
        let unsent = Some(self.outbox.commit_of(call, staged, TransmitKind::Request));
        let params = params.raw();
        if let Some(why) = uncancellable(&self.config().dialect, asked, method, params) {
            self.machine.refuse_cancels_of(call, why);
        }
        if options.idle_timeout.is_some() {
            let rules = &self.machine.config().dialect.progress;
            self.progress.watch(rules, call, params, usize::MAX);
            if envelope == Envelope::Abp {
                // Each call of a capability asks for progress under its own id.
                self.progress.add(call, abp::token(number));
            }
        }
        self.our_cancels.reissued(number);
        let declares = self.negotiation.client_declares(method, params);
        let server_ends = ServerEnds::of(self.config(), self.config().role, method);
        let session = self.config().dialect.session.after(method);
        put(
            &mut self.outgoing,
            call.slot(),
            Outgoing { data, unsent, declares, server_ends, session, asked },
        );
        self.follow_command();
        Ok(call)
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::InvalidParams`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`].
    pub fn notify(&mut self, method: &str, params: Params<'_>) -> Result<(), Refusal> {
        let envelope = self.config().dialect.envelope;
        let params = structured(params, envelope == Envelope::Abp)?;
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        if self.withholds(method, params.raw()) {
            return Err(Refusal::Withheld);
        }
        let stamp = self.stamp();
        let staged = self.stage(|out| match envelope {
            Envelope::JsonRpc => encode::notification(out, method, params),
            Envelope::Abp => abp::notification(out, method, params, stamp),
        })?;
        self.outbox.commit(staged, TransmitKind::Notification);
        Ok(())
    }

    /// Whether a notification is progress of nothing but cancelled requests, in a dialect that wants
    /// silence of them.
    fn withholds(&self, method: &str, params: Option<&RawValue>) -> bool {
        let rules = &self.config().dialect.progress;
        let phase = |owner| self.machine.request_phase(owner);
        let mut owners = self.withheld.owners_of(rules, method, params).peekable();
        match owners.peek() {
            None => self.withheld.is_retired(rules, method, params),
            Some(_) => owners.all(|owner| phase(owner) == Some(RequestPhase::Cancelled)),
        }
    }

    /// Cancels a call, with [`Cause::Caller`], or with [`Cause::Dropped`] if nobody waits for it
    /// any more (G5). Legal at any time, also on a settled call.
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        self.pass(now);
        let outcome = self.machine.cancel(call, cause, now);
        let sent = self.machine.take_action_if(|action| match *action {
            Action::SendCancel { call, number } => Some((call, number)),
            _ => None,
        });
        if let Some((call, number)) = sent {
            self.send_cancel(call, number, None);
        }
        self.follow_command();
        outcome
    }

    /// As [`cancel`](Self::cancel), and tells the peer why in words, where the dialect has a place
    /// for that and the words fit under [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    pub fn cancel_because(
        &mut self,
        call: CallId,
        cause: Cause,
        reason: &str,
        now: Timestamp,
    ) -> CancelOutcome {
        self.pass(now);
        let outcome = self.machine.cancel(call, cause, now);
        self.carry_out_command(Cargo::Reason(Some(Cow::Owned(reason.into()))));
        outcome
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows (or for the
    /// operation whose token this is, as a string), for routing of its own. Changes nothing here: [`cancel`](Self::cancel) is what cancels our calls.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoCancel`], [`Refusal::Uncancellable`], [`Refusal::Closed`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn send_cancel_request(&mut self, id: &WireId) -> Result<(), Refusal> {
        let rule = self.config().dialect.cancel.clone();
        if let CancelRule::Local | CancelRule::ClosedStream = rule {
            return Err(Refusal::NoCancel);
        }
        let call = self.number_in(id.token()).and_then(|number| self.machine.call_numbered(number));
        let refusal = match call {
            Some(call) => self.machine.call_refusal(call),
            None => self.machine.refusal(),
        };
        if let Some(why) = refusal {
            return Err(Refusal::Uncancellable(why));
        }
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        let token = |out: &mut Vec<u8>| out.extend_from_slice(id.token().as_bytes());
        let CancelRule::Notification { method, id: member, .. } = rule else {
            return self.send_cancel_for_host(id);
        };
        let staged = self.stage(|out| encode::cancel(out, &method, &member, token, None))?;
        // Behind all others: its request may still be waiting (G4).
        self.outbox.commit(staged, TransmitKind::Cancel);
        Ok(())
    }

    /// Gives up interest in a call without cancelling it; it still settles, if need be after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace). Legal at any time.
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        self.pass(now);
        self.machine.detach(call, now);
        self.follow_command();
    }

    /// The host saw progress of a call: its idle timeout starts anew. Progress that the dialect
    /// itself describes is seen without this.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        self.pass(now);
        self.machine.progress(call, now);
    }

    /// Answers a request, and gives its data back (G2). Where the dialect wants silence after a
    /// cancel, the answer is withheld.
    ///
    /// Requests can be answered after the connection closed: the peer may still be reading.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn respond(&mut self, request: RequestHandle, reply: Reply<'_>) -> Result<I, Refusal> {
        let (machine, limit) = (&self.machine, self.stage_limit());
        let (step, id) = machine.respond_step(request).ok_or(Refusal::AlreadyAnswered)?;
        if step == RequestStep::Withhold {
            self.machine.respond(request).expect(UNANSWERED);
            return Ok(self.release_silently(request));
        }
        let (config, now) = (machine.config(), self.now);
        let origin = self.specials.get(request.slot()).and_then(|it| it.origin.as_deref());
        let to = (origin, id.token());
        let staged = self.outbox.stage(limit, |out| write_reply(out, to, reply, config, now));
        let message = staged.map_err(|full| self.refuse_answer(request, full))?;
        self.machine.respond(request).expect(UNANSWERED);
        self.machine.take_action(Action::SendResponse { request });
        let incoming = self.incoming[request.slot()].take().expect(UNANSWERED);
        let special = self.specials.take(request.slot());
        if incoming.session == Session::Open && matches!(reply, Reply::Result(_)) {
            self.session = Session::Open;
        }
        let concludes = match (special.as_ref().and_then(|special| special.declares), reply) {
            (Some(client), Reply::Result(result)) => {
                self.negotiation.conclusion(Role::Server, client, result)
            }
            _ => None,
        };
        match special.as_ref().and_then(|special| special.batch) {
            None => {
                let ticket = self.outbox.commit(message, TransmitKind::Response);
                if let Some(conclusion) = concludes {
                    self.negotiation.queued(&mut self.machine, conclusion, ticket);
                }
            }
            Some(batch) => {
                if let Some(conclusion) = concludes {
                    self.negotiation.kept_back(batch, conclusion);
                }
                self.keep_back(batch, message);
            }
        }
        self.withheld.forget(request);
        Ok(self.release(incoming, special))
    }

    /// Ends a request of the client's that the dialect lets the server end, without an answer: the
    /// peer is told with a cancel that names its own request, or by the host that closes its stream,
    /// and not at all if it cancelled the request itself. Gives the request's data back.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`], [`Refusal::NotOursToEnd`], [`Refusal::NoCancel`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn end_request(
        &mut self,
        request: RequestHandle,
        reason: Option<&str>,
    ) -> Result<I, Refusal> {
        let phase = self.machine.request_phase(request).filter(|phase| phase.is_unanswered());
        let phase = phase.ok_or(Refusal::AlreadyAnswered)?;
        let incoming = self.incoming[request.slot()].as_ref().expect(UNANSWERED);
        if incoming.server_ends == ServerEnds::No {
            return Err(Refusal::NotOursToEnd);
        }
        let (machine, limit) = (&self.machine, self.stage_limit());
        let id = machine.request_id(request).expect("it has a phase").token();
        let staged = match &machine.config().dialect.cancel {
            CancelRule::Local | CancelRule::Request { .. } => return Err(Refusal::NoCancel),
            CancelRule::Notification { method, id: member, reason: place }
                if phase == RequestPhase::Running =>
            {
                let id = |out: &mut Vec<u8>| out.extend_from_slice(id.as_bytes());
                let reason = place.as_deref().zip(reason);
                Some(
                    self.outbox.stage(limit, |out| encode::cancel(out, method, member, id, reason)),
                )
            }
            CancelRule::Notification { .. } | CancelRule::ClosedStream => None,
        };
        let staged = staged.transpose().map_err(|full| self.promise_room(full))?;
        if let Some(staged) = staged {
            // Behind all others: what the request was told before belongs before its end.
            self.outbox.commit(staged, TransmitKind::Cancel);
        }
        self.machine.end_request(request).expect("it is unanswered");
        Ok(self.release_silently(request))
    }

    /// As [`release`](Self::release), of a request that gets no answer.
    fn release_silently(&mut self, request: RequestHandle) -> I {
        let incoming = self.incoming[request.slot()].take().expect(UNANSWERED);
        let special = self.specials.take(request.slot());
        self.withheld.retire(request, self.config().limits.abandoned_ids);
        self.release(incoming, special)
    }

    /// Carries out what else a settled request leads to, and gives its data back.
    fn release(&mut self, incoming: Incoming<I>, special: Option<Box<Special>>) -> I {
        if let Some(operation) = special.as_ref().and_then(|special| special.operation) {
            // It is live as long as its request is.
            let _ = self.operations.finish(operation);
        }
        self.follow_command();
        if let Some(batch) = special.and_then(|special| special.batch) {
            self.settle_member(batch);
        }
        incoming.data
    }

    /// Cancels a request for a reason of our own, [`Cause::Internal`] or [`Cause::Shutdown`]: it
    /// is marked cancelled exactly as if the peer had asked. With [`Cause::Peer`] where the peer
    /// asks by closing the stream of that one request. Legal at any time.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        self.pass(now);
        self.machine.cancel_request(request, cause, now);
        self.follow_command();
    }

    /// Shuts down (G5). `Closed` follows when nothing is in flight any more.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.pass(now);
        self.machine.shutdown(how, now);
        self.follow_command();
        if how == Shutdown::Abandon {
            self.outbox.clear();
            self.batches.forget_answers();
        }
    }

    pub(super) fn stage(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Staged, Refusal> {
        let limit = self.stage_limit();
        self.outbox.stage(limit, write).map_err(|full| self.promise_room(full))
    }

    /// The answer of a batch member that only the end of its own batch could make room for is too
    /// large: waiting would be for ever.
    fn refuse_answer(&mut self, request: RequestHandle, full: Full) -> Refusal {
        let special = self.specials.get(request.slot());
        let is_member = special.is_some_and(|special| special.batch.is_some());
        if is_member && full.len > self.stage_limit() {
            return Refusal::TooLarge;
        }
        self.promise_room(full)
    }

    fn promise_room(&mut self, full: Full) -> Refusal {
        if full.len > self.config().limits.unsent_bytes {
            return Refusal::TooLarge;
        }
        self.wanted = Some(self.wanted.map_or(full.len, |wanted| wanted.max(full.len)));
        Refusal::OutboxFull
    }
}

pub(super) const UNANSWERED: &str = "an unanswered request has data";

/// Why a request can't be cancelled on the wire, if it can't. A member that is `null` counts as
/// absent: some peers write all that they could say.
pub(super) fn uncancellable(
    dialect: &Dialect,
    asked: Asked,
    method: &str,
    params: Option<&RawValue>,
) -> Option<CancelRefusal> {
    let Uncancellable { methods, params: members } = &dialect.uncancellable;
    let is_no_operation = dialect.has_operations() && dialect.starts_operation(method).is_none();
    // In the envelope that has call ids, only calls of capabilities have one.
    let is_nameless = dialect.envelope == Envelope::Abp && asked == Asked::Other;
    if is_no_operation || is_nameless || methods.iter().any(|it| it == method) {
        return Some(CancelRefusal::Method);
    }
    let is_held =
        |member: &Text| decode::param(params, member).is_some_and(|value| value.get() != "null");
    let held = members.iter().any(is_held);
    held.then_some(CancelRefusal::Params)
}

impl SessionRule {
    /// What a request of this method makes of the session, once it has a result.
    #[inline]
    pub(super) fn after(&self, method: &str) -> Session {
        match self {
            Self::Opened { by } if by == method => Session::Open,
            Self::Opened { .. } | Self::NotNeeded => Session::Missing,
        }
    }
}

/// Params as JSON-RPC wants them: absent, an array or an object. Where they are the payload of ABP's
/// envelope, they are no array.
fn structured(params: Params<'_>, is_payload: bool) -> Result<Params<'_>, Refusal> {
    let Params::Raw(raw) = params else { return Ok(params) };
    match raw.get().as_bytes().first() {
        Some(b'n') => Ok(Params::Absent),
        Some(b'{') => Ok(params),
        Some(b'[') if !is_payload => Ok(params),
        _ => Err(Refusal::InvalidParams),
    }
}
