//! The reasons for which operations are cancelled.

use alloc::boxed::Box;
use core::fmt;

use protocol_core::Cause;

/// The reason why an operation was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The client requested it.
    ClientRequested,
    /// The operation took too long.
    Timeout,
    /// The server is going down.
    ServerShutdown,
    /// Something that the operation needs has failed, as the text describes.
    Error(Box<str>),
}

impl CancelReason {
    /// The number of reasons that metrics tell apart. All errors count as one.
    pub(crate) const COUNT: usize = 4;

    /// The names in `snake_case`, in the order of the metrics.
    pub(crate) const NAMES: [&'static str; Self::COUNT] =
        ["client_requested", "timeout", "server_shutdown", "error"];

    /// Returns the index of the reason in [`NAMES`](Self::NAMES).
    pub(crate) const fn index(&self) -> usize {
        match self {
            Self::ClientRequested => 0,
            Self::Timeout => 1,
            Self::ServerShutdown => 2,
            Self::Error(_) => 3,
        }
    }

    /// Returns the name in `snake_case`, without the text of an error.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// Writes the reason as it stands on the wire: the name, and the text of an error.
impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "error: {error}"),
            _ => f.write_str(self.as_str()),
        }
    }
}

/// Translates a cause of the core into the reason that the client of an operation sees.
impl From<Cause> for CancelReason {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Peer | Cause::Caller | Cause::Stopped => Self::ClientRequested,
            Cause::Deadline | Cause::IdleTimeout | Cause::HardCap => Self::Timeout,
            Cause::Shutdown => Self::ServerShutdown,
            other => Self::Error(other.as_str().into()),
        }
    }
}
