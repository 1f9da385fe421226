//! A client that has ended its input, and may still be reading.

use std::task::Poll;
use std::time::Duration;

use protocol_core::{Framing, InputBuffer, Timestamp};
use protocol_relay::{Relay, Side};

use super::joint::Joint;
use super::options::Wait;

/// The end of a side's input, which may be kept from the relay for a while.
pub(super) enum HalfClose {
    /// The input has not ended. The end will be kept back for this time.
    Ahead(Duration),
    /// The end is kept back until this time, or until every request has its response.
    Held { until: Timestamp },
    /// The end is not kept back any more.
    Over,
}

impl HalfClose {
    pub(super) const fn new(within: Duration) -> Self {
        if within.is_zero() { Self::Over } else { Self::Ahead(within) }
    }

    /// Takes the end of the input. Returns whether it is kept back, so that the relay is not to know of it
    /// yet. An end by an error is not.
    pub(super) fn keeps_back(
        &mut self,
        joint: &mut Joint,
        input: &mut InputBuffer,
        is_error: bool,
        now: Timestamp,
    ) -> bool {
        let Self::Ahead(within) = *self else { return false };
        *self = Self::Over;
        if is_error {
            return false;
        }
        let client = joint.relay.connection(Side::Up);
        if client.config().dialect.framing == Framing::Newline && !input.unread().is_empty() {
            // The last line may be without its end, and a request all the same.
            input.extend_from_slice(b"\n");
            let used = joint.take(Side::Up, input.unread(), now);
            input.consume(used);
        }
        let requests = joint.relay.connection(Side::Up).machine().requests_in_flight();
        if requests == 0 {
            return false;
        }
        joint.tell(Wait::Answers { requests, within });
        *self = Self::Held { until: now + within };
        true
    }

    /// Is `Some` while the end is kept back, and ready when the relay is to know of it.
    pub(super) fn poll(
        &mut self,
        relay: &Relay,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Poll<()>> {
        let Self::Held { until } = *self else { return None };
        let machine = relay.connection(Side::Up).machine();
        if machine.requests_in_flight() > 0 && !machine.is_closed() && now() < until {
            return Some(Poll::Pending);
        }
        *self = Self::Over;
        Some(Poll::Ready(()))
    }

    /// Returns the time to poll again.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Held { until } => Some(*until),
            _ => None,
        }
    }

    /// Declares that nobody reads the responses any more.
    pub(super) fn give_up(&mut self) {
        match self {
            // An end that is still to come is told when it comes.
            Self::Ahead(_) => *self = Self::Over,
            Self::Held { until } => *until = Timestamp::ZERO,
            Self::Over => {}
        }
    }
}
