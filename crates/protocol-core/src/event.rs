//! The values that a connection and its host exchange.

use alloc::borrow::{Cow, ToOwned};

use serde_json::value::RawValue;

use crate::cause::{Cause, CloseReason, Settlement, WorkOutcome};
use crate::dialect::Text;
use crate::handle::{CallId, RequestHandle, WorkId};
use crate::id::WireId;
use crate::text_enum::text_enum;
use crate::violation::Violation;

/// An event of a connection. It borrows from the message that caused it, if that is still at hand.
///
/// `O` is the host's own data on a call. It comes back by value exactly once, with
/// [`Settled`](Self::Settled).
///
/// ```
/// use protocol_core::{Config, Connection, Dialect, Event, Response, Timestamp};
///
/// let mut server: Connection<()> = Connection::new(Config::server(Dialect::ACP_V1));
/// let message = br#"{"jsonrpc":"2.0","id":7,"method":"add","params":[1,2]}"#;
/// match server.receive(message, Timestamp::ZERO) {
///     Some(Event::Request { request, method, .. }) if method == "add" => {
///         server.respond(request, Response::Result(serde_json::from_str("3")?))?;
///     }
///     Some(Event::Cancelled { request, .. }) => { /* stop the work */ }
///     _ => {}
/// }
/// let mut wire = Vec::new();
/// server.poll_transmit(&mut wire);
/// assert_eq!(wire, br#"{"jsonrpc":"2.0","id":7,"result":3}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub enum Event<'m, O> {
    /// The peer sent a request. The host owes it a [`respond`](crate::Connection::respond).
    Request {
        /// The handle that names the request to us from now on.
        request: RequestHandle,
        /// The id token as the peer wrote it, for logs.
        id: Cow<'m, str>,
        /// The method, with its escapes decoded.
        method: Cow<'m, str>,
        /// The params, as the peer wrote them.
        params: Option<Cow<'m, RawValue>>,
        /// ABP: the `options` beside the params, which hold the token for progress.
        options: Option<Cow<'m, RawValue>>,
    },
    /// The peer sent a notification.
    Notification {
        /// The method, with its escapes decoded.
        method: Cow<'m, str>,
        /// The params, as the peer wrote them.
        params: Option<Cow<'m, RawValue>>,
    },
    /// A request was cancelled. The host still calls [`respond`](crate::Connection::respond), which sends
    /// nothing where the dialect wants silence.
    Cancelled {
        /// The request that was cancelled.
        request: RequestHandle,
        /// The reason for the cancellation.
        cause: Cause,
        /// The peer's own words about it, in dialects that have a member for them.
        reason: Option<Cow<'m, str>>,
    },
    /// One of our calls settled. This comes exactly once for each accepted call.
    Settled {
        /// The call that settled.
        call: CallId,
        /// The end of the call.
        outcome: Outcome<'m>,
        /// The data that the host passed with the call.
        data: O,
    },
    /// Work began. This and the other events of work come if [`Config::show_work`](crate::Config::show_work) is set.
    WorkBegan {
        /// The name that this run has here.
        work: WorkId,
        /// The kind of work, in the word of its dialect.
        kind: Text,
        /// The name that stops it, as JSON.
        name: WireId,
        /// Whether our side runs it.
        runs_here: bool,
    },
    /// Work was stopped, and its end is awaited. The work that our side runs is the host's to end.
    WorkStopped {
        /// The work that was stopped.
        work: WorkId,
        /// The reason of the stop.
        cause: Cause,
    },
    /// Work goes on after its stop: the peer refused that with an error, or the host took it back before it left.
    WorkResumed {
        /// The work that was stopped before.
        work: WorkId,
    },
    /// Work ended. This comes exactly once for each that began.
    WorkEnded {
        /// The work that ended.
        work: WorkId,
        /// The kind of end.
        outcome: WorkOutcome,
        /// The reason of its stop, if it was stopped.
        cause: Option<Cause>,
    },
    /// A request has had its response, and every call made for it has settled.
    ///
    /// It comes only for requests that calls were made for (G6).
    TreeSettled {
        /// The request that has had its response.
        request: RequestHandle,
    },
    /// The peer broke a rule. [`Violation::LateResponse`] alone is nobody's fault.
    Violation {
        /// The rule that was broken.
        violation: Violation,
        /// The id of the message that broke it, if the id can be read.
        id: Option<WireId>,
    },
    /// The outbox has room again for the smallest message that was refused with
    /// [`Refusal::OutboxFull`](crate::Refusal::OutboxFull).
    ///
    /// It is the only event that may follow [`Closed`](Self::Closed), because a promised wake-up always
    /// comes.
    Ready,
    /// The connection closed, and receives nothing more. This comes exactly once.
    ///
    /// Requests may still be cancelled and settle after it, without an event.
    Closed {
        /// The reason for the end.
        reason: CloseReason,
    },
}

impl<'m, O> Event<'m, O> {
    pub(crate) fn notification(method: Cow<'m, str>, params: Option<&'m RawValue>) -> Self {
        Self::Notification { method, params: params.map(Cow::Borrowed) }
    }

