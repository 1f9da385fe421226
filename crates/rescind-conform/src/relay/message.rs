//! The messages on the wire, read without any of the code that may be under test.

use std::io::{self, BufRead, Read};

use protocol_core::{Envelope, Framing};
use serde_json::Value;

use super::envelope;
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
        /// The request that it names.
        target: CancelTarget,
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

/// The request that a cancel names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CancelTarget {
    /// The request of this id.
    Id(Value),
    /// None that could exist.
    Malformed(Value),
}

impl Message {
    /// Reads a message.
    pub(super) fn read(protocol: &Wire, bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return Self::Other(String::from_utf8_lossy(bytes).into_owned());
        };
        if value.is_array() {
            return Self::Batch(value);
        }
        match protocol.dialect.envelope {
            Envelope::Dap => envelope::read_dap(protocol, value),
            _ => Self::of_json_rpc(protocol, value),
        }
    }

    fn of_json_rpc(protocol: &Wire, value: Value) -> Self {
        let id = value.get("id").cloned().map(integer);
        let Some(method) = value.get("method").and_then(Value::as_str) else {
            let mut answer = value.clone();
            let members = answer.as_object_mut();
            let has_answer = members.is_some_and(|members| {
                members.retain(|name, _| name == "result" || name == "error");
                !members.is_empty()
            });
            return match id {
                Some(id) if has_answer => Self::Response { id, answer },
                // Some peers leave out the id of an error that belongs to no request.
                None if has_answer => Self::Response { id: Value::Null, answer },
                _ => Self::Other(value.to_string()),
            };
        };
        let params = value.get("params").cloned().unwrap_or_default();
        match id {
            Some(id) => {
                let tag = tag(&params);
                Self::Request(Request { id, tag, method: method.into(), params })
            }
            None if protocol.dialect.cancel.has_method(method) => {
                let named = params.get(protocol.cancel_member());
                let is_id = named.is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
                Self::cancel(named.filter(|_| is_id), &value, None)
            }
            None => Self::Notification(value),
        }
    }

    /// A cancel that names this, if that could be a request.
    pub(super) fn cancel(named: Option<&Value>, whole: &Value, own: Option<Value>) -> Self {
        let target = match named {
            Some(id) => CancelTarget::Id(integer(id.clone())),
            None => CancelTarget::Malformed(whole.clone()),
        };
        Self::Cancel { target, own }
    }
}

/// The number that tells a request of ours from all others, wherever in its params it is.
pub(super) fn tag(params: &Value) -> Option<u64> {
    match params {
        Value::Object(members) => {
            members.get("tag").and_then(Value::as_u64).or_else(|| members.values().find_map(tag))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
