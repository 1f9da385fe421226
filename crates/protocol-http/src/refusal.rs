//! Requests that are refused, and the status of each refusal.

use alloc::format;
use alloc::string::String;
use core::fmt;

use protocol_core::{WireId, code};

/// The code of a refusal that is about HTTP and not about JSON-RPC.
const OTHER: i64 = -32000;

/// The reason why a request is refused: the status, the code of the error, and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(u16, i64, &'static str);

impl Refusal {
    /// `Host` names a server that this one is not.
    pub const HOST: Self = Self(403, OTHER, "this host is not served here");
    /// `Origin` names a page that may not connect.
    pub const ORIGIN: Self = Self(403, OTHER, "pages of this origin may not connect");
    /// The secret of the bearer is missing or wrong.
    pub const UNAUTHORIZED: Self = Self(401, OTHER, "the bearer token is missing or wrong");
    /// The path is another one.
    pub const PATH: Self = Self(404, OTHER, "there is no endpoint at this path");
    /// The method is not offered.
    pub const METHOD: Self = Self(405, OTHER, "this method is not offered");
    /// `Accept` lists neither JSON nor events, or for GET no events.
    pub const ACCEPT: Self =
        Self(406, OTHER, "Accept lists neither application/json nor text/event-stream");
    /// `Content-Type` is not JSON.
    pub const CONTENT_TYPE: Self = Self(415, OTHER, "Content-Type is not application/json");
    /// A header stands twice, or has bytes that no such header has.
    pub const HEADER: Self = Self(400, OTHER, "a header stands twice or has invalid characters");
    /// The version is unknown, or not offered.
    pub const VERSION: Self = Self(400, -32022, "Unsupported protocol version");
    /// A header does not match the body or the session, or is missing.
    pub const MISMATCH: Self =
        Self(400, -32020, "Header mismatch: a header is missing or differs from the body");
    /// The body lacks a member of `_meta` that the revision requires.
    pub const META: Self =
        Self(400, code::INVALID_PARAMS, "_meta lacks a member that this protocol version requires");
    /// The method is one of earlier revisions alone.
    pub const REMOVED_METHOD: Self = Self(404, code::METHOD_NOT_FOUND, "Method not found");
    /// The body is too long.
    pub const BODY_TOO_LONG: Self = Self(413, OTHER, "the body is too long");
    /// The body took too long to come.
    pub const BODY_TOO_SLOW: Self = Self(408, OTHER, "the body took too long");
    /// The body is no JSON.
    pub const PARSE: Self = Self(400, -32700, "the body is no JSON");
    /// The body is no message that a client may send.
    pub const MESSAGE: Self = Self(400, -32600, "the body is no message of a client");
    /// The body is a batch, and the revision has none.
    pub const BATCH: Self = Self(400, -32600, "batches are not part of this protocol version");
    /// The body is a batch, and the protocol has none.
    pub const NO_BATCHES: Self = Self(501, -32600, "batches are not part of this protocol");
    /// An id is in flight already.
    pub const DUPLICATE_ID: Self = Self(400, -32600, "a request with this id is in flight");
    /// `Mcp-Session-Id` or `Acp-Connection-Id` is missing.
    pub const NO_SESSION: Self = Self(400, OTHER, "Mcp-Session-Id or Acp-Connection-Id is missing");
    /// `Mcp-Session-Id` or `Acp-Connection-Id` names no session.
    // "the server MUST respond to requests containing that session ID with HTTP 404 Not Found."
    pub const UNKNOWN_SESSION: Self = Self(404, OTHER, "there is no such session");
    /// `Last-Event-ID` names no event that is kept.
    pub const UNKNOWN_EVENT: Self = Self(400, OTHER, "the event is not kept any more");
    /// The stream was read to its end, and nothing more comes.
    // The status that tells a client of server-sent events not to come back.
    pub const STREAM_IS_OVER: Self = Self(204, OTHER, "the stream is over");
    /// Too many sessions or exchanges are open, or they hold too much memory. The client may come again.
    pub const BUSY: Self =
        Self(503, OTHER, "too many sessions or requests are open, or they hold too much");

    /// A response was lost, because too much waited for a client that did not listen.
    pub(crate) const LOST: Self =
        Self(503, code::INTERNAL_ERROR, "the response is lost: too much waited for its stream");

    /// Returns the status.
    pub const fn status(self) -> u16 {
        self.0
    }

    /// Returns the body: an error with the id of the request, if that could be read.
    ///
    /// Versions are those that the server offers; an error about headers lists them, beside the one that was asked for.
    pub fn body(self, id: Option<&WireId>, versions: &[&str], asked: Option<&str>) -> String {
        if self.status() == 204 {
            return String::new();
        }
        let id = id.map_or_else(String::new, |id| format!(r#","id":{}"#, id.as_json()));
        let asked = asked.unwrap_or_default();
        let data = match self {
            // A header is visible ASCII, which Rust escapes as JSON does.
            Self::VERSION | Self::MISMATCH => {
                format!(r#","data":{{"supported":{versions:?},"requested":{asked:?}}}"#)
            }
            _ => String::new(),
        };
        let Self(_, code, message) = self;
        format!(r#"{{"jsonrpc":"2.0"{id},"error":{{"code":{code},"message":"{message}"{data}}}}}"#)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.2)
    }
}

impl core::error::Error for Refusal {}
