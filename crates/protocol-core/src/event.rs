//! What a connection tells its host, and what a host hands to it.

use alloc::borrow::{Cow, ToOwned};

use serde_json::value::RawValue;

use crate::cause::{Cause, CloseReason};
use crate::id::WireId;
use crate::machine::{CallId, RequestHandle, Settlement};
use crate::named::named;
use crate::violation::Violation;

/// What happened, borrowing from the message that made it happen where that is still at hand.
///
/// `O` is the host's own data on a call; it comes back by value exactly once, with
/// [`Settled`](Self::Settled).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'m, O> {
    /// The peer sent a request. Answer it with [`respond`](crate::Connection::respond).
    Request {
        /// Names it from now on.
        request: RequestHandle,
        /// The id token as the peer wrote it, for logs.
        id: Cow<'m, str>,
        /// Its method.
        method: Cow<'m, str>,
        /// Its params, as the peer wrote them.
        params: Option<Cow<'m, RawValue>>,
        /// What the peer said beside the params: ABP's `options`, with the token for its progress.
        options: Option<Cow<'m, RawValue>>,
    },
    /// The peer sent a notification.
    Notification {
        /// Its method.
        method: Cow<'m, str>,
        /// Its params, as the peer wrote them.
        params: Option<Cow<'m, RawValue>>,
    },
    /// A request was cancelled. The host still owes its answer.
    Cancelled {
        /// Which.
        request: RequestHandle,
        /// Why.
        cause: Cause,
        /// What the peer said about it, where the dialect has a place for that.
        reason: Option<Cow<'m, str>>,
    },
    /// One of our calls ended: once for every call that was accepted (G1).
    Settled {
        /// Which.
        call: CallId,
        /// How.
        outcome: Outcome<'m>,
        /// What the host gave with the call.
        data: O,
    },
    /// A request is answered, and every call made on its behalf has settled (G6). Only for requests
    /// that such calls were made for.
    TreeSettled {
        /// Which.
        request: RequestHandle,
    },
    /// The peer broke a rule.
    Violation {
        /// Which rule.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<WireId>,
    },
    /// There is room in the outbox again, after a [`Refusal::OutboxFull`](crate::Refusal::OutboxFull).
    /// The only event that may follow [`Closed`](Self::Closed): a promised wake-up always comes.
    Ready,
    /// Nothing comes in any more. Exactly once, and the last of what happens (G7).
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

impl<'m, O> Event<'m, O> {
    pub(crate) fn notification(method: Cow<'m, str>, params: Option<&'m RawValue>) -> Self {
        Self::Notification { method, params: params.map(Cow::Borrowed) }
    }

    /// The event with copies of what it borrowed.
    #[must_use]
    pub fn into_owned(self) -> Event<'static, O> {
        match self {
            Self::Request { request, id, method, params, options } => Event::Request {
                request,
                id: owned(id),
                method: owned(method),
                params: params.map(owned),
                options: options.map(owned),
            },
            Self::Notification { method, params } => {
                Event::Notification { method: owned(method), params: params.map(owned) }
            }
            Self::Cancelled { request, cause, reason } => {
                Event::Cancelled { request, cause, reason: reason.map(owned) }
            }
            Self::Settled { call, outcome, data } => {
                Event::Settled { call, outcome: outcome.into_owned(), data }
            }
            Self::TreeSettled { request } => Event::TreeSettled { request },
            Self::Violation { violation, id } => Event::Violation { violation, id },
            Self::Ready => Event::Ready,
            Self::Closed { reason } => Event::Closed { reason },
        }
    }
}

