//! Messages in few words, for charts.

use protocol_core::Envelope;
use serde_json::Value;

use crate::model::message::{Answered, Message};
use crate::model::reading;

/// The members of params that name something in flight.
const NAMES: [&str; 6] = ["requestId", "id", "progressToken", "token", "sessionId", "callId"];

/// A message in few words, framed or not: `request 1 work`, `answer 1 error -32800`.
pub(crate) fn label(message: &[u8], envelope: Envelope) -> String {
    let text = String::from_utf8_lossy(message);
    let text = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body).trim();
    let Ok(message) = serde_json::from_str::<Value>(text) else {
        return format!("bad: {}", text.chars().take(18).collect::<String>());
    };
    let members = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
    members.iter().map(|member| word(member, envelope)).collect::<Vec<_>>().join(", ")
}

fn word(message: &Value, envelope: Envelope) -> String {
    match reading::message(message, envelope) {
        Message::Request { id, method, params, .. } => {
            // One that cancels another.
            let named = params.get("requestId").or_else(|| params.get("callId"));
            let named = named.map(|named| format!(" of {named}"));
            format!("request {id} {method}{}", named.unwrap_or_default())
        }
        Message::Notification { method, params } => {
            let named = NAMES.iter().find_map(|name| params.get(name));
            let method = method.rsplit('/').next().unwrap_or(method);
            named.map_or_else(|| method.into(), |named| format!("{method} {named}"))
        }
        Message::Response { id, answer: Some(Answered::Result(_)), .. } => {
            format!("answer {id} result")
        }
        Message::Response { id, answer: Some(Answered::Error(code)), .. } => {
            // DAP and ABP say a word in place of a code.
            let word = [&message["message"], &message["payload"]["error"]["code"]];
            let word = word.into_iter().find_map(Value::as_str);
            format!("answer {id} error {}", word.map_or_else(|| code.to_string(), Into::into))
        }
        Message::Response { id, .. } | Message::Neither { id } | Message::Invalid { id, .. } => {
            format!("bad {id}")
        }
        Message::InvalidNotification => "bad".into(),
    }
}
