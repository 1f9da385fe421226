//! The machine's decisions, as values.

use super::table::CallInput;
use crate::cause::{Cause, CloseReason, Settlement, WorkOutcome};
use crate::dialect::facts::Handshake;
use crate::error::CancelRefusal;
use crate::handle::{CallId, RequestHandle, WorkId};

/// One thing to do, in the order the machine decided it.
///
/// Every decision of a command or an input waits in [`Machine::poll_action`](super::Machine::poll_action).
/// Decisions that follow from it, such as the cancels of the calls of a cancelled parent, come behind it.
///
/// `C` is the host's data on a call, which comes back by value with its one completion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action<C> {
    /// Put the cancel of this call into the outbox, ahead of bulk output.
    SendCancel {
        /// The call, which may have settled.
        call: CallId,
        /// The number of the cancel itself, where it is a request of its own.
        number: Option<u32>,
    },
    /// Deliver the one outcome of this call, and take its message out of the outbox if that is unsent.
    Settle(Completion<C>),
    /// Report that this request was cancelled.
    MarkCancelled {
        /// The request, which may have its response meanwhile.
        request: RequestHandle,
        /// The reason of the cancellation.
        cause: Cause,
    },
    /// Report that this request has its response and that every call made for it has settled.
    TreeSettled {
        /// The request, whose row is gone.
        request: RequestHandle,
    },
    /// Report that work began. Reports of work are there with [`Config::show_work`](crate::Config::show_work) alone.
    WorkBegan {
        /// The work, whose row is there.
        work: WorkId,
    },
    /// Report that work was stopped.
    WorkStopped {
        /// The work, which may have ended.
        work: WorkId,
        /// The reason of the stop.
        cause: Cause,
    },
    /// Report that work goes on, because its stop was refused or never sent.
    WorkResumed {
        /// The work, which may have ended.
        work: WorkId,
    },
    /// Report that work ended.
    WorkEnded {
        /// The work, whose row is gone.
        work: WorkId,
        /// The kind of end.
        outcome: WorkOutcome,
        /// The reason of its stop, if it was stopped.
        cause: Option<Cause>,
    },
    /// Report that the connection is closed.
    Close {
        /// The reason of the end.
        reason: CloseReason,
    },
}

/// The end of one call, with the host's data on it.
#[derive(Clone, Debug)]
#[must_use = "it holds the host's data"]
pub struct Completion<C> {
    /// The call, whose row is gone.
    pub call: CallId,
    /// The kind of ending.
    pub settlement: Settlement,
    /// The cause, if it was cancelled, timed out or lost.
    pub cause: Option<Cause>,
    /// The host's data, as it came with the call.
    pub data: C,
    /// Whether its request or its cancel waits in the outbox.
    pub is_unsent: bool,
    /// The effect of its result on the connection, if it may have one.
    pub(crate) effect: Option<ResultEffect>,
}

/// The effect that the result of a call may have on the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultEffect {
    /// Its role in a handshake, if it has one.
    pub(crate) handshake: Option<Handshake>,
    /// It is there if the result may tell of work. It holds the cause if the call was given up.
    pub(crate) work: Option<Option<Cause>>,
}

/// The effect of [`Connection::cancel`](crate::Connection::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The request had not left and never will; the call has settled.
    Withdrawn,
    /// The cancel is on its way.
    Sent,
    /// The cancel names the token of the call's operation, or a stop names its task. It follows as soon as the name is
    /// known.
    AwaitsToken,
    /// A cancel was sent before; there is never a second.
    AlreadySent,
    /// The call has settled here, and no cancel was sent by this. The dialect has none, or the transport
    /// tells the peer by closing the call's stream, or one was sent before and the grace is zero.
    Settled,
    /// The call had settled before, or it is one of a connection with another number
    /// ([`Config::connection`](crate::Config::connection)).
    AlreadySettled,
    /// The call may not be cancelled on the wire, and goes on.
    Refused(CancelRefusal),
    /// The call had settled before. The work that its result began goes on, since no stop of it can be sent now.
    NotStopped,
}

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseKind {
    /// A result that brings no token of an operation.
    Result,
    /// A result with the mark of a stop: its work ended because it was stopped.
    Stopped,
    /// A result that holds the token of an operation.
    Token,
    /// An error other than -32800.
    Error,
    /// The error -32800, which says that the request was cancelled.
    CancelError,
    /// No valid response, but its id can be read.
    Malformed,
}

impl ResponseKind {
    /// Returns the input to a call that is responded to, the input to a call whose cancel is, and the
    /// settlement of a call that ends by it.
    pub(super) const fn meaning(self) -> (CallInput, CallInput, Settlement) {
        use CallInput::{Acknowledged, CancelFailed, CancelledResponse, Response, TokenResponse};
        match self {
            Self::Result | Self::Stopped => (Response, Acknowledged, Settlement::Result),
            Self::Token => (TokenResponse, Acknowledged, Settlement::Result),
            Self::Error => (Response, CancelFailed, Settlement::Error),
            Self::CancelError => (CancelledResponse, Acknowledged, Settlement::Error),
            Self::Malformed => (Response, CancelFailed, Settlement::Malformed),
        }
    }
}
