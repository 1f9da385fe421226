//! Messages to be sent: what each one says, how long that is, and its bytes.
//!
//! A [`Writer`] keeps bytes as long as they fit and counts all of them, so a message that is too long takes
//! no more memory than there is room for, and its length is known all the same.
//!
//! A member that has nothing to say is left out: some peers refuse `"params":null`.

mod writer;

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

use writer::Writer;
pub(crate) use writer::decimal;

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
    /// The answer that starts an operation: its token, a JSON token, under this member.
    TokenResult { to: To<'a>, member: &'a str, token: &'a str },
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

/// The bytes of most envelopes without their ids.
const ENVELOPE: usize = 64;
/// The bytes of most messages that are little more than an envelope.
const SHORT: usize = 192;

impl Draft<'_> {
    /// The bytes of the message.
    pub(crate) fn len(&self, context: &Context<'_>) -> usize {
        self.write(context, 0, &mut Vec::with_capacity(SHORT)).err().unwrap_or(0)
    }

    /// About the bytes of the message, if its envelope is JSON-RPC's. This looks at no text.
    #[inline]
    pub(crate) fn usual_len(&self) -> usize {
        let (name, value) = match self {
            Self::Request { method, params, .. } | Self::Notification { method, params } => {
                (method.len(), *params)
            }
            Self::Response { to, reply: Reply::Result(value) | Reply::ErrorRaw(value) } => {
                (to.id.len(), Some(*value))
            }
            Self::Response { to, reply: Reply::Error { message, data, .. } } => {
                (to.id.len() + message.len(), *data)
            }
            _ => return SHORT,
        };
        ENVELOPE + name + value.map_or(0, |value| value.get().len())
    }

    /// Appends the message, if it is no longer than `most`.
    ///
    /// # Errors
    ///
    /// Its length. What was appended is then only a part of it, longer than `most` by the envelope at most.
    #[inline]
    pub(crate) fn write(
        &self,
        context: &Context<'_>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), usize> {
        let start = out.len();
        let mut writer = Writer { context, out, most: start.saturating_add(most), skipped: 0 };
        writer.draft(self);
        let len = writer.skipped.saturating_add(writer.out.len() - start);
        if len <= most { Ok(()) } else { Err(len) }
    }
}

impl Context<'_> {
    /// The Unix time in milliseconds.
    fn stamp(&self) -> u64 {
        let zero = self.config.unix_time_at_zero.as_millis();
        u64::try_from(zero).unwrap_or(u64::MAX).saturating_add(self.now.as_millis())
    }
}

