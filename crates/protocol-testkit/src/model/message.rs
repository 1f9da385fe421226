//! A message of the peer's, as every envelope can say it.

use serde_json::Value;

/// An id on the wire, as compact JSON: one spelling for what can be written in many.
pub(crate) type Id = String;

/// One message of the peer's.
#[derive(Debug)]
pub(crate) enum Message<'v> {
    Request {
        id: &'v Value,
        method: &'v str,
        params: &'v Value,
        /// The destination of its answer, if the envelope says more than an id.
        origin: Option<Origin>,
    },
    Notification {
        method: &'v str,
        params: &'v Value,
    },
    Response {
        id: &'v Value,
        /// The kind of request that it answers, if the envelope says so.
        asked: Option<Asked>,
        /// `None` if the response is malformed.
        answer: Option<Answered<'v>>,
    },
    /// A broken request, or a broken response to a call in flight.
    Neither {
        id: &'v Value,
    },
    /// Answered with its id, if it has one.
    Invalid {
        id: &'v Value,
        origin: Option<Origin>,
    },
    InvalidNotification,
}

impl Message<'_> {
    /// Returns the same message as an invalid one.
    pub(crate) fn invalid(self) -> Self {
        match self {
            Self::Request { id, origin, .. } => Self::Invalid { id, origin },
            Self::Notification { .. } => Self::InvalidNotification,
            Self::Response { id, asked, .. } => Self::Response { id, asked, answer: None },
            other => other,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answered<'v> {
    Result(&'v Value),
    Error(i64),
}

pub(super) const NOTHING: &Value = &Value::Null;

/// The destination of the answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// The id of its message, which is not that of a call.
    pub(crate) message: Id,
    pub(crate) asked: Asked,
}

/// The kind of request, which the type of its answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    /// A capability: it has a call id.
    Capability,
    /// A message that is neither a capability nor a command.
    Other,
    /// A command of DAP, whose errors have codes.
    Command,
}

/// Returns an id that can be compared and echoed.
pub(crate) fn readable(id: &Value) -> Option<Id> {
    (id.is_string() || id.is_number() || id.is_null()).then(|| id.to_string())
}
