//! Messages to be sent: what each one says, how long that is, and its bytes.
//!
//! A [`Writer`] keeps bytes as long as they fit and counts all of them, so a message that is too long takes
//! no more memory than there is room for, and its length is known all the same.
//!
//! A member that has nothing to say is left out: some peers refuse `"params":null`.

mod writer;

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use serde_json::value::RawValue;

use super::abp::{self, Asked, Origin, optional};
use super::decode;
use crate::config::Config;
use crate::dialect::{CancelRule, Envelope, code};
use crate::event::Response;
use crate::time::Timestamp;

use writer::Writer;

/// One message to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draft<'a> {
    /// A request of ours.
    Request {
        number: u32,
        method: &'a str,
        params: Option<Value<'a>>,
        /// The peer is told of it where the envelope has a place for that.
        timeout: Option<Duration>,
    },
    /// A notification.
    Notification { method: &'a str, params: Option<Value<'a>> },
    /// The host's answer to a request.
    Response { to: To<'a>, reply: Response<'a> },
    /// An answer of our own to a request: its result is an object of these members.
    Result { to: To<'a>, members: &'a [Member<'a>] },
}

/// A value in a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// JSON of the host's or a peer's.
    Raw(&'a RawValue),
    /// The number of a request of ours, in the form that the envelope has for ids.
    Id(u32),
    /// A JSON token that is written as it is.
    Token(&'a str),
    /// A text that becomes a JSON string.
    Text(&'a str),
    /// A number.
    Number(i64),
    /// An object of these members.
    Object(&'a [Member<'a>]),
}

/// A member of an object: its name and its value, without which it is left out.
pub(crate) type Member<'a> = (&'a str, Option<Value<'a>>);

/// What is the same for every message of a connection at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) now: Timestamp,
    /// The number that the next message takes, in an envelope where every message has one; 0 in others.
    pub(crate) next: u32,
}

impl CancelRule {
    /// What a cancel says: its method, and its params, which name this and say why, where the
    /// dialect has a place for that.
    #[inline]
    pub(crate) fn says<'a>(
        &'a self,
        named: Value<'a>,
        why: Option<&'a str>,
    ) -> Option<(&'a str, [Member<'a>; 2])> {
        let (method, member, place) = self.members()?;
        let why = place.and(why).map(Value::Text);
        Some((method, [(member, Some(named)), (place.unwrap_or_default(), why)]))
    }
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

const TRUE: Value<'_> = Value::Token("true");
const FALSE: Value<'_> = Value::Token("false");

