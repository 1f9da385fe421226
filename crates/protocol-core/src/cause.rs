//! The reasons for a cancellation, the ways a call can end, and the reasons for the end of a connection.

use crate::text_enum::text_enum;

text_enum! {
    /// The reason that a call or a request was cancelled.
    ///
    /// The first cancellation of a call or a request records its cause; later ones don't change it (G5).
    ///
    /// ```
    /// use protocol_core::Cause;
    ///
    /// assert_eq!(Cause::IdleTimeout.as_str(), "idle_timeout");
    /// assert!(Cause::ALL.contains(&Cause::PeerGone));
    /// ```
    pub enum Cause {
        /// Our host asked for the cancellation.
        Caller = "caller",
        /// Our host dropped the call's handle and does not wait for the outcome.
        Dropped = "dropped",
        /// The call's [`timeout`](crate::CallOptions::timeout) passed.
        Deadline = "deadline",
        /// The call's [`idle_timeout`](crate::CallOptions::idle_timeout) passed without progress.
        IdleTimeout = "idle_timeout",
        /// The call's [`hard_cap`](crate::CallOptions::hard_cap) passed, despite progress.
        HardCap = "hard_cap",
        /// The request that the call was made for was cancelled.
        Parent = "parent",
        /// The peer asked for the cancellation.
        Peer = "peer",
        /// The peer's input ended.
        PeerGone = "peer_gone",
        /// The work that it is a part of was stopped.
        Stopped = "stopped",
        /// Our side is shutting down.
        Shutdown = "shutdown",
        /// Our side gave up for a reason of its own, such as a limit or a fault.
        Internal = "internal",
    }
}

impl Cause {
    /// Returns whether somebody still waits for a call that is cancelled for this.
    pub(crate) const fn is_awaited(self) -> bool {
        !matches!(self, Self::Dropped | Self::Shutdown)
    }

    /// Returns the reason that the client of a cancelled operation is told, in the words of erlmcp.
    pub(crate) const fn operation_reason(self) -> &'static str {
        match self {
            Self::Peer | Self::Caller | Self::Stopped => "client_requested",
            Self::Deadline | Self::IdleTimeout | Self::HardCap => "timeout",
            Self::Shutdown => "server_shutdown",
            Self::Dropped => "error: dropped",
            Self::Parent => "error: parent",
            Self::PeerGone => "error: peer_gone",
            Self::Internal => "error: internal",
        }
    }
}

text_enum! {
    /// The kind of ending of a call, without its payload.
    pub enum Settlement {
        /// The peer responded with a result.
        Result = "result",
        /// The peer responded with an error.
        Error = "error",
        /// The call was cancelled.
        Cancelled = "cancelled",
        /// One of its timers ran out.
        TimedOut = "timed_out",
        /// The peer's response was malformed.
        Malformed = "malformed",
        /// The connection ended first.
        ConnectionLost = "connection_lost",
    }
}

text_enum! {
    /// The end of work, as [`Event::WorkEnded`](crate::Event::WorkEnded) reports it.
    pub enum WorkOutcome {
        /// It ended by itself, also if that was after a stop.
        Finished = "finished",
        /// It ended because it was stopped.
        Stopped = "stopped",
        /// The request that began it had an error.
        Failed = "failed",
        /// Nothing more was heard of it, and the wait for its end is over.
        Silent = "silent",
        /// The connection ended first.
        Lost = "lost",
    }
}

text_enum! {
    /// The reason that a connection closed, as [`Event::Closed`](crate::Event::Closed) reports it.
    pub enum CloseReason {
        /// The peer's input ended.
        PeerGone = "peer_gone",
        /// Our host shut the connection down, and everything in flight has settled.
        Shutdown = "shutdown",
        /// The peer broke the framing, so the beginning of its next message is unknown.
        BrokenFraming = "broken_framing",
        /// The peer exceeded [`Limits::requests`](crate::Limits::requests), and
        /// [`Config::close_over_limit`](crate::Config::close_over_limit) is set.
        OverLimit = "over_limit",
    }
}

impl CloseReason {
    /// Returns the cause of everything that is still in flight when the connection closes.
    pub const fn cause(self) -> Cause {
        match self {
            Self::PeerGone | Self::BrokenFraming => Cause::PeerGone,
            Self::Shutdown => Cause::Shutdown,
            Self::OverLimit => Cause::Internal,
        }
    }
}
