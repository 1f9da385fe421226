//! The inputs of a connection: messages, time, and the end.

use std::time::Duration;

use protocol_core::machine::CallPhase;
use protocol_core::{
    CancelRule, Cause, CloseReason, Config, Envelope, MessageOrder, RequestPhase, ResponseRule,
    Role, Settlement, Timestamp, code,
};
use serde_json::Value;

use super::message::{self, Answered, Message};
use super::reading;
use super::seen::starts_operation;
use super::steps::remember;
use super::{Asked, Batch, Fate, Id, Life, Model, Origin, Request, Told};

impl Model {
    /// One whole message arrives. Gives its number if it is a batch.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Timestamp) -> Option<u64> {
        if self.is_closed() {
            return None;
        }
        if bytes.len() > self.config.limits.message_bytes {
            let message = serde_json::from_slice(bytes).unwrap_or_default();
            let envelope = self.config.dialect.envelope;
            let read = match reading::message(&message, envelope) {
                // Its command is too long for a response.
                Message::Request { id, method, .. }
                    if envelope == Envelope::Dap && method.len() > 256 =>
                {
                    Message::Invalid { id, origin: None }
                }
                read => read.invalid(),
            };
            self.receive_read(&message, read, None, now);
            self.finish_drain();
            return None;
        }
        let before = self.opened;
        let read = std::str::from_utf8(bytes).map_err(|_| "invalid_utf8");
        let read = read.and_then(|text| serde_json::from_str(text).map_err(|_| "parse"));
        match read {
            Err(rule) => self.refuse((None, None), code::PARSE_ERROR, rule, None),
            Ok(Value::Array(members)) => self.receive_batch(&members, now),
            Ok(message) => self.receive_message(&message, None, now),
        }
        self.finish_drain();
        (self.opened > before).then_some(self.opened)
    }

    fn receive_batch(&mut self, members: &[Value], now: Timestamp) {
        if self.config.dialect.batches.is_none() {
            return self.refuse((None, None), code::INVALID_REQUEST, "batch_refused", None);
        }
        if members.is_empty() || members.len() > self.config.limits.batch_members {
            return self.refuse((None, None), code::INVALID_REQUEST, "batch_size", None);
        }
        self.opened += 1;
        let number = self.opened;
        self.batches.insert(number, Batch::default());
        for member in members {
            self.receive_message(member, Some(number), now);
        }
        self.batch_mut(number).is_read = true;
        self.end_batch(number);
    }

    fn receive_message(&mut self, message: &Value, batch: Option<u64>, now: Timestamp) {
        let read = reading::message(message, self.config.dialect.envelope);
        self.receive_read(message, read, batch, now);
    }

    /// Receives a message as it was read.
    fn receive_read(
        &mut self,
        message: &Value,
        read: Message<'_>,
        batch: Option<u64>,
        now: Timestamp,
    ) {
        let envelope = self.config.dialect.envelope;
        match read {
            // Its answer would repeat the command, which must not be longer than an id.
            Message::Request { id, method, .. }
                if envelope == Envelope::Dap && method.len() > self.config.limits.id_bytes =>
            {
                let to = (message::readable(id), None);
                self.refuse(to, code::INVALID_REQUEST, "invalid_request", batch);
            }
            Message::Request { id, method, params, origin } => {
                self.receive_request((id, origin), (method, params), batch, now);
            }
            Message::Notification { method, params } => {
                self.receive_notification(method, params, now);
            }
            Message::Response { id, asked, answer } => self.receive_response(id, asked, answer),
            Message::Neither { id } if self.awaits(id) => self.receive_response(id, None, None),
            Message::Neither { id } => {
                let id = message.get("id").and(message::readable(id));
                self.refuse((id, None), code::INVALID_REQUEST, "invalid_request", batch);
            }
            Message::Invalid { id, origin } => {
                let [asked, _] = reading::id_members(envelope);
                let id = message.get(asked).and(message::readable(id));
                let to = (id, origin.as_ref());
                self.refuse(to, code::INVALID_REQUEST, "invalid_request", batch);
            }
            Message::InvalidNotification => {
                self.tell(Told::Violation { rule: "invalid_notification", id: None });
            }
        }
    }

    fn receive_request(
        &mut self,
        (id, origin): (&Value, Option<Origin>),
        (method, params): (&str, &Value),
        batch: Option<u64>,
        now: Timestamp,
    ) {
        let dialect = self.config.dialect.clone();
        let to = (message::readable(id), origin.as_ref());
        let opens_session = self.opens_session(method);
        // Once it shuts down, that is what a request is refused for.
        if self.life == Life::Open && !(self.has_session || opens_session) {
            return self.refuse(to, code::SERVER_NOT_INITIALIZED, "not_initialized", batch);
        }
        let Some(id) = reading::request_id(id, dialect.ids) else {
            return self.refuse(to, code::INVALID_REQUEST, "invalid_request", batch);
        };
        let is_cancel = self.is_cancel_request(method);
        if is_cancel && !self.is_for_host(params) {
            return self.receive_cancel_request((id, origin), params, now);
        }
        let to = (Some(id.clone()), origin.as_ref());
        let excepted = dialect.batches.iter().filter(|_| batch.is_some());
        if excepted.flat_map(|methods| methods.iter()).any(|it| it == method) {
            return self.refuse(to, code::INVALID_REQUEST, "invalid_request", batch);
        }
        if self.unanswered_with(&id).is_some() {
            return self.refuse(to, code::INVALID_REQUEST, "duplicate_id", batch);
        }
        let came_early = self.early.contains(&id);
        self.early.retain(|early| *early != id);
        if self.life != Life::Open {
            return self.refuse(to, dialect.overload_code, "request_after_shutdown", batch);
        }
        if self.unanswered() >= self.config.limits.requests {
            return self.refuse_over_limit(to, batch, now);
        }
        self.accept_request((id.clone(), origin), (method, params), batch);
        if came_early {
            self.receive_cancel(&id, now);
        }
        // The host answers it, and the request that it names besides is cancelled.
        if is_cancel && dialect.envelope == Envelope::Dap {
            if let Some(named) = params.get("requestId").and_then(message::readable) {
                self.cancel_by_id(&named, now);
            }
        }
    }

    fn refuse_over_limit(
        &mut self,
        to: (Option<Id>, Option<&Origin>),
        batch: Option<u64>,
        now: Timestamp,
    ) {
        self.refuse(to, self.config.dialect.overload_code, "too_many_requests", batch);
        if self.config.close_over_limit {
            self.close(CloseReason::OverLimit, Cause::Internal, now);
        }
    }

    fn accept_request(
        &mut self,
        (id, origin): (Id, Option<Origin>),
        (method, params): (&str, &Value),
        batch: Option<u64>,
    ) {
        // A call id that is used again starts anew.
        self.finished.retain(|(finished, _)| *finished != id);
        if let Some(call) = self.number_of_peer(&id) {
            self.silenced.remove(&call);
        }
        self.accepted += 1;
        let number = self.accepted;
        if let Some(batch) = batch {
            self.batch_mut(batch).unanswered += 1;
        }
        let dialect = &self.config.dialect;
        let tokens = match dialect.response {
            ResponseRule::SilentWithProgress => reading::tokens(dialect, params),
            _ => Vec::new(),
        };
        self.retired.retain(|token| !tokens.contains(token));
        let asked = origin.as_ref().map_or(Asked::Other, |origin| origin.asked);
        let request = Request {
            id: id.clone(),
            origin,
            may_begin: starts_operation(dialect, method),
            token: None,
            settles: self.settles(method, params),
            phase: RequestPhase::Running,
            cause: None,
            is_cancellable: self.uncancellable(asked, method, params).is_none(),
            was_parent: false,
            batch,
            we_may_end: self.config.role == Role::Server && self.server_may_end(method),
            tokens,
        };
        self.requests.insert(number, request);
        self.tell(Told::Request { request: number, id });
    }

    /// Returns the request that waits for its answer under this id. An operation has had its answer.
    pub(super) fn unanswered_with(&self, id: &Id) -> Option<u64> {
        let is_it = |request: &Request| {
            request.id == *id && request.awaits_response() && !request.is_operation()
        };
        self.requests.iter().find(|(_, request)| is_it(request)).map(|(&number, _)| number)
    }

    /// Returns whether a request of this method is a cancel.
    fn is_cancel_request(&self, method: &str) -> bool {
        match &self.config.dialect.cancel {
            CancelRule::Request { method: cancel, .. }
            | CancelRule::Operation { method: cancel, .. } => cancel == method,
            _ => false,
        }
    }

    fn receive_notification(&mut self, method: &str, params: &Value, now: Timestamp) {
        match self.config.dialect.cancel.clone() {
            CancelRule::Notification { method: cancel, id, .. } if cancel == method => {
                let is_of_request = self.receive_cancel_of(params.get(&*id), now);
                if is_of_request && self.config.show_raw_cancels {
                    self.tell(Told::Notification { method: method.into() });
                }
            }
            // It could not be acknowledged.
            _ if self.is_cancel_request(method) => {
                self.tell(Told::Violation { rule: "invalid_notification", id: None });
            }
            _ => {
                if let Some(token) = reading::token(&self.config.dialect, method, params) {
                    self.receive_progress(&token, now);
                }
                self.tell(Told::Notification { method: method.into() });
            }
        }
    }

    /// Takes a notification that cancels this id. Returns whether it names a request, rightly or not, and no call of ours.
    fn receive_cancel_of(&mut self, id: Option<&Value>, now: Timestamp) -> bool {
        let Config { dialect, .. } = &*self.config;
        let Some(named) = id.and_then(|id| reading::request_id(id, dialect.ids)) else {
            self.tell(Told::Violation { rule: "malformed_cancel", id: None });
            return true;
        };
        let ours = id.and_then(|id| reading::our_number(id, dialect.envelope));
        let ours = ours.filter(|number| self.peer_may_end(*number));
        match ours {
            Some(number) => self.receive_end(number),
            None => self.receive_cancel(&named, now),
        }
        ours.is_none()
    }

    fn receive_progress(&mut self, token: &Id, now: Timestamp) {
        for call in self.calls.values_mut().filter(|call| call.tokens.contains(token)) {
            call.idle = call.idle.map(|(after, _)| (after, now + after));
        }
    }

    fn receive_cancel(&mut self, id: &Id, now: Timestamp) {
        if !self.obeys() {
            return;
        }
        match self.unanswered_with(id) {
            Some(number) if self.requests[&number].is_cancellable => {
                self.mark(number, Cause::Peer, now);
            }
            Some(_) => {}
            None if self.config.dialect.order == MessageOrder::MayChange => {
                remember(&mut self.early, id.clone(), self.config.limits.early_cancels);
            }
            None => {}
        }
    }

    fn peer_may_end(&self, number: u32) -> bool {
        self.calls.get(&number).is_some_and(|call| call.peer_may_end)
    }

    fn receive_end(&mut self, number: u32) {
        if self.calls[&number].phase != CallPhase::Queued {
            self.record(number, Settlement::Cancelled, Cause::Peer);
            self.settle_unanswered(number);
        }
    }

    /// Returns whether a response of this id could be one to a call in flight, or to the cancel of one.
    fn awaits(&self, id: &Value) -> bool {
        let number = reading::our_number(id, self.config.dialect.envelope);
        number.is_some_and(|number| {
            self.has_sent(number)
                || self.cancelled_by(number).is_some_and(|call| self.has_sent_cancel(call))
        })
    }

    /// Returns whether a call of this number is in flight and has left.
    pub(super) fn has_sent(&self, number: u32) -> bool {
        self.calls.get(&number).is_some_and(|call| call.phase != CallPhase::Queued)
    }

    fn receive_response(&mut self, id: &Value, asked: Option<Asked>, answer: Option<Answered<'_>>) {
        let number = reading::our_number(id, self.config.dialect.envelope);
        // An answer to something else is none.
        let number = number.filter(|number| match (asked, self.asked_by(*number)) {
            (Some(answered), Some(asked)) => answered == asked,
            _ => true,
        });
        let Some(number) = number else {
            let id = message::readable(id);
            return self.tell(Told::Violation { rule: "unknown_response", id });
        };
        if let Some(call) = self.cancelled_by(number) {
            self.receive_acknowledgement(id, call, answer);
        } else if let Some(fate @ Fate::CancelSent) = self.fate_mut(number) {
            *fate = Fate::Answered;
            self.report_malformed(id, answer);
        } else if self.has_sent(number) {
            self.receive_answer(id, number, answer);
        } else {
            self.receive_stray(id, number, answer);
        }
    }

    pub(super) fn report_malformed(&mut self, id: &Value, answer: Option<Answered<'_>>) {
        if answer.is_none() {
            let id = message::readable(id);
            self.tell(Told::Violation { rule: "malformed_response", id });
        }
    }

    fn receive_answer(&mut self, id: &Value, number: u32, answer: Option<Answered<'_>>) {
        let call = &self.calls[&number];
        match call.phase {
            CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement => {
                let id = message::readable(id);
                return self.tell(Told::Violation { rule: "duplicate_response", id });
            }
            CallPhase::AwaitingToken => {
                if let Some(token) = self.token_in(answer) {
                    return self.cancel_operation(number, token);
                }
            }
            _ => {}
        }
        let settles = call.settles.clone();
        // A cancel that has not left has nothing to cancel any more.
        self.cancels.retain(|leaving| leaving.call != Some(number));
        self.bulk.retain(|leaving| leaving.call != Some(number));
        if let Some(Answered::Result(result)) = answer {
            let concludes = self.conclusion(&settles, result, true);
            self.conclude(concludes);
        }
        self.settle_answered(id, number, answer);
    }

    /// An answer comes that no call waits for. It may be the token that a cancel waits for.
    fn receive_stray(&mut self, id: &Value, number: u32, answer: Option<Answered<'_>>) {
        let was_tokenless = self.fate(number) == Some(Fate::Tokenless);
        let rule = self.stray(number);
        self.tell(Told::Violation { rule, id: message::readable(id) });
        if let Some(token) = self.token_in(answer).filter(|_| was_tokenless) {
            let cancel = self.cancel_naming(token, None);
            self.queue_ahead(cancel, None);
        }
    }

    /// A call ends as the peer says.
    pub(super) fn settle_answered(
        &mut self,
        id: &Value,
        number: u32,
        answer: Option<Answered<'_>>,
    ) {
        let call = &self.calls[&number];
        let is_cancelled = !matches!(call.phase, CallPhase::Queued | CallPhase::Sent);
        let ending = call.ending;
        // Reported first; the call settles as malformed (B1).
        self.report_malformed(id, answer);
        let (settlement, cause) = match answer {
            None => (Settlement::Malformed, None),
            Some(Answered::Result(_)) => (Settlement::Result, None),
            Some(Answered::Error(code::REQUEST_CANCELLED)) if is_cancelled => {
                (Settlement::Cancelled, ending.map(|(_, cause)| cause))
            }
            Some(Answered::Error(_)) => (Settlement::Error, None),
        };
        self.remember_cancel(number);
        self.settle(number, settlement, cause);
    }

    /// A bad message is answered, with its id if that can be read, and reported (G9). ABP has no
    /// answer to what is no request at all, and a client has none to what names no request (F61).
    pub(super) fn refuse(
        &mut self,
        (id, origin): (Option<Id>, Option<&Origin>),
        code: i64,
        rule: &'static str,
        batch: Option<u64>,
    ) {
        let has_answer = origin.is_some() || self.config.dialect.envelope == Envelope::JsonRpc;
        if has_answer && (id.is_some() || self.config.role == Role::Server) {
            let known = id.clone().unwrap_or("null".into());
            let answer = Self::answer_to(origin, &known, Some(code));
            self.queue_answer(answer, batch, None);
        }
        self.tell(Told::Violation { rule, id });
    }

    /// Lets time go by, until `now`.
    ///
    /// Every timer that is due fires, in the order in which they are due (G5).
    pub(crate) fn wait(&mut self, now: Timestamp) {
        loop {
            let due = self.calls.iter().filter_map(|(&number, call)| {
                let (due, cause) = call.next_timer().filter(|&(due, _)| due <= now)?;
                Some((due, number, cause))
            });
            let Some((_, number, cause)) = due.min_by_key(|&(due, number, _)| (due, number)) else {
                break;
            };
            match cause {
                Some(cause) if self.refusal_of(number).is_none() => {
                    let nobody_waits = Some(Duration::ZERO);
                    self.give_up(number, Settlement::TimedOut, cause, nobody_waits, now);
                }
                _ => {
                    self.record(number, Settlement::TimedOut, cause.unwrap_or(Cause::Dropped));
                    self.settle_unanswered(number);
                }
            }
        }
        self.finish_drain();
    }

    /// Takes the end of input.
    ///
    /// It settles every call and marks every request (G7).
    pub(crate) fn finish(&mut self, now: Timestamp) {
        if !self.is_closed() {
            self.close(CloseReason::PeerGone, Cause::PeerGone, now);
        }
    }

    /// Nothing comes in any more.
    fn close(&mut self, reason: CloseReason, cause: Cause, now: Timestamp) {
        self.life = Life::Closed;
        self.lose_calls(cause);
        let cause = match reason {
            CloseReason::PeerGone => self.config.dialect.closed_stream,
            _ => Some(cause),
        };
        if let Some(cause) = cause {
            self.mark_all(cause, now);
        }
        self.tell(Told::Closed { reason });
    }
}
