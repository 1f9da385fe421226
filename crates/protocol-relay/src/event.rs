//! What a relay tells its host.

use alloc::string::String;
use core::fmt;

use protocol_core::{CancelRefusal, Cause, CloseReason, Refusal, Violation, WireId};

/// One of the two connections of a [`Relay`](super::Relay).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Towards the client.
    Up,
    /// Towards the server.
    Down,
}

impl Side {
    /// Both, up first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// `up` or `down`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What did not simply pass through a [`Relay`](super::Relay).
///
/// Whatever has to be answered is answered already: events are for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayEvent {
    /// The peer broke a rule. Nothing of its message was passed on.
    Violation {
        /// Which rule.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<WireId>,
    },
    /// A cancel was not passed on, because it is none of its own connection's dialect, or was sent
    /// as a request: the id in it would name something else on the other side (B25).
    CancelDropped {
        /// Its method.
        method: String,
    },
    /// A cancel was not obeyed, and so not passed on either: in that side's dialect its peer may not
    /// cancel the request that it names. The request goes on.
    CancelIgnored {
        /// The id of the request.
        id: WireId,
    },
    /// A request was cancelled, and the call that was made for it on the other side can't be. The call
    /// goes on, and how it ends is still passed back.
    CancelRefused {
        /// The request's id.
        id: WireId,
        /// Why the other side's dialect allows no cancel.
        reason: CancelRefusal,
    },
    /// A notification could not be passed on.
    NotificationDropped {
        /// Its method.
        method: String,
        /// Why.
        reason: Refusal,
    },
    /// A request could not be passed on. It is answered with an error.
    RequestRefused {
        /// Its id.
        id: WireId,
        /// Why.
        reason: Refusal,
    },
    /// The answer to a request could not be passed back. The request is answered with an error
    /// instead.
    ResponseReplaced {
        /// The request's id.
        id: WireId,
        /// Why.
        reason: Refusal,
    },
    /// Not even an error fits under that side's [`Limits`](protocol_core::Limits): a request stays
    /// unanswered.
    ResponseDropped {
        /// The request's id.
        id: WireId,
    },
    /// A request took too long for its [`Guard`](super::Guard): it was cancelled on the other side, and
    /// is answered with an error.
    TimedOut {
        /// Its id.
        id: WireId,
        /// Which of its timers ran out.
        cause: Cause,
    },
    /// Nothing comes in from this side any more; exactly once for each side.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

impl fmt::Display for RelayEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation { violation, id: None } => write!(f, "{violation}"),
            Self::Violation { violation, id: Some(id) } => write!(f, "id {id}: {violation}"),
            Self::CancelDropped { method } => {
                write!(f, "{method} was not passed on: it is no cancel of this dialect")
            }
            Self::CancelIgnored { id } => {
                write!(f, "id {id}: the request may not be cancelled by this side")
            }
            Self::CancelRefused { id, reason } => {
                write!(f, "id {id}: the cancel was not passed on: {reason}")
            }
            Self::NotificationDropped { method, reason } => {
                write!(f, "notification {method} was not passed on: {reason}")
            }
            Self::RequestRefused { id, reason } => {
                write!(f, "id {id}: the request was not passed on: {reason}")
            }
            Self::ResponseReplaced { id, reason } => {
                write!(f, "id {id}: the answer was not passed back: {reason}")
            }
            Self::ResponseDropped { id } => {
                write!(f, "id {id}: no answer fits into the outbox (limits.unsent_bytes)")
            }
            Self::TimedOut { id, cause } => {
                write!(f, "id {id}: took too long ({cause}), and was cancelled")
            }
            Self::Closed { reason } => write!(f, "closed: {reason}"),
        }
    }
}
