//! The messages on the wire, read without any of the code that may be under test.

use std::io::{self, BufRead, Read};

use protocol_core::{Envelope, Framing, code};
use serde_json::{Value, json};

use crate::value::integer;
use crate::wire::{Asked, Wire};

/// A longer header is not read.
const HEADER_BYTES: u64 = 8 << 10;
/// The header that the Language Server Protocol allows beside the length.
const CONTENT_TYPE: &str = "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n";
/// The place of a progress token in params.
pub(super) const TOKEN: &str = "/_meta/progressToken";

/// Reads one message, behind its header if not every peer reads that; `None` at the end.
pub(super) fn read(
    framing: Framing,
    input: &mut impl BufRead,
) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut header = String::new();
    let mut message = Vec::new();
    if framing == Framing::Newline {
        input.read_until(b'\n', &mut message)?;
        return match message.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some((header, message))),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        };
    }
    let mut lines = input.by_ref().take(HEADER_BYTES);
    // Some peers write line ends between two messages.
    while header.trim().is_empty() || !(header.ends_with("\n\n") || header.ends_with("\n\r\n")) {
        if lines.read_line(&mut header)? == 0 {
            break;
        }
    }
    if header.trim().is_empty() {
        return Ok(None);
    }
    let mut members = header.lines().filter_map(|line| line.split_once(':'));
    let length = members.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, length)| length.trim().parse().ok());
    let none = || io::Error::other(format!("no Content-Length: N, but {header:?}"));
    let length: u64 = length.ok_or_else(none)?;
    // The length may be anything, and what comes is limited.
    if input.take(length).read_to_end(&mut message)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let plain = header.replacen(CONTENT_TYPE, "", 1);
    if plain == format!("Content-Length: {length}\r\n\r\n") {
        header.clear();
    }
    Ok(Some((header, message)))
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
    /// The name of its method.
    pub(super) method: String,
    /// Its params; null if there are none.
    pub(super) params: Value,
}

impl Request {
    /// Returns the token under which its progress is reported.
    pub(super) fn token(&self) -> Option<&Value> {
        self.params.pointer(TOKEN)
    }

    /// Returns the same as a request to us.
    pub(super) fn asked(&self) -> Asked {
        Asked::new(&self.id.to_string(), self.method.as_str(), self.params.clone())
    }

    /// Returns whether the relay makes it for itself, as each peer may at any time.
    pub(super) fn is_own(&self) -> bool {
        self.tag.is_none() && self.asked().is_housekeeping()
    }
}

impl Message {
    /// Returns the request that it is, if it is one and no cancel.
    pub(super) fn request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Returns the answer that it gives to the request with this id.
    pub(super) fn answer_to(&self, request: &Value) -> Option<&Value> {
        match self {
            Self::Response { id, answer } if id == request => Some(answer),
            _ => None,
        }
    }

    /// Returns whether it is a cancel that names this id.
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

    /// Reads a response. Some peers leave out the id of an error that belongs to no request.
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

/// Returns whether a message is a cancel. In the Debug Adapter Protocol one that names a progress and no request is a
/// request as any other.
fn is_cancel(protocol: &Wire, method: &str, has_id: bool, params: &Value) -> bool {
    let is_dap = protocol.dialect.envelope == Envelope::Dap;
    let names = |member: &str| params.get(member).is_some();
    let names_progress = names("progressId") && !names(protocol.cancel_member());
    protocol.dialect.cancel.has_method(method) && has_id == is_dap && !(is_dap && names_progress)
}

/// Returns the number that tells a request of ours from all others, wherever in its params it is.
pub(super) fn tag(params: &Value) -> Option<u64> {
    let members = params.as_object()?;
    members.get("tag").and_then(Value::as_u64).or_else(|| members.values().find_map(tag))
}

/// Returns whether a request can have this id.
pub(super) fn has_id(protocol: &Wire, id: &Value) -> bool {
    protocol.dialect.envelope != Envelope::Dap || id.as_u64().is_some_and(|id| id > 0)
}

/// Returns the id that is this text, or this number where ids are no texts.
pub(super) fn text_id(protocol: &Wire, text: &str, number: impl FnOnce() -> u64) -> Value {
    let id = json!(text);
    if has_id(protocol, &id) { id } else { json!(number()) }
}

/// Returns an event without its number, which is another on each side.
fn unnumbered(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("seq");
    }
    event
}

/// Returns a response's outcome, and the command that it repeats.
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
