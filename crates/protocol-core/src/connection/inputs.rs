//! What comes in: messages, time, the end.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::acknowledged::Routed;
use super::batches::BatchKey;
use super::commands::uncancellable;
use super::received::{EventQueue, Received};
use super::special::Special;
use super::{Cargo, Connection, Delivery, Incoming, ServerEnds, Session};
use crate::cause::{Cause, CloseReason};
use crate::config::{Config, RawCancels};
use crate::dialect::{AnswerRule, BatchRule, CancelRule, Envelope, Role, SessionRule, code};
use crate::event::{Event, Outcome, Reply, TransmitKind};
use crate::id::WireId;
use crate::machine::{
    Action, Answer, CallId, PeerCancels, RequestRefusal, Settlement, StrayResponse,
};
use crate::slot::put;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{self, Asked, Origin};
use crate::wire::decode::{self, Message, Response};
use crate::wire::encode::{Context, Draft, To};

impl<O, I: Default> Connection<O, I> {
    /// Takes one whole message, without framing, and decides everything about it now: when this
    /// returns, a cancelled request is marked (G3). Infallible: bad input is an event (G9).
    #[inline]
    pub fn receive<'m>(&mut self, message: &'m [u8], now: Timestamp) -> Received<'m, O> {
        let mut received = Received::nothing();
        self.receive_message(message, now, &mut received);
        received
    }

    /// As [`receive`](Self::receive). This and its like fill in what the host gets where the host has
    /// it: moving it takes time.
    pub(crate) fn receive_message<'m>(
        &mut self,
        message: &'m [u8],
        now: Timestamp,
        received: &mut Received<'m, O>,
    ) {
        self.pass(now);
        received.message = Some(message);
        let events = &mut received.events;
        self.give_events(events);
        if self.machine.is_closed() {
            return;
        }
        if message.len() > self.config().limits.message_bytes {
            return self.refuse_too_large(events);
        }
        self.take(message, now, events);
    }

    /// Fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.pass(now);
        self.machine.handle_timeout(now);
        self.follow_command();
    }

    /// The peer's input has ended: every call settles, every request is marked cancelled, and
    /// `Closed` is the last event (G7).
    pub fn handle_eof(&mut self, now: Timestamp) {
        self.pass(now);
        self.machine.close(CloseReason::PeerGone, now);
        self.follow_command();
    }

    /// The stream holds no message, but nothing is lost either.
    pub(crate) fn receive_nothing(&mut self, received: &mut Received<'_, O>) {
        self.give_events(&mut received.events);
    }

    /// A message over the limit went by in the stream.
    pub(crate) fn receive_too_large(&mut self, received: &mut Received<'_, O>) {
        self.give_events(&mut received.events);
        if !self.machine.is_closed() {
            self.refuse_too_large(&mut received.events);
        }
    }

    /// The stream can't be followed any more.
    pub(crate) fn receive_broken(
        &mut self,
        violation: Violation,
        reason: CloseReason,
        now: Timestamp,
        received: &mut Received<'_, O>,
    ) {
        self.pass(now);
        self.give_events(&mut received.events);
        if !self.machine.is_closed() {
            self.report(violation, None, &mut received.events);
            self.machine.close(reason, now);
            self.follow(&mut received.events);
        }
    }

    fn take<'m>(&mut self, bytes: &'m [u8], now: Timestamp, events: &mut EventQueue<'m, O>) {
        let Config { dialect, limits, .. } = self.config();
        match decode::incoming(bytes, dialect.envelope, limits) {
            decode::Incoming::One(message) => self.take_message(message, None, now, events),
            decode::Incoming::Batch(members) => self.take_batch(members, now, events),
            decode::Incoming::Unreadable(violation) => {
                let error = (code::PARSE_ERROR, "Parse error: the message is not JSON");
                self.refuse(None, None, error, violation, None, events);
            }
        }
    }

    fn take_batch<'m>(
        &mut self,
        members: Vec<&'m RawValue>,
        now: Timestamp,
        events: &mut EventQueue<'m, O>,
    ) {
        let Config { dialect, limits, .. } = self.config();
        let is_refused = dialect.batches == BatchRule::Refused || dialect.envelope == Envelope::Abp;
        let violation = if is_refused {
            Violation::BatchRefused
        } else if members.is_empty() || members.len() > limits.batch_members {
            Violation::BatchSize
        } else {
            let depth = limits.depth;
            let batch = self.batches.open();
            self.machine.begin_batch();
            for member in members {
                let message = decode::member(member, depth);
                self.take_message(message, Some(batch), now, events);
            }
            self.machine.end_batch();
            self.settle_member(batch);
            return self.follow(events);
        };
        let error = (code::INVALID_REQUEST, "Invalid request: no such batch is accepted");
        self.refuse(None, None, error, violation, None, events);
    }

    fn take_message<'m>(
        &mut self,
        message: Message<'m>,
        batch: Option<BatchKey>,
        now: Timestamp,
        events: &mut EventQueue<'m, O>,
    ) {
        let request = match message {
            Message::Request { id, method, params } => {
                Delivery { id, method, params, options: None, origin: None }
            }
            Message::Abp { origin, id, method, params, options } => {
                Delivery { id, method, params, options, origin: Some(origin) }
            }
            Message::Notification { method, params } => {
                return self.take_notification(method, params, now, events);
            }
            Message::Response { id, asked, answer } => {
                return self.take_response(id, asked, answer, events);
            }
            Message::Neither { id, problem } if self.is_in_flight(id) => {
                return self.take_response(id, None, Err(problem), events);
            }
            Message::Neither { id, problem } | Message::Invalid { id, problem } => {
                return self.refuse_invalid(id, None, problem, batch, events);
            }
            Message::InvalidAbp { origin, id, problem } => {
                return self.refuse_invalid(id, Some(&origin), problem, batch, events);
            }
            Message::InvalidNotification { problem } => {
                return self.report(Violation::InvalidNotification { problem }, None, events);
            }
        };
        self.take_request(request, batch, now, events);
    }

    #[inline]
    fn take_request<'m>(
        &mut self,
        mut request: Delivery<'m>,
        batch: Option<BatchKey>,
        now: Timestamp,
        events: &mut EventQueue<'m, O>,
    ) {
        if self.lacks_session(&request.method) {
            return self.refuse_uninitialized(&request, batch, events);
        }
        let dialect = &self.config().dialect;
        let (ids, batches, overload_code) = (dialect.ids, dialect.batches, dialect.overload_code);
        if let CancelRule::Request { method, target, reason } = dialect.cancel {
            if method == request.method {
                return self.take_cancel_request(request, (target, reason), batch, now, events);
            }
        }
        let origin = request.origin.take();
        let asked = origin.as_ref().map_or(Asked::Other, |origin| origin.asked());
        let Some(id) = self.readable(request.id).filter(|_| ids.allows(request.id)) else {
            let (id, problem) = (Some(request.id), EnvelopeProblem::Id);
            return self.refuse_invalid(id, origin.as_deref(), problem, batch, events);
        };
        if let (Some(_), BatchRule::Accepted { except }) = (batch, batches) {
            if except.contains(&&*request.method) {
                let problem = EnvelopeProblem::InBatch;
                return self.refuse_invalid(Some(request.id), None, problem, batch, events);
            }
        }
        let overload = (overload_code, "The request was refused: too much is in flight");
        let (error, violation) = match self.machine.receive_request(id) {
            Ok(handle) => {
                self.machine.take_action(Action::Deliver { request: handle });
                if let Some(batch) = batch {
                    self.batches.add_member(batch);
                }
                let (method, params) = (&*request.method, request.params);
                if uncancellable(&self.config().dialect, asked, method, params).is_some() {
                    self.machine.take_cancels_of(handle, PeerCancels::Ignored);
                }
                if self.config().dialect.answer == AnswerRule::SilentWithProgress {
                    let rules = self.config().dialect.progress;
                    let longest = self.config().limits.id_bytes;
                    self.withheld.watch(rules, handle, params, longest);
                }
                let special = Special {
                    batch,
                    declares: self.negotiation.client_declares(method, params),
                    origin,
                    starts: self.config().dialect.starts_operation(method),
                    operation: None,
                };
                self.specials.put(handle.slot(), special);
                let server_ends = match self.config().role {
                    Role::Client => ServerEnds::No,
                    Role::Server => ServerEnds::of(self.config(), Role::Client, method),
                };
                let incoming = Incoming {
                    data: I::default(),
                    server_ends,
                    session: self.config().dialect.session.after(method),
                };
                put(&mut self.incoming, handle.slot(), incoming);
                let Delivery { id, method, params, options, .. } = request;
                self.tell(events, || Event::Request {
                    request: handle,
                    id,
                    method,
                    params,
                    options,
                });
                self.machine.receive_early_cancel(handle, now);
                return self.follow(events);
            }
            Err(RequestRefusal::DuplicateId) => (DUPLICATE_ID, Violation::DuplicateId),
            Err(RequestRefusal::TooManyRequests) => (overload, Violation::TooManyRequests),
            Err(RequestRefusal::ShuttingDown) => {
                let error = (overload_code, "The request was refused: shutting down");
                (error, Violation::RequestAfterShutdown)
            }
        };
        let id = self.readable(request.id);
        self.refuse(id, origin.as_deref(), error, violation, batch, events);
        if violation == Violation::TooManyRequests && self.machine.closes_over_limit() {
            self.machine.close(CloseReason::OverLimit, now);
            self.follow(events);
        }
    }

    fn take_notification<'m>(
        &mut self,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
        now: Timestamp,
        events: &mut EventQueue<'m, O>,
    ) {
        match self.config().dialect.cancel {
            CancelRule::Notification { method: cancel, id, reason } if cancel == method => {
                self.take_cancel(params, (id, reason), now, events);
                if self.config().raw_cancels == RawCancels::Shown {
                    self.tell(events, || Event::Notification { method, params });
                }
            }
            // Nobody can acknowledge it.
            CancelRule::Request { method: cancel, .. } if cancel == method => {
                let problem = EnvelopeProblem::Id;
                self.report(Violation::InvalidNotification { problem }, None, events);
            }
            _ => {
                let rules = self.config().dialect.progress;
                for call in self.progress.owners_of(rules, &method, params) {
                    self.machine.progress(call, now);
                }
                self.tell(events, || Event::Notification { method, params });
            }
        }
    }

    /// A cancel, whose params have these members.
    #[inline(never)]
    fn take_cancel<'m>(
        &mut self,
        params: Option<&'m RawValue>,
        (id, reason): (&str, Option<&str>),
        now: Timestamp,
        events: &mut EventQueue<'m, O>,
    ) {
        let ids = self.config().dialect.ids;
        let id = decode::param(params, id).map(RawValue::get).filter(|id| ids.allows(id));
        match id.and_then(|id| self.readable(id)) {
            Some(id) => match self.call_that_peer_ends(&id) {
                Some(number) => self.machine.receive_end(number),
                None => self.machine.receive_cancel(&id, now),
            },
            None => self.report(Violation::MalformedCancel, None, events),
        }
        let reason = reason.and_then(|reason| decode::param(params, reason));
        let reason = reason.and_then(decode::string);
        let marked = self.machine.take_action_if(|action| match *action {
            Action::MarkCancelled { request, cause } => Some((request, cause)),
            _ => None,
        });
        match marked {
            // The usual cancel leads to nothing else.
            Some((request, cause)) => {
                self.mark_cancelled(request, cause, reason, events);
                self.follow(events);
            }
            None => self.carry_out(Cargo::Reason(reason), events),
        }
    }

    fn take_response<'m>(
        &mut self,
        id: Option<&'m str>,
        asked: Option<Asked>,
        answer: Result<Response<'m>, EnvelopeProblem>,
        events: &mut EventQueue<'m, O>,
    ) {
        let kind = match &answer {
            Ok(Response::Result(_)) => Answer::Result,
            Ok(Response::Error(error)) if decode::confirms_cancel(error) => Answer::CancelError,
            Ok(Response::Error(_)) => Answer::Error,
            Err(_) => Answer::Malformed,
        };
        let number = id.and_then(|id| self.number_in(id));
        let settled = match self.route(number, asked, kind, &answer) {
            Routed::Answer(number, kind) => number
                .ok_or(StrayResponse::Unknown)
                .and_then(|number| self.machine.receive_response(number, kind).map(Some)),
            Routed::Done => Ok(None),
            Routed::Again => Err(StrayResponse::Duplicate),
        };
        // The usual answers lead to nothing else.
        if let (Ok(Some(call)), &Ok(Response::Result(result))) = (settled, &answer) {
            if self.take_completion(call, Settlement::Result).is_some() {
                let data = self.release_call(call, Some(result));
                self.tell(events, || {
                    let outcome = Outcome::Result(result);
                    Event::Settled { call, outcome, data }
                });
                return self.follow(events);
            }
        }
        if let (Ok(Some(call)), Ok(Response::Error(_))) = (settled, &answer) {
            self.take_recall(call);
            if let Some(Some(cause)) = self.take_completion(call, Settlement::Cancelled) {
                let data = self.release_call(call, None);
                self.tell(events, || {
                    let error = answer.ok().and_then(Response::error);
                    let outcome = Outcome::Cancelled { cause, error };
                    Event::Settled { call, outcome, data }
                });
                return self.follow(events);
            }
        }
        let violation = match settled {
            Ok(_) => answer.as_ref().err().map(|&problem| Violation::MalformedResponse { problem }),
            Err(StrayResponse::Late) => Some(Violation::LateResponse),
            Err(StrayResponse::Duplicate) => Some(Violation::DuplicateResponse),
            Err(StrayResponse::Unknown) => Some(Violation::UnknownResponse),
        };
        if let Some(violation) = violation {
            let id = id.and_then(|id| self.readable(id));
            self.report(violation, id, events);
        }
        self.carry_out(answer.map_or(Cargo::Nothing, Cargo::Response), events);
    }

    /// Does the next action, if it is to take back what this call has not sent yet.
    #[inline]
    fn take_recall(&mut self, answered: CallId) {
        let recalled = self.machine.take_action_if(|action| match *action {
            Action::Withdraw { call } => (call == answered).then_some(call),
            _ => None,
        });
        if let Some(call) = recalled {
            self.withdraw(call);
        }
    }

    /// Takes the next action, if it is to complete this call so; gives why it was cancelled, if it was.
    #[inline]
    fn take_completion(&mut self, done: CallId, so: Settlement) -> Option<Option<Cause>> {
        self.machine.take_action_if(|action| match *action {
            Action::CompleteCall { call, settlement, cause } => {
                (call == done && settlement == so).then_some(cause)
            }
            _ => None,
        })
    }

    /// The number of the call of ours that the peer's cancel ends: the one exception to that it
    /// names requests of its own (B13).
    fn call_that_peer_ends(&self, id: &WireId) -> Option<u32> {
        let number = number_of(id.token())?;
        let call = self.machine.call_numbered(number)?;
        let outgoing = self.outgoing.get(call.slot())?.as_ref()?;
        (outgoing.server_ends == ServerEnds::Yes).then_some(number)
    }

    /// The number of the message of ours whose id this token is.
    pub(super) fn number_in(&self, id: &str) -> Option<u32> {
        match self.config().dialect.envelope {
            Envelope::JsonRpc => number_of(id),
            Envelope::Abp => abp::number(id),
        }
    }

    /// Whether a message without method, result and error can only be a response.
    fn is_in_flight(&self, id: Option<&str>) -> bool {
        id.and_then(number_of).is_some_and(|number| {
            self.machine.expects_response(number) || self.our_cancels.is_awaited(number)
        })
    }

    /// The id of a message, if it is one that can be compared and echoed.
    pub(super) fn readable(&self, token: &str) -> Option<WireId> {
        if token.len() > self.config().limits.id_bytes {
            return None;
        }
        WireId::scanned(token)
    }

    /// Whether there is no session, and no request of this method opens one.
    fn lacks_session(&self, method: &str) -> bool {
        let rule = self.config().dialect.session;
        rule != SessionRule::NotNeeded
            && self.session == Session::Missing
            && rule.after(method) == Session::Missing
    }

    fn refuse_uninitialized(
        &mut self,
        request: &Delivery<'_>,
        batch: Option<BatchKey>,
        events: &mut EventQueue<'_, O>,
    ) {
        let (id, origin) = (self.readable(request.id), request.origin.as_deref());
        let error = (code::SERVER_NOT_INITIALIZED, "The session is not open");
        self.refuse(id, origin, error, Violation::NotInitialized, batch, events);
    }

    pub(super) fn refuse_invalid<'m>(
        &mut self,
        id: Option<&str>,
        origin: Option<&Origin>,
        problem: EnvelopeProblem,
        batch: Option<BatchKey>,
        events: &mut EventQueue<'m, O>,
    ) {
        let id = id.and_then(|id| self.readable(id));
        let error = (code::INVALID_REQUEST, problem.as_str());
        self.refuse(id, origin, error, Violation::InvalidRequest { problem }, batch, events);
    }

    fn refuse_too_large(&mut self, events: &mut EventQueue<'_, O>) {
        let error = (code::INVALID_REQUEST, "Invalid request: the message is too long");
        self.refuse(None, None, error, Violation::MessageTooLarge, None, events);
    }

    /// Answers a bad message by ourselves, and reports it. The answer never holds any of the
    /// peer's data but its id (B3).
    pub(super) fn refuse(
        &mut self,
        id: Option<WireId>,
        origin: Option<&Origin>,
        (code, message): (i64, &str),
        violation: Violation,
        batch: Option<BatchKey>,
        events: &mut EventQueue<'_, O>,
    ) {
        if origin.is_none() && self.config().dialect.envelope == Envelope::Abp {
            // It has no answer to what can't be read.
            return self.report(violation, id, events);
        }
        let reply = Reply::Error { code, message, data: None };
        let token = id.as_ref().map_or("null", WireId::token);
        let (limit, context) =
            (self.stage_limit(), Context { config: self.machine.config(), now: self.now });
        let to = To { id: token, origin };
        let staged = self.outbox.stage_draft(limit, &context, &Draft::Response { to, reply });
        let dropped = match (staged, batch) {
            (Ok(message), None) => {
                self.outbox.commit(message, TransmitKind::Response);
                None
            }
            (Ok(message), Some(batch)) => {
                self.keep_back(batch, message);
                None
            }
            (Err(_), _) => Some(Violation::AnswerDropped),
        };
        self.report(violation, id.clone(), events);
        if let Some(dropped) = dropped {
            self.report(dropped, id, events);
        }
    }

    pub(super) fn report(
        &mut self,
        violation: Violation,
        id: Option<WireId>,
        events: &mut EventQueue<'_, O>,
    ) {
        self.tell(events, || Event::Violation { violation, id });
    }
}

pub(super) const DUPLICATE_ID: (i64, &str) =
    (code::INVALID_REQUEST, "Invalid request: the id is that of a request in flight");

/// The number that an id token of ours says: decimal, nothing else (B14).
pub(super) fn number_of(token: &str) -> Option<u32> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    let mut digits = token.bytes();
    let first = digit(digits.next()?)?;
    digits.try_fold(first, |number, byte| number.checked_mul(10)?.checked_add(digit(byte)?))
}
