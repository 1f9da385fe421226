//! Misuse: what our own host may not do. What the peer may not do is a
//! [`Violation`](crate::Violation).

use core::fmt;

use crate::machine::CancelRefusal;
use crate::named::named;

named! {
    /// Why a command was refused. The connection is as it was.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Refusal {
        /// The connection is closed.
        Closed = "closed" => "the connection is closed",
        /// The connection is shutting down.
        ShuttingDown = "shutting_down" => "the connection is shutting down",
        /// [`Limits::calls`](crate::Limits::calls) are in flight.
        TooManyCalls = "too_many_calls" => "too many calls are in flight (limits.calls)",
        /// The message does not fit under [`Limits::unsent_bytes`](crate::Limits::unsent_bytes) or
        /// [`Limits::unsent_messages`](crate::Limits::unsent_messages). One
        /// [`Event::Ready`](crate::Event::Ready) follows when there is room again.
        OutboxFull = "outbox_full"
            => "the outbox is full (limits.unsent_bytes, limits.unsent_messages)",
        /// The message alone is larger than [`Limits::unsent_bytes`](crate::Limits::unsent_bytes): it
        /// will never fit.
        TooLarge = "too_large" => "the message is larger than the outbox (limits.unsent_bytes)",
        /// The request that the notification is progress of was cancelled, and the dialect wants
        /// nothing further of it.
        Withheld = "withheld" => "the request that this is progress of was cancelled",
        /// The dialect has no cancel on the wire.
        NoCancel = "no_cancel" => "the dialect has no cancel on the wire",
        /// Nothing of ours can be cancelled on the wire.
        Uncancellable(why: CancelRefusal) = why.as_str() => "{why}",
        /// The dialect does not let our side end this request.
        NotOursToEnd = "not_ours_to_end" => "our side may not end such a request",
        /// Params must be a JSON object; an array will do where they are not ABP's whole payload.
        InvalidParams = "invalid_params"
            => "params must be a JSON object, or an array where the envelope has room for one",
        /// The parent request is answered, or of another connection.
        UnknownParent = "unknown_parent" => "the parent request is answered",
        /// The request is answered, or of another connection.
        AlreadyResponded = "already_responded" => "the request has had its response",
        /// The dialect has no operations, or no such request starts one.
        NoOperation = "no_operation" => "such a request starts no operation",
        /// A live operation has that token: the entropy is none.
        TokenInUse = "token_in_use" => "a live operation has that token",
    }
    /// The name in `snake_case`.
    as_str
}

impl core::error::Error for Refusal {}

/// A refused send: why, and what the host gave with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError<O> {
    /// Why.
    pub reason: Refusal,
    /// What the host gave with the message.
    pub data: O,
}

impl<O> fmt::Display for SendError<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<O: fmt::Debug> core::error::Error for SendError<O> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.reason)
    }
}
