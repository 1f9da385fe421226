use alloc::boxed::Box;
use core::fmt;

use protocol_core::Cause;

/// Why an operation was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The client asked for it.
    ClientRequested,
    /// The operation took too long.
    Timeout,
    /// The server is going down.
    ServerShutdown,
    /// Something the operation needs has failed; the text says what.
    Error(Box<str>),
}

impl CancelReason {
    /// How many reasons there are to count by; all errors count as one.
    pub(crate) const COUNT: usize = 4;

    /// The names in `snake_case`, in the order that metrics count them in.
    pub(crate) const NAMES: [&'static str; Self::COUNT] =
        ["client_requested", "timeout", "server_shutdown", "error"];

    /// The place of the reason in [`NAMES`](Self::NAMES).
    pub(crate) const fn index(&self) -> usize {
        match self {
            Self::ClientRequested => 0,
            Self::Timeout => 1,
            Self::ServerShutdown => 2,
            Self::Error(_) => 3,
        }
    }

    /// The name in `snake_case`, without the text of an error.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// As it stands on the wire: the name, and the text of an error.
impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "error: {error}"),
            _ => f.write_str(self.as_str()),
        }
    }
}

/// What a cause of the core's is to the client of an operation.
impl From<Cause> for CancelReason {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Peer | Cause::Caller => Self::ClientRequested,
            Cause::Deadline | Cause::IdleTimeout | Cause::HardCap => Self::Timeout,
            Cause::Shutdown => Self::ServerShutdown,
            other => Self::Error(other.as_str().into()),
        }
    }
}
