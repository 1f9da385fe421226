//! The messages on the wire, read without any of the code that may be under test.

use std::io::{self, BufRead, Read};

use protocol_core::{Envelope, Framing, code};
use serde_json::{Value, json};

use crate::value::integer;
use crate::wire::Wire;

/// A longer message is not read.
const MESSAGE_BYTES: usize = 64 << 20;

/// Reads one message, exactly as a strict peer would; `None` at the end.
pub(super) fn read(framing: Framing, input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.by_ref().take(MESSAGE_BYTES as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if framing == Framing::Newline {
        let message = line.strip_suffix(b"\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        return Ok(Some(message.to_vec()));
    }
    let strict = || io::Error::new(io::ErrorKind::InvalidData, "not Content-Length: N");
    let header = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix("\r\n"));
    let digits = header.and_then(|line| line.strip_prefix("Content-Length: "));
    let length: usize = digits.and_then(|digits| digits.parse().ok()).ok_or_else(strict)?;
    let mut empty = [0; 2];
    input.read_exact(&mut empty)?;
    if length > MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too large"));
    }
    let canonical = digits == Some(&length.to_string()) && &empty == b"\r\n";
    let mut message = vec![0; length];
    input.read_exact(&mut message)?;
    if canonical { Ok(Some(message)) } else { Err(strict()) }
}

/// A message that went through the relay, as far as the rules have to know it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// A request that is no cancel.
    Request(Request),
    /// A response to a request.
    Response {
        /// The id of the request.
        id: Value,
        /// `{"result": …}` or `{"error": …}`, in whatever envelope, or more than one of them.
        answer: Value,
    },
    /// A cancel, well-formed or not.
    Cancel {
        /// The id of the request that it names, or the whole message if it names none that could exist.
        target: Result<Value, Value>,
        /// Its own id, where it is a request.
        own: Option<Value>,
    },
    /// Any other notification, whole.
    Notification(Value),
    /// An array, which a batch is.
    Batch(Value),
    /// Nothing of these.
    Other(String),
}

/// A request, with the mark by which it is found again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    /// The id that its sender gave it.
    pub(super) id: Value,
    /// The mark that we gave it.
    pub(super) tag: Option<u64>,
    /// Its method and params.
    pub(super) method: String,
    /// Its params; null if there are none.
    pub(super) params: Value,
}

impl Message {
    /// Returns the request that it is, if it is one and no cancel.
    pub(super) fn request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Whether it is a cancel that names this id.
    pub(super) fn cancels(&self, id: &Value) -> bool {
        matches!(self, Self::Cancel { target: Ok(named), .. } if named == id)
    }

    /// Reads a message.
    pub(super) fn read(protocol: &Wire, bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return Self::Other(String::from_utf8_lossy(bytes).into_owned());
        };
        let is_dap = protocol.dialect.envelope == Envelope::Dap;
        let [id, method, params] = match (is_dap, value["type"].as_str()) {
            _ if value.is_array() => return Self::Batch(value),
            (false, _) => ["id", "method", "params"],
            (true, Some("request")) => ["seq", "command", "arguments"],
            (true, Some("response")) => ["request_seq", "", ""],
            (true, Some("event")) if value["event"].is_string() => {
                return Self::Notification(unnumbered(value));
            }
            (true, _) => return Self::Other(value.to_string()),
        };
        let id = value.get(id).cloned().map(integer).filter(|id| has_id(protocol, id));
        let params = value[params].clone();
        match (id, value[method].as_str()) {
            (None, _) if is_dap => Self::Other(value.to_string()),
            (id, None) => Self::response(id, &value, is_dap),
            (id, Some(method)) if is_cancel(protocol, method, id.is_some(), &params) => {
                let named = params.get(protocol.cancel_member());
                let is_id = |id: &&Value| id.is_string() || id.is_i64() || id.is_u64();
                let named = named.filter(is_id).filter(|id| has_id(protocol, id));
                Self::Cancel { target: named.cloned().ok_or(value), own: id }
            }
            (Some(id), Some(method)) => {
                Self::Request(Request { id, tag: tag(&params), method: method.into(), params })
            }
            (None, Some(_)) => Self::Notification(value),
        }
    }

    /// A response. Some peers leave out the id of an error that belongs to no request.
    fn response(id: Option<Value>, value: &Value, is_dap: bool) -> Self {
        let (is_response, answer) = match (is_dap, value.as_object().cloned()) {
            (false, Some(mut members)) => {
                members.retain(|name, _| name == "result" || name == "error");
                (!members.is_empty(), Value::Object(members))
            }
            _ => (value["type"] == "response", answer_in_dap(value)),
        };
        match is_response {
            true => Self::Response { id: id.unwrap_or_default(), answer },
            false => Self::Other(value.to_string()),
        }
    }
}

/// Returns whether a message is a cancel. Of the Debug Adapter Protocol one that names a progress and no request is a request as
/// any other.
fn is_cancel(protocol: &Wire, method: &str, has_id: bool, params: &Value) -> bool {
    let is_dap = protocol.dialect.envelope == Envelope::Dap;
    let names = |member: &str| params.get(member).is_some();
    let names_progress = names("progressId") && !names(protocol.cancel_member());
    protocol.dialect.cancel.has_method(method) && has_id == is_dap && !(is_dap && names_progress)
}

/// The number that tells a request of ours from all others, wherever in its params it is.
pub(super) fn tag(params: &Value) -> Option<u64> {
    let members = params.as_object()?;
    members.get("tag").and_then(Value::as_u64).or_else(|| members.values().find_map(tag))
}

/// Returns whether a request can have this id.
pub(super) fn has_id(protocol: &Wire, id: &Value) -> bool {
    protocol.dialect.envelope != Envelope::Dap || id.as_u64().is_some_and(|id| id > 0)
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

#[cfg(test)]
mod tests;
