//! Messages of the Debug Adapter Protocol are read here. Those of JSON-RPC are read in `message.rs`.

use protocol_core::{Envelope, code};
use serde_json::{Value, json};

use super::message::{Message, Request, tag};
use crate::wire::Wire;

/// Returns whether a request can have this id.
pub(super) fn has_id(protocol: &Wire, id: &Value) -> bool {
    protocol.dialect.envelope != Envelope::Dap || id.as_u64().is_some_and(|id| id > 0)
}

/// Reads a message of the Debug Adapter Protocol. A cancel that names a progress and no request is a request as any other.
pub(super) fn read_dap(protocol: &Wire, value: Value) -> Message {
    let text = |member: &str| value[member].as_str().map(str::to_owned);
    let number = |value: &Value| Some(value.clone()).filter(|seq| has_id(protocol, seq));
    let other = || Message::Other(value.to_string());
    match value["type"].as_str() {
        Some("event") if value["event"].is_string() => Message::Notification(unnumbered(value)),
        Some("response") => {
            let Some(id) = number(&value["request_seq"]) else { return other() };
            Message::Response { id, answer: answer_in_dap(&value) }
        }
        Some("request") => {
            let (Some(id), Some(method)) = (number(&value["seq"]), text("command")) else {
                return other();
            };
            let params = value["arguments"].clone();
            let names_progress = params.get("progressId").is_some()
                && params.get(protocol.cancel_member()).is_none();
            if protocol.dialect.cancel.has_method(&method) && !names_progress {
                let named = number(&params[protocol.cancel_member()]);
                return Message::cancel(named.as_ref(), &value, Some(id));
            }
            Message::Request(Request { id, tag: tag(&params), method, params })
        }
        _ => other(),
    }
}

/// An event without its number, which is another on each side.
fn unnumbered(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("seq");
    }
    event
}

/// A response's outcome, and the command that it repeats.
fn answer_in_dap(response: &Value) -> Value {
    let [command, message, body] =
        ["command", "message", "body"].map(|member| response[member].clone());
    match response["success"].as_bool() {
        Some(true) => json!({ "result": { "command": command, "body": body } }),
        Some(false) => {
            let code = match message == "cancelled" {
                true => code::REQUEST_CANCELLED,
                false => body["error"]["id"].as_i64().unwrap_or(0),
            };
            json!({ "error": { "command": command, "code": code, "message": message, "body": body } })
        }
        None => json!({}),
    }
}
