//! Messages to be sent: what each one says, how long that is, and its bytes.
//!
//! A message is described once, to a [`Sink`]. One sink keeps bytes, one counts them, and one adds up how
//! many there may be, so the length that is checked before anything is written is always the length that
//! is written, or more than that.
//!
//! A member that has nothing to say is left out: some peers refuse `"params":null`.

mod sink;

use alloc::vec::Vec;
use core::time::Duration;

use serde_json::value::RawValue;

use super::abp::{self, Asked, Origin};
use super::decode;
use crate::config::Config;
use crate::dialect::{Envelope, code};
use crate::event::Reply;
use crate::machine::RequestStep;
use crate::time::Timestamp;
use crate::token::OperationToken;

pub(crate) use sink::{Bounds, decimal};
use sink::{Length, Sink};

/// One message to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draft<'a> {
    /// A call of ours.
    Request {
        number: u32,
        method: &'a str,
        params: Option<&'a RawValue>,
        /// The peer is told of it where the envelope has a place for that.
        timeout: Option<Duration>,
    },
    /// A notification.
    Notification { method: &'a str, params: Option<&'a RawValue> },
    /// The answer to a request.
    Response { to: To<'a>, reply: Reply<'a> },
    /// A cancel: a notification, or a request with a number of its own.
    Cancel { number: Option<u32>, method: &'a str, names: Names<'a> },
    /// The answer to a cancel of the peer's that is a request.
    Acknowledgement { to: To<'a>, what: Acknowledged<'a> },
    /// The answer that starts an operation: its token, under this member.
    TokenResult { to: To<'a>, member: &'a str, token: OperationToken },
    /// The notification that an operation was cancelled. Its token is a JSON token.
    Told { method: &'a str, token: &'a str, reason: &'a str },
}

/// What is the same for every message of a connection at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) now: Timestamp,
}

/// The request that an answer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To<'a> {
    /// The token of its id.
    pub(crate) id: &'a str,
    /// Where the answer goes in ABP's envelope, which says more than the id.
    pub(crate) origin: Option<&'a Origin>,
}

/// The params of a cancel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// The member that holds what is cancelled.
    pub(crate) member: &'a str,
    /// What is cancelled.
    pub(crate) id: Id<'a>,
    /// Why, and the member that holds it.
    pub(crate) reason: Option<(&'a str, &'a str)>,
}

/// An id as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Id<'a> {
    /// The number of a request of ours, in the form that the envelope has for ids.
    Ours(u32),
    /// A JSON token that is written as it is.
    Token(&'a str),
}

/// What a cancel of the peer's is answered with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acknowledged<'a> {
    /// What the cancel met: the request whose id is `target`, a JSON token.
    Request { member: &'a str, target: &'a str, met: RequestStep },
    /// That an operation is cancelled.
    Operation,
}

