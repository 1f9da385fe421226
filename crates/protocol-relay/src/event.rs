//! The events that a relay reports to its host.

use alloc::string::String;
use core::fmt;

use protocol_core::{CancelRefusal, Cause, CloseReason, Refusal, Violation, WireId};

/// One of the two connections of a [`Relay`](crate::Relay).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The side towards the client.
    Up,
    /// The side towards the server.
    Down,
}

impl Side {
    /// Both sides, up first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// Returns `up` or `down`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// Returns the opposite side.
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

/// Something that did not simply pass through a [`Relay`](crate::Relay).
///
/// Events are for logs: the host has nothing to do for the requests that they are about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayEvent {
    /// The peer broke a rule. Nothing of its message was forwarded.
    Violation {
        /// The rule that was broken.
        violation: Violation,
        /// The id of the message that broke it, if the id can be read.
        id: Option<WireId>,
    },
    /// A cancel was not forwarded. It is not a cancel of its own connection's dialect, or it was sent as
    /// a request. The id in it would name something else on the other side (B25).
    CancelDropped {
        /// The method of the cancel.
        method: String,
    },
    /// A cancel was not obeyed, and so not forwarded either: that side's dialect does not let its peer
    /// cancel the request. The request goes on.
    CancelIgnored {
        /// The id of the request.
        id: WireId,
    },
    /// A request was cancelled, but the call that was made for it on the other side can't be. The call
    /// goes on, and its outcome is still forwarded.
    CancelRefused {
        /// The id of the request.
        id: WireId,
        /// The reason why the other side's dialect allows no cancel.
        reason: CancelRefusal,
    },
    /// A notification could not be forwarded.
    NotificationDropped {
        /// The method of the notification.
        method: String,
        /// The reason why the other connection refused it, or why an id in it could not be translated.
        reason: Refusal,
    },
    /// A request could not be forwarded. Its response is an error.
    RequestRefused {
        /// The id of the request.
        id: WireId,
        /// The reason why the other connection refused the call, or why an id in it could not be translated.
        reason: Refusal,
    },
    /// The response to a request could not be forwarded. An error replaces it.
    ResponseReplaced {
        /// The id of the request.
        id: WireId,
        /// The reason why the request's connection refused the response.
        reason: Refusal,
    },
    /// Not even an error fits under that side's [`Limits`](protocol_core::Limits). The request was
    /// released without a response.
    ResponseDropped {
        /// The id of the request.
        id: WireId,
    },
    /// The work that a request began was stopped by its name. The work is stopped on the other side, and its
    /// response is awaited.
    WorkStopped {
        /// The id of the request.
        id: WireId,
    },
    /// A request took too long for its [`Guard`](crate::Guard). It was cancelled on the other side, and
    /// its response is an error.
    TimedOut {
        /// The id of the request.
        id: WireId,
        /// The timer that ran out.
        cause: Cause,
    },
    /// Nothing comes in from this side any more. Reported exactly once for each side.
    Closed {
        /// The reason why the side closed.
        reason: CloseReason,
    },
}

impl fmt::Display for RelayEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation { violation, id: None } => write!(f, "{violation}"),
            Self::Violation { violation, id: Some(id) } => write!(f, "id {id}: {violation}"),
            Self::CancelDropped { method } => {
                write!(f, "{method} was not forwarded: it is no cancel of this dialect")
            }
            Self::CancelIgnored { id } => {
                write!(f, "id {id}: the request may not be cancelled by this side")
            }
            Self::CancelRefused { id, reason } => {
                write!(f, "id {id}: the cancel was not forwarded: {reason}")
            }
            Self::NotificationDropped { method, reason } => {
                write!(f, "notification {method} was not forwarded: {reason}")
            }
            Self::RequestRefused { id, reason } => {
                write!(f, "id {id}: the request was not forwarded: {reason}")
            }
            Self::ResponseReplaced { id, reason } => {
                write!(f, "id {id}: the response was not forwarded: {reason}")
            }
            Self::ResponseDropped { id } => {
                write!(f, "id {id}: no response fits into the outbox (limits.unsent_bytes)")
            }
            Self::WorkStopped { id } => write!(f, "id {id}: was stopped by the name of its work"),
            Self::TimedOut { id, cause } => {
                write!(f, "id {id}: took too long ({cause}), and was cancelled")
            }
            Self::Closed { reason } => write!(f, "closed: {reason}"),
        }
    }
}
