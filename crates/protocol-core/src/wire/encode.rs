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

use super::abp::{self, Asked, Origin, optional};
use super::decode;
use crate::config::Config;
use crate::dialect::{Envelope, code};
use crate::event::Reply;
use crate::time::Timestamp;

use writer::Writer;

/// One message to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draft<'a> {
    /// A request of ours.
    Request {
        number: u32,
        method: &'a str,
        params: Option<Body<'a>>,
        /// The peer is told of it where the envelope has a place for that.
        timeout: Option<Duration>,
    },
    /// A notification.
    Notification { method: &'a str, params: Option<Body<'a>> },
    /// The host's answer to a request.
    Response { to: To<'a>, reply: Reply<'a> },
    /// An answer of our own to a request: its result is an object of these members.
    Result { to: To<'a>, members: &'a [Member<'a>] },
}

/// The params of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// The host's JSON.
    Raw(&'a RawValue),
    /// An object of these members.
    Members(&'a [Member<'a>]),
}

/// A member of an object: its name and its value.
pub(crate) type Member<'a> = (&'a str, Value<'a>);

/// A value that we write ourselves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// The number of a request of ours, in the form that the envelope has for ids.
    Id(u32),
    /// A JSON token that is written as it is.
    Token(&'a str),
    /// A text that becomes a JSON string.
    Text(&'a str),
}

/// What is the same for every message of a connection at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) now: Timestamp,
    /// The number that the next message takes, in an envelope where every message has one; 0 in others.
    pub(crate) next: u32,
}

/// The request that an answer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To<'a> {
    /// The token of its id.
    pub(crate) id: &'a str,
    /// Where the answer goes, in an envelope that says more than the id.
    pub(crate) origin: Option<&'a Origin>,
}

/// What stands before the result of an answer.
const RESULT: &str = r#","result":"#;

impl<'a> Draft<'a> {
    /// A cancel that says this: a notification, or a request with a number of its own.
    pub(crate) fn cancel(number: Option<u32>, method: &'a str, members: &'a [Member<'a>]) -> Self {
        let params = Some(Body::Members(members));
        match number {
            Some(number) => Self::Request { number, method, params, timeout: None },
            None => Self::Notification { method, params },
        }
    }

    /// The bytes of the message.
    pub(crate) fn len(&self, context: &Context<'_>) -> usize {
        self.write(context, 0, &mut Vec::new()).err().unwrap_or(0)
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
    pub(crate) fn stamp(&self) -> u64 {
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
                // A cancel, whose params we make, is no call of a capability, whatever its method.
                let is_cancel = matches!(params, Some(Body::Members(_)));
                if self.is_abp() && !is_cancel && Asked::by(method) == Asked::Capability {
                    return self.capability(number, method, params, timeout);
                }
                self.asking(Some(Value::Id(number)), method, params);
            }
            Draft::Notification { method, params } => {
                let id = match params {
                    Some(Body::Raw(params)) if self.is_abp() => abp::progress_id(method, params),
                    _ => None,
                };
                self.asking(id.map(Value::Token), method, params);
            }
            Draft::Response { to, reply } => self.response(to, reply),
            Draft::Result { to, members } => match to.origin {
                Some(origin) if self.is_abp() => self.abp_answer(origin, |out| out.object(members)),
                Some(_) => self.response(to, Reply::Result(RawValue::NULL)),
                None => self.answer(to.id, RESULT, |out| out.object(members)),
            },
        }
    }