impl Draft<'_> {
    /// The bytes that [`write`](Self::write) will append.
    pub(crate) fn len(&self, context: &Context<'_>) -> usize {
        let mut length = Length(0);
        self.describe(context, &mut length);
        length.0
    }

    /// What the length is mostly, and at the most. This looks at no text, so it is quicker than
    /// [`len`](Self::len).
    pub(crate) fn bounds(&self, context: &Context<'_>) -> Bounds {
        let mut bounds = Bounds { usual: 0, most: 0 };
        self.describe(context, &mut bounds);
        bounds
    }

    /// Appends the message.
    pub(crate) fn write(&self, context: &Context<'_>, out: &mut Vec<u8>) {
        self.describe(context, out);
    }

    #[inline]
    fn describe<S: Sink>(&self, context: &Context<'_>, out: &mut S) {
        match *self {
            Self::Request { number, method, params, timeout } => match context.envelope() {
                Envelope::Abp if Asked::by(method) == Asked::Capability => {
                    context.capability(out, number, method, params, timeout);
                }
                _ => {
                    let params = params.map(|params| |out: &mut S| out.raw(params));
                    context.asking(out, Some(Id::Ours(number)), method, params);
                }
            },
            Self::Notification { method, params } => {
                let id = match context.envelope() {
                    Envelope::JsonRpc => None,
                    Envelope::Abp => abp::progress_id(method, params).map(Id::Token),
                };
                let params = params.map(|params| |out: &mut S| out.raw(params));
                context.asking(out, id, method, params);
            }
            Self::Response { to, reply } => context.response(out, to, reply),
            Self::Cancel { number, method, names } => {
                let params = Some(|out: &mut S| context.names(out, names));
                context.asking(out, number.map(Id::Ours), method, params);
            }
            Self::Acknowledgement { to, what } => {
                context.result(out, to, |out| acknowledged(out, what));
            }
            Self::TokenResult { to, member, token } => context.result(out, to, |out| {
                out.text(b"{");
                out.string(member);
                out.text(b":");
                out.token(token);
                out.text(b"}");
            }),
            Self::Told { method, token, reason } => {
                let params = |out: &mut S| {
                    out.text(br#"{"requestId":"#);
                    out.text(token.as_bytes());
                    out.text(br#","reason":"#);
                    out.string(reason);
                    out.text(br#","timestamp":"#);
                    out.decimal(context.stamp());
                    out.text(b"}");
                };
                context.asking(out, None, method, Some(params));
            }
        }
    }
}

impl Context<'_> {
    const fn envelope(&self) -> Envelope {
        self.config.dialect.envelope
    }

    /// The Unix time in milliseconds.
    fn stamp(&self) -> u64 {
        let zero = self.config.unix_time_at_zero.as_millis();
        u64::try_from(zero).unwrap_or(u64::MAX).saturating_add(self.now.as_millis())
    }

    /// A request or a notification.
    #[inline]
    fn asking<S: Sink>(
        &self,
        out: &mut S,
        id: Option<Id<'_>>,
        method: &str,
        params: Option<impl FnOnce(&mut S)>,
    ) {
        if self.envelope() == Envelope::Abp {
            return self.message(out, [method, ""], id, |out| match params {
                Some(params) => params(out),
                None => out.text(b"{}"),
            });
        }
        out.text(br#"{"jsonrpc":"2.0","#);
        if let Some(id) = id {
            out.text(br#""id":"#);
            self.id(out, id);
            out.text(b",");
        }
        out.text(br#""method":"#);
        out.string(method);
        if let Some(params) = params {
            out.text(br#","params":"#);
            params(out);
        }
        out.text(b"}");
    }

    /// An answer that holds a result.
    fn result<S: Sink>(&self, out: &mut S, to: To<'_>, result: impl FnOnce(&mut S)) {
        if let Some(origin) = to.origin {
            return self.answer(out, origin, result);
        }
        out.text(br#"{"jsonrpc":"2.0","id":"#);
        out.text(to.id.as_bytes());
        out.text(br#","result":"#);
        result(out);
        out.text(b"}");
    }

    #[inline]
    fn response<S: Sink>(&self, out: &mut S, to: To<'_>, reply: Reply<'_>) {
        let (code, message, data) = match (reply, to.origin) {
            (_, Some(origin)) => return self.abp_response(out, to.id, origin, reply),
            (Reply::Result(result), None) => {
                return self.result(out, to, |out| out.raw(result));
            }
            (Reply::Error { code, message, data }, None) => (code, message, data),
            (Reply::Cancelled, None) => {
                (code::REQUEST_CANCELLED, &*self.config.dialect.cancelled_message, None)
            }
            (Reply::ErrorRaw(object), None) => {
                out.text(br#"{"jsonrpc":"2.0","id":"#);
                out.text(to.id.as_bytes());
                out.text(br#","error":"#);
                out.raw(object);
                return out.text(b"}");
            }
        };
        out.text(br#"{"jsonrpc":"2.0","id":"#);
        out.text(to.id.as_bytes());
        out.text(br#","error":{"code":"#);
        if code < 0 {
            out.text(b"-");
        }
        out.decimal(code.unsigned_abs());
        out.text(br#","message":"#);
        out.string(message);
        out.data(data);
        out.text(b"}}");
    }

    /// The params of a cancel.
    fn names<S: Sink>(&self, out: &mut S, names: Names<'_>) {
        out.text(b"{");
        out.string(names.member);
        out.text(b":");
        self.id(out, names.id);
        if let Some((member, reason)) = names.reason {
            out.text(b",");
            out.string(member);
            out.text(b":");
            out.string(reason);
        }
        out.text(b"}");
    }

    #[inline]
    fn id<S: Sink>(&self, out: &mut S, id: Id<'_>) {
        match (id, self.envelope()) {
            (Id::Token(token), _) => out.text(token.as_bytes()),
            (Id::Ours(number), Envelope::JsonRpc) => out.decimal(number.into()),
            (Id::Ours(number), Envelope::Abp) => {
                out.text(b"\"");
                out.decimal(number.into());
                out.text(b"\"");
            }
        }
    }

    /// A message in ABP's envelope. Its type is in two parts.
    fn message<S: Sink>(
        &self,
        out: &mut S,
        [kind, suffix]: [&str; 2],
        id: Option<Id<'_>>,
        payload: impl FnOnce(&mut S),
    ) {
        out.text(br#"{"type":""#);
        out.characters(kind);
        out.text(suffix.as_bytes());
        out.text(b"\"");
        if let Some(id) = id {
            out.text(br#","id":"#);
            self.id(out, id);
        }
        out.text(br#","timestamp":"#);
        out.decimal(self.stamp());
        out.text(br#","payload":"#);
        payload(out);
        out.text(b"}");
    }

    /// ABP: the call of a capability.
    #[cold]
    fn capability<S: Sink>(
        &self,
        out: &mut S,
        number: u32,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
    ) {
        let id = Id::Ours(number);
        self.message(out, [abp::CALL, ""], Some(id), |out| {
            out.text(br#"{"capability":"#);
            out.string(method);
            if let Some(params) = params {
                out.text(br#","params":"#);
                out.raw(params);
            }
            out.text(br#","options":{"callId":"#);
            self.id(out, id);
            if let Some(timeout) = timeout {
                out.text(br#","timeout":"#);
                out.decimal(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            }
            out.text(br#","progressToken":"#);
            self.id(out, id);
            out.text(b"}}");
        });
    }

    /// ABP: an answer with this payload.
    fn answer<S: Sink>(&self, out: &mut S, origin: &Origin, payload: impl FnOnce(&mut S)) {
        let id = Id::Token(origin.message_id());
        self.message(out, [origin.kind(), abp::RESULT], Some(id), payload);
    }

    /// ABP: the answer to the request with this id.
    #[cold]
    fn abp_response<S: Sink>(&self, out: &mut S, id: &str, origin: &Origin, reply: Reply<'_>) {
        self.answer(out, origin, |out| match (reply, origin.asked()) {
            (Reply::Result(result), Asked::Other) => out.raw(result),
            (reply, asked) => {
                out.text(b"{");
                if asked == Asked::Capability {
                    out.text(br#""callId":"#);
                    out.text(id.as_bytes());
                    out.text(b",");
                }
                outcome(out, reply);
                out.text(b"}");
            }
        });
    }
}

/// ABP: the members of a payload that say how a request ended.
fn outcome<S: Sink>(out: &mut S, reply: Reply<'_>) {
    let parsed = match reply {
        Reply::ErrorRaw(object) => decode::error_object(object.get()),
        _ => None,
    };
    let (code, message, data) = match (reply, &parsed) {
        (Reply::Result(data), _) => {
            out.text(br#""success":true,"data":"#);
            return out.raw(data);
        }
        (Reply::Cancelled, _) => (code::REQUEST_CANCELLED, "", None),
        (Reply::Error { code, message, data }, _) => (code, message, data),
        (Reply::ErrorRaw(_), Some(error)) => (error.code, &*error.message, error.data.as_deref()),
        // It comes from a peer that speaks this envelope too.
        (Reply::ErrorRaw(object), None) => {
            out.text(br#""success":false,"error":"#);
            return out.raw(object);
        }
    };
    if code == code::REQUEST_CANCELLED {
        return out.text(br#""success":false,"cancelled":true"#);
    }
    out.text(br#""success":false,"error":{"code":"#);
    out.string(abp::error_name(code));
    out.text(br#","message":"#);
    out.string(message);
    out.text(br#","retryable":false"#);
    out.data(data);
    out.text(b"}");
}

fn acknowledged<S: Sink>(out: &mut S, what: Acknowledged<'_>) {
    let Acknowledged::Request { member, target, met } = what else {
        return out.text(br#"{"status":"cancelled"}"#);
    };
    out.text(b"{");
    out.string(member);
    out.text(b":");
    out.text(target.as_bytes());
    out.text(match met {
        RequestStep::MarkCancelled | RequestStep::CancelledBefore => br#","cancelled":true}"#,
        RequestStep::Completed => br#","cancelled":false,"reason":"Operation already completed"}"#,
        RequestStep::NotFound => br#","cancelled":false,"reason":"Operation not found"}"#,
        _ => br#","cancelled":false,"reason":"Operation can't be cancelled"}"#,
    });
}

#[cfg(test)]
mod tests;
