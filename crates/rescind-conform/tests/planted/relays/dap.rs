//! Tampers with the messages of a relay of the Debug Adapter Protocol, with one fault each.

use protocol_relay::Side;
use serde_json::{Value, json};

use super::tamper::Fault::{self, *};

/// Tampers with a message that the relay has for a side. Returns `None` if it is lost.
pub(crate) fn outgoing(fault: Fault, to: Side, mut message: Value) -> Option<Value> {
    let (kind, is_cancel) = (message["type"].clone(), message["command"] == "cancel");
    let names = |member: &str| message["arguments"].get(member).is_some();
    let (is_request, is_response) = (kind == "request", kind == "response");
    let is_lost = match (fault, to) {
        (LosesCancels, Side::Down) => is_request && is_cancel && names("requestId"),
        (LosesProgressCancels, Side::Down) => is_request && is_cancel && names("progressId"),
        (LosesAcknowledgements, Side::Up) => is_response && is_cancel,
        (AcknowledgesOnly, Side::Up) => is_response && message["message"] == "cancelled",
        _ => false,
    };
    let number = message["body"]["requestId"].as_u64();
    if let (MisnamesRequests, Side::Up, Some(number)) = (fault, to, number) {
        message["body"]["requestId"] = json!(number + 1);
    }
    let is_error = is_response && !is_cancel && message["success"] == false;
    if let (ForgetsCommands, Side::Up, true) = (fault, to, is_error) {
        message["command"] = json!("something");
    }
    if is_lost { None } else { Some(message) }
}
