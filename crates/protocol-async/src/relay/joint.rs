//! The relay and its callbacks, as both sides use them.

use protocol_core::{Received, Timestamp};
use protocol_endpoint::{Way, is_noise};
use protocol_relay::{Relay, RelayEvent, Side};

use super::options::{Input, Options, Wait};
use super::till::{Till, Trail};

/// The relay, and the options with the callbacks that see what it does.
pub(super) struct Joint {
    pub(super) relay: Relay,
    pub(super) till: Till,
    pub(super) options: Options,
}

impl Joint {
    pub(super) fn take_transmit(&mut self, side: Side, out: &mut Vec<u8>) -> bool {
        let Some(transmit) = self.relay.poll_transmit(side, out) else { return false };
        self.trace(side, Way::Sent, transmit.message(out));
        true
    }

    /// Takes at most one message, and returns the number of its bytes.
    pub(super) fn take(&mut self, side: Side, unread: &[u8], now: Timestamp) -> usize {
        let is_closed = |relay: &Relay| relay.connection(side).machine().is_closed();
        let was_closed = is_closed(&self.relay);
        let before = Trail::of(&self.relay);
        self.till.now = now;
        let Received { consumed, message, event: first, .. } =
            self.relay.receive(side, unread, now);
        match message {
            Some(message) => {
                if first.is_none() {
                    self.till.charge_for_nothing(&self.relay, side, &before);
                }
                self.trace(side, Way::Received, message);
                self.input(Input::Message(side, message), now);
            }
            None if self.show_too_large(side, now) => {}
            None if !was_closed && is_closed(&self.relay) => {
                self.input(Input::Broken(side, unread), now);
            }
            None => {}
        }
        self.report_from(first, message.unwrap_or(unread));
        consumed
    }

    /// Takes the end of one side's input, with these bytes unread.
    pub(super) fn finish(&mut self, side: Side, unread: &[u8], now: Timestamp) {
        let message = self.relay.handle_eof(side, unread, now);
        if let Some(message) = message {
            self.trace(side, Way::Received, message);
        }
        let unread = if self.show_too_large(side, now) { &[] } else { unread };
        self.input(Input::End { side, unread, message }, now);
        self.report(message.unwrap_or_default());
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        self.relay.handle_timeout(now);
        self.input(Input::Time, now);
        self.report(&[]);
    }

    /// Shows the outline of a message over the limit, if its end has been read. Returns whether it has.
    fn show_too_large(&mut self, side: Side, now: Timestamp) -> bool {
        let outline = self.relay.take_outline(side);
        if let Some(outline) = &outline {
            self.input(Input::TooLarge(side, outline), now);
        }
        outline.is_some()
    }

    pub(super) fn input(&mut self, input: Input<'_>, now: Timestamp) {
        if let Some(inputs) = &mut self.options.inputs {
            inputs(input, now);
        }
    }

    /// Reports the number of requests that the server was asked to cancel because the client is gone.
    pub(super) fn tell_cancelled(&mut self, side: Side) {
        let server = self.relay.connection(Side::Down);
        let requests = server.machine().calls_in_flight();
        if side == Side::Up && requests > 0 {
            let within = server.config().abandoned_grace;
            self.tell(Wait::Cancelled { requests, within });
        }
    }

    pub(super) fn tell(&mut self, wait: Wait) {
        if let Some(waits) = &mut self.options.waits {
            waits(wait);
        }
    }

    pub(super) fn trace(&mut self, side: Side, way: Way, message: &[u8]) {
        if let Some(trace) = &mut self.options.trace {
            trace(side, way, message);
        }
    }

    /// Reports what has happened because of these bytes of the peer.
    pub(super) fn report(&mut self, bytes: &[u8]) {
        let first = self.relay.poll_event();
        self.report_from(first, bytes);
    }

    /// As `report`, with the first event taken already.
    pub(super) fn report_from(&mut self, first: Option<(Side, RelayEvent)>, bytes: &[u8]) {
        let mut next = first;
        while let Some((side, event)) = next {
            self.till.charge(&self.relay, side, &event);
            let config = self.relay.connection(side).config();
            match (&event, &mut self.options.noise, &mut self.options.observer) {
                (RelayEvent::Violation { violation, id }, Some(noise), _)
                    if is_noise(config, *violation, id.as_ref()) =>
                {
                    noise(*violation, bytes);
                }
                (_, _, Some(observer)) => observer(side, event),
                _ => {}
            }
            next = self.relay.poll_event();
        }
    }
}
