//! The envelope of ABP, `{type, id, timestamp, payload}`, read the slow way.

use protocol_core::code;
use serde_json::Value;

use super::message::{Answered, Asked, Message, NOTHING, Origin, readable};

const CALL: &str = "capabilities/call";
const PROGRESS: &str = "capabilities/progress";

impl Asked {
    /// Returns the kind of a request of ours. `initialize` and methods with a `/` are types of messages.
    pub(super) fn by(method: &str) -> Self {
        if method == "initialize" || method.contains('/') { Self::Other } else { Self::Capability }
    }

    fn answered_by(kind: &str) -> Self {
        if kind == CALL { Self::Capability } else { Self::Other }
    }
}

pub(super) fn message(value: &Value) -> Message<'_> {
    let Some(members) = value.as_object() else {
        return Message::Invalid { id: NOTHING, origin: None };
    };
    let Some(kind) = members.get("type").and_then(Value::as_str) else {
        return Message::InvalidNotification;
    };
    let (id, payload) = (members.get("id"), members.get("payload").unwrap_or(NOTHING));
    if let Some(asked) = kind.strip_suffix("-result") {
        return response(Asked::answered_by(asked), id, payload);
    }
    let is_good = payload.is_object() || payload.is_null();
    // Only progress has an id and is no request: that of its token.
    let Some(id) = id.filter(|_| kind != PROGRESS) else {
        return match is_good {
            true => Message::Notification { method: kind, params: payload },
            false => Message::InvalidNotification,
        };
    };
    let message = readable(id).unwrap_or_else(|| "null".into());
    let asked = Asked::answered_by(kind);
    let origin = Some(Origin { message, asked });
    match asked {
        Asked::Other | Asked::Command if is_good => {
            Message::Request { id, method: kind, params: payload, origin }
        }
        Asked::Other | Asked::Command => Message::Invalid { id, origin },
        Asked::Capability => call(id, payload, origin),
    }
}

fn call<'v>(message: &'v Value, payload: &'v Value, origin: Option<Origin>) -> Message<'v> {
    let chosen = payload.get("options").and_then(|options| options.get("callId"));
    let mut ids = [chosen, payload.get("callId")].into_iter().flatten();
    let id = ids.find(|id| !id.is_null()).unwrap_or(message);
    let params = payload.get("params").unwrap_or(NOTHING);
    let is_good = params.is_object() || params.is_array() || params.is_null();
    let capability = payload.get("capability").and_then(Value::as_str);
    match capability.filter(|name| is_good && Asked::by(name) == Asked::Capability) {
        Some(method) => Message::Request { id, method, params, origin },
        None => Message::Invalid { id, origin },
    }
}

fn response<'v>(asked: Asked, id: Option<&'v Value>, payload: &'v Value) -> Message<'v> {
    let is_call = asked == Asked::Capability;
    let call = payload.get("callId").filter(|id| is_call && !id.is_null());
    Message::Response {
        id: call.or(id).unwrap_or(NOTHING),
        asked: Some(asked),
        answer: outcome(asked, payload),
    }
}

/// Reads the payload of a response. The payload of a call has a `success`. Any other payload is the result
/// itself, unless it says that there is none.
fn outcome(asked: Asked, payload: &Value) -> Option<Answered<'_>> {
    let is_call = asked == Asked::Capability;
    let says = |member: &str, word| payload.get(member).and_then(Value::as_bool) == Some(word);
    let has_failed = says("success", false) || is_call && payload.get("error").is_some();
    if says("success", true) {
        let data = if is_call { payload.get("data").unwrap_or(NOTHING) } else { payload };
        return Some(Answered::Result(data));
    }
    if (is_call || has_failed) && says("cancelled", true) {
        return Some(Answered::Error(code::REQUEST_CANCELLED));
    }
    match (has_failed, is_call) {
        (true, _) => payload.get("error")?.get("code")?.as_str().map(code_of).map(Answered::Error),
        (false, true) => None,
        (false, false) => Some(Answered::Result(payload)),
    }
}

/// Returns the number that stands for a code, which is a word in this envelope.
fn code_of(word: &str) -> i64 {
    match word {
        "NOT_INITIALIZED" => code::SERVER_NOT_INITIALIZED,
        _ => code::REQUEST_FAILED,
    }
}

/// Returns the code that remains after it has been written in this envelope.
pub(super) const fn as_written(code: i64) -> i64 {
    match code {
        code::REQUEST_CANCELLED | code::SERVER_NOT_INITIALIZED => code,
        _ => code::REQUEST_FAILED,
    }
}
