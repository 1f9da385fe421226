//! The envelope of the App-Browser Protocol: `{type, id, timestamp, payload}`.
//!
//! A capability is called by type `capabilities/call`, with the capability, its params and its
//! options in the payload. Every other type is a method of its own, with the payload as its params.
//! The answer to type `X` is type `X-result`.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::decode::{Message, Response, string};
use super::encode;
use crate::dialect::code;
use crate::event::{ErrorObject, Params, Reply};
use crate::id::WireId;
use crate::violation::EnvelopeProblem;

const CALL: &str = "capabilities/call";
const PROGRESS: &str = "capabilities/progress";
const RESULT: &str = "-result";

/// Where the answer to a request goes.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    kind: Kind,
    /// The id of its message, unless it can't be read.
    message: Option<WireId>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A call of a capability. The id of the request is its call id.
    Call,
    /// Any other type of message. The id of the request is that of its message.
    Other(Box<str>),
}

impl Origin {
    /// The error that refuses a message in this envelope says so by a string.
    const CODES: [(i64, &'static str); 1] = [(code::SERVER_NOT_INITIALIZED, "NOT_INITIALIZED")];
    const FAILED: &'static str = "OPERATION_FAILED";
}

/// Whether messages of this method have a type of their own, and are no calls of a capability.
fn is_type(method: &str) -> bool {
    method == "initialize" || method.contains('/')
}

/// Reads an object of this envelope. Ids longer than `longest` can't be echoed.
pub(crate) fn message(object: &RawValue, longest: usize) -> Message<'_> {
    let ([kind, id, payload], repeated) = members(object, ["type", "id", "payload"]);
    let payload = payload.filter(|payload| payload.get() != "null");
    let Some(kind) = kind.and_then(string) else {
        return Message::InvalidNotification { problem: EnvelopeProblem::Type };
    };
    let is_object = payload.is_none_or(|payload| payload.get().starts_with('{'));
    let problem = match (repeated, is_object) {
        (Repeated::Yes, _) => Some(EnvelopeProblem::DuplicateMember),
        (Repeated::No, false) => Some(EnvelopeProblem::Params),
        (Repeated::No, true) => None,
    };
    if let Some(asked) = kind.strip_suffix(RESULT) {
        return response(asked, id, payload, problem);
    }
    let Some(id) = id.filter(|_| kind != PROGRESS) else {
        return match problem {
            Some(problem) => Message::InvalidNotification { problem },
            None => Message::Notification { method: kind, params: payload },
        };
    };
    let message = Some(id.get()).filter(|id| id.len() <= longest).and_then(WireId::from_token);
    if kind != CALL {
        let origin = Box::new(Origin { kind: Kind::Other(kind.as_ref().into()), message });
        return match problem {
            Some(problem) => Message::InvalidAbp { origin, id: Some(id.get()), problem },
            None => {
                Message::Abp { origin, id: id.get(), method: kind, params: payload, options: None }
            }
        };
    }
    let origin = Box::new(Origin { kind: Kind::Call, message });
    let ([capability, params, options, direct], twice) = payload
        .map_or(([None; 4], Repeated::No), |payload| {
            members(payload, ["capability", "params", "options", "callId"])
        });
    let ([chosen], _) = options.map_or(([None], Repeated::No), |it| members(it, ["callId"]));
    // The agent's side makes one where there is none; a message's id is as good.
    let call = chosen.or(direct).unwrap_or(id).get();
    let capability = capability.and_then(string).filter(|capability| !is_type(capability));
    let params = params.filter(|params| params.get() != "null");
    let problem =
        problem.or((twice == Repeated::Yes).then_some(EnvelopeProblem::DuplicateMember)).or(params
            .is_some_and(|params| !params.get().starts_with(['{', '[']))
            .then_some(EnvelopeProblem::Params));
    match (problem, capability) {
        (None, Some(method)) => Message::Abp { origin, id: call, method, params, options },
        (problem, _) => {
            let problem = problem.unwrap_or(EnvelopeProblem::Capability);
            Message::InvalidAbp { origin, id: Some(call), problem }
        }
    }
}

/// An answer to one of our messages of type `asked`. Ours are strings that hold a number.
fn response<'m>(
    asked: &str,
    id: Option<&'m RawValue>,
    payload: Option<&'m RawValue>,
    problem: Option<EnvelopeProblem>,
) -> Message<'m> {
    let ([call, success, data, error, cancelled], repeated) = payload
        .map_or(([None; 5], Repeated::No), |payload| {
            members(payload, ["callId", "success", "data", "error", "cancelled"])
        });
    let id = call.filter(|_| asked == CALL).or(id).map(|id| id.get().trim_matches('"'));
    let payload = payload.unwrap_or(RawValue::NULL);
    let says = |member: Option<&RawValue>, word| member.is_some_and(|it| it.get() == word);
    let problem =
        problem.or((repeated == Repeated::Yes).then_some(EnvelopeProblem::DuplicateMember));
    let answer = match problem {
        Some(problem) => Err(problem),
        None if says(success, "true") => {
            let data = data.unwrap_or(RawValue::NULL);
            Ok(Response::Result(if asked == CALL { data } else { payload }))
        }
        // The acknowledgement of a cancel says `cancelled` and not `success`.
        None if says(success, "false") && says(cancelled, "true") => {
            Ok(Response::Error(ErrorObject {
                raw: payload,
                code: code::REQUEST_CANCELLED,
                message: Cow::Borrowed("Cancelled"),
                data: None,
            }))
        }
        None if says(success, "false") || (asked == CALL && error.is_some()) => {
            error.and_then(failure).map(Response::Error).ok_or(EnvelopeProblem::Error)
        }
        None if asked == CALL => Err(EnvelopeProblem::Empty),
        None => Ok(Response::Result(payload)),
    };
    Message::Response { id, answer }
}

