//! The envelope of the Debug Adapter Protocol: `{seq, type: request | response | event, …}`.
//!
//! A command is a method, an event is a notification. An answer names the `seq` of its request, and repeats
//! its command.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use serde_json::value::RawValue;

use super::abp::{self, Origin, optional};
use super::decode::{Message, Request, ResponseBody, string, structured};
use crate::config::Limits;
use crate::dialect::code;
use crate::event::ErrorObject;
use crate::violation::EnvelopeProblem;

/// The members of an envelope that every type of message has, and then those of requests, events and
/// responses.
const NAMES: [&str; 8] =
    ["seq", "type", "command", "arguments", "event", "body", "request_seq", "success"];

/// Reads an object of this envelope. Returns `None` if the text is no object.
pub(super) fn message<'m>(text: &'m str, limits: &Limits) -> Option<Message<'m>> {
    let (members, problem) = abp::members(text, &NAMES, limits)?;
    let [seq, kind, command, arguments, event, body, request, success] = members;
    Some(match kind.and_then(string).as_deref() {
        Some("request") => asking([seq, command, arguments], problem, limits.id_bytes),
        Some("event") => {
            let (params, method) = (structured(body, true), event.and_then(string));
            let no_method = method.is_none().then_some(EnvelopeProblem::Method);
            let problem = problem.or(params.err()).or(no_method);
            Message::notification(method.unwrap_or_default(), params.unwrap_or_default(), problem)
        }
        Some("response") => {
            // That a request failed is said by the whole message, which is read again then.
            let answer = match (problem, success.map(RawValue::get)) {
                (Some(problem), _) => Err(problem),
                (None, Some("true")) => Ok(ResponseBody::Result(body.unwrap_or(RawValue::NULL))),
                (None, Some("false")) => {
                    Ok(ResponseBody::Error(failure(protocol_json::value(text)?)))
                }
                (None, _) => Err(EnvelopeProblem::Empty),
            };
            Message::Response { id: request.map(RawValue::get), asked: None, answer }
        }
        _ => Message::InvalidNotification { problem: EnvelopeProblem::Type },
    })
}

/// A request. Without a number and a command, which its answer repeats, it can't be answered.
fn asking<'m>(
    [seq, command, arguments]: [Option<&'m RawValue>; 3],
    problem: Option<EnvelopeProblem>,
    longest: usize,
) -> Message<'m> {
    let id = seq.map(RawValue::get);
    let number = id.filter(|seq| seq.parse::<i32>().is_ok());
    let command = command.and_then(string).filter(|command| command.len() <= longest);
    let (Some(number), Some(method)) = (number, command) else {
        let problem = number.map_or(EnvelopeProblem::Id, |_| EnvelopeProblem::Method);
        return Message::Invalid { id, origin: None, problem };
    };
    let origin = Some(Box::new(Origin { kind: method.as_ref().into(), message: None }));
    let params = structured(arguments, true);
    let (params, problem) = (params.unwrap_or_default(), problem.or(params.err()));
    Message::request(Request { id: number, method, params, options: None, origin }, problem)
}

/// What a response says that has no result. All of it is kept as its error.
fn failure(raw: &RawValue) -> ErrorObject<'_> {
    let ([message, body], _) = optional(Some(raw), ["message", "body"]);
    let message = message.and_then(string).filter(|text| !text.is_empty());
    let ([error], _) = optional(body, ["error"]);
    let ([id, format, data], _) = optional(error, ["id", "format", "data"]);
    let code = match id.and_then(|id| id.get().parse().ok()) {
        _ if message.as_deref() == Some("cancelled") => code::REQUEST_CANCELLED,
        code => code.unwrap_or(code::REQUEST_FAILED),
    };
    // Some adapters say what went wrong in the body alone.
    let message = message.or_else(|| format.and_then(string)).unwrap_or_default();
    ErrorObject { raw: Cow::Borrowed(raw), code, message, data: data.map(Cow::Borrowed) }
}
