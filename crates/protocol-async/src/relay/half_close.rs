//! A client that has said all it has to say, and may still be reading.

use std::io;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

use protocol_core::{Framing, InputBuffer, Timestamp};
use protocol_relay::{Relay, Side};

use super::{Joint, Wait};

/// Whether the end of a side's input is kept from the relay for a while.
pub(super) enum HalfClose {
    /// For how long it will be.
    Ahead(Duration),
    /// Until then, or until everything is answered.
    Held { until: Timestamp },
    /// It is not kept back any more.
    Over,
}

impl HalfClose {
    pub(super) const fn new(within: Duration) -> Self {
        if within.is_zero() { Self::Over } else { Self::Ahead(within) }
    }

    /// The input has ended. Breaks if the relay is not to know that yet.
    pub(super) fn begin(
        &mut self,
        joint: &mut Joint,
        input: &mut InputBuffer,
        error: Option<io::Error>,
        now: Timestamp,
    ) -> ControlFlow<(), Option<io::Error>> {
        let Self::Ahead(within) = *self else { return ControlFlow::Continue(error) };
        *self = Self::Over;
        if error.is_some() {
            return ControlFlow::Continue(error);
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
            return ControlFlow::Continue(None);
        }
        joint.tell(Wait::Answers { requests, within });
        *self = Self::Held { until: now + within };
        ControlFlow::Break(())
    }

    /// While the end is kept back: ready when it is to be told.
    pub(super) fn poll(
        &mut self,
        relay: &Relay,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Poll<Option<io::Error>>> {
        let Self::Held { until } = *self else { return None };
        let machine = relay.connection(Side::Up).machine();
        if machine.requests_in_flight() > 0 && !machine.is_closed() && now() < until {
            return Some(Poll::Pending);
        }
        *self = Self::Over;
        Some(Poll::Ready(None))
    }

    /// When to poll again.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Held { until } => Some(*until),
            _ => None,
        }
    }

    /// Nobody reads the answers any more.
    pub(super) fn give_up(&mut self) {
        match self {
            // An end that is still to come is told when it comes.
            Self::Ahead(_) => *self = Self::Over,
            Self::Held { until } => *until = Timestamp::ZERO,
            Self::Over => {}
        }
    }
}
