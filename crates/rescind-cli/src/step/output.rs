//! One line of output.

use protocol_core::{Event, RequestHandle, TransmitKind};
use protocol_json::one_line;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Writes an event as a line. It writes nothing for the events that only tell a host when to go on
/// (`TreeSettled`, `Ready`): here the next line does.
pub(super) fn event(event: &Event<'_, String>, out: &mut Vec<u8>) {
    let kind = |name| ("event", Some(Value::Text(name)));
    match event {
        Event::Request { request, id, method, params, options } => {
            let members = [
                kind("request"),
                ("request", Some(Value::Text(&request_name(*request)))),
                ("id", Some(Value::json(id.as_bytes()))),
                ("method", Some(Value::Text(method))),
                ("params", params.as_deref().map(Value::Json)),
                ("options", options.as_deref().map(Value::Json)),
            ];
            line(&members, out);
        }
        Event::Notification { method, params } => {
            let method = ("method", Some(Value::Text(method)));
            let params = ("params", params.as_deref().map(Value::Json));
            line(&[kind("notification"), method, params], out);
        }
        Event::Cancelled { request, cause, reason } => {
            let members = [
                kind("cancelled"),
                ("request", Some(Value::Text(&request_name(*request)))),
                ("cause", Some(Value::Text(cause.as_str()))),
                ("reason", reason.as_deref().map(Value::Text)),
            ];
            line(&members, out);
        }
        Event::Settled { outcome, data: name, .. } => {
            let members = [
                kind("settled"),
                ("call", Some(Value::Text(name))),
                ("outcome", Some(Value::Text(outcome.settlement().as_str()))),
                ("value", outcome.value().map(Value::Json)),
                ("cause", outcome.cause().map(|cause| Value::Text(cause.as_str()))),
            ];
            line(&members, out);
        }
        Event::Violation { violation, id } => {
            let id = ("id", id.as_ref().map(|id| Value::json(id.as_json().as_bytes())));
            line(&[kind("violation"), ("kind", Some(Value::Text(violation.as_str()))), id], out);
        }
        Event::Closed { reason } => {
            line(&[kind("closed"), ("reason", Some(Value::Text(reason.as_str())))], out);
        }
        _ => {}
    }
}

/// A message that leaves.
pub(super) fn send(message: &[u8], kind: TransmitKind, out: &mut Vec<u8>) {
    let kind = Value::Text(kind.as_str());
    line(&[("send", Some(Value::json(message))), ("kind", Some(kind))], out);
}

/// A command that can't be taken, and what it was about.
pub(super) fn refused(reason: &str, member: &str, name: &str, out: &mut Vec<u8>) {
    line(&[("refused", Some(Value::Text(reason))), (member, Some(Value::Text(name)))], out);
}

/// Returns the name that a session has for a request.
pub(super) fn request_name(request: RequestHandle) -> String {
    format!("r{}", request.number())
}

/// The value of a member.
#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Text(&'a str),
    Json(&'a RawValue),
}

impl<'a> Value<'a> {
    /// Takes JSON that the core has checked or written.
    fn json(json: &'a [u8]) -> Self {
        Self::Json(serde_json::from_slice(json).expect("it is JSON"))
    }
}

/// Writes an object on one line. Members without a value are left out.
fn line(members: &[(&str, Option<Value<'_>>)], out: &mut Vec<u8>) {
    let begin = out.len();
    let members = members.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let written = serde_json::Serializer::new(&mut *out).collect_map(members);
    written.expect("an object can be written to memory");
    // Line ends in it can only be white space between tokens.
    one_line(&mut out[begin..]);
    out.push(b'\n');
}