    /// A request or a notification.
    #[inline]
    fn asking(&mut self, id: Option<Value<'_>>, method: &str, params: Option<Body<'_>>) {
        match self.context.config.dialect.envelope {
            Envelope::JsonRpc => {}
            Envelope::Abp => {
                return self.message([method, ""], id, |out| match params {
                    Some(params) => out.body(params),
                    None => out.text("{}"),
                });
            }
            Envelope::Dap => return self.dap_asking(id, method, params),
        }
        self.text(r#"{"jsonrpc":"2.0","#);
        if let Some(id) = id {
            self.text(r#""id":"#);
            self.value(id);
            self.text(",");
        }
        self.text(r#""method":"#);
        self.string(method);
        if let Some(params) = params {
            self.text(r#","params":"#);
            self.body(params);
        }
        self.text("}");
    }

    #[inline]
    fn body(&mut self, body: Body<'_>) {
        match body {
            Body::Raw(value) => self.raw(value),
            Body::Members(members) => self.object(members),
        }
    }

    fn object(&mut self, members: &[Member<'_>]) {
        self.text("{");
        for (at, (name, value)) in members.iter().enumerate() {
            if at > 0 {
                self.text(",");
            }
            self.string(name);
            self.text(":");
            self.value(*value);
        }
        self.text("}");
    }

    #[inline]
    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Token(token) => self.token(token),
            Value::Text(text) => self.string(text),
            Value::Id(number) if self.is_abp() => {
                self.text("\"");
                self.decimal(number.into());
                self.text("\"");
            }
            Value::Id(number) => self.decimal(number.into()),
        }
    }

    #[inline]
    fn response(&mut self, to: To<'_>, reply: Reply<'_>) {
        match to.origin {
            None => {}
            Some(origin) if self.is_abp() => return self.abp_response(to.id, origin, reply),
            Some(origin) => return self.dap_response(to.id, origin, reply),
        }
        match reply {
            Reply::Result(value) => self.answer(to.id, RESULT, |out| out.raw(value)),
            Reply::ErrorRaw(value) => self.answer(to.id, r#","error":"#, |out| out.raw(value)),
            Reply::Error { code, message, data } => self.error(to.id, code, message, data),
            Reply::Cancelled => {
                let message = &self.context.config.dialect.cancelled_message;
                self.error(to.id, code::REQUEST_CANCELLED, message, None);
            }
        }
    }

    /// The answer to the request with this id. `member` is what stands before its value.
    #[inline]
    fn answer(&mut self, id: &str, member: &str, value: impl FnOnce(&mut Self)) {
        self.text(r#"{"jsonrpc":"2.0","id":"#);
        self.token(id);
        self.text(member);
        value(self);
        self.text("}");
    }

    /// The answer to the request with this id, which holds this error.
    fn error(&mut self, id: &str, code: i64, message: &str, data: Option<&RawValue>) {
        self.answer(id, r#","error":{"code":"#, |out| {
            out.signed(code);
            out.text(r#","message":"#);
            out.string(message);
            out.data(data);
            out.text("}");
        });
    }

    /// The member `data` of an error.
    fn data(&mut self, data: Option<&RawValue>) {
        if let Some(data) = data {
            self.text(r#","data":"#);
            self.raw(data);
        }
    }

    /// A message in ABP's envelope. Its type is in two parts.
    fn message(
        &mut self,
        [kind, suffix]: [&str; 2],
        id: Option<Value<'_>>,
        payload: impl FnOnce(&mut Self),
    ) {
        self.text(r#"{"type":""#);
        self.characters(kind);
        self.text(suffix);
        self.text("\"");
        if let Some(id) = id {
            self.text(r#","id":"#);
            self.value(id);
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
        params: Option<Body<'_>>,
        timeout: Option<Duration>,
    ) {
        let id = Value::Id(number);
        self.message([abp::CALL, ""], Some(id), |out| {
            out.text(r#"{"capability":"#);
            out.string(method);
            if let Some(params) = params {
                out.text(r#","params":"#);
                out.body(params);
            }
            out.text(r#","options":{"callId":"#);
            out.value(id);
            if let Some(timeout) = timeout {
                out.text(r#","timeout":"#);
                out.decimal(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            }
            out.text(r#","progressToken":"#);
            out.value(id);
            out.text("}}");
        });
    }

    /// ABP: an answer with this payload.
    fn abp_answer(&mut self, origin: &Origin, payload: impl FnOnce(&mut Self)) {
        let id = Value::Token(origin.message_id());
        self.message([&origin.kind, abp::RESULT], Some(id), payload);
    }

    /// ABP: the answer to the request with this id.
    fn abp_response(&mut self, id: &str, origin: &Origin, reply: Reply<'_>) {
        self.abp_answer(origin, |out| match (reply, origin.asked()) {
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

    /// DAP: what every message begins with. One that has no number yet takes the next.
    fn dap(&mut self, number: Option<Value<'_>>, kind: &str) {
        self.text(r#"{"seq":"#);
        self.value(number.unwrap_or(Value::Id(self.context.next)));
        self.text(r#","type":""#);
        self.text(kind);
    }

    /// DAP: a request, which has a number, or an event.
    fn dap_asking(&mut self, id: Option<Value<'_>>, method: &str, params: Option<Body<'_>>) {
        let (kind, member) = match id {
            Some(_) => (r#"request","command":"#, r#","arguments":"#),
            None => (r#"event","event":"#, r#","body":"#),
        };
        self.dap(id, kind);
        self.string(method);
        if let Some(params) = params {
            self.text(member);
            self.body(params);
        }
        self.text("}");
    }

    /// DAP: the answer to the request with this id.
    fn dap_response(&mut self, id: &str, origin: &Origin, reply: Reply<'_>) {
        self.dap(None, r#"response","request_seq":"#);
        self.token(id);
        self.text(r#","command":"#);
        self.string(&origin.kind);
        self.text(",");
        self.outcome(reply);
        self.text("}");
    }

    /// ABP and DAP: the members that say how a request ended.
    fn outcome(&mut self, reply: Reply<'_>) {
        let is_abp = self.is_abp();
        match reply {
            Reply::Result(result) => {
                self.text(r#""success":true"#);
                if is_abp || result.get() != "null" {
                    self.text(if is_abp { r#","data":"# } else { r#","body":"# });
                    self.raw(result);
                }
            }
            Reply::Cancelled => self.failure(code::REQUEST_CANCELLED, "", None),
            Reply::Error { code, message, data } => self.failure(code, message, data),
            Reply::ErrorRaw(object) => match decode::error_object(object.get()) {
                Some(error) => self.failure(error.code, &error.message, error.data.as_deref()),
                // It comes from a peer that speaks this envelope too.
                None if is_abp => {
                    self.text(r#""success":false,"error":"#);
                    self.raw(object);
                }
                None => {
                    self.text(r#""success":false"#);
                    let (members, _) = optional(Some(object), ["message", "body"]);
                    for (name, value) in [r#","message":"#, r#","body":"#].iter().zip(members) {
                        if let Some(value) = value {
                            self.text(name);
                            self.raw(value);
                        }
                    }
                }
            },
        }
    }

    /// ABP and DAP: the members that say that a request failed.
    fn failure(&mut self, code: i64, message: &str, data: Option<&RawValue>) {
        self.text(r#""success":false,"#);
        match (code, self.is_abp()) {
            (code::REQUEST_CANCELLED, true) => return self.text(r#""cancelled":true"#),
            (code::REQUEST_CANCELLED, false) => return self.text(r#""message":"cancelled""#),
            (_, true) => {
                self.text(r#""error":{"code":"#);
                self.string(abp::error_name(code));
                self.text(r#","message":"#);
                self.string(message);
                self.text(r#","retryable":false"#);
            }
            (_, false) => {
                self.text(r#""message":"#);
                self.string(message);
                self.text(r#","body":{"error":{"id":"#);
                self.signed(code);
                self.text(r#","format":"#);
                self.string(message);
            }
        }
        self.data(data);
        self.text(if self.is_abp() { "}" } else { "}}" });
    }
}

#[cfg(test)]
mod tests;
