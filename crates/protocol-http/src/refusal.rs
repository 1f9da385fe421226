//! Requests that are refused, and the status of each refusal.

use alloc::format;
use alloc::string::String;
use core::fmt;

use protocol_core::{WireId, code};

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// `Host` names a server that this one is not.
    Host,
    /// `Origin` names a page that may not connect.
    Origin,
    /// The secret of the bearer is missing or wrong.
    Unauthorized,
    /// The path is another one.
    Path,
    /// The method is not offered.
    Method,
    /// `Accept` lists neither JSON nor events, or for GET no events.
    Accept,
    /// `Content-Type` is not JSON.
    ContentType,
    /// A header stands twice, or has bytes that no such header has.
    Header,
    /// The version is unknown, or not offered.
    Version,
    /// A header does not match the body or the session, or is missing.
    Mismatch,
    /// The body lacks a member of `_meta` that the revision requires.
    Meta,
    /// The method is one of earlier revisions alone.
    RemovedMethod,
    /// The body is too long.
    BodyTooLong,
    /// The body took too long to come.
    BodyTooSlow,
    /// The body is no JSON.
    Parse,
    /// The body is no message that a client may send.
    Message,
    /// The body is a batch, and the revision has none.
    Batch,
    /// The body is a batch, and the protocol has none.
    NoBatches,
    /// An id is in flight already.
    DuplicateId,
    /// `Mcp-Session-Id` or `Acp-Connection-Id` is missing.
    NoSession,
    /// `Mcp-Session-Id` or `Acp-Connection-Id` names no session.
    UnknownSession,
    /// `Last-Event-ID` names no event that is kept.
    UnknownEvent,
    /// The stream was read to its end, and nothing more comes.
    StreamIsOver,
    /// Too many sessions or exchanges are open, or they hold too much memory. The client may come again.
    Busy,
}

/// The code of a refusal that is about HTTP and not about JSON-RPC.
const OTHER: i64 = -32000;

impl Refusal {
    /// Returns the status, the code of the error, and its message.
    const fn facts(self) -> (u16, i64, &'static str) {
        match self {
            Self::Host => (403, OTHER, "this host is not served here"),
            Self::Origin => (403, OTHER, "pages of this origin may not connect"),
            Self::Unauthorized => (401, OTHER, "the bearer token is missing or wrong"),
            Self::Path => (404, OTHER, "there is no endpoint at this path"),
            Self::Method => (405, OTHER, "this method is not offered"),
            Self::Accept => {
                (406, OTHER, "Accept lists neither application/json nor text/event-stream")
            }
            Self::ContentType => (415, OTHER, "Content-Type is not application/json"),
            Self::Header => (400, OTHER, "a header stands twice or has invalid characters"),
            Self::Version => (400, -32022, "Unsupported protocol version"),
            Self::Mismatch => {
                (400, -32020, "Header mismatch: a header is missing or differs from the body")
            }
            Self::Meta => (
                400,
                code::INVALID_PARAMS,
                "_meta lacks a member that this protocol version requires",
            ),
            Self::RemovedMethod => (404, code::METHOD_NOT_FOUND, "Method not found"),
            Self::BodyTooLong => (413, OTHER, "the body is too long"),
            Self::BodyTooSlow => (408, OTHER, "the body took too long"),
            Self::Parse => (400, -32700, "the body is no JSON"),
            Self::Message => (400, -32600, "the body is no message of a client"),
            Self::Batch => (400, -32600, "batches are not part of this protocol version"),
            Self::NoBatches => (501, -32600, "batches are not part of this protocol"),
            Self::DuplicateId => (400, -32600, "a request with this id is in flight"),
            Self::NoSession => (400, OTHER, "Mcp-Session-Id or Acp-Connection-Id is missing"),
            // "the server MUST respond to requests containing that session ID with HTTP 404 Not Found."
            Self::UnknownSession => (404, OTHER, "there is no such session"),
            Self::UnknownEvent => (400, OTHER, "the event is not kept any more"),
            // The status that tells a client of server-sent events not to come back.
            Self::StreamIsOver => (204, OTHER, "the stream is over"),
            Self::Busy => {
                (503, OTHER, "too many sessions or requests are open, or they hold too much")
            }
        }
    }

    /// Returns the status.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.facts().0
    }

    /// Returns the code of the JSON-RPC error in the body.
    #[must_use]
    pub const fn code(self) -> i64 {
        self.facts().1
    }

    /// Returns the body: an error with the id of the request, if that could be read.
    ///
    /// Versions are those that the server offers; an error about the version lists them, beside the one that was asked for.
    #[must_use]
    pub fn body(self, id: Option<&WireId>, versions: &[&str], asked: Option<&str>) -> String {
        if self.status() == 204 {
            return String::new();
        }
        let id = id.map_or_else(String::new, |id| format!(r#","id":{}"#, id.as_json()));
        let data = match self {
            // A header is visible ASCII, which Rust escapes as JSON does.
            Self::Version => {
                let asked = asked.unwrap_or_default();
                format!(r#","data":{{"supported":{versions:?},"requested":{asked:?}}}"#)
            }
            _ => String::new(),
        };
        format!(
            r#"{{"jsonrpc":"2.0"{id},"error":{{"code":{},"message":"{self}"{data}}}}}"#,
            self.code()
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().2)
    }
}

impl core::error::Error for Refusal {}
