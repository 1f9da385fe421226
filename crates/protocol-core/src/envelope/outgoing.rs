//! Outgoing messages, as every envelope's writer takes them.
//!
//! A member without a value is left out of a message: some peers refuse `"params":null`.

use core::time::Duration;

use protocol_json::{Member, Value};
use serde_json::value::RawValue;

use super::message::Origin;
use crate::config::Config;
use crate::dialect::{RequestKind, code};
use crate::event::Response;
use crate::time::Timestamp;
use crate::violation::Violation;

/// One message to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutgoingMessage<'a> {
    /// A request of ours. The peer sees the limit of its time where the envelope has a place for that.
    Request {
        number: u32,
        kind: RequestKind,
        method: &'a str,
        params: Option<Value<'a>>,
        limit: Option<Duration>,
        /// The options of ABP that another peer chose, if the request is forwarded for one.
        chosen: Option<&'a RawValue>,
    },
    /// A notification of ours.
    Notification { method: &'a str, params: Option<Value<'a>> },
    /// The host's response to a request.
    Response { to: Addressee<'a>, response: Response<'a> },
    /// A response of our own to a request. Its result is an object of these members.
    Result { to: Addressee<'a>, members: &'a [Member<'a>] },
}

/// The request that a response is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressee<'a> {
    /// The token of its id.
    pub(crate) id: &'a str,
    /// The rest of what the response repeats, in an envelope where that is more than the id.
    pub(crate) origin: Option<&'a Origin>,
}

/// The state of a connection that its messages are written with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) now: Timestamp,
    /// The number that the next message takes, in an envelope that numbers every message.
    pub(crate) next: u32,
}

impl<'a> OutgoingMessage<'a> {
    /// Returns a cancel: a notification, or a request with a number of its own.
    pub(crate) fn cancel(number: Option<u32>, method: &'a str, members: &'a [Member<'a>]) -> Self {
        let params = Some(Value::Object(members));
        // No call, whatever its method, so it can't be cancelled itself.
        let kind = RequestKind::Typed;
        let Some(number) = number else { return Self::Notification { method, params } };
        Self::Request { number, kind, method, params, limit: None, chosen: None }
    }

    /// Returns an error response.
    pub(crate) const fn error(to: Addressee<'a>, code: i64, message: &'a str) -> Self {
        Self::Response { to, response: Response::Error { code, message, data: None } }
    }

    /// Returns the error response to a bad message. Its text holds none of the peer's data (B3).
    pub(crate) fn refusal(to: Addressee<'a>, violation: Violation, overload_code: i64) -> Self {
        use Violation as V;
        let invalid = |message| (code::INVALID_REQUEST, message);
        let (code, message) = match violation {
            V::Parse { .. } | V::InvalidUtf8 { .. } => {
                (code::PARSE_ERROR, "Parse error: the message is not JSON")
            }
            V::InvalidRequest { problem } => invalid(problem.as_str()),
            V::DuplicateId => invalid("Invalid request: the id is that of a request in flight"),
            V::BatchRefused | V::BatchSize => invalid("Invalid request: no such batch is accepted"),
            V::MalformedCancel => {
                (code::INVALID_PARAMS, "Invalid params: the cancel names nothing")
            }
            V::NotInitialized => (code::SERVER_NOT_INITIALIZED, "The session is not open"),
            V::TooManyRequests => (overload_code, "The request was refused: too much is in flight"),
            // No other violation refuses a request.
            _ => (overload_code, "The request was refused: shutting down"),
        };
        Self::error(to, code, message)
    }
}

impl<'a> Addressee<'a> {
    /// Returns the name that the response repeats.
    pub(super) fn name(self) -> &'a str {
        self.origin.map_or("", |origin| &origin.name)
    }
}

impl Context<'_> {
    /// Returns the Unix time in milliseconds.
    pub(crate) fn unix_time(&self) -> Value<'static> {
        millis(self.config.unix_time_at_zero.saturating_add(self.now.since(Timestamp::ZERO)))
    }
}

/// Writes a time in milliseconds, of 292 million years at most.
pub(super) fn millis(time: Duration) -> Value<'static> {
    Value::Number(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}
