//! The Debug Adapter Protocol, whose messages have numbers and whose answers repeat the command.

use serde_json::{Value, json};

use super::heard::{Asked, Heard, Outcome};
use crate::value::{Members, by_value};

/// Reads a message of an adapter or a client.
pub(super) fn read(message: &Members<'_>) -> Heard {
    match message.text("type").as_deref() {
        Some("request") => {
            let Some(seq) = message.token("seq") else { return Heard::Other };
            let arguments = message.value("arguments").unwrap_or_default();
            let asked = Asked::new(seq, message.text("command").unwrap_or_default(), arguments);
            if asked.method != "cancel" {
                return Heard::Request(asked);
            }
            let named = message.within("arguments", "requestId");
            Heard::Cancel { id: named.unwrap_or_default(), asked: Some(asked) }
        }
        Some("response") => {
            let body = message.value("body").unwrap_or_default();
            let outcome = match (message.token("success"), message.text("message").as_deref()) {
                (Some("true"), _) => Outcome::Result(body),
                (_, Some("cancelled")) => Outcome::Cancelled,
                _ => Outcome::error(&body["error"]["id"]),
            };
            let id = message.token("request_seq").map_or_else(|| "(none)".into(), by_value);
            Heard::Answer { id, outcome }
        }
        Some("event") => Heard::progress(message.value("body").as_ref().and_then(progress)),
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
