//! Why a handler has no result, and what of that the peer is told.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use protocol_core::{Reply, code};
use serde_json::value::RawValue;

use crate::answer::{CallError, RpcError};
use crate::cancellation::Cancelled;
use crate::method::{Method, clip};

/// The answer to a request: a result, or why there is none.
pub type Answer = Result<Box<RawValue>, Failure>;

/// Why a handler has no result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// Its request was cancelled, and it stopped: answers as the dialect answers those.
    Cancelled,
    /// It failed.
    Error(RpcError),
    /// The params are not what it takes: answers with code -32602.
    InvalidParams(InvalidParams),
}

/// The params of a message are not of the type that was asked for.
///
/// The peer is told in which method and where, as [`Display`](fmt::Display) writes it: nothing of
/// what anybody wrote there, which may be a secret (B3). What did not fit is for the host:
/// [`reason`](Self::reason), which is also the [`source`](Error::source). It may quote the params, so
/// `Debug` leaves it out.
#[derive(Clone)]
pub struct InvalidParams(Arc<Misfit>);

struct Misfit {
    method: Method,
    message: String,
    reason: serde_json::Error,
}

impl Failure {
    /// As the answer to a request.
    #[must_use]
    pub fn as_reply(&self) -> Reply<'_> {
        match self {
            Self::Cancelled => Reply::Cancelled,
            Self::Error(error) => error.as_reply(),
            Self::InvalidParams(invalid) => {
                Reply::Error { code: code::INVALID_PARAMS, message: &invalid.0.message, data: None }
            }
        }
    }
}

impl InvalidParams {
    pub(crate) fn new(method: &Method, reason: serde_json::Error) -> Self {
        let (line, column) = (reason.line(), reason.column());
        let message = format!("invalid params of {}, at line {line} column {column}", clip(method));
        Self(Arc::new(Misfit { method: method.clone(), message, reason }))
    }

    /// Whose params.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// What did not fit. It may quote the params.
    #[must_use]
    pub fn reason(&self) -> &serde_json::Error {
        &self.0.reason
    }
}

impl fmt::Display for InvalidParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for InvalidParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InvalidParams").field(&self.0.message).finish()
    }
}

impl Error for InvalidParams {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0.reason)
    }
}

impl From<Cancelled> for Failure {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

impl From<InvalidParams> for Failure {
    fn from(invalid: InvalidParams) -> Self {
        Self::InvalidParams(invalid)
    }
}

/// A call that failed is answered on as what it is: its error as that error, its cancel as a
/// cancel, anything that went wrong on our side as an internal error.
impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Cancelled { error: Some(error), .. } | CallError::Error(error) => {
                Self::Error(error)
            }
            CallError::Cancelled { error: None, .. } => Self::Cancelled,
            // Its details hold some of the answer, which whoever asked us may not see (B3).
            CallError::InvalidResult { .. } => Self::Error(RpcError::new(
                code::INTERNAL_ERROR,
                "the result of a call made for this request does not fit",
            )),
            // How it was lost is for us alone.
            CallError::ConnectionLost { cause, .. } => Self::Error(RpcError::new(
                code::INTERNAL_ERROR,
                format!("connection lost ({cause})"),
            )),
            other => Self::Error(RpcError::new(code::INTERNAL_ERROR, other.to_string())),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Error(RpcError::new(code::INTERNAL_ERROR, error.to_string()))
    }
}
