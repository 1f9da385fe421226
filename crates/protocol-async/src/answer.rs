//! Answers that outlive the message they came in.

use std::borrow::Cow;
use std::fmt;

use protocol_core::{Cause, ErrorObject, Outcome, Refusal, Response};
use serde_json::value::RawValue;

/// A JSON-RPC error, owned.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// Its code; see [`code`](protocol_core::code).
    pub code: i64,
    /// A short description of the error, in one sentence.
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
    pub fn as_reply(&self) -> Response<'_> {
        Response::Error { code: self.code, message: &self.message, data: self.data.as_deref() }
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

impl std::error::Error for RpcError {}

/// Why a call has no result: every [`Outcome`] but [`Outcome::Result`], owned, or a refusal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with this error.
    Error(RpcError),
    /// It was cancelled.
    Cancelled {
        /// The reason for the cancellation.
        cause: Cause,
        /// The peer's -32800, if it confirmed.
        error: Option<RpcError>,
    },
    /// One of its timers ran out.
    TimedOut {
        /// The timer that ran out.
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
    /// Its outcome came and was let go: those of too many other calls wait to be taken
    /// ([`Options::result_bytes`](crate::Options::result_bytes)).
    Untaken,
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
            Self::Untaken => {
                f.write_str("too many outcomes wait to be taken (options.result_bytes)")
            }
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
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

impl CallError {
    /// What the peer wrote of it, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Error(error) | Self::Cancelled { error: Some(error), .. } => {
                error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len())
            }
            _ => 0,
        }
    }

    /// The result of a call that ended, which borrows nothing.
    ///
    /// # Errors
    ///
    /// Every outcome but [`Outcome::Result`].
    pub fn check(outcome: Outcome<'_>) -> Result<Box<RawValue>, Self> {
        Err(match outcome {
            Outcome::Result(value) => return Ok(value.into_owned()),
            Outcome::Error(error) => Self::Error(error.into()),
            Outcome::Cancelled { cause, error } => {
                Self::Cancelled { cause, error: error.map(RpcError::from) }
            }
            Outcome::TimedOut { cause } => Self::TimedOut { cause },
            Outcome::ConnectionLost { cause } => Self::ConnectionLost { cause, how: None },
            _ => Self::Malformed,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use protocol_core::{CallOptions, Config, Connection, Dialect, Event, Timestamp};

    use super::*;

    #[test]
    fn every_error_has_its_source() {
        let error = CallError::from(Refusal::TooLarge);
        assert_eq!(error.source().unwrap().to_string(), Refusal::TooLarge.to_string());
        let mut conn: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
        conn.call("m", None, (), CallOptions::default(), Timestamp::ZERO).unwrap();
        conn.poll_transmit(&mut Vec::new());
        let answer = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}"#;
        let event = conn.receive(answer, Timestamp::ZERO);
        let Some(Event::Settled { outcome, .. }) = event else { panic!("{event:?}") };
        let error = CallError::check(outcome).unwrap_err();
        assert_eq!(error.source().unwrap().to_string(), "no (code -5)");
    }
}
