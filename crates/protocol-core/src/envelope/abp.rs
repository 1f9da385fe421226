//! The App-Browser Protocol: `{type, id, timestamp, payload}`.
//!
//! A capability is called by type `capabilities/call`, with the capability, its params and its
//! options in the payload. Every other type is a method of its own, with the payload as its params.
//! The response to type `X` has type `X-result`.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use protocol_json::{Members, Value, Writer, member, text};
use serde_json::value::RawValue;

use super::jsonrpc::translated;
use super::message::{Message, Origin, Request, ResponseBody, repeated, structured};
use super::outgoing::{Addressee, Context, OutgoingMessage, millis};
use crate::dialect::{RequestKind, code, facts::given};
use crate::event::{ErrorObject, Response};
use crate::id::WireId;
use crate::limits::Limits;
use crate::violation::EnvelopeProblem as Problem;

const CALL: &str = "capabilities/call";
/// The type of the response to a call.
const CALL_RESULT: &str = "capabilities/call-result";
const PROGRESS: &str = "capabilities/progress";
/// The end of the type of every response.
pub(crate) const RESULT: &str = "-result";
/// The code of an error before the session is open.
const NOT_INITIALIZED: &str = "NOT_INITIALIZED";

/// Returns the kind of a call of ours. A method that has a slash, and `initialize`, is a type of its own.
pub(super) fn kind_of(method: &str) -> RequestKind {
    let is_type = method == "initialize" || method.contains('/');
    if is_type { RequestKind::Typed } else { RequestKind::Ordinary }
}

/// Returns the number that an id of ours says: a string with a decimal number, nothing else (B14).
pub(super) fn number_of(id: &str) -> Option<u32> {
    let digits = protocol_json::string(id)?;
    // A plus sign is all that `parse` takes beside digits.
    digits.parse().ok().filter(|_| !digits.starts_with(['+', '0']))
}

// Reading

/// Reads a text that is one object. Returns `None` if it is none. A type or an id that is longer than
/// `limits.id_bytes` can't be repeated in a response.
pub(super) fn read<'m>(envelope: &'m str, limits: &Limits) -> Option<Message<'m>> {
    let members = Members::of(envelope, &["type", "id", "payload"])?;
    let too_deep = (members.depth > limits.depth).then_some(Problem::TooDeep);
    let problem = repeated(&members).or(too_deep);
    let ([kind, id, payload], longest) = (members.values(), limits.id_bytes);
    let Some(method) = kind.and(members.string(0)).filter(|kind| kind.len() <= longest) else {
        return Some(Message::InvalidNotification { problem: Problem::Type });
    };
    if method.ends_with(RESULT) {
        let payload = payload.unwrap_or(RawValue::NULL);
        return Some(read_response(method == CALL_RESULT, id, payload, problem));
    }
    let params = structured(payload, false);
    let problem = problem.or(params.err());
    let params = params.unwrap_or(payload);
    let Some(id) = id.map(RawValue::get).filter(|_| method != PROGRESS) else {
        return Some(Message::notification(method, params, problem));
    };
    let message_id = Some(id).filter(|id| id.len() <= longest).and_then(WireId::scanned);
    let name = [&*method, RESULT].concat().into();
    let (kind, origin) = (RequestKind::Typed, Some(Box::new(Origin { name, message_id })));
    let request = Request { id, kind, method, params, options: None, origin };
    let is_call = request.method == CALL;
    Some(if is_call { read_call(request, problem) } else { Message::request(request, problem) })
}

/// Reads the call of a capability from its payload.
fn read_call<'m>(message: Request<'m>, problem: Option<Problem>) -> Message<'m> {
    let call = Members::within(message.params, &["capability", "params", "options", "callId"]);
    let [capability, params, options, direct] = call.values();
    let choice = Members::within(options, &["callId"]);
    // The agent's side chooses a call id where there is none. The id of the message is as good.
    let chosen = choice.values()[0].filter(not_null).or(direct.filter(not_null));
    let (id, kind) = (chosen.map_or(message.id, RawValue::get), RequestKind::Ordinary);
    let (params, options) = (kind.params(params), options.filter(not_null));
    let problem = problem.or(repeated(&call)).or(repeated(&choice)).or(params.err());
    let capability = capability.and(call.string(0)).filter(|it| kind_of(it) == kind);
    let problem = problem.or(capability.is_none().then_some(Problem::Capability));
    let (method, params) = (capability.unwrap_or_default(), params.unwrap_or_default());
    Message::request(Request { id, kind, method, params, options, ..message }, problem)
}

/// Returns whether a member is not null. Some peers write null for members that they do not set.
fn not_null(member: &&RawValue) -> bool {
    member.get() != "null"
}

