//! What comes in: messages, time, the end.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::Connection;
use super::unsent::BatchKey;
use crate::cause::CloseReason;
use crate::config::Config;
use crate::dialect::Envelope;
use crate::event::Event;
use crate::id::WireId;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::decode::{self, Message};

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
        match decode::incoming(bytes, dialect.envelope, limits) {
            Some(message) => self.take_message(message, None, now),
            None => {
                self.refuse(None, None, decode::unreadable(bytes), None);
                None
            }
        }
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
        if dialect.cancel.is(&method) {
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
