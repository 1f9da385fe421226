//! The inputs of a connection: messages, time, and the end of the peer's input.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use protocol_json::Value;
use serde_json::value::RawValue;

use super::Connection;
use super::commands::token_id;
use super::negotiation::declare_anew;
use crate::cause::CloseReason;
use crate::config::Config;
use crate::dialect::facts::{RequestHead, given};
use crate::dialect::signs::Carrier;
use crate::dialect::{CancelRule, RequestKind, ResponseRule::SilentWithProgress, Role, code};
use crate::envelope::{
    self, Addressee, Context, Message, Origin, OutgoingMessage, Request, ResponseBody,
};
use crate::event::{Event, TransmitKind};
use crate::frame::Outline;
use crate::id::WireId;
use crate::machine::{Action, RequestExtras, RequestStep, ResponseKind};
use crate::slot::Slot;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};

impl<O, I: Default> Connection<O, I> {
    /// Receives one whole message, without framing. A request that it cancels is marked when this
    /// returns (G3). Bad input is an event (G9).
    ///
    /// Returns the oldest event that waits; all others come from [`poll_event`](Self::poll_event), in
    /// the order they happened. If the host polled all events before, the returned one is that of the
    /// message itself and borrows from it. The other members of a batch are copied.
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// # use protocol_core::{Config, Connection, Dialect, Timestamp};
    /// # let mut connection: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
    /// # let (message, now) = (b"{}", Timestamp::ZERO);
    /// connection.receive(message, now);
    /// ```
    #[inline]
    #[must_use = "the event is delivered only here: ignoring it loses the data of a call that has settled"]
    pub fn receive<'m>(&mut self, message: &'m [u8], now: Timestamp) -> Option<Event<'m, O>> {
        let older = self.events.len();
        // In this order of the arms, which was measured, the event that is returned is not moved.
        match self.receive_bytes(message, now) {
            Some(event) if older > 0 => self.insert_event(older, Some(event)),
            Some(event) => return Some(event),
            None => {}
        }
        self.poll_event()
    }

    /// Fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.machine.handle_timeout(now);
        self.run_actions();
    }

    /// Ends the peer's input. Every call settles, and every request is cancelled as
    /// [`Dialect::closed_stream`](crate::Dialect::closed_stream) says. The last event is
    /// [`Event::Closed`] (G7).
    pub fn handle_eof(&mut self, now: Timestamp) {
        self.close(CloseReason::PeerGone, now);
    }

    pub(crate) fn close(&mut self, reason: CloseReason, now: Timestamp) {
        self.machine.close(reason, now);
        self.run_actions();
    }

    // Messages

    #[inline]
    fn receive_bytes<'m>(&mut self, bytes: &'m [u8], now: Timestamp) -> Option<Event<'m, O>> {
        if self.machine.is_closed() {
            return None;
        }
        debug_assert!(!self.machine.has_actions(), "the previous input left actions behind");
        self.machine.advance_clock(now);
        let Config { dialect, limits, .. } = self.config();
        if bytes.len() > limits.message_bytes {
            let mut outline = Outline::new(dialect.envelope.levels_of_ids());
            outline.extend(bytes);
            self.receive_outline(&outline.end(), now);
        } else if let Some(message) = dialect.envelope.read(bytes, limits) {
            return self.receive_message(message, None);
        } else {
            self.refuse(None, None, envelope::unreadable(bytes), None);
        }
        None
    }

    /// Receives the outline of a message over the limit, which is invalid. A call gets its outcome, and a request
    /// its response.
    #[cold]
    pub(crate) fn receive_outline(&mut self, outline: &[u8], now: Timestamp) {
        self.machine.advance_clock(now);
        let Config { dialect, limits, .. } = self.config();
        let message = dialect.envelope.read(outline, limits).unwrap_or(Message::NO_OBJECT);
        // An invalid message is no event but its violation.
        self.receive_message(message.with_problem(EnvelopeProblem::TooLarge), None);
    }

    #[cold]
    fn receive_batch(&mut self, members: Vec<&RawValue>) {
        let Config { dialect, limits, .. } = self.config();
        let (envelope, limits) = (dialect.envelope, *limits);
        if dialect.batches.is_none() || !envelope.has_batches() {
            return self.refuse(None, None, Violation::BatchRefused, None);
        }
        if members.is_empty() || members.len() > limits.batch_members {
            return self.refuse(None, None, Violation::BatchSize, None);
        }
        let batch = self.unsent.open_batch();
        self.machine.set_holds_close(true);
        for member in members {
            let (older, is_over) = (self.events.len(), self.closed_queued);
            let message = envelope.read_object(member.get(), &limits);
            let message = message.unwrap_or(Message::NO_OBJECT);
            let event = self.receive_message(message, Some(batch));
            // A member after the one that closed the connection has a response, but no event.
            self.insert_event(older, event.filter(|_| !is_over));
        }
        self.machine.set_holds_close(false);
        self.settle_member(batch);
        self.run_actions();
    }

    #[inline]
    fn receive_message<'m>(
        &mut self,
        message: Message<'m>,
        batch: Option<Slot>,
    ) -> Option<Event<'m, O>> {
        match message {
            Message::Request(request) => return self.receive_request(request, batch),
            Message::Notification { method, params } => {
                return self.receive_notification(method, params);
            }
            Message::Response { id, kind, body } => return self.receive_response(id, kind, body),
            // A message without method, result and error can only be a response to a call in flight.
            Message::Neither { id, problem } if self.expects_response(id) => {
                return self.receive_response(id, None, ResponseBody::Malformed(problem));
            }
            Message::Neither { id, problem } => {
                self.refuse(id, None, Violation::InvalidRequest { problem }, batch);
            }
            Message::Invalid { id, origin, problem } => {
                self.refuse(id, origin.as_deref(), Violation::InvalidRequest { problem }, batch);
            }
            Message::InvalidNotification { problem } => {
                self.report_violation(Violation::InvalidNotification { problem }, None);
            }
            Message::Batch(members) => self.receive_batch(members),
        }
        None
    }

    fn expects_response(&self, id: Option<&str>) -> bool {
        let number = id.and_then(|id| self.config().dialect.envelope.number_of(id));
        number.is_some_and(|number| self.machine.expects_response(number))
    }

    /// Reads an id, if it can be compared and is short enough to be sent back.
    fn readable(&self, id: &str) -> Option<WireId> {
        let is_short = id.len() <= self.config().limits.id_bytes;
        if is_short { WireId::scanned(id) } else { None }
    }

    /// Reads the id that a cancel names. Returns `None` if no request of this dialect may have it.
    fn named(&self, target: &RawValue) -> Option<WireId> {
        let is_allowed = self.config().dialect.ids.allows(target.get());
        if is_allowed { self.readable(target.get()) } else { None }
    }

    // Requests

    #[inline]
    fn receive_request<'m>(
        &mut self,
        Request { id: json, kind, method, params, options, origin }: Request<'m>,
        batch: Option<Slot>,
    ) -> Option<Event<'m, O>> {
        let Config { dialect, role, limits, .. } = self.config();
        let (by, names_up_to) = (role.other(), limits.id_bytes);
        let tokens_up_to = (dialect.response == SilentWithProgress).then_some(names_up_to);
        let head = RequestHead { by, kind, method: &method, params, tokens_up_to, names_up_to };
        let mut extras = RequestExtras { facts: dialect.facts(&head), origin, batch };
        let is_cancel = dialect.cancels_are_requests() && dialect.cancel.has_method(&method);
        let (target, reason) = if is_cancel { dialect.cancel.read(params) } else { (None, None) };
        let is_handled_here = is_cancel && !self.is_for_host(target, params);
        let id = match self.readable(json) {
            _ if batch.is_some() && !is_handled_here && dialect.is_refused_in_batch(&method) => {
                Err(EnvelopeProblem::InBatch)
            }
            Some(id) if dialect.ids.allows(json) => Ok(id),
            _ => Err(EnvelopeProblem::Id),
        };
        let taken = if is_handled_here {
            self.receive_cancel_request(id, &extras, target, reason).map(|()| None)
        } else {
            self.machine.receive_request(id, &mut extras).map(Some)
        };
        let request = match taken {
            Ok(request) => request?,
            Err(violation) => {
                self.refuse(Some(json), extras.origin.as_deref(), violation, batch);
                self.machine.close_if_over_limit(violation);
                self.run_actions();
                return None;
            }
        };
        if let Some(batch) = batch {
            self.unsent.batches[batch.get()].pending += 1;
        }
        // A cancel that the host responds to may name a request all the same.
        if let Some(id) = target.and_then(|target| self.named(target)) {
            self.apply_cancel(&id, None);
        }
        self.run_actions();
        Some(Event::Request {
            request,
            id: Cow::Borrowed(json),
            method,
            params: params.map(Cow::Borrowed),
            options: options.map(Cow::Borrowed),
        })
    }

    /// Responds to a bad message, and reports it.
    ///
    /// A message that names no request gets a response with id null from a server alone, as JSON-RPC asks
    /// for. A client may be reading output that its server prints beside its messages, and a response to
    /// that has ended servers (F61).
    #[cold]
    fn refuse(
        &mut self,
        id: Option<&str>,
        origin: Option<&Origin>,
        violation: Violation,
        batch: Option<Slot>,
    ) {
        let id = id.and_then(|id| self.readable(id));
        let Config { dialect, role, .. } = self.config();
        let has_no_response = origin.is_none() && !dialect.envelope.responds_to_unreadable();
        if has_no_response || (id.is_none() && *role == Role::Client) {
            return self.report_violation(violation, id);
        }
        let to = Addressee { id: id.as_ref().map_or("null", WireId::as_json), origin };
        let message = OutgoingMessage::refusal(to, violation, dialect.overload_code);
        let context = Context::of(&self.machine);
        let sent = self.unsent.respond(&context, &message, TransmitKind::Response, batch);
        self.report_violation(violation, id.clone());
        match sent {
            Ok(sent) => self.after_response(batch, sent, None),
            Err(_) => self.report_violation(Violation::ResponseDropped, id),
        }
    }

    // Cancels

    /// Receives a cancel that is a notification. The notification itself is an event too, if the host
    /// wants that.
    fn receive_cancel<'m>(
        &mut self,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    ) -> Option<Event<'m, O>> {
        let dialect = &self.machine.config().dialect;
        let (target, reason) = dialect.cancel.read(params);
        let number = || dialect.envelope.number_of(target?.get());
        if let Some(call) = self.machine.call_that_peer_may_end(number) {
            self.machine.receive_end(call);
            self.run_actions();
            return None;
        }
        let (step, request) = match target.and_then(|target| self.named(target)) {
            Some(id) => self.machine.receive_cancel(&id),
            None => {
                self.report_violation(Violation::MalformedCancel, None);
                (None, None)
            }
        };
        if let Some(request) = request {
            self.leave_batch_if_withheld(request);
        }
        // The mark becomes the returned event, so it is not queued.
        let mark = step.filter(|step| *step == RequestStep::MarkCancelled);
        let mark = mark.and_then(|_| self.machine.poll_action());
        self.run_actions();
        if self.config().show_raw_cancels {
            self.push_event(Event::notification(method, params).into_owned());
        }
        let Some(Action::MarkCancelled { request, cause }) = mark else { return None };
        Some(Event::Cancelled { request, cause, reason })
    }

    /// Receives a cancel that is a request, and acknowledges it.
    ///
    /// # Errors
    ///
    /// The rule that the cancel breaks; it is to be responded to with an error.
    #[cold]
    fn receive_cancel_request(
        &mut self,
        id: Result<WireId, EnvelopeProblem>,
        extras: &RequestExtras,
        target: Option<&RawValue>,
        reason: Option<Cow<'_, str>>,
    ) -> Result<(), Violation> {
        let dialect = &self.machine.config().dialect;
        let shares_ids = dialect.envelope.cancels_share_ids();
        let names_operation = dialect.has_operations();
        let id = self.machine.admit_cancel_request(id, &extras.facts, shares_ids)?;
        let target = target.ok_or(Violation::MalformedCancel)?;
        let name = if names_operation { token_id(target) } else { self.named(target) };
        let step = match name {
            Some(name) => self.apply_cancel(&name, reason),
            // The token can't be that of any operation.
            None if names_operation => {
                self.report_violation(Violation::MalformedCancel, Some(id.clone()));
                None
            }
            None => return Err(Violation::MalformedCancel),
        };
        // Acknowledged after what it cancelled, which may be a call that has not left.
        self.run_actions();
        self.acknowledge(id, extras, target.get(), step);
        Ok(())
    }

    /// Returns whether the host responds to this cancel: it names an operation of another connection, or
    /// something that is no request.
    fn is_for_host(&self, target: Option<&RawValue>, params: Option<&RawValue>) -> bool {
        let Config { dialect, deliver_unknown_operations, .. } = self.config();
        // The token of another server need not look like ours.
        let is_unknown = |token| self.machine.is_unknown_operation(token_id(token).as_ref());
        dialect.envelope.cancel_is_for_host(target, params)
            || *deliver_unknown_operations
                && dialect.has_operations()
                && target.is_some_and(is_unknown)
    }

    /// Applies a cancel of the peer's that names this; returns the step, or `None` if nothing has the name.
    fn apply_cancel(&mut self, name: &WireId, reason: Option<Cow<'_, str>>) -> Option<RequestStep> {
        // The message that brings the cancel may have stopped work.
        self.run_actions();
        let (step, request) = self.machine.receive_cancel(name);
        let mark = step.filter(|step| *step == RequestStep::MarkCancelled);
        let mark = mark.and_then(|_| self.machine.poll_action());
        if let Some(Action::MarkCancelled { request, cause }) = mark {
            let reason = reason.map(|reason| Cow::Owned(reason.into_owned()));
            self.report_cancelled(request, cause, reason);
        } else if let Some(request) = request {
            self.leave_batch_if_withheld(request);
        }
        step
    }

    /// Acknowledges a cancel of the peer's that named `target`.
    fn acknowledge(
        &mut self,
        id: WireId,
        extras: &RequestExtras,
        target: &str,
        step: Option<RequestStep>,
    ) {
        let (context, batch) = (Context::of(&self.machine), extras.batch);
        let to = Addressee { id: id.as_json(), origin: extras.origin.as_deref() };
        let dialect = &context.config.dialect;
        let refusal = match step {
            Some(RequestStep::MarkCancelled | RequestStep::CancelledBefore) => None,
            Some(RequestStep::Completed) => Some("Operation already completed"),
            Some(_) => Some("Operation can't be cancelled"),
            None => Some("Operation not found"),
        };
        let content = dialect.envelope.acknowledgement(&dialect.cancel, target, refusal);
        let message = match &content {
            Ok(members) => OutgoingMessage::Result { to, members },
            &Err((code, message)) => OutgoingMessage::error(to, code, message),
        };
        match self.unsent.respond(&context, &message, TransmitKind::Acknowledgement, batch) {
            Ok(sent) => self.after_response(batch, sent, None),
            Err(_) => self.report_violation(Violation::ResponseDropped, Some(id)),
        }
    }

    // Notifications and responses

    #[inline]
    fn receive_notification<'m>(
        &mut self,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    ) -> Option<Event<'m, O>> {
        let dialect = &self.machine.config().dialect;
        if dialect.cancel.has_method(&method) {
            if !dialect.cancels_are_requests() {
                return self.receive_cancel(method, params);
            }
            // Nobody can acknowledge it.
            self.report_violation(
                Violation::InvalidNotification { problem: EnvelopeProblem::Id },
                None,
            );
            return None;
        }
        self.machine.progress_with(|dialect| dialect.progress_token(&method, params));
        declare_anew(&mut self.machine, false, &method, params);
        let Config { dialect, limits, .. } = self.config();
        let part = dialect.work_in(Carrier::Notification, &method, params, limits.id_bytes);
        if let Some(part) = part {
            self.receive_work(&part, Event::notification(method, params).into_owned());
            return None;
        }
        Some(Event::notification(method, params))
    }

    /// Receives a response to one of our calls, or to one of our cancels where those are requests.
    fn receive_response<'m>(
        &mut self,
        id: Option<&'m str>,
        kind: Option<RequestKind>,
        body: ResponseBody<'m>,
    ) -> Option<Event<'m, O>> {
        let number = id
            .and_then(|id| self.config().dialect.envelope.number_of(id))
            .filter(|&number| kind.is_none_or(|kind| self.machine.matches_kind(number, kind)));
        let token = self.operation_token_in(&body);
        let kind = match response_kind(&body, token.is_some()) {
            ResponseKind::Result if self.has_stop_mark(number, &body) => ResponseKind::Stopped,
            kind => kind,
        };
        let stray = number.map_or(Some(Violation::UnknownResponse), |number| {
            self.machine.receive_response(number, kind)
        });
        let violation = stray.or(body.violation());
        if let Some(violation) = violation {
            let id = id.and_then(|id| self.readable(id));
            self.report_violation(violation, id);
        }
        let done = match self.machine.poll_action() {
            Some(Action::Settle(done)) => done,
            action => {
                // The cancel of an operation follows, now that the response brings its token.
                if let (Some(Action::SendCancel { call, number }), Some(token)) = (action, token) {
                    self.send_cancel(Value::Token(token.get()), call, number, None);
                }
                match (violation, number) {
                    (None, Some(number)) => self.receive_response_to_stop(number, &body),
                    (Some(Violation::LateResponse), Some(it)) => self.receive_late(it, &body),
                    _ => {}
                }
                self.run_actions();
                return None;
            }
        };
        if matches!(body, ResponseBody::Malformed(_)) {
            // The violation is reported first.
            self.carry_out(Action::Settle(done), None);
            self.run_actions();
            return None;
        }
        Some(self.settle_responded(done, body))
    }

    /// Returns whether the result of the call with this number has the mark of a stop.
    #[inline]
    fn has_stop_mark(&self, number: Option<u32>, body: &ResponseBody<'_>) -> bool {
        let number = number.filter(|_| self.machine.has_begun_work());
        let mark = number.and_then(|number| self.machine.mark_of_call(number));
        mark.zip(body.result()).is_some_and(|(mark, result)| mark.is_in(result))
    }

    /// Returns the usable token of an operation that a response brings.
    fn operation_token_in<'m>(&self, body: &ResponseBody<'m>) -> Option<&'m RawValue> {
        let CancelRule::Operation { token, .. } = &self.config().dialect.cancel else {
            return None;
        };
        given(body.result()?, token).filter(|token| self.readable(token.get()).is_some())
    }
}

/// Returns the kind of a response. It does not look for the mark of a stop.
#[inline]
fn response_kind(body: &ResponseBody<'_>, has_token: bool) -> ResponseKind {
    match body {
        ResponseBody::Result(_) if has_token => ResponseKind::Token,
        ResponseBody::Result(_) => ResponseKind::Result,
        ResponseBody::Error(error) if error.code == code::REQUEST_CANCELLED => {
            ResponseKind::CancelError
        }
        ResponseBody::Error(_) => ResponseKind::Error,
        ResponseBody::Malformed(_) => ResponseKind::Malformed,
    }
}
