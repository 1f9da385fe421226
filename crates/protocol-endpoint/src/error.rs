//! Outcomes of calls that outlive the message they came in.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use protocol_core::{Cause, ErrorObject, Outcome, Refusal, Response};
use serde_json::value::RawValue;

/// An owned JSON-RPC error.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// The code of the error; the module [`code`](protocol_core::code) lists the common ones.
    pub code: i64,
    /// A short description of the error, in one sentence.
    pub message: String,
    /// Additional data for programs.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// Returns an error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Returns the error as the response to a request.
    #[must_use]
    pub fn as_response(&self) -> Response<'_> {
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

impl core::error::Error for RpcError {}

/// The outcome of a call: the result as the peer wrote it, or an error, which is large and rare.
pub type CallOutcome = Result<Box<RawValue>, Box<CallError>>;

/// The reason why a call has no result: an owned [`Outcome`] other than [`Outcome::Result`], or a refusal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The peer responded with this error.
    Error(RpcError),
    /// The call was cancelled.
    Cancelled {
        /// The reason for the cancellation.
        cause: Cause,
        /// The peer's error -32800, if it confirmed the cancellation.
        error: Option<RpcError>,
    },
    /// One of the call's timers ran out.
    TimedOut {
        /// The timer that ran out.
        cause: Cause,
    },
    /// The peer's response was malformed.
    Malformed,
    /// The connection ended before a response came.
    ConnectionLost {
        /// The reason for its end, which tells the side that ended it.
        cause: Cause,
        /// The way in which it ended, in words, if it is known. Examples are the exit status of a process
        /// and the error of a socket. It is for people on this side, and no peer receives it.
        how: Option<Box<str>>,
    },
    /// The call was never sent.
    Refused(Refusal),
    /// The peer responded with a result that is not of the type that was asked for.
    InvalidResult {
        /// The mismatch, as `serde_json` describes it.
        problem: String,
    },
    /// The outcome came and was dropped, because outcomes of too many other calls wait to be taken
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

impl CallError {
    /// Returns the bytes of it that the peer wrote.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Error(error) | Self::Cancelled { error: Some(error), .. } => {
                error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len())
            }
            _ => 0,
        }
    }

    /// Converts the outcome of a call into a result that borrows nothing.
    pub(crate) fn check(outcome: Outcome<'_>) -> Result<Box<RawValue>, Self> {
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

    use alloc::string::ToString;
    use alloc::vec::Vec;

    use core::error::Error;

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
