//! Messages are written and read here in each envelope. Those of JSON-RPC are read in `message.rs`.

use protocol_core::Envelope;
use serde_json::{Value, json};

use super::message::{Message, Protocol, Request, tag};
use crate::wire::text;

/// The code of an answer that says that its request was cancelled, in whatever envelope.
pub(super) const CANCELLED: i64 = -32800;

/// The messages that we write. `number` is the sequence number of a message that is no request with an id of
/// its own, if the protocol numbers its messages.
impl Protocol {
    /// Whether a request can have this id.
    pub(super) fn has_id(self, id: &Value) -> bool {
        self.envelope != Envelope::Dap || id.as_u64().is_some_and(|id| id > 0)
    }

    pub(super) fn request(self, id: &Value, method: &str, params: &Value) -> String {
        text::request(self.envelope, &id.to_string(), method, &params.to_string())
    }

    pub(super) fn notification(self, number: u64, method: &str, params: &Value) -> String {
        text::notification(self.envelope, method, &params.to_string(), &number.to_string())
    }

    /// A cancel with these params.
    pub(super) fn cancel(self, number: u64, params: &str) -> String {
        let number = number.to_string();
        match self.envelope {
            Envelope::Dap => text::request(self.envelope, &number, self.cancel, params),
            _ => text::notification(self.envelope, self.cancel, params, &number),
        }
    }

    /// An answer to a request of this method: `{"result": …}` or `{"error": …}`, or other members as they are.
    pub(super) fn response(self, number: u64, to: &Value, method: &str, answer: &Value) -> String {
        let answer = match self.envelope {
            Envelope::Dap => dap_answer(answer).to_string(),
            _ => answer.to_string(),
        };
        let members = answer.strip_prefix('{').and_then(|members| members.strip_suffix('}'));
        let members = members.expect("an answer is an object");
        text::response(self.envelope, &to.to_string(), method, members, &number.to_string())
    }
}

fn dap_answer(answer: &Value) -> Value {
    match (answer.get("result"), answer.get("error")) {
        (Some(result), None) => json!({ "success": true, "body": result }),
        (None, Some(error)) if error["code"] == CANCELLED => {
            json!({ "success": false, "message": "cancelled" })
        }
        (None, Some(error)) => {
            let told = json!({ "id": error["code"], "format": error["message"] });
            json!({ "success": false, "message": error["message"], "body": { "error": told } })
        }
        _ => answer.clone(),
    }
}

/// Reads a message of the Debug Adapter Protocol. A cancel that names a progress and no request is a request as any other.
pub(super) fn read_dap(protocol: Protocol, value: Value) -> Message {
    let text = |member: &str| value[member].as_str().map(str::to_owned);
    let number = |value: &Value| Some(value.clone()).filter(|seq| protocol.has_id(seq));
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
            let names_progress =
                params.get("progressId").is_some() && params.get(protocol.target).is_none();
            if method == protocol.cancel && !names_progress {
                let named = number(&params[protocol.target]);
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
                true => CANCELLED,
                false => body["error"]["id"].as_i64().unwrap_or(0),
            };
            json!({ "error": { "command": command, "code": code, "message": message, "body": body } })
        }
        None => json!({}),
    }
}
