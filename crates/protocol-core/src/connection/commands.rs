//! What the host asks of a connection.

use serde_json::value::RawValue;

use super::rows::{Incoming, Opening, Outgoing, server_ends, uncancellable};
use super::{Connection, context};
use crate::cause::Cause;
use crate::config::{CallOptions, Shutdown};
use crate::dialect::{CancelRule, Envelope, Role};
use crate::error::{Refusal, SendError};
use crate::event::{Response, TransmitKind};
use crate::machine::{CallId, RequestHandle, RequestStep};
use crate::outbox::Ticket;
use crate::time::Timestamp;
use crate::wire::abp::{self, Asked};
use crate::wire::decode;
use crate::wire::encode::{Draft, To, Value};

impl<O, I: Default> Connection<O, I> {
    /// Calls the peer. An accepted call settles exactly once, with `data` (G1).
    ///
    /// `params` are a JSON array or object. `null` counts as absent: some peers refuse
    /// `"params":null`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`],
    /// [`Refusal::UnknownParent`], [`Refusal::InvalidParams`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`], with `data` given back.
    pub fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        data: O,
        options: CallOptions,
        now: Timestamp,
    ) -> Result<CallId, SendError<O>> {
        let dialect = &self.machine.config().dialect;
        let asked = match dialect.envelope {
            Envelope::JsonRpc | Envelope::Dap => Asked::Other,
            Envelope::Abp => Asked::by(method),
        };
        // The payload of ABP's envelope is no array.
        let is_array_fine = dialect.envelope != Envelope::Abp || asked == Asked::Capability;
        let sent = decode::structured(params, is_array_fine)
            .map_err(|_| Refusal::InvalidParams)
            .and_then(|params| self.send_request(method, params, &options, now));
        let (call, ticket, params) = match sent {
            Ok(sent) => sent,
            Err(reason) => return Err(SendError { reason, data }),
        };
        self.pass(now);
        let config = self.machine.config();
        let refusal = uncancellable(&config.dialect, asked, method, params);
        let outgoing = Outgoing {
            data,
            ticket,
            opening: Opening::of(&config.dialect, method, params),
            server_ends: server_ends(&config.dialect, config.role == Role::Client, method),
            asked,
        };
        self.may_lose_calls |= outgoing.server_ends;
        self.machine.call(call, &options, refusal, outgoing, now);
        if options.idle_timeout.is_some() {
            self.await_progress(call, params);
        }
        self.follow();
        Ok(call)
    }

    /// Puts the request of a call into the outbox, if the call is admitted. Gives what was sent.
    fn send_request<'p>(
        &mut self,
        method: &str,
        params: Option<&'p RawValue>,
        options: &CallOptions,
        now: Timestamp,
    ) -> Result<(CallId, Ticket, Option<&'p RawValue>), Refusal> {
        let call = self.machine.admit_call(options)?;
        let (number, kind) = (call.number(), TransmitKind::Request);
        let (body, timeout) = (params.map(Value::Raw), options.timeout);
        let draft = Draft::Request { number, method, params: body, timeout };
        let context = context(&self.machine, self.now.max(now));
        Ok((call, self.unsent.send(&context, &draft, kind, Some(number))?, params))
    }

    /// Finds the tokens under which progress of a call will come.
    fn await_progress(&mut self, call: CallId, params: Option<&RawValue>) {
        for token in decode::progress_tokens(&self.config().dialect.progress, params) {
            self.machine.await_progress(call, token);
        }
        if self.config().dialect.envelope == Envelope::Abp {
            // Each call of a capability asks for progress under its own id.
            self.machine.await_progress(call, abp::token(call.number()));
        }
    }

    /// Sends a notification, with params as for a [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::InvalidParams`], [`Refusal::Withheld`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        let is_array_fine = self.config().dialect.envelope != Envelope::Abp;
        let params = decode::structured(params, is_array_fine);
        let params = params.map_err(|_| Refusal::InvalidParams)?;
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        let rules = &self.config().dialect.progress;
        if self.machine.withholds_progress(|| decode::progress_token(rules, method, params)) {
            return Err(Refusal::Withheld);
        }
        let draft = Draft::Notification { method, params: params.map(Value::Raw) };
        let context = context(&self.machine, self.now);
        self.unsent.send(&context, &draft, TransmitKind::Notification, None)?;
        self.count_sent();
        self.declare_anew(true, method, params);
        Ok(())
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
    /// [`Refusal::AlreadyResponded`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn respond(&mut self, request: RequestHandle, reply: Response<'_>) -> Result<I, Refusal> {
        let (step, id, incoming) =
            self.machine.answer_step(request).ok_or(Refusal::AlreadyResponded)?;
        let reply = match step {
            RequestStep::Withhold => {
                let ended = self.machine.respond(request)?;
                return Ok(self.release(ended));
            }
            RequestStep::SendCancelled => Response::Cancelled,
            _ => reply,
        };
        let id = id.map_or("null", crate::WireId::token);
        let rare = incoming.rare.map(|slot| &self.rares[slot.get()]);
        let to = To { id, origin: rare.and_then(|rare| rare.origin.as_deref()) };
        let draft = Draft::Response { to, reply };
        let concerns = rare.map(|rare| (rare.opening, rare.batch));
        let (opening, batch) = concerns.unwrap_or_default();
        let context = context(&self.machine, self.now);
        let sent = self.unsent.answer(&context, &draft, TransmitKind::Response, batch);
        let sent = sent.map_err(|len| self.unsent.promise_room(len, &context.config.limits))?;
        let ended = self.machine.respond(request)?;
        // Most answers concern neither the connection nor a batch.
        if concerns.is_some() {
            let conclusion = match (reply, opening) {
                (Response::Result(result), Some(opening)) => {
                    self.open(opening, Role::Server, result)
                }
                _ => None,
            };
            self.answered(batch, sent, conclusion);
        }
        Ok(self.release(ended))
    }

    /// Carries out what else the end of a request leads to, and gives its data back.
    fn release(&mut self, Incoming { data, rare }: Incoming<I>) -> I {
        self.follow();
        if let Some(batch) = rare.and_then(|slot| self.take_rare(slot).batch) {
            self.settle_member(batch);
        }
        data
    }

    /// Ends a request of the client's that the dialect lets the server end, without an answer: the
    /// peer is told with a cancel that names its own request, or by the host that closes its stream,
    /// and not at all if it cancelled the request itself. Gives the request's data back.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], [`Refusal::NotOursToEnd`], [`Refusal::NoCancel`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn end_request(
        &mut self,
        request: RequestHandle,
        reason: Option<&str>,
    ) -> Result<I, Refusal> {
        let (_, _, incoming) =
            self.machine.answer_step(request).ok_or(Refusal::AlreadyResponded)?;
        if !incoming.rare.is_some_and(|slot| self.rares[slot.get()].server_ends) {
            return Err(Refusal::NotOursToEnd);
        }
        let is_told = self.machine.end_step(request) == Some(RequestStep::SendEnd);
        let rule = &self.machine.config().dialect.cancel;
        if !matches!(rule, CancelRule::Notification { .. } | CancelRule::ClosedStream) {
            return Err(Refusal::NoCancel);
        }
        let id = self.machine.request_id(request).map_or("null", crate::WireId::token);
        let cancel = rule.says(Value::Token(id), reason).filter(|_| is_told);
        if let Some((method, members)) = cancel {
            let draft = Draft::cancel(None, method, &members);
            let context = context(&self.machine, self.now);
            // Behind all others: what the request was told before belongs before its end.
            self.unsent.send(&context, &draft, TransmitKind::Cancel, None)?;
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
            self.unsent.clear();
            self.offer_room();
        }
    }
}