    /// Returns the event with copies of everything that it borrowed.
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
            Self::WorkBegan { work, kind, name, runs_here } => {
                Event::WorkBegan { work, kind, name, runs_here }
            }
            Self::WorkStopped { work, cause } => Event::WorkStopped { work, cause },
            Self::WorkResumed { work } => Event::WorkResumed { work },
            Self::WorkEnded { work, outcome, cause } => Event::WorkEnded { work, outcome, cause },
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

/// The end of a call.
///
/// ```
/// use protocol_core::{Cause, Config, Connection, Dialect, Event, Outcome, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut client: Connection<()> = Connection::new(Config::client(Dialect::LSP_3_17));
/// let call = client.call("textDocument/hover", None, (), Default::default(), now)?;
/// client.cancel(call, Cause::Caller, now);
/// let Some(Event::Settled { outcome, .. }) = client.poll_event() else { panic!() };
/// assert!(matches!(outcome, Outcome::Cancelled { error: None, .. }), "it was never sent");
/// assert_eq!(outcome.cause(), Some(Cause::Caller));
/// # Ok::<(), protocol_core::SendError<()>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub enum Outcome<'m> {
    /// The peer responded with this result.
    Result(Cow<'m, RawValue>),
    /// The peer responded with this error.
    Error(ErrorObject<'m>),
    /// The call was cancelled.
    Cancelled {
        /// The reason for the cancellation.
        cause: Cause,
        /// The peer's error -32800, if it confirmed the cancellation.
        error: Option<ErrorObject<'m>>,
    },
    /// One of the call's timers fired.
    TimedOut {
        /// The timer: `deadline`, `idle_timeout`, `hard_cap`, or `dropped` for the grace of a detached call.
        cause: Cause,
    },
    /// The peer's response was malformed.
    Malformed,
    /// The connection ended before a response came.
    ConnectionLost {
        /// The reason for its end.
        cause: Cause,
    },
}

impl Outcome<'_> {
    /// Returns the outcome with copies of everything that it borrowed.
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

    /// Returns the kind of outcome, without its payload.
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

    /// Returns the cause, if the call was cancelled, timed out or was lost with its connection.
    pub const fn cause(&self) -> Option<Cause> {
        match *self {
            Self::Cancelled { cause, .. }
            | Self::TimedOut { cause }
            | Self::ConnectionLost { cause } => Some(cause),
            Self::Result(_) | Self::Error(_) | Self::Malformed => None,
        }
    }

    /// Returns the JSON of the peer's response: the result, or the whole error object.
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
    /// The number of the kind of error; see [`code`](crate::code).
    pub code: i64,
    /// The text for humans, with its escapes decoded.
    pub message: Cow<'m, str>,
    /// The data for programs, as the peer wrote it.
    pub data: Option<Cow<'m, RawValue>>,
}

impl ErrorObject<'_> {
    fn into_owned(self) -> ErrorObject<'static> {
        let Self { raw, code, message, data } = self;
        ErrorObject { raw: owned(raw), code, message: owned(message), data: data.map(owned) }
    }
}

/// A response of the host's to a request of the peer's.
///
/// ```
/// use protocol_core::{Response, code};
///
/// let done = Response::Result(serde_json::from_str(r#"{"sum":3}"#)?);
/// let failed = Response::Error { code: code::INVALID_PARAMS, message: "no numbers", data: None };
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Response<'a> {
    /// A result, which may be any JSON value.
    Result(&'a RawValue),
    /// An error with this code and message.
    Error {
        /// The number of the kind of error; see [`code`](crate::code).
        code: i64,
        /// One sentence for humans.
        message: &'a str,
        /// More detail for programs.
        data: Option<&'a RawValue>,
    },
    /// A whole `error` member, as another peer wrote it. A proxy forwards it unchanged.
    ErrorRaw(&'a RawValue),
    /// Error -32800 with the dialect's [`cancelled_message`](crate::Dialect::cancelled_message).
    Cancelled,
}

/// The place of one whole outgoing message in the buffer that it was appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transmit {
    /// The kind of message.
    pub kind: TransmitKind,
    /// The message's first byte in the buffer, behind any framing.
    pub start: usize,
    /// The message's length in bytes, without framing.
    pub len: usize,
}

impl Transmit {
    /// Returns the message without framing, from the buffer that it was appended to.
    ///
    /// # Panics
    ///
    /// Panics if that buffer was truncated since.
    pub fn message(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start..self.start + self.len]
    }
}

text_enum! {
    /// The kind of an outgoing message.
    pub enum TransmitKind {
        /// One of our calls.
        Request = "request",
        /// A notification from the host.
        Notification = "notification",
        /// A response, or an array of the responses to a batch.
        Response = "response",
        /// The cancel of one of our calls, or of a client's request that the server ends.
        Cancel = "cancel",
        /// The response to the peer's cancel, in dialects whose cancels are requests.
        Acknowledgement = "acknowledgement",
    }
}
