//! What the machine tells its host to do, and what it makes of single inputs.

use super::{CallId, CancelRefusal, RequestHandle};
use crate::cause::{Cause, CloseReason};

/// One thing to do, in the order the machine decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Put the request of this call into the outbox, under this wire id.
    SendRequest {
        /// The call.
        call: CallId,
        /// Its id on the wire.
        number: u32,
    },
    /// Put the cancel of this call into the outbox, ahead of bulk output.
    SendCancel {
        /// The call.
        call: CallId,
        /// The id its request had on the wire.
        number: u32,
    },
    /// Put the answer to this request into the outbox.
    SendResponse {
        /// The request.
        request: RequestHandle,
    },
    /// Put the answer to the peer's cancel into the outbox, where cancels are requests.
    SendAcknowledgement {
        /// What the cancel met.
        receipt: CancelReceipt,
    },
    /// Take whatever of this call is still unsent out of the outbox (G4).
    Withdraw {
        /// The call.
        call: CallId,
    },
    /// Hand this new request to the host.
    Deliver {
        /// The request.
        request: RequestHandle,
    },
    /// Tell the host that this request was cancelled.
    MarkCancelled {
        /// The request.
        request: RequestHandle,
        /// Why.
        cause: Cause,
    },
    /// Give the host the one outcome of this call (G1).
    CompleteCall {
        /// The call.
        call: CallId,
        /// How it ended.
        settlement: Settlement,
        /// Why, if it was cancelled, timed out or lost.
        cause: Option<Cause>,
    },
    /// Tell the host that this request is answered and every call made for it has settled (G6).
    TreeSettled {
        /// The request.
        request: RequestHandle,
    },
    /// Tell the host that the connection is closed: its last event (G7). Only the answers that the
    /// host still owes lead to actions after it.
    Close {
        /// Why.
        reason: CloseReason,
    },
}

/// How a call ended, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Settlement {
    /// The peer answered with a result.
    Result,
    /// The peer answered with an error.
    Error,
    /// It was cancelled.
    Cancelled,
    /// One of its timers ran out.
    TimedOut,
    /// The peer answered with something that is no response.
    Malformed,
    /// The connection ended first.
    ConnectionLost,
}

impl Settlement {
    /// The name in `snake_case`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Malformed => "malformed",
            Self::ConnectionLost => "connection_lost",
        }
    }
}

/// What [`Machine::cancel`](super::Machine::cancel) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelOutcome {
    /// The request had not left: it never will, and the call has settled (G4).
    Withdrawn,
    /// The cancel is on its way.
    Sent,
    /// A cancel was sent before; there is never a second.
    AlreadySent,
    /// The call has settled here, and the peer is told nothing: the dialect has no cancel, or one
    /// was sent before and nobody waits for its answer any more.
    Settled,
    /// The call had settled before.
    AlreadySettled,
    /// It may not be cancelled on the wire, and goes on.
    Refused(CancelRefusal),
}

/// What a cancel of the peer's met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelReceipt {
    /// A request that is cancelled now.
    Cancelled,
    /// A request that was cancelled before, and perhaps answered since.
    CancelledBefore,
    /// A request that was answered.
    Completed,
    /// No request, as far as is remembered.
    NotFound,
    /// A request that this side does not cancel for the peer.
    Ignored,
}

/// Why [`Machine::receive_request`](super::Machine::receive_request) did not accept a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestRefusal {
    /// Its id is that of a request in flight (B5).
    DuplicateId,
    /// [`Limits::requests`](crate::Limits::requests) are in flight.
    TooManyRequests,
    /// We are shutting down.
    ShuttingDown,
}

/// What kind of answer a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// A result.
    Result,
    /// An error other than -32800.
    Error,
    /// Error -32800.
    CancelError,
    /// No valid response, but its id can be read (B1).
    Malformed,
}