impl Writer<'_> {
    const fn is_abp(&self) -> bool {
        matches!(self.context.config.dialect.envelope, Envelope::Abp)
    }

    #[inline]
    fn draft(&mut self, draft: &Draft<'_>) {
        match *draft {
            Draft::Request { number, method, params, timeout } => {
                if self.is_abp() && Asked::by(method) == Asked::Capability {
                    return self.capability(number, method, params, timeout);
                }
                let params = params.map(|params| |out: &mut Self| out.raw(params));
                self.asking(Some(Id::Ours(number)), method, params);
            }
            Draft::Notification { method, params } => {
                let id = params.filter(|_| self.is_abp());
                let id = id.and_then(|params| abp::progress_id(method, params)).map(Id::Token);
                self.asking(id, method, params.map(|params| |out: &mut Self| out.raw(params)));
            }
            Draft::Response { to, reply } => self.response(to, reply),
            Draft::Cancel { number, method, names } => {
                let params = |out: &mut Self| out.names(names);
                self.asking(number.map(Id::Ours), method, Some(params));
            }
            Draft::Acknowledgement { to, what } => self.result(to, |out| out.acknowledged(what)),
            Draft::TokenResult { to, member, token } => self.result(to, |out| {
                out.text("{");
                out.string(member);
                out.text(":");
                out.token(token);
                out.text("}");
            }),
            Draft::Told { method, token, reason } => {
                let params = |out: &mut Self| {
                    out.text(r#"{"requestId":"#);
                    out.token(token);
                    out.text(r#","reason":"#);
                    out.string(reason);
                    out.text(r#","timestamp":"#);
                    out.decimal(out.context.stamp());
                    out.text("}");
                };
                self.asking(None, method, Some(params));
            }
        }
    }

    /// A request or a notification.
    #[inline]
    fn asking(&mut self, id: Option<Id<'_>>, method: &str, params: Option<impl FnOnce(&mut Self)>) {
        if self.is_abp() {
            return self.message([method, ""], id, |out| match params {
                Some(params) => params(out),
                None => out.text("{}"),
            });
        }
        self.text(r#"{"jsonrpc":"2.0","#);
        if let Some(id) = id {
            self.text(r#""id":"#);
            self.id(id);
            self.text(",");
        }
        self.text(r#""method":"#);
        self.string(method);
        if let Some(params) = params {
            self.text(r#","params":"#);
            params(self);
        }
        self.text("}");
    }

    /// An answer that holds a result.
    #[inline]
    fn result(&mut self, to: To<'_>, result: impl FnOnce(&mut Self)) {
        if let Some(origin) = to.origin {
            return self.answer(origin, result);
        }
        self.text(r#"{"jsonrpc":"2.0","id":"#);
        self.token(to.id);
        self.text(r#","result":"#);
        result(self);
        self.text("}");
    }

    #[inline]
    fn response(&mut self, to: To<'_>, reply: Reply<'_>) {
        let (code, message, data) = match (reply, to.origin) {
            (_, Some(origin)) => return self.abp_response(to.id, origin, reply),
            (Reply::Result(result), None) => return self.result(to, |out| out.raw(result)),
            (Reply::Error { code, message, data }, None) => (code, message, data),
            (Reply::Cancelled, None) => {
                (code::REQUEST_CANCELLED, &*self.context.config.dialect.cancelled_message, None)
            }
            (Reply::ErrorRaw(object), None) => {
                self.text(r#"{"jsonrpc":"2.0","id":"#);
                self.token(to.id);
                self.text(r#","error":"#);
                self.raw(object);
                return self.text("}");
            }
        };
        self.text(r#"{"jsonrpc":"2.0","id":"#);
        self.token(to.id);
        self.text(r#","error":{"code":"#);
        if code < 0 {
            self.text("-");
        }
        self.decimal(code.unsigned_abs());
        self.text(r#","message":"#);
        self.string(message);
        self.data(data);
        self.text("}}");
    }

    /// The member `data` of an error.
    fn data(&mut self, data: Option<&RawValue>) {
        if let Some(data) = data {
            self.text(r#","data":"#);
            self.raw(data);
        }
    }

    /// The params of a cancel.
    fn names(&mut self, names: Names<'_>) {
        self.text("{");
        self.string(names.member);
        self.text(":");
        self.id(names.id);
        if let Some((member, reason)) = names.reason {
            self.text(",");
            self.string(member);
            self.text(":");
            self.string(reason);
        }
        self.text("}");
    }

    #[inline]
    fn id(&mut self, id: Id<'_>) {
        let quote = if self.is_abp() { "\"" } else { "" };
        match id {
            Id::Token(token) => self.token(token),
            Id::Ours(number) => {
                self.text(quote);
                self.decimal(number.into());
                self.text(quote);
            }
        }
    }

    /// A message in ABP's envelope. Its type is in two parts.
    fn message(
        &mut self,
        [kind, suffix]: [&str; 2],
        id: Option<Id<'_>>,
        payload: impl FnOnce(&mut Self),
    ) {
        self.text(r#"{"type":""#);
        self.characters(kind);
        self.text(suffix);
        self.text("\"");
        if let Some(id) = id {
            self.text(r#","id":"#);
            self.id(id);
        }
        self.text(r#","timestamp":"#);
        self.decimal(self.context.stamp());
        self.text(r#","payload":"#);
        payload(self);
        self.text("}");
    }

    /// ABP: the call of a capability.
    fn capability(
        &mut self,
        number: u32,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
    ) {
        let id = Id::Ours(number);
        self.message([abp::CALL, ""], Some(id), |out| {
            out.text(r#"{"capability":"#);
            out.string(method);
            if let Some(params) = params {
                out.text(r#","params":"#);
                out.raw(params);
            }
            out.text(r#","options":{"callId":"#);
            out.id(id);
            if let Some(timeout) = timeout {
                out.text(r#","timeout":"#);
                out.decimal(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            }
            out.text(r#","progressToken":"#);
            out.id(id);
            out.text("}}");
        });
    }

    /// ABP: an answer with this payload.
    fn answer(&mut self, origin: &Origin, payload: impl FnOnce(&mut Self)) {
        let id = Id::Token(origin.message_id());
        self.message([origin.kind(), abp::RESULT], Some(id), payload);
    }

    /// ABP: the answer to the request with this id.
    fn abp_response(&mut self, id: &str, origin: &Origin, reply: Reply<'_>) {
        self.answer(origin, |out| match (reply, origin.asked()) {
            (Reply::Result(result), Asked::Other) => out.raw(result),
            (reply, asked) => {
                out.text("{");
                if asked == Asked::Capability {
                    out.text(r#""callId":"#);
                    out.token(id);
                    out.text(",");
                }
                out.outcome(reply);
                out.text("}");
            }
        });
    }

    /// ABP: the members of a payload that say how a request ended.
    fn outcome(&mut self, reply: Reply<'_>) {
        let parsed = match reply {
            Reply::ErrorRaw(object) => decode::error_object(object.get()),
            _ => None,
        };
        let (code, message, data) = match (reply, &parsed) {
            (Reply::Result(data), _) => {
                self.text(r#""success":true,"data":"#);
                return self.raw(data);
            }
            (Reply::Cancelled, _) => (code::REQUEST_CANCELLED, "", None),
            (Reply::Error { code, message, data }, _) => (code, message, data),
            (Reply::ErrorRaw(_), Some(error)) => {
                (error.code, &*error.message, error.data.as_deref())
            }
            // It comes from a peer that speaks this envelope too.
            (Reply::ErrorRaw(object), None) => {
                self.text(r#""success":false,"error":"#);
                return self.raw(object);
            }
        };
        if code == code::REQUEST_CANCELLED {
            return self.text(r#""success":false,"cancelled":true"#);
        }
        self.text(r#""success":false,"error":{"code":"#);
        self.string(abp::error_name(code));
        self.text(r#","message":"#);
        self.string(message);
        self.text(r#","retryable":false"#);
        self.data(data);
        self.text("}");
    }

    fn acknowledged(&mut self, what: Acknowledged<'_>) {
        let Acknowledged::Request { member, target, met } = what else {
            return self.text(r#"{"status":"cancelled"}"#);
        };
        self.text("{");
        self.string(member);
        self.text(":");
        self.token(target);
        self.text(match met {
            RequestStep::MarkCancelled | RequestStep::CancelledBefore => r#","cancelled":true}"#,
            RequestStep::Completed => {
                r#","cancelled":false,"reason":"Operation already completed"}"#
            }
            RequestStep::NotFound => r#","cancelled":false,"reason":"Operation not found"}"#,
            _ => r#","cancelled":false,"reason":"Operation can't be cancelled"}"#,
        });
    }
}

#[cfg(test)]
mod tests;
