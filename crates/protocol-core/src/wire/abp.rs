//! The envelope of the App-Browser Protocol: `{type, id, timestamp, payload}`.
//!
//! A capability is called by type `capabilities/call`, with the capability, its params and its
//! options in the payload. Every other type is a method of its own, with the payload as its params.
//! The answer to type `X` is type `X-result`.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;

use protocol_json::Members;
use serde_json::value::RawValue;

use super::decode::{Message, Request, ResponseBody, string, structured};
use crate::config::Limits;
use crate::dialect::code;
use crate::event::ErrorObject;
use crate::id::WireId;
use crate::violation::EnvelopeProblem;

pub(super) const CALL: &str = "capabilities/call";
/// The type of the answer to a call.
const ANSWER: &str = "capabilities/call-result";
const PROGRESS: &str = "capabilities/progress";
/// How the type of an answer ends.
pub(crate) const RESULT: &str = "-result";

/// Where the answer to a request goes.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The type of the answer, or in DAP the command that it repeats.
    pub(super) kind: Box<str>,
    /// The id of its message, unless it can't be read. The id of a request that calls a capability is its
    /// call id; of any other it is this.
    pub(super) message: Option<WireId>,
}

impl Origin {
    /// What the request asks for.
    pub(crate) fn asked(&self) -> Asked {
        Asked::in_answer(&self.kind)
    }

    /// The token of its message's id.
    pub(super) fn message_id(&self) -> &str {
        self.message.as_ref().map_or("null", WireId::token)
    }
}

/// What a message asks for, as the type of its answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A capability: it has a call id, by which it can be cancelled.
    Capability,
    /// Anything else.
    Other,
}

impl Asked {
    /// What an answer of this type answers.
    fn in_answer(kind: &str) -> Self {
        if kind == ANSWER { Self::Capability } else { Self::Other }
    }

    /// What a request of ours asks for.
    pub(crate) fn by(method: &str) -> Self {
        if is_type(method) { Self::Other } else { Self::Capability }
    }
}

/// Whether messages of this method have a type of their own, and are no calls of a capability.
fn is_type(method: &str) -> bool {
    method == "initialize" || method.contains('/')
}

/// Reads an object of this envelope. Returns `None` if the text is no object. A type or an id that is
/// longer than `limits.id_bytes` can't be echoed.
pub(super) fn message<'m>(text: &'m str, limits: &Limits) -> Option<Message<'m>> {
    let (members, problem) = members(text, &["type", "id", "payload"], limits)?;
    Some(read(members, problem, limits.id_bytes))
}

/// Reads these members of an envelope, and says what is wrong with all of it.
pub(super) fn members<'m, const N: usize>(
    text: &'m str,
    names: &[&str; N],
    limits: &Limits,
) -> Option<([Option<&'m RawValue>; N], Option<EnvelopeProblem>)> {
    let found = Members::of(text, names)?;
    let too_deep = (found.depth > limits.depth).then_some(EnvelopeProblem::TooDeep);
    Some((found.values(), repeated(&found).or(too_deep)))
}

fn read<'m>(
    [kind, id, payload]: [Option<&'m RawValue>; 3],
    problem: Option<EnvelopeProblem>,
    longest: usize,
) -> Message<'m> {
    let Some(kind) = kind.and_then(string).filter(|kind| kind.len() <= longest) else {
        return Message::InvalidNotification { problem: EnvelopeProblem::Type };
    };
    if kind.ends_with(RESULT) {
        let payload = payload.filter(|payload| payload.get() != "null");
        return response(Asked::in_answer(&kind), id, payload, problem);
    }
    let params = structured(payload, false);
    let problem = problem.or(params.err());
    let payload = params.unwrap_or(payload);
    let Some(id) = id.filter(|_| kind != PROGRESS) else {
        return Message::notification(kind, payload, problem);
    };
    let message = Some(id.get()).filter(|id| id.len() <= longest).and_then(WireId::scanned);
    let origin = Some(Box::new(Origin { kind: [&*kind, RESULT].concat().into(), message }));
    if kind != CALL {
        let (id, method, params) = (id.get(), kind, payload);
        return Message::request(Request { id, method, params, options: None, origin }, problem);
    }
    let ([capability, params, options, direct], twice) =
        optional(payload, ["capability", "params", "options", "callId"]);
    let ([chosen], chosen_twice) = optional(options, ["callId"]);
    let there = |member: &&RawValue| member.get() != "null";
    // The agent's side makes one where there is none; a message's id is as good.
    let id = chosen.filter(there).or(direct.filter(there)).unwrap_or(id).get();
    let capability = capability.and_then(string).filter(|capability| !is_type(capability));
    let (params, options) = (structured(params, true), options.filter(there));
    let problem = problem.or(twice).or(chosen_twice).or(params.err());
    let Some(method) = capability else {
        let problem = problem.unwrap_or(EnvelopeProblem::Capability);
        return Message::Invalid { id: Some(id), origin, problem };
    };
    let params = params.unwrap_or_default();
    Message::request(Request { id, method, params, options, origin }, problem)
}

