//! Why something was cancelled, and why a connection closed.

use crate::named::named;

named! {
    /// Why a call or a request was cancelled (G5).
    ///
    /// Printed in `snake_case` everywhere: `idle_timeout`, `peer_gone`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Cause {
        /// Our host asked for it.
        Caller = "caller",
        /// Our host dropped the handle without waiting.
        Dropped = "dropped",
        /// The call's deadline passed.
        Deadline = "deadline",
        /// No progress arrived for the call's idle timeout.
        IdleTimeout = "idle_timeout",
        /// The call's hard cap passed, despite progress.
        HardCap = "hard_cap",
        /// The request that the call was made for was cancelled (G6).
        Parent = "parent",
        /// The peer asked for it.
        Peer = "peer",
        /// The peer hung up (G7).
        PeerGone = "peer_gone",
        /// Our side is shutting down.
        Shutdown = "shutdown",
        /// Our side gave the request up for a reason of its own: a limit, a fault.
        Internal = "internal",
    }
    /// The name in `snake_case`.
    as_str + Display
}

named! {
    /// Why a connection closed, as [`Event::Closed`](crate::Event::Closed) tells it (G7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum CloseReason {
        /// The peer's input ended.
        PeerGone = "peer_gone",
        /// Our host shut the connection down, and everything in flight has settled.
        Shutdown = "shutdown",
        /// The peer's framing can't be followed any more.
        BrokenFraming = "broken_framing",
        /// The peer went over a limit, and [`Config::close_over_limit`](crate::Config::close_over_limit) was
        /// chosen.
        OverLimit = "over_limit",
    }
    /// The name in `snake_case`.
    as_str + Display
}

impl CloseReason {
    /// The cause that whatever is in flight then ends with.
    #[must_use]
    pub const fn cause(self) -> Cause {
        match self {
            Self::PeerGone | Self::BrokenFraming => Cause::PeerGone,
            Self::Shutdown => Cause::Shutdown,
            Self::OverLimit => Cause::Internal,
        }
    }
}
