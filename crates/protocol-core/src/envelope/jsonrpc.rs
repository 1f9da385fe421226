//! JSON-RPC 2.0: `{"jsonrpc":"2.0", …}`.

use alloc::borrow::Cow;

use protocol_json::{Members, Names, Value, Writer};
use serde_json::value::RawValue;

use super::message::{Message, Request, ResponseBody, structured};
use super::outgoing::{Context, OutgoingMessage};
use crate::dialect::{RequestKind, code};
use crate::event::{ErrorObject, Response};
use crate::violation::EnvelopeProblem as Problem;

/// The first bytes of the messages of nearly every peer.
const OPENING: &str = r#"{"jsonrpc":"2.0","#;

/// The members of an envelope, in the order in which peers write them. The version is mostly read with the
/// opening.
const NAMES: Names<6> = Names::new(["id", "method", "params", "result", "error", "jsonrpc"]);

const ID: usize = 0;
const METHOD: usize = 1;
const PARAMS: usize = 2;
const RESULT: usize = 3;
const ERROR: usize = 4;
const VERSION: usize = 5;

/// The members of an error object.
const ERROR_NAMES: [&str; 3] = ["code", "message", "data"];

// Reading

/// Reads a text that is one object. Returns `None` if it is none.
pub(super) fn read(text: &str, depth: usize) -> Option<Message<'_>> {
    let begun = if text.starts_with(OPENING) { OPENING.len() } else { 0 };
    let (mut members, mut error) = (Members::NONE, None);
    // An error object is read in the same pass.
    members.read(text, begun, &NAMES, ERROR, &mut error, &const { Names::new(ERROR_NAMES) })?;
    let is_repeated = members.has_repeated() || (begun > 0 && members.token(VERSION).is_some());
    let is_other = || begun == 0 && members.string(VERSION).as_deref() != Some("2.0");
    let problem = (is_repeated.then_some(Problem::DuplicateMember))
        .or_else(|| (members.depth > depth).then_some(Problem::TooDeep))
        .or_else(|| is_other().then_some(Problem::Version));
    Some(match members.token(METHOD) {
        Some(_) => with_method(&members, error.as_ref(), problem),
        None => without_method(&members, error.as_ref(), problem),
    })
}

/// Reads a request or a notification. A method that is null is absent.
fn with_method<'m>(
    members: &Members<'m, 6>,
    error_members: Option<&Members<'m, 3>>,
    problem: Option<Problem>,
) -> Message<'m> {
    let method = members.string(METHOD);
    if method.is_none() && members.given(METHOD).is_none() {
        return without_method(members, error_members, problem);
    }
    let params = structured(members.raw(PARAMS), true);
    let problem = problem.or(method.is_none().then_some(Problem::Method)).or(params.err());
    let (params, kind) = (params.unwrap_or_default(), RequestKind::Ordinary);
    match (members.token(ID), method, problem) {
        (Some(id), Some(method), None) => {
            Message::Request(Request { id, kind, method, params, options: None, origin: None })
        }
        (None, Some(method), problem) => Message::notification(method, params, problem),
        // The response to a bad message needs its id (B2). One that stands twice can't be trusted.
        (_, _, problem) => {
            let problem = problem.unwrap_or(Problem::Method);
            Message::Invalid { id: members.once(ID), origin: None, problem }
        }
    }
}

/// Reads a response.
fn without_method<'m>(
    members: &Members<'m, 6>,
    error_members: Option<&Members<'m, 3>>,
    problem: Option<Problem>,
) -> Message<'m> {
    let id = members.once(ID);
    let body = match (members.raw(RESULT), members.raw(ERROR), problem) {
        (None, None, problem) => {
            let problem = problem.unwrap_or(Problem::Empty);
            // Only a broken request has params.
            return match members.token(PARAMS) {
                Some(_) => Message::Invalid { id, origin: None, problem },
                None => Message::Neither { id, problem },
            };
        }
        (_, _, Some(problem)) => ResponseBody::Malformed(problem),
        // If there are both, one that is null counts as absent.
        (Some(result), _, None) if members.given(ERROR).is_none() => ResponseBody::Result(result),
        (_, Some(error), None) if members.given(RESULT).is_none() => {
            ResponseBody::error(error_members.and_then(|members| error_of(error, members)))
        }
        (_, _, None) => ResponseBody::Malformed(Problem::ResultAndError),
    };
    Message::Response { id, kind: None, body }
}

