//! Messages of the other side, as far as checks ask.

use std::fmt;

use serde_json::Value;

use crate::value::by_value;

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
    Request(Asked),
    /// A cancel of a request of its own, which may be one itself.
    Cancel { id: String, asked: Option<Asked> },
    /// Any other notification, or what is no message.
    Other,
}

/// The request of a language server that creates a progress.
pub(crate) const CREATE: &str = "window/workDoneProgress/create";
/// The methods of requests that a server may make at any time. They are answered at once.
const HOUSEKEEPING: [&str; 4] =
    [CREATE, "client/registerCapability", "client/unregisterCapability", "ping"];

impl Heard {
    /// Returns progress under this token, or nothing of interest without one.
    pub(super) fn progress(token: Option<Value>) -> Self {
        token.map_or(Self::Other, |token| Self::Progress { token })
    }
    /// Returns the request that it is, if it is one.
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match self {
            Self::Request(asked) => Some(asked),
            _ => None,
        }
    }
}

/// A request of the other side's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// Its id, by its value.
    pub(crate) id: String,
    /// Its id as it was written, which is how it is answered.
    pub(crate) token: String,
    pub(crate) method: String,
    pub(crate) params: Value,
}

impl Asked {
    pub(crate) fn new(token: &str, method: impl Into<String>, params: Value) -> Self {
        Self { id: by_value(token), token: token.to_owned(), method: method.into(), params }
    }

    /// Returns the same under another id.
    pub(crate) fn under(&self, token: &str) -> Self {
        Self::new(token, self.method.as_str(), self.params.clone())
    }

    /// Whether a server may ask it at any time, whatever it works on.
    pub(crate) fn is_housekeeping(&self) -> bool {
        HOUSEKEEPING.contains(&&*self.method)
    }

    /// Whether it opens the session.
    pub(crate) fn opens(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }
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
    /// Returns an error with this code, or 0 if that is no number.
    pub(super) fn error(code: &Value) -> Self {
        Self::Error { code: code.as_i64().unwrap_or(0) }
    }
    /// Returns whether it says that the request was cancelled. A turn of an agent that was cancelled may have a result.
    pub(crate) fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled | Self::Error { code: -32800 | -32802 } => true,
            Self::Result(result) => result["stopReason"] == "cancelled",
            Self::Error { .. } | Self::Both => false,
        }
    }

    /// Returns whether it says that the work failed. A tool of MCP says so in its result.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Result(result) => result["isError"] == true,
            _ => true,
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
            Self::Result(_) if self.is_failure() => f.write_str("a result with isError"),
            Self::Result(_) => f.write_str("a result"),
            Self::Error { code } => write!(f, "error {code}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Both => f.write_str("a result and an error at once"),
        }
    }
}
