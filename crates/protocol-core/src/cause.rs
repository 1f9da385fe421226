//! Why something was cancelled, and why a connection closed.

use core::fmt;

/// Why a call or a request was cancelled (G5).
///
/// Printed in `snake_case` everywhere: `idle_timeout`, `peer_gone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Our host asked for it.
    Caller,
    /// Our host dropped the handle without waiting.
    Dropped,
    /// The call's deadline passed.
    Deadline,
    /// No progress arrived for the call's idle timeout.
    IdleTimeout,
    /// The call's hard cap passed, despite progress.
    HardCap,
    /// The request that the call was made for was cancelled (G6).
    Parent,
    /// The peer asked for it.
    Peer,
    /// The peer hung up (G7).
    PeerGone,
    /// Our side is shutting down.
    Shutdown,
    /// Our side gave the request up for a reason of its own: a limit, a fault.
    Internal,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 10] = [
        Self::Caller,
        Self::Dropped,
        Self::Deadline,
        Self::IdleTimeout,
        Self::HardCap,
        Self::Parent,
        Self::Peer,
        Self::PeerGone,
        Self::Shutdown,
        Self::Internal,
    ];

    /// The name in `snake_case`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Dropped => "dropped",
            Self::Deadline => "deadline",
            Self::IdleTimeout => "idle_timeout",
            Self::HardCap => "hard_cap",
            Self::Parent => "parent",
            Self::Peer => "peer",
            Self::PeerGone => "peer_gone",
            Self::Shutdown => "shutdown",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a connection closed, as [`Event::Closed`](crate::Event::Closed) tells it (G7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    /// The peer's input ended.
    PeerGone,
    /// Our host shut the connection down, and everything in flight has settled.
    Shutdown,
    /// The peer's framing can't be followed any more.
    BrokenFraming,
    /// The peer went over a limit, and [`Config::close_over_limit`](crate::Config::close_over_limit) was
    /// chosen.
    OverLimit,
}

impl CloseReason {
    /// The name in `snake_case`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PeerGone => "peer_gone",
            Self::Shutdown => "shutdown",
            Self::BrokenFraming => "broken_framing",
            Self::OverLimit => "over_limit",
        }
    }

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

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