/// Reads a response to one of our messages.
fn read_response<'m>(
    is_call: bool,
    id: Option<&'m RawValue>,
    payload: &'m RawValue,
    problem: Option<Problem>,
) -> Message<'m> {
    let names = ["callId", "success", "data", "error", "cancelled"];
    let members = Members::within(Some(payload), &names);
    let [call, success, data, error, cancelled] = members.values();
    let [success, cancelled] = [success, cancelled].map(|it| it.map(RawValue::get));
    let failed = success == Some("false");
    let body = match problem.or(repeated(&members)) {
        Some(problem) => ResponseBody::Malformed(problem),
        None if success == Some("true") => {
            let data = data.unwrap_or(RawValue::NULL);
            ResponseBody::Result(if is_call { data } else { payload })
        }
        // The acknowledgement of a cancel says `cancelled` too, and not `success`.
        None if (failed || is_call) && cancelled == Some("true") => {
            let (raw, message) = (Cow::Borrowed(payload), Cow::Borrowed("Cancelled"));
            let code = code::REQUEST_CANCELLED;
            ResponseBody::Error(ErrorObject { raw, code, message, data: None })
        }
        None if failed || (is_call && error.is_some()) => {
            ResponseBody::error(error.and_then(read_error))
        }
        None if is_call => ResponseBody::Malformed(Problem::Empty),
        None => ResponseBody::Result(payload),
    };
    let id = call.filter(not_null).filter(|_| is_call).or(id).map(RawValue::get);
    let kind = Some(if is_call { RequestKind::Ordinary } else { RequestKind::Typed });
    Message::Response { id, kind, body }
}

/// Reads `{code, message, …}`, whose code is a string.
fn read_error(raw: &RawValue) -> Option<ErrorObject<'_>> {
    let [name, message, data] = Members::within(Some(raw), &["code", "message", "data"]).values();
    let name = text(name?)?;
    let is_early = name == NOT_INITIALIZED;
    let code = if is_early { code::SERVER_NOT_INITIALIZED } else { code::REQUEST_FAILED };
    let message = message.and_then(text).unwrap_or(name);
    Some(ErrorObject { raw: Cow::Borrowed(raw), code, message, data: data.map(Cow::Borrowed) })
}

// Writing

pub(super) fn write(message: &OutgoingMessage<'_>, context: &Context<'_>, out: &mut Writer<'_>) {
    let empty = Value::Object(&[]);
    match *message {
        OutgoingMessage::Request { number, kind, method, params, limit, chosen } => {
            let id = Some(Value::QuotedNumber(number.into()));
            if kind == RequestKind::Typed {
                return write_envelope(method, id, params.unwrap_or(empty), context, out);
            }
            let chosen_as = |name| chosen.and_then(|it| given(it, name)).map(Value::Raw);
            let token = chosen_as("progressToken").or(id.filter(|_| chosen.is_none()));
            let limit = chosen_as("timeout").or(limit.map(millis));
            let options = [("callId", id), ("timeout", limit), ("progressToken", token)];
            let (method, options) = (Some(Value::Text(method)), Some(Value::Object(&options)));
            let payload = [("capability", method), ("params", params), ("options", options)];
            write_envelope(CALL, id, Value::Object(&payload), context, out);
        }
        OutgoingMessage::Notification { method, params } => {
            // The protocol gives only progress notifications an id: their token.
            let token = match params {
                Some(Value::Raw(params)) if method == PROGRESS => member(params, "progressToken"),
                _ => None,
            };
            let id = token.map(Value::Raw);
            write_envelope(method, id, params.unwrap_or(empty), context, out);
        }
        OutgoingMessage::Result { to, members } => emit(to, Value::Object(members), context, out),
        OutgoingMessage::Response { to, response } => respond(to, response, context, out),
    }
}

fn write_envelope(
    kind: &str,
    id: Option<Value<'_>>,
    payload: Value<'_>,
    context: &Context<'_>,
    out: &mut Writer<'_>,
) {
    let (kind, stamp) = (Some(Value::Text(kind)), Some(context.unix_time()));
    out.object(&[("type", kind), ("id", id), ("timestamp", stamp), ("payload", Some(payload))]);
}

/// Writes a response, whose message has the id of the request's message.
fn emit(to: Addressee<'_>, payload: Value<'_>, context: &Context<'_>, out: &mut Writer<'_>) {
    let id = to.origin.and_then(|origin| origin.message_id.as_ref());
    let id = Some(Value::Token(id.map_or("null", WireId::as_json)));
    write_envelope(to.name(), id, payload, context, out);
}

fn respond(to: Addressee<'_>, response: Response<'_>, context: &Context<'_>, out: &mut Writer<'_>) {
    let error;
    let mut object = None;
    let is_call = to.name() == CALL_RESULT;
    let (success, content) = match translated(response, &mut object) {
        Response::Result(result) if !is_call => {
            return emit(to, Value::Raw(result), context, out);
        }
        Response::Result(result) => (true, ("data", Some(Value::Raw(result)))),
        Response::Cancelled => (false, ("cancelled", Some(Value::Bool(true)))),
        Response::Error { code, message, data } => {
            let is_early = code == code::SERVER_NOT_INITIALIZED;
            let name = if is_early { NOT_INITIALIZED } else { "OPERATION_FAILED" };
            error = [
                ("code", Some(Value::Text(name))),
                ("message", Some(Value::Text(message))),
                ("retryable", Some(Value::Bool(false))),
                ("data", data.map(Value::Raw)),
            ];
            (false, ("error", Some(Value::Object(&error))))
        }
        // It comes from a peer that speaks this envelope too.
        Response::ErrorRaw(object) => (false, ("error", Some(Value::Raw(object)))),
    };
    let call = Some(Value::Token(to.id)).filter(|_| is_call);
    let payload = [("callId", call), ("success", Some(Value::Bool(success))), content];
    emit(to, Value::Object(&payload), context, out);
}