/// Returns a response as the writers of other envelopes take it: a raw error object of this envelope is read,
/// and error -32800 is a cancellation.
pub(super) fn translated<'a>(
    response: Response<'a>,
    object: &'a mut Option<ErrorObject<'a>>,
) -> Response<'a> {
    if let Response::ErrorRaw(raw) = response {
        *object = Members::of(raw.get(), &ERROR_NAMES).and_then(|it| error_of(raw, &it));
    }
    let response = object.as_ref().map_or(response, |error| {
        let data = error.data.as_deref();
        Response::Error { code: error.code, message: &error.message, data }
    });
    match response {
        Response::Error { code: code::REQUEST_CANCELLED, .. } => Response::Cancelled,
        response => response,
    }
}

fn error_of<'m>(value: &'m RawValue, members: &Members<'m, 3>) -> Option<ErrorObject<'m>> {
    Some(ErrorObject {
        raw: Cow::Borrowed(value),
        code: members.token(0)?.parse().ok()?,
        message: members.string(1)?,
        data: members.raw(2).map(Cow::Borrowed),
    })
}

// Writing

#[inline]
pub(super) fn write(message: &OutgoingMessage<'_>, context: &Context<'_>, out: &mut Writer<'_>) {
    let (to, response) = match *message {
        OutgoingMessage::Request { number, method, params, .. } => {
            return emit(Some(number), method, params, out);
        }
        OutgoingMessage::Notification { method, params } => {
            return emit(None, method, params, out);
        }
        OutgoingMessage::Result { to, members } => {
            return respond(to.id, r#","result":"#, Value::Object(members), out);
        }
        OutgoingMessage::Response { to, response } => (to, response),
    };
    let (code, message, data) = match response {
        Response::Result(value) => return respond(to.id, r#","result":"#, Value::Raw(value), out),
        Response::ErrorRaw(value) => return respond(to.id, r#","error":"#, Value::Raw(value), out),
        Response::Error { code, message, data } => (code, message, data),
        Response::Cancelled => {
            (code::REQUEST_CANCELLED, &*context.config.dialect.cancelled_message, None)
        }
    };
    begin_response(to.id, r#","error":{"code":"#, out);
    out.number(code);
    out.literal(r#","message":"#);
    out.text(message);
    if let Some(data) = data {
        out.literal(r#","data":"#);
        out.raw(data);
    }
    out.literal("}}");
}

/// Writes a request, which has a number, or a notification. Most messages are written here, so they are
/// written piece by piece and not as an object.
#[inline]
fn emit(number: Option<u32>, method: &str, params: Option<Value<'_>>, out: &mut Writer<'_>) {
    out.literal(OPENING);
    if let Some(number) = number {
        out.literal(r#""id":"#);
        out.number(number.into());
        out.literal(",");
    }
    out.literal(r#""method":"#);
    out.text(method);
    if let Some(params) = params {
        out.literal(r#","params":"#);
        out.value(params);
    }
    out.literal("}");
}

fn respond(id: &str, member: &str, value: Value<'_>, out: &mut Writer<'_>) {
    begin_response(id, member, out);
    out.value(value);
    out.literal("}");
}

#[inline]
fn begin_response(id: &str, member: &str, out: &mut Writer<'_>) {
    out.literal(r#"{"jsonrpc":"2.0","id":"#);
    out.token(id);
    out.literal(member);
}
