//! The mistakes of our own host, and the cancels that are refused here. The mistakes of the peer are in
//! `violation.rs`.

use core::fmt;

use crate::text_enum::text_enum;

text_enum! {
    /// The reason that a command was refused. The command changed nothing.
    pub enum Refusal {
        /// The connection is closed.
        Closed = "closed" => "the connection is closed",
        /// The connection is shutting down and accepts no new work.
        ShuttingDown = "shutting_down" => "the connection is shutting down",
        /// As many calls as [`Limits::calls`](crate::Limits::calls) allows are in flight.
        TooManyCalls = "too_many_calls" => "too many calls are in flight (limits.calls)",
        /// The message does not fit under [`Limits::unsent_bytes`](crate::Limits::unsent_bytes) or
        /// [`Limits::unsent_messages`](crate::Limits::unsent_messages).
        ///
        /// One [`Event::Ready`](crate::Event::Ready) follows as soon as there is room.
        OutboxFull = "outbox_full"
            => "the outbox is full (limits.unsent_bytes, limits.unsent_messages)",
        /// The message alone is larger than [`Limits::unsent_bytes`](crate::Limits::unsent_bytes), or
        /// [`Limits::unsent_messages`](crate::Limits::unsent_messages) is 0. It will never fit.
        TooLarge = "too_large" => "the message is larger than the outbox (limits.unsent_bytes)",
        /// The notification is progress of a cancelled request, and the dialect sends nothing more
        /// for such a request.
        Withheld = "withheld" => "the request that this is progress of was cancelled",
        /// The dialect has no cancel message.
        NoCancel = "no_cancel" => "the dialect has no cancel on the wire",
        /// The peer can't be asked to cancel this call.
        Uncancellable(why: CancelRefusal) = why.as_str() => "{why}",
        /// The dialect does not let our side end this request.
        NotOursToEnd = "not_ours_to_end" => "our side may not end such a request",
        /// The params are neither an object nor an array. ABP has no room for an array where params
        /// are the whole payload.
        InvalidParams = "invalid_params"
            => "params must be a JSON object, or an array where the envelope has room for one",
        /// The parent request has had its response, or is one of a connection with another number
        /// ([`Config::connection`](crate::Config::connection)).
        UnknownParent = "unknown_parent" => "the parent request has had its response",
        /// The request has had its response, or is one of a connection with another number
        /// ([`Config::connection`](crate::Config::connection)).
        AlreadyResponded = "already_responded" => "the request has had its response",
        /// The dialect has no operations, or a request of this method starts none.
        NoOperation = "no_operation" => "such a request starts no operation",
        /// Another live operation has this token, so the host's entropy source repeated itself.
        TokenInUse = "token_in_use" => "a live operation has that token",
    }
}

text_enum! {
    /// The reason that a cancel was refused here and never sent. The call goes on.
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
}

/// A refused call: the reason, and the data that the host passed with the call.
///
/// ```
/// use protocol_core::{Config, Connection, Dialect, Refusal, Shutdown, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut client: Connection<&str> = Connection::new(Config::client(Dialect::LSP_3_17));
/// client.shutdown(Shutdown::Drain, now);
/// let refused = client.call("late", None, "my data", Default::default(), now);
/// let error = refused.err().ok_or("no call is accepted any more")?;
/// assert_eq!((error.reason, error.data), (Refusal::Closed, "my data"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError<O> {
    /// The reason for the refusal.
    pub reason: Refusal,
    /// The host's data, which it may use for a later call.
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
