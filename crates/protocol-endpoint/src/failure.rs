//! Failures of handlers, and the part of them that the peer learns.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::any::Any;
use core::error::Error;
use core::fmt;
#[cfg(feature = "std")]
use std::io;

use protocol_core::{Cause, Refusal, Response, code};
use serde_json::value::RawValue;

use crate::error::{CallError, RpcError};
use crate::method::{MethodName, clip};

/// The response of a handler: a result, or the reason why there is none.
pub type Answer = Result<Box<RawValue>, Failure>;

/// The reason why a handler has no result. `?` converts the errors of a handler into it.
///
/// The peer learns no more than a variant documents. An error of the host's own may quote anybody's data, so
/// the peer learns only that there was one (B3). The reason is for the host: a `Router` reports it as
/// `Trouble`, and a `Handler` gets it as `failed`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The request was cancelled, and the handler stopped. The dialect decides the response.
    Cancelled,
    /// The handler failed. The response is this error, word for word.
    Error(RpcError),
    /// The params are not of the type that the handler takes. The response has code -32602.
    InvalidParams(InvalidParams),
    /// Something of the host's own failed. The response has code -32603, and does not contain the reason.
    Internal(Internal),
}

/// A failure of the host's own.
///
/// [`Display`](fmt::Display) writes the text that the peer receives. The [`reason`](Self::reason), which is
/// also the [`source`](Error::source), is for the host. It may quote params or results, so `Debug` omits it.
#[derive(Clone)]
pub struct Internal(Arc<Untold>);

struct Untold {
    message: String,
    reason: Box<dyn Error + Send + Sync>,
}

/// A panic of a handler: the [`reason`](Internal::reason) of its [`Failure::Internal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The message of the panic, if it is a string.
    pub text: Option<String>,
}

/// The error of a message whose params are not of the type that was asked for.
///
/// The peer receives the method and the position, as [`Display`](fmt::Display) writes them. It receives
/// nothing of the params, which may hold a secret (B3). The [`reason`](Self::reason), which is also the
/// [`source`](Error::source), is for the host. It may quote the params, so `Debug` omits it.
#[derive(Clone)]
pub struct InvalidParams(Arc<Misfit>);

struct Misfit {
    method: MethodName,
    message: String,
    reason: serde_json::Error,
}

impl Failure {
    /// Returns a failure of the host's own for this reason, which the peer does not receive.
    ///
    /// A handler that wants to explain itself to the peer returns an [`RpcError`].
    pub fn internal(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::untold("internal error", reason)
    }

    /// Returns the failure of a handler that panicked, from the value that `catch_unwind` returned.
    ///
    /// The peer receives the name of the method. The [`reason`](Internal::reason) is [`Panicked`].
    #[must_use]
    pub fn panicked(method: &str, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::untold(format!("the handler of {:?} panicked", clip(method)), Panicked { text })
    }

    fn untold(message: impl Into<String>, reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Internal(Internal(Arc::new(Untold {
            message: message.into(),
            reason: reason.into(),
        })))
    }

    /// Returns whether a call of the handler failed because its connection was lost.
    pub(crate) fn is_connection_lost(&self) -> bool {
        let Self::Internal(internal) = self else { return false };
        matches!(internal.reason().downcast_ref(), Some(CallError::ConnectionLost { .. }))
    }

    /// Returns the failure as the response to a request.
    #[must_use]
    pub fn as_response(&self) -> Response<'_> {
        match self {
            Self::Cancelled => Response::Cancelled,
            Self::Error(error) => error.as_response(),
            Self::InvalidParams(invalid) => Response::Error {
                code: code::INVALID_PARAMS,
                message: &invalid.0.message,
                data: None,
            },
            Self::Internal(internal) => {
                let message = &internal.0.message;
                Response::Error { code: code::INTERNAL_ERROR, message, data: None }
            }
        }
    }
}

impl Internal {
    /// Returns the reason. It may quote params or results.
    #[must_use]
    pub fn reason(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0.reason
    }
}

impl fmt::Display for Internal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Internal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Internal").field(&self.0.message).finish()
    }
}

impl Error for Internal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.reason)
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "panicked: {text}"),
            None => f.write_str("panicked"),
        }
    }
}

impl Error for Panicked {}

impl InvalidParams {
    pub(crate) fn new(method: &MethodName, reason: serde_json::Error) -> Self {
        let (line, column) = (reason.line(), reason.column());
        let message =
            format!("invalid params of {:?}, at line {line} column {column}", clip(method));
        Self(Arc::new(Misfit { method: method.clone(), message, reason }))
    }

    /// Returns the method whose params did not fit.
    #[must_use]
    pub fn method(&self) -> &MethodName {
        &self.0.method
    }

    /// Returns the mismatch. It may quote the params.
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

/// The error of work that stopped because it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// The reason for the cancellation.
    pub cause: Cause,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled ({})", self.cause)
    }
}

impl Error for Cancelled {}

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

/// Converts a call that failed into the failure of the request that it was made for.
///
/// The peer's error stays that error. A cancellation stays a cancellation, also if the peer confirmed it with an
/// error. Anything that went wrong on our side becomes an error -32603, which names the cause of a timeout or
/// of a lost connection.
impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Error(error) => Self::Error(error),
            CallError::Cancelled { .. } => Self::Cancelled,
            // Its details quote the response, which the peer of this request may not see (B3).
            other @ CallError::InvalidResult { .. } => {
                Self::untold("the result of a call made for this request does not fit", other)
            }
            // The details of the loss are for us alone.
            other @ CallError::ConnectionLost { cause, .. } => {
                Self::untold(format!("connection lost ({cause})"), other)
            }
            other => Self::Error(RpcError::new(code::INTERNAL_ERROR, other.to_string())),
        }
    }
}

/// Converts the refusal of a message that a handler sent. [`Refusal::Withheld`] means that its request was
/// cancelled.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Withheld => Self::Cancelled,
            other => Self::internal(other),
        }
    }
}

/// Converts into an internal error, so that the peer does not receive its text: serde quotes the data that
/// does not fit (F37).
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

#[cfg(feature = "std")]
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::internal(error)
    }
}

impl From<Box<dyn Error + Send + Sync>> for Failure {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::internal(error)
    }
}
