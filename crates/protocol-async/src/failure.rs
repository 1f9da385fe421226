//! Why a handler has no result, and what of that the peer is told.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use protocol_core::{Refusal, Response, code};
use serde_json::value::RawValue;

use crate::answer::{CallError, RpcError};
use crate::cancelled::Cancelled;
use crate::method::{MethodName, clip};

/// The answer to a request: a result, or why there is none.
pub type Answer = Result<Box<RawValue>, Failure>;

/// Why a handler has no result. `?` makes it of whatever fails in a handler.
///
/// The peer is told no more than a variant says: of an error of the host's own, which may quote
/// anybody's data, only that there was one (B3). Why is for the host; a
/// [`Router`](crate::Router) tells it as [`Trouble`](crate::router::Trouble).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// Its request was cancelled, and it stopped: answers as the dialect answers those.
    Cancelled,
    /// It failed: answers with this error, word for word.
    Error(RpcError),
    /// The params are not what it takes: answers with code -32602.
    InvalidParams(InvalidParams),
    /// Something of the host's own failed: answers with code -32603, and not with the reason.
    Internal(Internal),
}

/// Something of the host's own failed.
///
/// [`Display`](fmt::Display) is what the peer is told. The [`reason`](Self::reason), which is also the
/// [`source`](Error::source), is for the host. It may quote params or results, so `Debug` leaves it
/// out.
#[derive(Clone)]
pub struct Internal(Arc<Untold>);

struct Untold {
    message: String,
    reason: Box<dyn Error + Send + Sync>,
}

/// A handler panicked: the [`reason`](Internal::reason) of its [`Failure::Internal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// What it said, if it said something.
    pub text: Option<String>,
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
    method: MethodName,
    message: String,
    reason: serde_json::Error,
}

impl Failure {
    /// Something of the host's own failed, for this reason, which the peer is not told. To tell it
    /// something, answer with an [`RpcError`].
    pub fn internal(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::untold("internal error", reason)
    }

    /// The handler of this method panicked with what `catch_unwind` gives. The peer is told which method;
    /// the [`reason`](Internal::reason) is [`Panicked`].
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

    /// What the peer is told, and no more.
    pub(crate) fn without_reason(self) -> Self {
        match self {
            Self::InvalidParams(_) | Self::Internal(_) => match self.as_reply() {
                Response::Error { code, message, .. } => Self::Error(RpcError::new(code, message)),
                _ => self,
            },
            Self::Cancelled | Self::Error(_) => self,
        }
    }

    /// As the answer to a request.
    #[must_use]
    pub fn as_reply(&self) -> Response<'_> {
        match self {
            Self::Cancelled => Response::Cancelled,
            Self::Error(error) => error.as_reply(),
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
    /// Why. It may quote params or results.
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
            other @ CallError::InvalidResult { .. } => {
                Self::untold("the result of a call made for this request does not fit", other)
            }
            // How it was lost is for us alone.
            other @ CallError::ConnectionLost { cause, .. } => {
                Self::untold(format!("connection lost ({cause})"), other)
            }
            other => Self::Error(RpcError::new(code::INTERNAL_ERROR, other.to_string())),
        }
    }
}

/// What was to be sent, and was not. Progress that the dialect wants no more, because the request
/// was cancelled, means just that.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Withheld => Self::Cancelled,
            other => Self::internal(other),
        }
    }
}

/// serde quotes what does not fit (F37).
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

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
