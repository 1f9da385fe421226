//! Answers that outlive the message they came in.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use serde_json::value::RawValue;

use crate::cause::Cause;
use crate::error::Refusal;
use crate::event::{ErrorObject, Outcome, Reply};

/// A JSON-RPC error, owned.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// Its code; see [`code`](crate::code).
    pub code: i64,
    /// One sentence.
    pub message: String,
    /// More, for programs.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// As the answer to a request.
    #[must_use]
    pub fn as_reply(&self) -> Reply<'_> {
        Reply::Error { code: self.code, message: &self.message, data: self.data.as_deref() }
    }
}

impl From<ErrorObject<'_>> for RpcError {
    fn from(error: ErrorObject<'_>) -> Self {
        Self {
            code: error.code,
            message: error.message.into_owned(),
            data: error.data.map(Cow::into_owned),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl core::error::Error for RpcError {}

/// Why a call has no result: every [`Outcome`] but [`Outcome::Result`], owned, or a refusal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with this error.
    Error(RpcError),
    /// It was cancelled.
    Cancelled {
        /// Why.
        cause: Cause,
        /// The peer's -32800, if it confirmed.
        error: Option<RpcError>,
    },
    /// One of its timers ran out.
    TimedOut {
        /// Which.
        cause: Cause,
    },
    /// The peer answered with something that is no response.
    Malformed,
    /// The connection ended first.
    ConnectionLost {
        /// Whose end it was.
        cause: Cause,
        /// How it ended, in words, where the transport knows: a process's exit status, a socket's
        /// error. For people here; it is nothing for a peer.
        how: Option<Box<str>>,
    },
    /// It was never sent.
    Refused(Refusal),
    /// The peer answered with a result that is not of the type that was asked for.
    InvalidResult {
        /// What does not fit.
        problem: String,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Cancelled { cause, .. } => write!(f, "cancelled ({cause})"),
            Self::TimedOut { cause } => write!(f, "timed out ({cause})"),
            Self::Malformed => f.write_str("the response was malformed"),
            Self::ConnectionLost { cause, how: None } => write!(f, "connection lost ({cause})"),
            Self::ConnectionLost { cause, how: Some(how) } => {
                write!(f, "connection lost ({cause}): {how}")
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::InvalidResult { problem } => write!(f, "the result does not fit: {problem}"),
        }
    }
}

impl core::error::Error for CallError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Error(error) | Self::Cancelled { error: Some(error), .. } => Some(error),
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Outcome<'_> {
    /// The outcome as a `Result` that borrows nothing.
    ///
    /// # Errors
    ///
    /// Every outcome but [`Outcome::Result`].
    pub fn into_result(self) -> Result<Box<RawValue>, CallError> {
        Err(match self {
            Self::Result(value) => return Ok(value.into_owned()),
            Self::Error(error) => CallError::Error(error.into()),
            Self::Cancelled { cause, error } => {
                CallError::Cancelled { cause, error: error.map(RpcError::from) }
            }
            Self::TimedOut { cause } => CallError::TimedOut { cause },
            Self::Malformed => CallError::Malformed,
            Self::ConnectionLost { cause } => CallError::ConnectionLost { cause, how: None },
        })
    }
}
