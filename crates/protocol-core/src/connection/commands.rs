//! The commands of a connection.

use alloc::format;

use protocol_json::Value;
use serde_json::value::RawValue;

use super::negotiation::{Negotiated, declare_anew};
use super::unsent::Unsent;
use super::{CallData, Connection};
use crate::cause::Cause;
use crate::config::{CallOptions, Config, Shutdown};
use crate::dialect::CancelRule;
use crate::dialect::facts::RequestHead;
use crate::dialect::signs::{Carrier, StopMark};
use crate::envelope::{Context, OutgoingMessage};
use crate::error::{Refusal, SendError};
use crate::event::{Response, TransmitKind};
use crate::handle::{CallId, RequestHandle};
use crate::id::WireId;
use crate::machine::{CancelOutcome, Machine, RequestStep, ResponseKind};
use crate::outbox::Ticket;
use crate::slot::Slot;
use crate::time::Timestamp;

impl<O, I: Default> Connection<O, I> {
    // Calls

    /// Calls the peer. An accepted call settles exactly once, with `data`.
    ///
    /// `params` are a JSON array or object. `null` counts as absent: some peers refuse
    /// `"params":null`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::ShuttingDown`], [`Refusal::TooManyCalls`],
    /// [`Refusal::UnknownParent`], [`Refusal::InvalidParams`], [`Refusal::OutboxFull`] or
    /// [`Refusal::TooLarge`], with `data` returned.
    pub fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        data: O,
        options: CallOptions,
        now: Timestamp,
    ) -> Result<CallId, SendError<O>> {
        self.forward_call(method, params, None, data, options, now)
    }

    /// Calls the peer as [`call`](Self::call) does, for a peer of another connection.
    ///
    /// `chosen` are the options of ABP that came with its request
    /// ([`Event::Request`](crate::Event::Request)). The progress token and the timeout that it chose there
    /// are passed on, and progress comes only if it chose a token. Other envelopes have no place for them.
    ///
    /// # Errors
    ///
    /// The same as those of [`call`](Self::call).
    pub fn forward_call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        chosen: Option<&RawValue>,
        data: O,
        options: CallOptions,
        now: Timestamp,
    ) -> Result<CallId, SendError<O>> {
        let Self { machine, unsent, .. } = self;
        let Config { dialect, role: by, limits, .. } = machine.config();
        let kind = dialect.envelope.kind_of(method);
        let Ok(params) = kind.params(params) else {
            return Err(SendError { reason: Refusal::InvalidParams, data });
        };
        let tokens_up_to = options.idle_timeout.map(|_| usize::MAX);
        let names_up_to = limits.id_bytes;
        let head = RequestHead { by: *by, kind, method, params, tokens_up_to, names_up_to };
        let sent = machine.call(&options).and_then(|permit| {
            let number = permit.id().number();
            let (params, limit) = (params.map(Value::Raw), options.timeout);
            let message = OutgoingMessage::Request { number, kind, method, params, limit, chosen };
            let now = permit.machine.now().max(now);
            let context = Context { now, ..Context::of(permit.machine) };
            let ticket = unsent.send(&context, &message, TransmitKind::Request, Some(number))?;
            Ok((permit, ticket))
        });
        let (permit, ticket) = match sent {
            Ok(sent) => sent,
            Err(reason) => return Err(SendError { reason, data }),
        };
        let (number, dialect) = (permit.id().number(), &permit.machine.config().dialect);
        let mut facts = dialect.facts(&head);
        let token = tokens_up_to.and_then(|_| dialect.envelope.token_of(number, chosen));
        // A longer one is passed on, and not kept.
        let token = token.filter(|it| chosen.is_none() || it.as_json().len() <= names_up_to);
        facts.progress_tokens = token.map_or(facts.progress_tokens, |token| [token].into());
        let call = permit.commit(facts, CallData { data, ticket }, now);
        self.run_actions();
        Ok(call)
    }

    /// Cancels a call, with [`Cause::Caller`], or with [`Cause::Dropped`] if nobody waits for it any
    /// more (G5). Legal at any time, also on a settled call.
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        self.cancel_because(call, cause, None, now)
    }

    /// Cancels a call as [`cancel`](Self::cancel) does, and sends the reason in words.
    ///
    /// The reason is left out where the dialect has no place for it, and where it does not fit under
    /// [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    pub fn cancel_because(
        &mut self,
        call: CallId,
        cause: Cause,
        reason: Option<&str>,
        now: Timestamp,
    ) -> CancelOutcome {
        let outcome = self.machine.cancel(call, cause, now);
        // Only the first decision can be the cancel of this call.
        if let Some(action) = self.machine.poll_action() {
            self.carry_out(action, reason);
        }
        self.run_actions();
        outcome
    }

    /// Gives up interest in a call without cancelling it. Legal at any time.
    ///
    /// The call still settles, at the latest after
    /// [`Config::abandoned_grace`](crate::Config::abandoned_grace).
    pub fn detach(&mut self, call: CallId, now: Timestamp) {
        self.machine.detach(call, now);
        self.run_actions();
    }

    /// Settles a call as lost, because no response to it can come any more. The connection goes on.
    ///
    /// It is for a transport on which each call has a stream of its own. A call that is settled stays so.
    pub fn lose_call(&mut self, call: CallId, now: Timestamp) {
        self.machine.advance_clock(now);
        self.machine.lose_call(call, Cause::PeerGone);
        self.run_actions();
    }

    /// Restarts the idle timeout of a call, because the host saw progress of it. The connection itself
    /// sees the progress that the dialect describes.
    pub fn progress(&mut self, call: CallId, now: Timestamp) {
        self.machine.progress(call, now);
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows, or for an
    /// operation by its token as a string. For hosts that route by themselves.
    ///
    /// It settles no call of ours: [`cancel`](Self::cancel) does that.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoCancel`], [`Refusal::Uncancellable`], [`Refusal::Closed`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn send_cancel_request(&mut self, id: &WireId) -> Result<(), Refusal> {
        let machine = &self.machine;
        let dialect = &machine.config().dialect;
        let call =
            dialect.envelope.number_of(id.as_json()).and_then(|it| machine.call_numbered(it));
        let own = call.and_then(|call| machine.call_refusal(call));
        let cancel = dialect.cancel.message(Value::Token(id.as_json()), None);
        let (method, members) = cancel.ok_or(Refusal::NoCancel)?;
        if let Some(why) = own.or_else(|| machine.cancel_refusal()) {
            return Err(Refusal::Uncancellable(why));
        }
        if machine.is_closed() {
            return Err(Refusal::Closed);
        }
        let number = dialect.cancels_are_requests().then(|| machine.next_number());
        let message = OutgoingMessage::cancel(number, method, &members);
        // Behind all others: its request may still be waiting (G4).
        self.unsent.send(&Context::of(machine), &message, TransmitKind::Cancel, number)?;
        if number.is_some() {
            self.machine.number_ownerless_cancel();
        }
        Ok(())
    }

    // Notifications

    /// Sends a notification, with params as for a [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// [`Refusal::Closed`], [`Refusal::InvalidParams`], [`Refusal::Withheld`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        let dialect = &self.machine.config().dialect;
        let params = dialect.envelope.notification_params(params);
        let params = params.map_err(|_| Refusal::InvalidParams)?;
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        if self.machine.withholds_progress(|| dialect.progress_token(method, params)) {
            return Err(Refusal::Withheld);
        }
        let (carrier, limit) = (Carrier::Notification, self.config().limits.id_bytes);
        let part = dialect.work_in(carrier, method, params, limit);
        let message = OutgoingMessage::Notification { method, params: params.map(Value::Raw) };
        let context = Context::of(&self.machine);
        self.unsent.send(&context, &message, TransmitKind::Notification, None)?;
        self.machine.skip_number();
        declare_anew(&mut self.machine, true, method, params);
        if let Some(part) = part {
            self.machine.work_in_news(&part, true, None);
            self.run_actions();
        }
        Ok(())
    }

    // Requests

    /// Responds to a request, and returns the host's data on it.
    ///
    /// The response is withheld if the peer cancelled the request in a dialect that wants silence then.
    /// In a dialect that acknowledges cancels and has no partial results, the response to a cancelled
    /// request always says that it was cancelled.
    ///
    /// Requests can be responded to after the connection closed: the peer may still be reading.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn respond(
        &mut self,
        request: RequestHandle,
        response: Response<'_>,
    ) -> Result<I, Refusal> {
        let mut permit = self.machine.respond(request)?;
        let extras = permit.extras();
        let batch = extras.and_then(|extras| extras.batch);
        let response = match permit.step() {
            RequestStep::Withhold => {
                let data = permit.commit();
                return Ok(self.finish(data, batch));
            }
            RequestStep::SendCancelled => Response::Cancelled,
            _ => response,
        };
        let to = permit.addressee();
        let (is_plain, handshake) = (extras.is_none(), extras.and_then(|it| it.facts.handshake));
        let part = extras.and_then(|it| it.facts.work.as_deref());
        let mark = part.and_then(|part| permit.machine.config().dialect.mark_of(part));
        let (has_work, kind) = (part.is_some(), response_kind(&response, mark));
        let was_cancelled = kind == ResponseKind::CancelError;
        let is_stopped = |part| was_cancelled && permit.machine.is_stopped(request, part);
        let sent = match mark.filter(|_| part.is_some_and(is_stopped)) {
            None => {
                let message = OutgoingMessage::Response { to, response };
                send_response(&mut self.unsent, permit.machine, &message, batch)?
            }
            Some(mark) => mark.with_members(|members| {
                let message = OutgoingMessage::Result { to, members };
                send_response(&mut self.unsent, permit.machine, &message, batch)
            })?,
        };
        permit.response = Some(kind);
        let data = permit.commit();
        // Most responses concern neither the connection nor a batch, and take no number.
        if !is_plain {
            let result = if let Response::Result(result) = response { Some(result) } else { None };
            if let Some(result) = result.filter(|_| has_work) {
                self.work_in_result(result, true, None);
            }
            let read = |(it, result)| Negotiated::read(&mut self.machine, it, false, result);
            let negotiated = handshake.zip(result).and_then(read);
            self.after_response(batch, sent, negotiated);
        }
        Ok(self.finish(data, batch))
    }

    /// Runs the effects of a request's end, and returns the host's data.
    #[inline(always)]
    fn finish(&mut self, data: I, batch: Option<Slot>) -> I {
        self.run_actions();
        if let Some(batch) = batch {
            self.settle_member(batch);
        }
        data
    }

    /// Releases a request without a response, and returns the host's data.
    ///
    /// The peer hears nothing and may wait for ever. So this is only for a request whose response can never
    /// be sent, because even the shortest one is [`Refusal::TooLarge`].
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`].
    pub fn release_request(&mut self, request: RequestHandle) -> Result<I, Refusal> {
        let permit = self.machine.release_request(request)?;
        let batch = permit.batch();
        let data = permit.commit();
        Ok(self.finish(data, batch))
    }

    /// Responds to a request with the token of an operation that goes on.
    ///
    /// The token is 16 random bytes. On the wire it is 32 hexadecimal digits, written in upper case and
    /// read in either. A peer that shows it can cancel the operation. [`respond`](Self::respond) then
    /// only ends the operation; its result is the host's to send.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], [`Refusal::NoOperation`] if such a request starts no operation,
    /// [`Refusal::TokenInUse`], [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn begin_operation(
        &mut self,
        request: RequestHandle,
        token: [u8; 16],
    ) -> Result<(), Refusal> {
        let cause = self.machine.request_cause(request);
        let token = operation_id(token);
        let operation = self.machine.begin_operation(request, token)?;
        let permit = &operation.request;
        let dialect = &permit.machine.config().dialect;
        let CancelRule::Operation { token: member, .. } = &dialect.cancel else {
            return Err(Refusal::NoOperation);
        };
        let (to, batch) = (permit.addressee(), permit.batch());
        let members = &[(&**member, Some(Value::Token(operation.token.as_json())))];
        let message = OutgoingMessage::Result { to, members };
        // Nothing is sent for a silenced request, so its end is not announced either.
        if permit.step() == RequestStep::Withhold {
            operation.commit();
            self.leave_batch(request);
            return Ok(());
        }
        let sent = send_response(&mut self.unsent, permit.machine, &message, batch)?;
        operation.commit();
        self.after_response(batch, sent, None);
        self.leave_batch(request);
        if let Some(cause) = cause {
            self.announce_cancelled(request, cause);
        }
        Ok(())
    }

    /// Ends a request of the client's without a response, where the dialect lets the server do that.
    ///
    /// The peer is told with a cancel that names its own request, or by the host that closes its stream.
    /// It is not told if it cancelled the request itself and wants silence. Returns the host's data.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyResponded`], [`Refusal::NotOursToEnd`], [`Refusal::NoCancel`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`]. In MCP over HTTP it is `NotOursToEnd` once a revision
    /// before 2026-07-28 holds.
    pub fn end_request(
        &mut self,
        request: RequestHandle,
        reason: Option<&str>,
    ) -> Result<I, Refusal> {
        let permit = self.machine.end_request(request)?;
        let context = Context::of(permit.machine);
        let rule = &context.config.dialect.cancel;
        if !matches!(rule, CancelRule::Notification { .. } | CancelRule::ClosedStream) {
            return Err(Refusal::NoCancel);
        }
        let batch = permit.batch();
        let id = Value::Token(permit.addressee().id);
        let is_told = permit.step() == RequestStep::SendEnd;
        if let Some((method, members)) = rule.message(id, reason).filter(|_| is_told) {
            let message = OutgoingMessage::cancel(None, method, &members);
            // Behind all others: messages about the request belong before its end.
            self.unsent.send(&context, &message, TransmitKind::Cancel, None)?;
        }
        let data = permit.commit();
        Ok(self.finish(data, batch))
    }

    /// Cancels a request for a reason of our own: [`Cause::Internal`] or [`Cause::Shutdown`]. Legal at
    /// any time.
    ///
    /// It is marked cancelled as if the peer had asked, and still gets its response. With
    /// [`Cause::Peer`], for a peer that cancels by closing the stream of that one request, it gets what
    /// the dialect says of such cancels.
    pub fn cancel_request(&mut self, request: RequestHandle, cause: Cause, now: Timestamp) {
        self.machine.cancel_request(request, cause, now);
        self.run_actions();
        self.leave_batch_if_withheld(request);
    }

    // The connection

    /// Shuts down. [`Event::Closed`](crate::Event::Closed) follows once nothing is in flight.
    pub fn shutdown(&mut self, how: Shutdown, now: Timestamp) {
        self.machine.shutdown(how, now);
        self.run_actions();
        if how == Shutdown::Abandon {
            self.unsent.clear();
            self.emit_ready_if_room();
        }
    }
}

/// Returns what kind of response this is. `mark` is that of a stop.
#[inline]
fn response_kind(response: &Response<'_>, mark: Option<&StopMark>) -> ResponseKind {
    match response {
        Response::Result(result) if mark.is_some_and(|mark| mark.is_in(result)) => {
            ResponseKind::Stopped
        }
        Response::Result(_) => ResponseKind::Result,
        Response::Cancelled => ResponseKind::CancelError,
        Response::Error { .. } | Response::ErrorRaw(_) => ResponseKind::Error,
    }
}

/// Queues the host's response to a request, or promises a notice once there is room.
#[inline(always)]
fn send_response<C, R: Default>(
    unsent: &mut Unsent,
    machine: &Machine<C, R>,
    message: &OutgoingMessage<'_>,
    batch: Option<Slot>,
) -> Result<Option<Ticket>, Refusal> {
    let context = Context::of(machine);
    let sent = unsent.respond(&context, message, TransmitKind::Response, batch);
    sent.map_err(|len| unsent.note_refused(len, &context.config.limits))
}

/// Returns the id that the machine knows an operation by: its token on the wire.
fn operation_id(token: [u8; 16]) -> WireId {
    let token = format!("\"{:032X}\"", u128::from_be_bytes(token));
    WireId::scanned(&token).expect("a string is an id")
}

/// Returns the id that the machine knows an operation by, if a token of the peer's can be one of ours.
pub(super) fn token_id(token: &RawValue) -> Option<WireId> {
    let digits = protocol_json::text(token)?;
    let is_token = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let token = u128::from_str_radix(&digits, 16).ok().filter(|_| is_token)?;
    Some(operation_id(token.to_be_bytes()))
}