fn owned<T: ToOwned + ?Sized>(value: Cow<'_, T>) -> Cow<'static, T> {
    Cow::Owned(value.into_owned())
}

/// How a call ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome<'m> {
    /// The peer answered with this result.
    Result(Cow<'m, RawValue>),
    /// The peer answered with this error.
    Error(ErrorObject<'m>),
    /// It was cancelled.
    Cancelled {
        /// Why.
        cause: Cause,
        /// The peer's -32800, if it confirmed.
        error: Option<ErrorObject<'m>>,
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
    },
}

impl Outcome<'_> {
    /// The outcome with copies of what it borrowed.
    #[must_use]
    pub fn into_owned(self) -> Outcome<'static> {
        match self {
            Self::Result(result) => Outcome::Result(owned(result)),
            Self::Error(error) => Outcome::Error(error.into_owned()),
            Self::Cancelled { cause, error } => {
                Outcome::Cancelled { cause, error: error.map(ErrorObject::into_owned) }
            }
            Self::TimedOut { cause } => Outcome::TimedOut { cause },
            Self::Malformed => Outcome::Malformed,
            Self::ConnectionLost { cause } => Outcome::ConnectionLost { cause },
        }
    }

    /// The kind of ending, without its payload.
    #[must_use]
    pub const fn settlement(&self) -> Settlement {
        match self {
            Self::Result(_) => Settlement::Result,
            Self::Error(_) => Settlement::Error,
            Self::Cancelled { .. } => Settlement::Cancelled,
            Self::TimedOut { .. } => Settlement::TimedOut,
            Self::Malformed => Settlement::Malformed,
            Self::ConnectionLost { .. } => Settlement::ConnectionLost,
        }
    }

    /// Why, if it was cancelled, timed out or lost.
    #[must_use]
    pub const fn cause(&self) -> Option<Cause> {
        match *self {
            Self::Cancelled { cause, .. }
            | Self::TimedOut { cause }
            | Self::ConnectionLost { cause } => Some(cause),
            Self::Result(_) | Self::Error(_) | Self::Malformed => None,
        }
    }

    /// What the peer answered: the result, or the whole error object.
    #[must_use]
    pub fn value(&self) -> Option<&RawValue> {
        match self {
            Self::Result(value) => Some(value),
            Self::Error(error) | Self::Cancelled { error: Some(error), .. } => Some(&error.raw),
            _ => None,
        }
    }
}

/// The `error` member of a response.
#[derive(Clone, Debug)]
pub struct ErrorObject<'m> {
    /// The whole object, as the peer wrote it.
    pub raw: Cow<'m, RawValue>,
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: Cow<'m, str>,
    /// Its data.
    pub data: Option<Cow<'m, RawValue>>,
}

impl ErrorObject<'_> {
    fn into_owned(self) -> ErrorObject<'static> {
        ErrorObject {
            raw: owned(self.raw),
            code: self.code,
            message: owned(self.message),
            data: self.data.map(owned),
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Response<'a> {
    /// A result.
    Result(&'a RawValue),
    /// An error.
    Error {
        /// Its code; see [`code`](crate::code).
        code: i64,
        /// One sentence.
        message: &'a str,
        /// More, for programs.
        data: Option<&'a RawValue>,
    },
    /// A whole `error` member, as another peer wrote it.
    ErrorRaw(&'a RawValue),
    /// Error -32800 with the dialect's message.
    Cancelled,
}

/// One whole message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transmit {
    /// What it is.
    pub kind: TransmitKind,
    /// Where it begins in the buffer that it was appended to, after any framing.
    pub start: usize,
    /// Its bytes, without framing.
    pub len: usize,
}

impl Transmit {
    /// The message, without framing, in the buffer that it was appended to.
    ///
    /// # Panics
    ///
    /// If that buffer was cut since.
    #[must_use]
    pub fn message(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start..self.start + self.len]
    }
}

named! {
    /// What an outgoing message is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum TransmitKind {
        /// One of our calls.
        Request = "request",
        /// A notification of the host's.
        Notification = "notification",
        /// An answer, or an array of answers.
        Response = "response",
        /// The cancel of one of our calls, or of a client's request that the server ends.
        Cancel = "cancel",
        /// The answer to a cancel of the peer's, where cancels are requests.
        Acknowledgement = "acknowledgement",
    }
    /// The name in `snake_case`.
    as_str
}
