//! The Debug Adapter Protocol, whose messages have numbers and whose answers repeat the command.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Heard, Outcome};

#[derive(Deserialize)]
struct Message<'m> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    seq: Option<&'m RawValue>,
    #[serde(borrow)]
    request_seq: Option<&'m RawValue>,
    command: Option<String>,
    success: Option<bool>,
    message: Option<String>,
    body: Option<Value>,
}

/// A request of ours, a cancel too.
pub(super) fn request(seq: &str, command: &str, arguments: &str) -> String {
    let command = json!(command);
    format!(r#"{{"seq":{seq},"type":"request","command":{command},"arguments":{arguments}}}"#)
}

/// What we answer a request of the adapter's.
pub(super) fn refusal(to: &str, command: &str, seq: &str) -> String {
    let command = json!(command);
    format!(
        r#"{{"seq":{seq},"type":"response","request_seq":{to},"success":false,"command":{command},"message":"not supported"}}"#
    )
}

/// What an adapter says.
pub(super) fn read(message: &[u8]) -> Heard {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(message) else { return Heard::Other };
    let token = |id: Option<&RawValue>| id.map_or("(none)", RawValue::get).to_owned();
    match &*message.kind {
        "request" => {
            Heard::Request { id: token(message.seq), method: message.command.unwrap_or_default() }
        }
        "response" => {
            let body = message.body.unwrap_or_default();
            let outcome = match (message.success, message.message.as_deref()) {
                (Some(true), _) => Outcome::Result(body),
                (_, Some("cancelled")) => Outcome::Cancelled,
                _ => Outcome::Error { code: body["error"]["id"].as_i64().unwrap_or(0) },
            };
            Heard::Answer { id: token(message.request_seq), outcome }
        }
        _ => Heard::Other,
    }
}
