//! Cancels, both ways: ours of our calls, and the peer's of its requests.

use alloc::borrow::Cow;

use serde_json::value::RawValue;

use super::operations::token_id;
use super::unsent::BatchKey;
use super::{Connection, context};
use crate::cause::Cause;
use crate::config::Config;
use crate::dialect::{Envelope, code};
use crate::error::Refusal;
use crate::event::{Event, Response, TransmitKind};
use crate::id::WireId;
use crate::machine::{Action, CallId, CancelOutcome, RequestStep};
use crate::outbox::Lane;
use crate::time::Timestamp;
use crate::violation::Violation;
use crate::wire::abp::Origin;
use crate::wire::decode::{self, Request};
use crate::wire::encode::{Draft, To, Value};

impl<O, I: Default> Connection<O, I> {
    // Ours

    /// Cancels a call, with [`Cause::Caller`], or with [`Cause::Dropped`] if nobody waits for it
    /// any more (G5). Legal at any time, also on a settled call.
    pub fn cancel(&mut self, call: CallId, cause: Cause, now: Timestamp) -> CancelOutcome {
        self.cancel_because(call, cause, None, now)
    }

    /// As [`cancel`](Self::cancel), and tells the peer why in words, where the dialect has a place
    /// for that and the words fit under [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    pub fn cancel_because(
        &mut self,
        call: CallId,
        cause: Cause,
        reason: Option<&str>,
        now: Timestamp,
    ) -> CancelOutcome {
        self.pass(now);
        let (outcome, action) = self.machine.cancel(call, cause, now);
        match action {
            Some(Action::SendCancel { call, number }) => self.send_cancel(call, number, reason),
            Some(action) => self.carry_out(action),
            None => {}
        }
        self.follow();
        outcome
    }

    /// Queues the cancel of a call, which names its request.
    pub(super) fn send_cancel(&mut self, call: CallId, number: Option<u32>, why: Option<&str>) {
        self.send_cancel_naming(Value::Id(call.number()), call, number, why);
    }

    /// Queues a cancel ahead of everything else, but behind our answer to an exchange that settles
    /// something about cancels. Cancels are taken above the limit, there being at most one a call;
    /// words are not (G8). `number` is there where the cancel is a request of its own.
    pub(super) fn send_cancel_naming(
        &mut self,
        id: Value<'_>,
        call: CallId,
        number: Option<u32>,
        why: Option<&str>,
    ) {
        let context = context(&self.machine, self.now);
        let Config { dialect, limits, .. } = context.config;
        let Some((method, mut members)) = dialect.cancel.says(id, why) else { return };
        let is_too_long = |draft: Draft<'_>| draft.len(&context) > self.unsent.free(limits);
        if why.is_some() && is_too_long(Draft::cancel(number, method, &members)) {
            // Its second member is why.
            members[1].1 = None;
        }
        let draft = Draft::cancel(number, method, &members);
        // Where every message has a number, they leave in its order.
        let is_behind = dialect.envelope == Envelope::Dap || self.exchange.is_some();
        let lane = if is_behind { Lane::Bulk } else { Lane::Ahead };
        // A call that has settled is found under its number no more.
        let (kind, number) = (TransmitKind::Cancel, Some(number.unwrap_or(call.number())));
        let outbox = &mut self.unsent.outbox;
        let pushed = outbox.push(usize::MAX, &context, &draft, lane, kind, number);
        if let (Some(outgoing), Ok(ticket)) = (self.machine.call_data_mut(call), pushed) {
            outgoing.ticket = ticket;
        }
    }

    /// Sends the dialect's cancel for a request whose id on this connection the host knows (or for the
    /// operation whose token this is, as a string), for routing of its own. Changes nothing here:
    /// [`cancel`](Self::cancel) is what cancels our calls.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoCancel`], [`Refusal::Uncancellable`], [`Refusal::Closed`],
    /// [`Refusal::OutboxFull`] or [`Refusal::TooLarge`].
    pub fn send_cancel_request(&mut self, id: &WireId) -> Result<(), Refusal> {
        let call = self.number_in(id.token()).and_then(|number| self.machine.call_numbered(number));
        let own = call.and_then(|(call, _)| self.machine.call_refusal(call));
        let refusal = own.or_else(|| self.machine.refusal());
        let config = self.machine.config();
        let cancel = config.dialect.cancel.says(Value::Token(id.token()), None);
        let (method, members) = cancel.ok_or(Refusal::NoCancel)?;
        if let Some(why) = refusal {
            return Err(Refusal::Uncancellable(why));
        }
        if self.machine.is_closed() {
            return Err(Refusal::Closed);
        }
        let is_request = config.dialect.cancels_are_requests();
        let number = is_request.then(|| self.machine.next_number());
        let draft = Draft::cancel(number, method, &members);
        let context = context(&self.machine, self.now);
        // Behind all others: its request may still be waiting (G4).
        self.unsent.send(&context, &draft, TransmitKind::Cancel, number)?;
        if is_request {
            self.machine.number_of_cancel_alone();
        }
        Ok(())
    }

    // The peer's

    /// Takes a cancel that is a notification, and tells of the notification itself if the host wants that.
    pub(super) fn take_cancel<'m>(
        &mut self,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
        now: Timestamp,
    ) -> Option<Event<'m, O>> {
        let (named, reason) = self.read_cancel(params);
        let token = named.map(RawValue::get).filter(|it| self.config().dialect.ids.allows(it));
        let id = token.and_then(|token| self.readable(token));
        if let Some(call) = token.and_then(|token| self.call_that_peer_ends(token)) {
            if let Some(action) = self.machine.receive_end(call) {
                self.carry_out(action);
            }
            self.follow();
            return None;
        }
        let marked = match &id {
            Some(id) => self.machine.receive_cancel(id, now).1,
            None => {
                self.report(Violation::MalformedCancel, None);
                None
            }
        };
        if let Some(request) = marked {
            self.mark_in_batch(request);
        }
        self.follow();
        if self.config().show_raw_cancels {
            self.tell(Event::notification(method, params).into_owned());
        }
        marked.map(|request| Event::Cancelled { request, cause: Cause::Peer, reason })
    }

    /// Our call that the peer's cancel ends: the one exception to that it names requests of its own
    /// (B13).
    fn call_that_peer_ends(&self, token: &str) -> Option<CallId> {
        let token = Some(token).filter(|_| self.may_lose_calls)?;
        let (call, outgoing) = self.machine.call_numbered(super::inputs::number_of(token)?)?;
        outgoing.server_ends.then_some(call)
    }

    /// Takes a cancel that is a request, and answers it.
    ///
    /// # Errors
    ///
    /// What is wrong with it; it is then to be answered so.
    pub(super) fn take_cancel_request(
        &mut self,
        id: WireId,
        request: &Request<'_>,
        batch: Option<BatchKey>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let dialect = &self.config().dialect;
        // Where the id of a request is that of its message, nobody could tell the answers apart (B5).
        let same = self.machine.request_named(&id).and_then(|it| self.machine.request_id(it));
        if dialect.envelope != Envelope::Abp && same.is_some() {
            return Err(Violation::DuplicateId);
        }
        let names_operation = dialect.has_operations();
        let (named, reason) = self.read_cancel(request.params);
        let named = named.ok_or(Violation::MalformedCancel)?;
        let wanted = if names_operation { token_id(named) } else { self.readable(named.get()) };
        let met = match wanted {
            Some(wanted) => self.obey(&wanted, reason, now),
            None if names_operation => {
                self.report(Violation::MalformedCancel, Some(id.clone()));
                RequestStep::NotFound
            }
            None => return Err(Violation::MalformedCancel),
        };
        // Acknowledged after what it cancelled, which may be a call that has not left.
        self.follow();
        self.acknowledge(id, request.origin.as_deref(), named.get(), met, batch);
        Ok(())
    }

    /// What a cancel with these params names, and why it was sent.
    #[inline]
    fn read_cancel<'m>(
        &self,
        params: Option<&'m RawValue>,
    ) -> (Option<&'m RawValue>, Option<Cow<'m, str>>) {
        let Some((_, member, place)) = self.config().dialect.cancel.members() else {
            return (None, None);
        };
        let reason = place.and_then(|place| decode::param(params, place)).and_then(decode::string);
        (decode::param(params, member), reason)
    }

    /// Whether the host answers this cancel: it names an operation that is none of this connection's, or
    /// in DAP a progress, or nothing at all.
    pub(super) fn is_for_host(&self, params: Option<&RawValue>) -> bool {
        let Config { dialect, deliver_unknown_operations, .. } = self.config();
        let (named, _) = self.read_cancel(params);
        if dialect.envelope == Envelope::Dap {
            // Some peers write all that they could say.
            let says = |member: Option<&RawValue>| member.is_some_and(|it| it.get() != "null");
            return !says(named) || says(decode::param(params, "progressId"));
        }
        // The token of another server need not look like ours.
        let is_unknown = |token| self.machine.is_unknown_operation(token_id(token).as_ref());
        *deliver_unknown_operations && dialect.has_operations() && named.is_some_and(is_unknown)
    }

    /// The peer cancels what this names; tells the host of the mark.
    pub(super) fn obey(
        &mut self,
        named: &WireId,
        reason: Option<Cow<'_, str>>,
        now: Timestamp,
    ) -> RequestStep {
        let (met, marked) = self.machine.receive_cancel(named, now);
        if let Some(request) = marked {
            self.mark_cancelled(request, Cause::Peer, reason);
        }
        met
    }

    /// Answers a cancel of the peer's.
    fn acknowledge(
        &mut self,
        id: WireId,
        origin: Option<&Origin>,
        target: &str,
        met: RequestStep,
        batch: Option<BatchKey>,
    ) {
        let context = context(&self.machine, self.now);
        let to = To { id: id.token(), origin };
        let dialect = &context.config.dialect;
        let Some((_, member, _)) = dialect.cancel.members() else { return };
        let (cancelled, why_not) = match met {
            RequestStep::MarkCancelled | RequestStep::CancelledBefore => ("true", None),
            RequestStep::Completed => ("false", Some("Operation already completed")),
            RequestStep::NotFound => ("false", Some("Operation not found")),
            _ => ("false", Some("Operation can't be cancelled")),
        };
        let members = [
            (member, Some(Value::Token(target))),
            ("cancelled", Some(Value::Token(cancelled))),
            ("reason", why_not.map(Value::Text)),
        ];
        let error = |code, message| {
            let reply = Response::Error { code, message, data: None };
            Draft::Response { to, reply }
        };
        let draft = match why_not {
            Some(why) if dialect.envelope == Envelope::Dap => error(code::REQUEST_FAILED, why),
            _ if !dialect.has_operations() => Draft::Result { to, members: &members },
            None => Draft::Result { to, members: &[("status", Some(Value::Text("cancelled")))] },
            Some(_) => error(code::OPERATION_NOT_FOUND, "Operation not found"),
        };
        match self.unsent.answer(&context, &draft, TransmitKind::Acknowledgement, batch) {
            Ok(sent) => self.answered(batch, sent, None),
            Err(_) => self.report(Violation::ResponseDropped, Some(id)),
        }
    }
}
