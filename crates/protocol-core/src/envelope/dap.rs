//! The Debug Adapter Protocol: `{seq, type: request | response | event, …}`.
//!
//! A command is a method, an event is a notification. A response names the `seq` of its request, and
//! repeats its command.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use protocol_json::{Members, Value, Writer, text};
use serde_json::value::RawValue;

use super::jsonrpc::translated;
use super::message::{Message, Origin, Request, ResponseBody, repeated, structured};
use super::outgoing::{Addressee, Context, OutgoingMessage};
use crate::dialect::{RequestKind, code};
use crate::event::{ErrorObject, Response};
use crate::limits::Limits;
use crate::violation::EnvelopeProblem as Problem;

/// The members that every message has, and then those of requests, events and responses.
const NAMES: [&str; 8] =
    ["seq", "type", "command", "arguments", "event", "body", "request_seq", "success"];

// Reading

/// Reads a text that is one object. Returns `None` if it is none.
pub(super) fn read<'m>(envelope: &'m str, limits: &Limits) -> Option<Message<'m>> {
    let members = Members::of(envelope, &NAMES)?;
    let too_deep = (members.depth > limits.depth).then_some(Problem::TooDeep);
    let problem = repeated(&members).or(too_deep);
    let [seq, kind, command, arguments, event, body, request, success] = members.values();
    Some(match kind.and_then(text).as_deref() {
        Some("request") => read_request([seq, command, arguments], problem, limits.id_bytes),
        Some("event") => {
            let (params, method) = (structured(body, true), event.and_then(text));
            let no_method = method.is_none().then_some(Problem::Method);
            let problem = problem.or(params.err()).or(no_method);
            Message::notification(method.unwrap_or_default(), params.unwrap_or_default(), problem)
        }
        Some("response") => {
            let body = match (problem, success.map(RawValue::get)) {
                (Some(problem), _) => ResponseBody::Malformed(problem),
                (None, Some("true")) => ResponseBody::Result(body.unwrap_or(RawValue::NULL)),
                // The whole message is its error, and is read again for that.
                (None, Some("false")) => {
                    ResponseBody::Error(read_error(protocol_json::value(envelope)?))
                }
                (None, _) => ResponseBody::Malformed(Problem::Empty),
            };
            Message::Response { id: request.map(RawValue::get), kind: None, body }
        }
        _ => Message::InvalidNotification { problem: Problem::Type },
    })
}

/// Reads a request. The response repeats its number and its command, so it can't do without them.
fn read_request<'m>(
    [seq, command, arguments]: [Option<&'m RawValue>; 3],
    problem: Option<Problem>,
    longest: usize,
) -> Message<'m> {
    let id = seq.map(RawValue::get);
    let number = id.filter(|seq| seq.parse::<i32>().is_ok());
    let command = command.and_then(text).filter(|command| command.len() <= longest);
    let (Some(id), Some(method)) = (number, command) else {
        let problem = number.map_or(Problem::Id, |_| Problem::Method);
        return Message::Invalid { id, origin: None, problem };
    };
    let origin = Some(Box::new(Origin { name: method.as_ref().into(), message_id: None }));
    let params = structured(arguments, true);
    let (params, problem) = (params.unwrap_or_default(), problem.or(params.err()));
    let kind = RequestKind::Ordinary;
    Message::request(Request { id, kind, method, params, options: None, origin }, problem)
}

/// Reads the error of a response, which is all of it.
fn read_error(raw: &RawValue) -> ErrorObject<'_> {
    let [message, body] = Members::within(Some(raw), &["message", "body"]).values();
    let [error] = Members::within(body, &["error"]).values();
    let [id, format, data] = Members::within(error, &["id", "format", "data"]).values();
    let message = message.and_then(text).filter(|text| !text.is_empty());
    let code = match id.and_then(|id| id.get().parse().ok()) {
        _ if message.as_deref() == Some("cancelled") => code::REQUEST_CANCELLED,
        code => code.unwrap_or(code::REQUEST_FAILED),
    };
    // Some adapters describe the error in the body alone.
    let message = message.or_else(|| format.and_then(text)).unwrap_or_default();
    ErrorObject { raw: Cow::Borrowed(raw), code, message, data: data.map(Cow::Borrowed) }
}

// Writing

pub(super) fn write(message: &OutgoingMessage<'_>, context: &Context<'_>, out: &mut Writer<'_>) {
    let next = context.next;
    match *message {
        OutgoingMessage::Request { number, method, params, .. } => {
            emit(number, ["request", "command", "arguments"], method, params, out);
        }
        OutgoingMessage::Notification { method, params } => {
            emit(next, ["event", "event", "body"], method, params, out);
        }
        // No result of our own has a place in the protocol: success is all that it reports.
        OutgoingMessage::Result { to, .. } => {
            respond(next, to, Response::Result(RawValue::NULL), out);
        }
        OutgoingMessage::Response { to, response } => respond(next, to, response, out),
    }
}

/// Writes a request or an event.
fn emit(seq: u32, names: [&str; 3], method: &str, params: Option<Value<'_>>, out: &mut Writer<'_>) {
    let [kind, name, body] = names;
    let (seq, kind) = (Some(Value::Number(seq.into())), Some(Value::Text(kind)));
    out.object(&[("seq", seq), ("type", kind), (name, Some(Value::Text(method))), (body, params)]);
}

fn respond(seq: u32, to: Addressee<'_>, response: Response<'_>, out: &mut Writer<'_>) {
    let (error, wrapped);
    let mut object = None;
    let (success, message, body) = match translated(response, &mut object) {
        Response::Result(result) => {
            (true, None, Some(Value::Raw(result)).filter(|_| result.get() != "null"))
        }
        Response::Cancelled => (false, Some(Value::Text("cancelled")), None),
        Response::Error { code, message, data } => {
            let (code, message) = (Some(Value::Number(code)), Some(Value::Text(message)));
            error = [("id", code), ("format", message), ("data", data.map(Value::Raw))];
            wrapped = [("error", Some(Value::Object(&error)))];
            (false, message, Some(Value::Object(&wrapped)))
        }
        // It comes from a peer that speaks this envelope too.
        Response::ErrorRaw(object) => {
            let [message, body] = Members::within(Some(object), &["message", "body"]).values();
            (false, message.map(Value::Raw), body.map(Value::Raw))
        }
    };
    out.object(&[
        ("seq", Some(Value::Number(seq.into()))),
        ("type", Some(Value::Text("response"))),
        ("request_seq", Some(Value::Token(to.id))),
        ("command", Some(Value::Text(to.name()))),
        ("success", Some(Value::Bool(success))),
        ("message", message),
        ("body", body),
    ]);
}
