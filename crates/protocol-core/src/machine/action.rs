//! What the machine decides, in values.

use super::table::CallInput;
use super::{CallId, RequestHandle};
use crate::cause::{Cause, CloseReason};
use crate::named::named;

/// One thing to do, in the order the machine decided it.
///
/// A command or an input returns what it decided for the call or request that it names: an `Action`
/// where there is more than one possibility, and otherwise only what is not known before. What
/// follows for others (the cascade) waits in [`Machine::poll_action`](super::Machine::poll_action).
///
/// `C` is the host's data on a call, which comes back by value with its one completion (G1).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action<C> {
    /// Put the cancel of this call into the outbox, ahead of bulk output.
    SendCancel {
        /// The call; it may have settled.
        call: CallId,
        /// The number of the cancel itself, where it is a request of its own.
        number: Option<u32>,
    },
    /// Take what is still unsent of this call, its request or its cancel, out of the outbox (G4), and
    /// give the host its outcome.
    Withdraw(Completion<C>),
    /// Give the host the one outcome of this call (G1).
    Complete(Completion<C>),
    /// Tell the host that this request was cancelled.
    MarkCancelled {
        /// The request.
        request: RequestHandle,
        /// Why.
        cause: Cause,
    },
    /// Tell the host that this request is answered and every call made for it has settled (G6).
    TreeSettled {
        /// The request.
        request: RequestHandle,
    },
    /// Tell the host that the connection is closed (G7).
    Close {
        /// Why.
        reason: CloseReason,
    },
}

/// How one call ended, with the host's data on it.
#[derive(Clone, Debug)]
pub struct Completion<C> {
    /// The call.
    pub call: CallId,
    /// How it ended.
    pub settlement: Settlement,
    /// Why, if it was cancelled, timed out or lost.
    pub cause: Option<Cause>,
    /// What the host gave with the call.
    pub data: C,
}

named! {
    /// How a call ended, without its payload.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Settlement {
        /// The peer answered with a result.
        Result = "result",
        /// The peer answered with an error.
        Error = "error",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// One of its timers ran out.
        TimedOut = "timed_out",
        /// The peer answered with something that is no response.
        Malformed = "malformed",
        /// The connection ended first.
        ConnectionLost = "connection_lost",
    }
    /// The name in `snake_case`.
    as_str
}

/// What [`Connection::cancel`](crate::Connection::cancel) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The request had not left: it never will, and the call has settled (G4).
    Withdrawn,
    /// The cancel is on its way.
    Sent,
    /// The cancel names the token of the call's operation, and follows as soon as that is known.
    AwaitsToken,
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

named! {
    /// Why a cancel was refused here and never sent. The call goes on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum CancelRefusal {
        /// The capabilities are not exchanged yet.
        BeforeExchange = "cancel_before_exchange"
            => "nothing can be cancelled before the capabilities are exchanged",
        /// The peer did not declare that it can be asked to cancel.
        Undeclared = "cancel_undeclared" => "the peer did not declare that it can cancel requests",
        /// Requests of this method can't be cancelled.
        Method = "cancel_of_method" => "requests of this method can't be cancelled",
        /// Requests with such params can't be cancelled this way: a task has a cancel of its own.
        Params = "cancel_of_params" => "requests with such params can't be cancelled this way",
        /// In this dialect our side may not cancel.
        NotOurs = "cancel_not_ours" => "our side may not cancel in this dialect",
    }
    /// The name in `snake_case`.
    as_str
}

/// What kind of answer a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseKind {
    /// A result.
    Result,
    /// A result that holds the token of an operation.
    Token,
    /// An error other than -32800.
    Error,
    /// Error -32800.
    CancelError,
    /// No valid response, but its id can be read (B1).
    Malformed,
}

impl ResponseKind {
    /// What it is to the table if a call's own request is answered so, what if the call's cancel is,
    /// and how a call ends that settles with it.
    pub(super) const fn meaning(self) -> (CallInput, CallInput, Settlement) {
        use CallInput::{Acknowledged, Answered, CancelFailed};
        match self {
            Self::Result => (Answered, Acknowledged, Settlement::Result),
            Self::Token => (CallInput::Token, Acknowledged, Settlement::Result),
            Self::Error => (Answered, CancelFailed, Settlement::Error),
            Self::CancelError => (CallInput::CancelError, Acknowledged, Settlement::Error),
            Self::Malformed => (Answered, CancelFailed, Settlement::Malformed),
        }
    }
}
