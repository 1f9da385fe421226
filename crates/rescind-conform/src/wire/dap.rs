//! The Debug Adapter Protocol, whose messages have numbers and whose answers repeat the command.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::heard::{Asked, Heard, Outcome};
use crate::value::{by_value, decoded, member};

#[derive(Deserialize)]
struct Message<'m> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    seq: Option<&'m RawValue>,
    #[serde(borrow)]
    request_seq: Option<&'m RawValue>,
    command: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'m RawValue>,
    success: Option<bool>,
    message: Option<String>,
    body: Option<Value>,
}

/// Reads a message of an adapter or a client.
pub(super) fn read(message: &[u8]) -> Heard {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(message) else { return Heard::Other };
    let token = |id: Option<&RawValue>| id.map_or_else(|| "(none)".into(), |id| by_value(id.get()));
    match &*message.kind {
        "request" => {
            let Some(seq) = message.seq else { return Heard::Other };
            let command = message.command.unwrap_or_default();
            let asked = Asked::new(seq.get(), command, decoded(message.arguments));
            if asked.method != "cancel" {
                return Heard::Request(asked);
            }
            let named = message.arguments.and_then(|arguments| member(arguments, "requestId"));
            Heard::Cancel { id: named.unwrap_or_default(), asked: Some(asked) }
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
        "event" => match message.body.as_ref().and_then(progress) {
            Some(token) => Heard::Progress { token },
            None => Heard::Other,
        },
        _ => Heard::Other,
    }
}

/// Returns the token of a progress: of its request where it starts and names that, and its own elsewhere.
fn progress(body: &Value) -> Option<Value> {
    let own = body.get("progressId")?;
    Some(match body.get("requestId") {
        Some(request) => json!(format!("progress-{}", by_value(&request.to_string()))),
        None => own.clone(),
    })
}