/// Reads `{code, message, …}`, whose code is a string.
fn failure(raw: &RawValue) -> Option<ErrorObject<'_>> {
    let ([name, message, data], _) = members(raw, ["code", "message", "data"]);
    let name = string(name?)?;
    let code = Origin::CODES.iter().find(|(_, known)| *known == name);
    let code = code.map_or(code::REQUEST_FAILED, |&(code, _)| code);
    let message = message.and_then(string).unwrap_or(name);
    Some(ErrorObject { raw, code, message, data })
}

/// Writes one of our calls.
pub(crate) fn request(
    out: &mut Vec<u8>,
    number: u32,
    method: &str,
    params: Params<'_>,
    timeout: Option<Duration>,
    stamp: u64,
) {
    let (params, id) = (params.raw(), &*quoted(number));
    if is_type(method) {
        return envelope(out, method, Some(id), stamp, |out| object(params, out));
    }
    envelope(out, CALL, Some(id), stamp, |out| {
        out.extend_from_slice(br#"{"capability":"#);
        encode::string(method, out);
        if let Some(params) = params {
            out.extend_from_slice(br#","params":"#);
            encode::raw(params, out);
        }
        out.extend_from_slice(br#","options":{"callId":"#);
        out.extend_from_slice(id.as_bytes());
        if let Some(timeout) = timeout {
            out.extend_from_slice(br#","timeout":"#);
            encode::decimal(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX), out);
        }
        out.extend_from_slice(br#","progressToken":"#);
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"}}");
    });
}

/// Writes a notification. Only progress has an id, as the protocol wants it: that of its token.
pub(crate) fn notification(out: &mut Vec<u8>, method: &str, params: Params<'_>, stamp: u64) {
    let params = params.raw();
    let ([token], _) = params
        .filter(|params| method == PROGRESS && params.get().starts_with('{'))
        .map_or(([None], Repeated::No), |params| members(params, ["progressToken"]));
    envelope(out, method, token.map(RawValue::get), stamp, |out| object(params, out));
}

/// Writes the cancel of a call: a message of its own, with an id of its own.
pub(crate) fn cancel(
    out: &mut Vec<u8>,
    number: u32,
    method: &str,
    payload: impl FnOnce(&mut Vec<u8>),
    stamp: u64,
) {
    envelope(out, method, Some(&*quoted(number)), stamp, payload);
}

/// Writes the answer to the request with this id. That of a cancel is its payload as it is.
pub(crate) fn response_to(
    out: &mut Vec<u8>,
    origin: &Origin,
    id: &str,
    answer: Answer<'_>,
    stamp: u64,
) {
    let kind = match &origin.kind {
        Kind::Call => CALL,
        Kind::Other(kind) => kind,
    };
    let message = origin.message.as_ref().map_or("null", WireId::token);
    let kind = alloc::format!("{kind}{RESULT}");
    envelope(out, &kind, Some(message), stamp, |out| match answer {
        Answer::Payload(write) => write(out),
        Answer::Reply(Reply::Result(result)) if matches!(origin.kind, Kind::Other(_)) => {
            object(Some(result), out);
        }
        Answer::Reply(reply) => {
            out.push(b'{');
            if matches!(origin.kind, Kind::Call) {
                out.extend_from_slice(br#""callId":"#);
                out.extend_from_slice(id.as_bytes());
                out.push(b',');
            }
            outcome(out, reply);
            out.push(b'}');
        }
    });
}

/// What an answer holds.
pub(crate) enum Answer<'a> {
    Reply(Reply<'a>),
    Payload(&'a dyn Fn(&mut Vec<u8>)),
}

fn outcome(out: &mut Vec<u8>, reply: Reply<'_>) {
    match reply {
        Reply::Result(data) => {
            out.extend_from_slice(br#""success":true,"data":"#);
            encode::raw(data, out);
        }
        Reply::Cancelled | Reply::Error { code: code::REQUEST_CANCELLED, .. } => {
            out.extend_from_slice(br#""success":false,"cancelled":true"#);
        }
        Reply::Error { code, message, .. } => failed(out, code, message),
        Reply::ErrorRaw(object) => match super::decode::error_object(object) {
            Some(error) if error.code == code::REQUEST_CANCELLED => outcome(out, Reply::Cancelled),
            Some(error) => failed(out, error.code, &error.message),
            // From a peer that speaks this envelope too.
            None => {
                out.extend_from_slice(br#""success":false,"error":"#);
                encode::raw(object, out);
            }
        },
    }
}

fn failed(out: &mut Vec<u8>, code: i64, message: &str) {
    out.extend_from_slice(br#""success":false,"#);
    error(out, code, message);
}

/// Writes the member `error`.
pub(crate) fn error(out: &mut Vec<u8>, code: i64, message: &str) {
    let name = Origin::CODES.iter().find(|&&(known, _)| known == code);
    out.extend_from_slice(br#""error":{"code":"#);
    encode::string(name.map_or(Origin::FAILED, |&(_, name)| name), out);
    out.extend_from_slice(br#","message":"#);
    encode::string(message, out);
    out.extend_from_slice(br#","retryable":false}"#);
}

fn envelope(
    out: &mut Vec<u8>,
    kind: &str,
    id: Option<&str>,
    stamp: u64,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(br#"{"type":"#);
    encode::string(kind, out);
    if let Some(id) = id {
        out.extend_from_slice(br#","id":"#);
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(br#","timestamp":"#);
    encode::decimal(stamp, out);
    out.extend_from_slice(br#","payload":"#);
    payload(out);
    out.push(b'}');
}

fn object(params: Option<&RawValue>, out: &mut Vec<u8>) {
    match params {
        Some(params) => encode::raw(params, out),
        None => out.extend_from_slice(b"{}"),
    }
}

/// The token under which a call of ours asks for progress.
pub(crate) fn token(number: u32) -> WireId {
    WireId::from_token(&quoted(number)).expect("a string is an id")
}

/// Our ids are numbers, written as the strings that this envelope has for ids.
fn quoted(number: u32) -> String {
    alloc::format!("\"{number}\"")
}

/// Whether one of the members looked for stands twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    No,
    Yes,
}

/// Finds members of an object in one pass; none of another value.
fn members<'m, const N: usize>(
    object: &'m RawValue,
    names: [&str; N],
) -> ([Option<&'m RawValue>; N], Repeated) {
    struct Pick<'a, const N: usize>([&'a str; N]);

    impl<'m, const N: usize> Visitor<'m> for Pick<'_, N> {
        type Value = ([Option<&'m RawValue>; N], Repeated);

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut found, mut repeated) = ([None; N], Repeated::No);
            while let Some(key) = map.next_key::<&RawValue>()? {
                let name = string(key);
                match self.0.iter().position(|wanted| name.as_deref() == Some(*wanted)) {
                    Some(at) => {
                        if found[at].replace(map.next_value()?).is_some() {
                            repeated = Repeated::Yes;
                        }
                    }
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok((found, repeated))
        }
    }

    let mut json = serde_json::Deserializer::from_str(object.get());
    json.deserialize_map(Pick(names)).unwrap_or(([None; N], Repeated::No))
}