/// An answer to one of our messages.
fn response<'m>(
    asked: Asked,
    id: Option<&'m RawValue>,
    payload: Option<&'m RawValue>,
    problem: Option<EnvelopeProblem>,
) -> Message<'m> {
    let ([call, success, data, error, cancelled], twice) =
        optional(payload, ["callId", "success", "data", "error", "cancelled"]);
    let is_call = asked == Asked::Capability;
    let id = call.filter(|_| is_call).or(id).map(RawValue::get);
    let payload = payload.unwrap_or(RawValue::NULL);
    let says = |member: Option<&RawValue>, word| member.is_some_and(|it| it.get() == word);
    let failed = says(success, "false");
    let answer = match problem.or(twice) {
        Some(problem) => Err(problem),
        None if says(success, "true") => {
            let data = data.unwrap_or(RawValue::NULL);
            Ok(ResponseBody::Result(if is_call { data } else { payload }))
        }
        // The acknowledgement of a cancel says `cancelled` too, and not `success`.
        None if (failed || is_call) && says(cancelled, "true") => {
            Ok(ResponseBody::Error(ErrorObject {
                raw: Cow::Borrowed(payload),
                code: code::REQUEST_CANCELLED,
                message: Cow::Borrowed("Cancelled"),
                data: None,
            }))
        }
        None if failed || (is_call && error.is_some()) => {
            error.and_then(failure).map(ResponseBody::Error).ok_or(EnvelopeProblem::Error)
        }
        None if is_call => Err(EnvelopeProblem::Empty),
        None => Ok(ResponseBody::Result(payload)),
    };
    Message::Response { id, asked: Some(asked), answer }
}

/// The number that an id of ours says: a string with a decimal number, nothing else (B14).
pub(crate) fn number(id: &str) -> Option<u32> {
    let digits = protocol_json::string(id)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if is_number { digits.parse().ok() } else { None }
}

/// Reads `{code, message, …}`, whose code is a string.
fn failure(raw: &RawValue) -> Option<ErrorObject<'_>> {
    let ([name, message, data], _) = optional(Some(raw), ["code", "message", "data"]);
    let name = string(name?)?;
    let is_early = name == error_name(code::SERVER_NOT_INITIALIZED);
    let code = if is_early { code::SERVER_NOT_INITIALIZED } else { code::REQUEST_FAILED };
    let message = message.and_then(string).unwrap_or(name);
    let (raw, data) = (Cow::Borrowed(raw), data.map(Cow::Borrowed));
    Some(ErrorObject { raw, code, message, data })
}

/// Returns the id of a notification. The protocol gives only progress notifications one: their token.
pub(super) fn progress_id<'a>(method: &str, params: &'a RawValue) -> Option<&'a str> {
    let ([token], _) = optional(Some(params).filter(|_| method == PROGRESS), ["progressToken"]);
    token.map(RawValue::get)
}

/// The string that an error code is in this envelope.
pub(super) const fn error_name(code: i64) -> &'static str {
    match code {
        code::SERVER_NOT_INITIALIZED => "NOT_INITIALIZED",
        _ => "OPERATION_FAILED",
    }
}

/// The token under which a call of ours asks for progress: its id, a number written as a string.
pub(crate) fn token(number: u32) -> WireId {
    WireId::scanned(&format!("\"{number}\"")).expect("a string is an id")
}

/// Reads members of a value that may be missing or no object. A member that stands twice counts as
/// missing, and the second part says that there is one.
pub(super) fn optional<'m, const N: usize>(
    value: Option<&'m RawValue>,
    names: [&str; N],
) -> ([Option<&'m RawValue>; N], Option<EnvelopeProblem>) {
    let found = value.and_then(|value| Members::of(value.get(), &names));
    found.map_or(([None; N], None), |found| (found.values(), repeated(&found)))
}

/// A problem if any member stands twice.
fn repeated<const N: usize>(found: &Members<'_, N>) -> Option<EnvelopeProblem> {
    found.has_repeated().then_some(EnvelopeProblem::DuplicateMember)
}
