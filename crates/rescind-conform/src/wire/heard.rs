//! Messages of the other side, as far as checks ask.

use std::fmt;

use serde_json::Value;

/// A message of the server, as far as checks ask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    /// An answer to a request of ours, under this id, by its value.
    Answer { id: String, outcome: Outcome },
    /// ABP: whether a cancel found something to cancel.
    Acknowledged { id: String, cancelled: bool },
    /// Progress, under this token. An agent's updates have the session for one.
    Progress { token: Value },
    /// A request of its own.
    Request { id: String, method: String },
    /// A cancel of a request of its own.
    Cancel { id: String },
    /// Any other notification, or what is no message.
    Other,
}

/// The response to a request of ours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Result(Value),
    Error {
        code: i64,
    },
    /// ABP and DAP, where it has no code.
    Cancelled,
    /// A result and an error at once, which is no response.
    Both,
}

impl Outcome {
    /// Returns whether it says that the request was cancelled. A turn of an agent that was cancelled may have a result.
    pub(crate) fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled | Self::Error { code: -32800 | -32802 } => true,
            Self::Result(result) => result["stopReason"] == "cancelled",
            Self::Error { .. } | Self::Both => false,
        }
    }

    /// Returns whether it is a result.
    pub(crate) fn is_result(&self) -> bool {
        matches!(self, Self::Result(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(_) => f.write_str("a result"),
            Self::Error { code } => write!(f, "error {code}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Both => f.write_str("a result and an error at once"),
        }
    }
}