impl<'a> Draft<'a> {
    /// A cancel that says this: a notification, or a request with a number of its own.
    pub(crate) fn cancel(number: Option<u32>, method: &'a str, members: &'a [Member<'a>]) -> Self {
        let params = Some(Value::Object(members));
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
    pub(crate) fn stamp(&self) -> Value<'static> {
        millis(self.config.unix_time_at_zero.saturating_add(self.now.since(Timestamp::ZERO)))
    }
}

/// A time as it is written; 292 million years if it is longer.
fn millis(time: Duration) -> Value<'static> {
    Value::Number(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
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
                let is_cancel = matches!(params, Some(Value::Object(_)));
                if self.is_abp() && !is_cancel && Asked::by(method) == Asked::Capability {
                    return self.capability(number, method, params, timeout);
                }
                self.asking(Some(Value::Id(number)), method, params);
            }
            Draft::Notification { method, params } => {
                let id = match params {
                    Some(Value::Raw(params)) if self.is_abp() => abp::progress_id(method, params),
                    _ => None,
                };
                self.asking(id.map(Value::Token), method, params);
            }
            Draft::Response { to, reply } => self.response(to, reply),
            Draft::Result { to, members } => match to.origin {
                Some(origin) if self.is_abp() => self.abp_answer(origin, Value::Object(members)),
                Some(_) => self.response(to, Response::Result(RawValue::NULL)),
                None => self.answer(to.id, RESULT, |out| out.object(members)),
            },
        }
    }

    /// A request or a notification.
    #[inline]
    fn asking(&mut self, id: Option<Value<'_>>, method: &str, params: Option<Value<'_>>) {
        match self.context.config.dialect.envelope {
            Envelope::JsonRpc => {}
            Envelope::Abp => return self.abp(method, id, params.unwrap_or(Value::Object(&[]))),
            Envelope::Dap => return self.dap_asking(id, method, params),
        }
        // Piece by piece and not as an object: these are most messages.
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
            self.value(params);
        }
        self.text("}");
    }

    #[inline]
    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Raw(value) => self.raw(value),
            Value::Token(token) => self.token(token),
            Value::Text(text) => self.string(text),
            Value::Id(number) if self.is_abp() => {
                self.text("\"");
                self.number(number.into());
                self.text("\"");
            }
            Value::Id(number) => self.number(number.into()),
            Value::Number(number) => self.number(number),
            Value::Object(members) => self.object(members),
        }
    }

    fn object(&mut self, members: &[Member<'_>]) {
        let mut before = b'{';
        for &(name, value) in members {
            if let Some(value) = value {
                self.out.push(mem::replace(&mut before, b','));
                self.string(name);
                self.text(":");
                self.value(value);
            }
        }
        self.text(if before == b'{' { "{}" } else { "}" });
    }

    fn response(&mut self, to: To<'_>, reply: Response<'_>) {
        match (to.origin, reply) {
            (Some(origin), _) => self.response_beyond(to.id, origin, reply),
            (None, Response::Result(value)) => self.answer(to.id, RESULT, |out| out.raw(value)),
            (None, Response::ErrorRaw(value)) => {
                self.answer(to.id, r#","error":"#, |out| out.raw(value));
            }
            (None, Response::Error { code, message, data }) => {
                self.error(to.id, code, message, data)
            }
            (None, Response::Cancelled) => {
                let message = &self.context.config.dialect.cancelled_message;
                self.error(to.id, code::REQUEST_CANCELLED, message, None);
            }
        }
    }

    /// The answer to the request with this id. `member` is what stands before its value.
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
            out.number(code);
            out.text(r#","message":"#);
            out.string(message);
            if let Some(data) = data {
                out.text(r#","data":"#);
                out.raw(data);
            }
            out.text("}");
        });
    }

    /// The answer to the request with this id, in an envelope that says more than the id.
    fn response_beyond(&mut self, id: &str, origin: &Origin, reply: Response<'_>) {
        // What a peer of another envelope said is said in this one.
        let other = match reply {
            Response::ErrorRaw(object) => decode::error_object(object),
            _ => None,
        };
        let reply = other.as_ref().map_or(reply, |error| Response::Error {
            code: error.code,
            message: &error.message,
            data: error.data.as_deref(),
        });
        if self.is_abp() {
            self.abp_response(id, origin, reply);
        } else {
            self.dap_response(id, origin, reply);
        }
    }

    /// A message in ABP's envelope.
    fn abp(&mut self, kind: &str, id: Option<Value<'_>>, payload: Value<'_>) {
        let (kind, stamp) = (Some(Value::Text(kind)), Some(self.context.stamp()));
        let payload = Some(payload);
        self.object(&[("type", kind), ("id", id), ("timestamp", stamp), ("payload", payload)]);
    }

    /// ABP: the call of a capability.
    fn capability(
        &mut self,
        number: u32,
        method: &str,
        params: Option<Value<'_>>,
        timeout: Option<Duration>,
    ) {
        let (id, timeout) = (Some(Value::Id(number)), timeout.map(millis));
        let options = [("callId", id), ("timeout", timeout), ("progressToken", id)];
        let (method, options) = (Some(Value::Text(method)), Some(Value::Object(&options)));
        let payload = [("capability", method), ("params", params), ("options", options)];
        self.abp(abp::CALL, id, Value::Object(&payload));
    }

    /// ABP: an answer with this payload.
    fn abp_answer(&mut self, origin: &Origin, payload: Value<'_>) {
        self.abp(&origin.kind, Some(Value::Token(origin.message_id())), payload);
    }

    /// ABP: the answer to the request with this id.
    fn abp_response(&mut self, id: &str, origin: &Origin, reply: Response<'_>) {
        let error;
        let (success, said) = match reply {
            Response::Result(result) if origin.asked() == Asked::Other => {
                return self.abp_answer(origin, Value::Raw(result));
            }
            Response::Result(result) => (TRUE, ("data", Some(Value::Raw(result)))),
            Response::Cancelled | Response::Error { code: code::REQUEST_CANCELLED, .. } => {
                (FALSE, ("cancelled", Some(TRUE)))
            }
            Response::Error { code, message, data } => {
                error = [
                    ("code", Some(Value::Text(abp::error_name(code)))),
                    ("message", Some(Value::Text(message))),
                    ("retryable", Some(FALSE)),
                    ("data", data.map(Value::Raw)),
                ];
                (FALSE, ("error", Some(Value::Object(&error))))
            }
            // It comes from a peer that speaks this envelope too.
            Response::ErrorRaw(object) => (FALSE, ("error", Some(Value::Raw(object)))),
        };
        let call = Some(Value::Token(id)).filter(|_| origin.asked() == Asked::Capability);
        let payload = [("callId", call), ("success", Some(success)), said];
        self.abp_answer(origin, Value::Object(&payload));
    }

    /// DAP: the number of a message, which is the next if it has none yet.
    fn seq<'v>(&self, number: Option<Value<'v>>) -> Member<'v> {
        ("seq", Some(number.unwrap_or(Value::Id(self.context.next))))
    }

    /// DAP: a request, which has a number, or an event.
    fn dap_asking(&mut self, id: Option<Value<'_>>, method: &str, params: Option<Value<'_>>) {
        let [kind, name, body] = match id {
            Some(_) => ["request", "command", "arguments"],
            None => ["event", "event", "body"],
        };
        let (kind, method) = (Some(Value::Text(kind)), Some(Value::Text(method)));
        self.object(&[self.seq(id), ("type", kind), (name, method), (body, params)]);
    }

    /// DAP: the answer to the request with this id.
    fn dap_response(&mut self, id: &str, origin: &Origin, reply: Response<'_>) {
        let (error, wrapped);
        let (success, message, body) = match reply {
            Response::Result(result) => {
                (TRUE, None, Some(Value::Raw(result)).filter(|_| result.get() != "null"))
            }
            Response::Cancelled | Response::Error { code: code::REQUEST_CANCELLED, .. } => {
                (FALSE, Some(Value::Text("cancelled")), None)
            }
            Response::Error { code, message, data } => {
                let (code, message) = (Some(Value::Number(code)), Some(Value::Text(message)));
                error = [("id", code), ("format", message), ("data", data.map(Value::Raw))];
                wrapped = [("error", Some(Value::Object(&error)))];
                (FALSE, message, Some(Value::Object(&wrapped)))
            }
            // It comes from a peer that speaks this envelope too.
            Response::ErrorRaw(object) => {
                let ([message, body], _) = optional(Some(object), ["message", "body"]);
                (FALSE, message.map(Value::Raw), body.map(Value::Raw))
            }
        };
        self.object(&[
            self.seq(None),
            ("type", Some(Value::Text("response"))),
            ("request_seq", Some(Value::Token(id))),
            ("command", Some(Value::Text(&origin.kind))),
            ("success", Some(success)),
            ("message", message),
            ("body", body),
        ]);
    }
}

#[cfg(test)]
mod tests;
