//! What comes in: messages, the peer's answers among them, time, the end.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::rows::Outgoing;
use super::unsent::BatchKey;
use super::{Connection, outcome};
use crate::cause::CloseReason;
use crate::config::Config;
use crate::dialect::{CancelRule, Envelope, Role, code};
use crate::event::Event;
use crate::id::WireId;
use crate::machine::{Action, Completion, ResponseKind};
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{self, Asked};
use crate::wire::decode::{self, Message, ResponseBody};
use crate::wire::encode::Value;

impl<O, I: Default> Connection<O, I> {
    /// Takes one whole message, without framing, and decides everything about it now: when this
    /// returns, a cancelled request is marked (G3). Infallible: bad input is an event (G9).
    ///
    /// Gives the oldest event that the host has not been told. Where that is what the message itself
    /// says, as it is whenever the host has polled all events before, it borrows from the message. All
    /// others wait in [`poll_event`](Self::poll_event), in the order they happened; what they take
    /// from the message, which is only the rest of a batch, is copied.
    #[inline]
    pub fn receive<'m>(&mut self, message: &'m [u8], now: Timestamp) -> Option<Event<'m, O>> {
        self.pass(now);
        let waiting = self.events.len();
        match self.take(message, now) {
            Some(event) if waiting > 0 => self.events.insert(waiting, event.into_owned()),
            Some(event) => return Some(event),
            None => {}
        }
        self.poll_event()
    }

    /// Fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.pass(now);
        self.machine.handle_timeout(now);
        self.follow();
    }

    /// The peer's input has ended: every call settles, every request is marked cancelled, and
    /// `Closed` is told (G7).
    pub fn handle_eof(&mut self, now: Timestamp) {
        self.close(CloseReason::PeerGone, now);
    }

    pub(crate) fn close(&mut self, reason: CloseReason, now: Timestamp) {
        self.pass(now);
        self.machine.close(reason, now);
        self.follow();
    }

    /// An event that the host has not been told after all becomes the oldest again.
    pub(crate) fn put_back(&mut self, event: Option<Event<'_, O>>) {
        if let Some(event) = event {
            self.events.push_front(event.into_owned());
        }
    }

    #[inline]
    fn take<'m>(&mut self, bytes: &'m [u8], now: Timestamp) -> Option<Event<'m, O>> {
        if self.machine.is_closed() {
            return None;
        }
        let Config { dialect, limits, .. } = self.config();
        if bytes.len() > limits.message_bytes {
            self.refuse_too_large();
            return None;
        }
        let Some(message) = decode::incoming(bytes, dialect.envelope, limits) else {
            self.refuse(None, None, decode::unreadable(bytes), None);
            return None;
        };
        self.take_message(message, None, now)
    }

    fn take_batch(&mut self, members: Vec<&RawValue>, now: Timestamp) {
        let Config { dialect, limits, .. } = self.config();
        let is_refused = dialect.batches.is_none() || dialect.envelope != Envelope::JsonRpc;
        let violation = if is_refused {
            Violation::BatchRefused
        } else if members.is_empty() || members.len() > limits.batch_members {
            Violation::BatchSize
        } else {
            let depth = limits.depth;
            let batch = self.unsent.open_batch();
            self.machine.begin_batch();
            for member in members {
                let (waiting, is_over) = (self.events.len(), self.is_end_told);
                let event = self.take_message(decode::member(member, depth), Some(batch), now);
                // What follows behind a member that closed the connection is answered, but not told.
                if let Some(event) = event.filter(|_| !is_over) {
                    self.events.insert(waiting, event.into_owned());
                }
            }
            self.machine.end_batch();
            self.settle_member(batch);
            return self.follow();
        };
        self.refuse(None, None, violation, None);
    }

    #[inline]
    fn take_message<'m>(
        &mut self,
        message: Message<'m>,
        batch: Option<BatchKey>,
        now: Timestamp,
    ) -> Option<Event<'m, O>> {
        match message {
            Message::Request(request) => return self.take_request(request, batch, now),
            Message::Notification { method, params } => {
                return self.take_notification(method, params, now);
            }
            Message::Response { id, asked, answer } => {
                return self.take_response(id, asked, answer);
            }
            Message::Neither { id, problem } if self.is_in_flight(id) => {
                return self.take_response(id, None, Err(problem));
            }
            Message::Neither { id, problem } => {
                self.refuse(id, None, Violation::InvalidRequest { problem }, batch);
            }
            Message::Invalid { id, origin, problem } => {
                self.refuse(id, origin.as_deref(), Violation::InvalidRequest { problem }, batch);
            }
            Message::InvalidNotification { problem } => {
                self.report(Violation::InvalidNotification { problem }, None);
            }
            Message::Batch(members) => self.take_batch(members, now),
        }
        None
    }

    #[inline]
    fn take_notification<'m>(
        &mut self,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
        now: Timestamp,
    ) -> Option<Event<'m, O>> {
        let dialect = &self.machine.config().dialect;
        if dialect.cancel.has_method(&method) {
            if !dialect.cancels_are_requests() {
                return self.take_cancel(method, params, now);
            }
            // Nobody can acknowledge it.
            self.report(Violation::InvalidNotification { problem: EnvelopeProblem::Id }, None);
            return None;
        }
        if self.machine.awaits_progress() {
            let token = decode::progress_token(&dialect.progress, &method, params);
            if let Some(token) = token {
                self.machine.progress_with(&token, now);
            }
        }
        self.declare_anew(false, &method, params);
        Some(Event::notification(method, params))
    }

    // Answers to our calls, and to our cancels where those are requests

    fn take_response<'m>(
        &mut self,
        id: Option<&'m str>,
        asked: Option<Asked>,
        answer: Result<ResponseBody<'m>, EnvelopeProblem>,
    ) -> Option<Event<'m, O>> {
        let number = id.and_then(|id| self.number_in(id)).filter(|&it| self.asked(it, asked));
        let kind = self.kind_of(&answer);
        let (action, stray) = match number {
            Some(number) => self.machine.receive_response(number, kind),
            None => (None, Some(Violation::UnknownResponse)),
        };
        let problem = answer.as_ref().err();
        let violation = stray.or(problem.map(|&problem| Violation::MalformedResponse { problem }));
        if let Some(violation) = violation {
            let id = id.and_then(|id| self.readable(id));
            self.report(violation, id);
        }
        let done = match action {
            Some(Action::Complete(done)) => done,
            Some(Action::Withdraw(done)) => {
                self.unsent.outbox.withdraw(done.data.ticket);
                done
            }
            action => {
                // The cancel of an operation follows, now that the answer brings its token.
                let sends = (action, self.token_in(&answer));
                if let (Some(Action::SendCancel { call, number }), Some(token)) = sends {
                    self.send_cancel_naming(Value::Token(token.get()), call, number, None);
                }
                self.follow();
                return None;
            }
        };
        if answer.is_err() {
            // What was wrong with it is told first.
            self.complete(done);
            self.follow();
            return None;
        }
        let Completion { call, settlement, cause, data: Outgoing { data, opening, .. } } = done;
        if let (Ok(ResponseBody::Result(result)), Some(opening)) = (&answer, opening) {
            let conclusion = self.open(opening, Role::Client, result);
            self.conclude(conclusion);
        }
        self.follow();
        Some(Event::Settled { call, outcome: outcome(settlement, cause, answer.ok()), data })
    }

    /// The usable token of an operation that an answer brings.
    fn token_in<'m>(
        &self,
        answer: &Result<ResponseBody<'m>, EnvelopeProblem>,
    ) -> Option<&'m RawValue> {
        let CancelRule::Operation { token, .. } = &self.config().dialect.cancel else {
            return None;
        };
        let Ok(ResponseBody::Result(result)) = answer else { return None };
        let token = decode::param(Some(result), token)?;
        let is_usable = self.readable(token.get()).is_some() && token.get() != "null";
        is_usable.then_some(token)
    }

    fn kind_of(&self, answer: &Result<ResponseBody<'_>, EnvelopeProblem>) -> ResponseKind {
        match answer {
            Ok(ResponseBody::Result(_)) if self.token_in(answer).is_some() => ResponseKind::Token,
            Ok(ResponseBody::Result(_)) => ResponseKind::Result,
            Ok(ResponseBody::Error(error)) if error.code == code::REQUEST_CANCELLED => {
                ResponseKind::CancelError
            }
            Ok(ResponseBody::Error(_)) => ResponseKind::Error,
            Err(_) => ResponseKind::Malformed,
        }
    }

    /// Whether the message of ours with this number asked for what a response says it answers.
    fn asked(&self, number: u32, answered: Option<Asked>) -> bool {
        let Some(answered) = answered else { return true };
        match self.machine.call_numbered(number) {
            Some((_, outgoing)) => outgoing.asked == answered,
            None => !self.machine.is_cancel(number) || answered == Asked::Other,
        }
    }

    /// The number of the message of ours whose id this token is.
    pub(super) fn number_in(&self, id: &str) -> Option<u32> {
        match self.config().dialect.envelope {
            Envelope::JsonRpc | Envelope::Dap => number_of(id),
            Envelope::Abp => abp::number(id),
        }
    }

    /// Whether a message without method, result and error can only be a response.
    fn is_in_flight(&self, id: Option<&str>) -> bool {
        id.and_then(number_of).is_some_and(|number| self.machine.expects_response(number))
    }

    // Any message

    /// The id of a message, if it is one that can be compared and echoed.
    pub(super) fn readable(&self, token: &str) -> Option<WireId> {
        if token.len() > self.config().limits.id_bytes {
            return None;
        }
        WireId::scanned(token)
    }

    /// Refuses a message over the limit, which may have gone by in the stream.
    pub(crate) fn refuse_too_large(&mut self) {
        self.refuse(None, None, Violation::MessageTooLarge, None);
    }

    pub(crate) fn report(&mut self, violation: Violation, id: Option<WireId>) {
        self.tell(Event::Violation { violation, id });
    }
}

/// The number that an id token says, if it is one of ours: decimal, nothing else (B14).
pub(super) fn number_of(token: &str) -> Option<u32> {
    // No JSON begins with a plus, which is all else that this reads.
    token.parse().ok()
}
