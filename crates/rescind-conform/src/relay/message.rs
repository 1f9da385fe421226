//! The messages on the wire, read without any of the code that may be under test.

use std::io::{self, BufRead, Read};

use protocol_core::{Dialect, Envelope};
use serde_json::Value;

use super::envelope;
use crate::family::Family;
use crate::value::integer;

/// A longer message is not read.
const MESSAGE_BYTES: usize = 64 << 20;

/// The properties of a protocol that the rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The family whose clauses hold.
    pub(super) family: Family,
    /// The framing, which tells messages apart.
    pub(super) framing: Framing,
    /// The form in which messages are written.
    pub(super) envelope: Envelope,
    /// The method of its cancel.
    pub(super) cancel: &'static str,
    /// The member of the cancel's params that names the request.
    pub(super) target: &'static str,
    /// The messages that a cancelled request still gets.
    pub(super) cancelled: Cancelled,
    /// Methods of requests that can't be cancelled.
    pub(super) uncancellable: &'static [&'static str],
    /// The sides that may cancel.
    pub(super) cancellers: Cancellers,
    /// Whether it has batches.
    pub(super) batches: bool,
}

/// The messages that a cancelled request still gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// Its answer, as any other.
    Answered,
    /// Progress, if that goes on; no answer.
    Unanswered,
    /// Nothing at all.
    Silence,
}

/// The sides that may cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancellers {
    /// The client and the server.
    Both,
    /// Only the client.
    Client,
}

impl Protocol {
    const ACP: Self = Self {
        family: Family::Acp,
        framing: Framing::Newline,
        envelope: Envelope::JsonRpc,
        cancel: "$/cancel_request",
        target: "requestId",
        cancelled: Cancelled::Answered,
        uncancellable: &[],
        cancellers: Cancellers::Both,
        batches: false,
    };

    const ACP_DRAFT: Self = Self {
        cancel: "$/cancelRequest",
        target: "id",
        uncancellable: &["initialize"],
        ..Self::ACP
    };

    const LSP: Self = Self {
        framing: Framing::ContentLength,
        cancel: "$/cancelRequest",
        target: "id",
        ..Self::ACP
    };

    /// In the revisions with an `initialize`.
    const MCP_UNTIL_2025: Self = Self {
        cancel: "notifications/cancelled",
        cancelled: Cancelled::Unanswered,
        uncancellable: &["initialize"],
        ..Self::ACP
    };

    const MCP_2026: Self = Self {
        cancelled: Cancelled::Silence,
        uncancellable: &[],
        cancellers: Cancellers::Client,
        ..Self::MCP_UNTIL_2025
    };

    const DAP: Self = Self {
        framing: Framing::ContentLength,
        envelope: Envelope::Dap,
        cancel: "cancel",
        cancellers: Cancellers::Client,
        ..Self::ACP
    };

    /// That of a dialect, if there are rules for what its cancels name.
    pub(super) fn of(dialect: &Dialect) -> Option<Self> {
        let family = Family::of(dialect);
        let protocol = match family {
            Family::Acp | Family::AcpV2 => Self::ACP,
            Family::AcpDraft => Self::ACP_DRAFT,
            Family::Lsp => Self::LSP,
            Family::McpUntil2025 => Self::MCP_UNTIL_2025,
            Family::Mcp2026 => Self::MCP_2026,
            Family::Dap => Self::DAP,
            _ => return None,
        };
        let batches = matches!(&*dialect.name, "mcp-2024-11-05" | "mcp-2025-03-26");
        Some(Self { family, batches, ..protocol })
    }
}

/// The way in which messages are told apart in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// One message a line.
    Newline,
    /// `Content-Length: N`, an empty line, N bytes.
    ContentLength,
}

impl Framing {
    /// The bytes of one message.
    pub(super) fn frame(self, message: &str) -> Vec<u8> {
        match self {
            Self::Newline => format!("{message}\n").into_bytes(),
            Self::ContentLength => {
                format!("Content-Length: {}\r\n\r\n{message}", message.len()).into_bytes()
            }
        }
    }

    /// Reads one message, exactly as a strict peer would; `None` at the end.
    pub(super) fn read(self, input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        input.by_ref().take(MESSAGE_BYTES as u64).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if self == Self::Newline {
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
    pub(super) fn read(protocol: Protocol, bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return Self::Other(String::from_utf8_lossy(bytes).into_owned());
        };
        if value.is_array() {
            return Self::Batch(value);
        }
        match protocol.envelope {
            Envelope::Dap => envelope::read_dap(protocol, value),
            _ => Self::of_json_rpc(protocol, value),
        }
    }

    fn of_json_rpc(protocol: Protocol, value: Value) -> Self {
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
            None if method == protocol.cancel => {
                let named = params.get(protocol.target);
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
