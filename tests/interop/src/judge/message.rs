//! What goes over the wire, read without any of the code under test.

use std::io::{self, BufRead};

use serde_json::Value;

/// What the judge has to know of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name on the command line.
    pub name: &'static str,
    /// How messages are told apart.
    pub framing: Framing,
    /// The method of its cancel.
    pub cancel: &'static str,
    /// The member of the cancel's params that names the request.
    pub target: &'static str,
    /// What a cancelled request still gets.
    pub cancelled: Cancelled,
    /// Methods of requests that can't be cancelled.
    pub uncancellable: &'static [&'static str],
    /// Who may cancel.
    pub cancellers: Cancellers,
}

/// What a cancelled request still gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Its answer, as any other.
    Answered,
    /// Progress, if that goes on; no answer.
    Unanswered,
    /// Nothing at all.
    Silence,
}

/// Who may cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellers {
    /// The client and the server.
    Both,
    /// Only the client.
    Client,
}

impl Protocol {
    /// Agent Client Protocol, version 1.
    pub const ACP: Self = Self {
        name: "acp",
        framing: Framing::Newline,
        cancel: "$/cancel_request",
        target: "requestId",
        cancelled: Cancelled::Answered,
        uncancellable: &[],
        cancellers: Cancellers::Both,
    };

    /// Language Server Protocol 3.17.
    pub const LSP: Self = Self {
        name: "lsp",
        framing: Framing::ContentLength,
        cancel: "$/cancelRequest",
        target: "id",
        cancelled: Cancelled::Answered,
        uncancellable: &[],
        cancellers: Cancellers::Both,
    };

    /// Model Context Protocol 2025-11-25 on stdio.
    pub const MCP_2025: Self = Self {
        name: "mcp-2025-11-25",
        framing: Framing::Newline,
        cancel: "notifications/cancelled",
        target: "requestId",
        cancelled: Cancelled::Unanswered,
        uncancellable: &["initialize"],
        cancellers: Cancellers::Both,
    };

    /// Model Context Protocol 2026-07-28 on stdio.
    pub const MCP: Self = Self {
        name: "mcp",
        cancelled: Cancelled::Silence,
        uncancellable: &[],
        cancellers: Cancellers::Client,
        ..Self::MCP_2025
    };

    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::ACP, Self::LSP, Self::MCP_2025, Self::MCP];

    /// The protocol of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name == name)
    }
}

/// How messages are told apart in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One message a line.
    Newline,
    /// `Content-Length: N`, an empty line, N bytes.
    ContentLength,
}

impl Framing {
    /// The bytes of one message.
    #[must_use]
    pub(super) fn frame(self, message: &str) -> Vec<u8> {
        match self {
            Self::Newline => format!("{message}\n").into_bytes(),
            Self::ContentLength => {
                format!("Content-Length: {}\r\n\r\n{message}", message.len()).into_bytes()
            }
        }
    }

    /// Reads one message, exactly as a strict peer would; `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of reading, and `InvalidData` for a frame that a strict peer does not understand.
    pub(super) fn read(self, input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if self == Self::Newline {
            line.pop_if(|&mut last| last == b'\n').ok_or(io::ErrorKind::UnexpectedEof)?;
            return Ok(Some(line));
        }
        let strict = || io::Error::new(io::ErrorKind::InvalidData, "not Content-Length: N");
        let header = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix("\r\n"));
        let digits = header.and_then(|line| line.strip_prefix("Content-Length: "));
        let length: usize = digits.and_then(|digits| digits.parse().ok()).ok_or_else(strict)?;
        let mut empty = [0; 2];
        input.read_exact(&mut empty)?;
        let canonical = digits == Some(&length.to_string()) && &empty == b"\r\n";
        let mut message = vec![0; length];
        input.read_exact(&mut message)?;
        if canonical { Ok(Some(message)) } else { Err(strict()) }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// A request.
    Request(Request),
    /// An answer.
    Response {
        /// Whose.
        id: Value,
        /// `{"result": …}` or `{"error": …}`, or more than one of them.
        answer: Value,
    },
    /// A cancel, well-formed or not.
    Cancel(CancelTarget),
    /// Any other notification, whole.
    Notification(Value),
    /// An array.
    Batch(Value),
    /// Nothing of these.
    Other(String),
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    /// Its id.
    pub(super) id: Value,
    /// What the judge marked it with.
    pub(super) tag: Option<u64>,
    /// Its method and params.
    pub(super) method: String,
    /// Its params; null if there are none.
    pub(super) params: Value,
}

/// Which request a cancel names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CancelTarget {
    /// This one.
    Id(Value),
    /// None that could exist.
    Malformed(Value),
}

impl Message {
    /// Reads a message.
    #[must_use]
    pub(super) fn read(protocol: Protocol, bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return Self::Other(String::from_utf8_lossy(bytes).into_owned());
        };
        if value.is_array() {
            return Self::Batch(value);
        }
        let id = value.get("id").cloned();
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
                let tag = params.get("tag").and_then(Value::as_u64);
                Self::Request(Request { id, tag, method: method.into(), params })
            }
            None if method == protocol.cancel => Self::Cancel(target(protocol, &value)),
            None => Self::Notification(value),
        }
    }
}

fn target(protocol: Protocol, cancel: &Value) -> CancelTarget {
    let id = cancel.get("params").and_then(|params| params.get(protocol.target));
    match id {
        Some(id) if id.is_string() || id.is_i64() || id.is_u64() => CancelTarget::Id(id.clone()),
        _ => CancelTarget::Malformed(cancel.clone()),
    }
}
