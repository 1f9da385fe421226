//! What the host asks of a connection.

use serde_json::value::RawValue;

use super::Connection;
use super::rows::{Opening, Outgoing, Rare, ServerEnds, uncancellable};
use crate::cause::Cause;
use crate::config::{CallOptions, Shutdown};
use crate::dialect::{CancelRule, Envelope, Role};
use crate::error::{Refusal, SendError};
use crate::event::{Params, Reply, TransmitKind};
use crate::machine::{Answered, CallId, RequestHandle, RequestPhase, RequestStep};
use crate::outbox::{Lane, Ticket};
use crate::time::Timestamp;
use crate::wire::abp::{self, Asked};
use crate::wire::decode;
use crate::wire::encode::{Context, Draft, Id, Names, To};

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
        let dialect = &self.machine.config().dialect;
        let asked = match dialect.envelope {
            Envelope::JsonRpc => Asked::Other,
            Envelope::Abp => Asked::by(method),
        };
        let is_payload = dialect.envelope == Envelope::Abp && asked == Asked::Other;
        let admitted = structured(params, is_payload)
            .and_then(|params| Ok((params, self.machine.admit_call(&options)?)))
            .and_then(|(params, call)| {
                Ok((params, call, self.send_request(call, method, params, &options, now)?))
            });
        let (params, call, unsent) = match admitted {
            Ok(admitted) => admitted,
            Err(reason) => return Err(SendError { reason, data }),
        };
        self.pass(now);
        let (config, params) = (self.machine.config(), params.raw());
        let refusal = uncancellable(&config.dialect, asked, method, params);
        let outgoing = Outgoing {
            data,
            unsent: Some(unsent),
            opening: Opening::of(&config.dialect, method, params),
            server_ends: ServerEnds::of(&config.dialect, config.role, method),
            asked,
        };
        self.machine.call(call, &options, refusal, outgoing, now);
        if options.idle_timeout.is_some() {
            self.await_progress(call, params);
        }
        self.follow();
        Ok(call)
    }

    /// Puts the request of a call that was admitted into the outbox.
    fn send_request(
        &mut self,
        call: CallId,
        method: &str,
        params: Params<'_>,
        options: &CallOptions,
        now: Timestamp,
    ) -> Result<Ticket, Refusal> {
        let (room, number) = (self.room(), call.number());
        let context = Context { config: self.machine.config(), now: self.now.max(now) };
        let draft = Draft::Request { number, method, params, timeout: options.timeout };
        let kind = TransmitKind::Request;
        let pushed = self.outbox.push(room, &context, &draft, Lane::Bulk, kind, Some(number));
        pushed.map_err(|full| self.promise_room(full.len))
    }

    /// Finds the tokens under which progress of a call will come.
    fn await_progress(&mut self, call: CallId, params: Option<&RawValue>) {
        let dialect = &self.machine.config().dialect;
        let envelope = dialect.envelope;
        for token in decode::progress_tokens(&dialect.progress, params) {
            self.machine.await_progress(call, token);
        }
        if envelope == Envelope::Abp {
            // Each call of a capability asks for progress under its own id.
            self.machine.await_progress(call, abp::token(call.number()));
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::InvalidParams`], [`Refusal::Withheld`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn notify(&mut self, method: &str, params: Params<'_>) -> Result<(), Refusal> {
        let params = structured(params, self.config().dialect.envelope == Envelope::Abp)?;
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        if self.machine.withholds_any_progress() {
            let rules = &self.config().dialect.progress;
            let token = decode::progress_token(rules, method, params.raw());
            if token.is_some_and(|token| self.machine.withholds_progress(&token)) {
                return Err(Refusal::Withheld);
            }
        }
        self.send(&Draft::Notification { method, params }, TransmitKind::Notification)
    }

    /// Gives up interest in a call without cancelling it; it still settles, if need be after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace). Legal at any time.
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        self.pass(now);
        self.machine.detach(call, now);
        self.follow();
    }

    /// The host saw progress of a call: its idle timeout starts anew. Progress that the dialect
    /// itself describes is seen without this.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        self.pass(now);
        self.machine.progress(call, now);
    }

    /// Answers a request, and gives its data back (G2). Where the dialect wants silence after a
    /// cancel, the answer is withheld. Where it acknowledges cancels and has no partial results, the
    /// answer of a cancelled request always says that it was cancelled.
    ///
    /// Requests can be answered after the connection closed: the peer may still be reading.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyAnswered`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn respond(&mut self, request: RequestHandle, reply: Reply<'_>) -> Result<I, Refusal> {
        let (step, id, rare) = self.machine.answer_step(request).ok_or(Refusal::AlreadyAnswered)?;
        let reply = match step {
            RequestStep::Withhold => {
                let ended = self.machine.respond(request)?;
                return Ok(self.release(ended));
            }
            RequestStep::SendCancelled => Reply::Cancelled,
            _ => reply,
        };
        let id = id.map_or("null", crate::WireId::token);
        let draft = Draft::Response {
            to: To { id, origin: rare.and_then(|rare| rare.origin.as_deref()) },
            reply,
        };
        let context = Context { config: self.machine.config(), now: self.now };
        let (room, lane, kind) = (self.room(), Lane::Bulk, TransmitKind::Response);
        let Some(batch) = rare.and_then(|rare| rare.batch) else {
            let ticket = match self.outbox.push(room, &context, &draft, lane, kind, None) {
                Ok(ticket) => ticket,
                Err(full) => return Err(self.promise_room(full.len)),
            };
            let Answered { data, rare, .. } = self.machine.respond(request)?;
            if let (Some(rare), Reply::Result(result)) = (rare, reply) {
                let conclusion = self.open(rare.opening, Role::Server, result);
                self.conclude_with(conclusion, ticket);
            }
            self.follow();
            return Ok(data);
        };
        let len = draft.len(&context);
        if !self.outbox.has_room(room, len) {
            return Err(self.promise_room(len));
        }
        let answer = draft.written(&context, len);
        let Answered { data, rare, .. } = self.machine.respond(request)?;
        if let (Some(rare), Reply::Result(result)) = (rare, reply) {
            if let Some(conclusion) = self.open(rare.opening, Role::Server, result) {
                self.negotiation.kept_back(batch, conclusion);
            }
        }
        self.keep_back(batch, &answer);
        self.follow();
        self.settle_member(batch);
        Ok(data)
    }

    /// Carries out what else a request leads to that ended without an answer, and gives its data back.
    fn release(&mut self, ended: Answered<I, Rare>) -> I {
        self.follow();
        if let Some(batch) = ended.rare.and_then(|rare| rare.batch) {
            self.settle_member(batch);
        }
        ended.data
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
        let (_, _, rare) = self.machine.answer_step(request).ok_or(Refusal::AlreadyAnswered)?;
        if rare.is_none_or(|rare| rare.server_ends == ServerEnds::No) {
            return Err(Refusal::NotOursToEnd);
        }
        let is_running = self.machine.request_phase(request) == Some(RequestPhase::Running);
        match &self.machine.config().dialect.cancel {
            CancelRule::Local | CancelRule::Request { .. } | CancelRule::Operation { .. } => {
                return Err(Refusal::NoCancel);
            }
            CancelRule::Notification { method, id: member, reason: place } if is_running => {
                let id = self.machine.request_id(request).map_or("null", crate::WireId::token);
                let reason = place.as_deref().zip(reason);
                let names = Names { member, id: Id::Token(id), reason };
                let draft = Draft::Cancel { number: None, method, names };
                let context = Context { config: self.machine.config(), now: self.now };
                // Behind all others: what the request was told before belongs before its end.
                let (lane, kind) = (Lane::Bulk, TransmitKind::Cancel);
                let pushed = self.outbox.push(self.room(), &context, &draft, lane, kind, None);
                pushed.map_err(|full| self.promise_room(full.len))?;
            }
            CancelRule::Notification { .. } | CancelRule::ClosedStream => {}
        }
        let ended = self.machine.end_request(request)?;
        Ok(self.release(ended))
    }

    /// Cancels a request for a reason of our own, [`Cause::Internal`] or [`Cause::Shutdown`]: it
    /// is marked cancelled exactly as if the peer had asked. With [`Cause::Peer`] where the peer
    /// asks by closing the stream of that one request. Legal at any time.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        self.pass(now);
        if self.machine.cancel_request(request, cause, now) {
            self.mark_cancelled(request, cause, None);
        }
        self.follow();
    }

    /// Shuts down (G5). `Closed` follows when nothing is in flight any more.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.pass(now);
        self.machine.shutdown(how, now);
        self.follow();
        if how == Shutdown::Abandon {
            self.outbox.clear();
            self.batches.forget_answers();
            self.offer_room();
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
