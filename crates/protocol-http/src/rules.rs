//! The revisions of Streamable HTTP, of MCP and of ACP, as data.

use core::time::Duration;

use protocol_core::{Cause, Dialect, ResponseRule, code};

use crate::refusal::Refusal;

/// The rules of one revision of Streamable HTTP.
///
/// Nothing asks which revision it has; it reads these fields. A quotation at a preset names the source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The revision, as the header `MCP-Protocol-Version` and the result of `initialize` name it.
    pub version: &'static str,
    /// The dialect of the endpoint.
    pub dialect: &'static Dialect,
    /// Whether requests belong to a session, with GET streams that are resumed by `Last-Event-ID`, DELETE, and responses that a
    /// client posts. Without sessions, headers repeat the version, the method and the name of each request.
    pub has_sessions: bool,
    /// The header with the id of that session. In ACP it is a connection, which has sessions of its own.
    pub session_header: &'static str,
    /// Whether responses come on GET streams that requests share: one of the connection, and one of each session in it.
    ///
    /// Otherwise the response to a POST is the stream of its request. A client keeps cookies where streams are shared, and
    /// returns them.
    pub shares_streams: bool,
    /// The status of DELETE.
    pub delete_status: u16,
    /// Whether the stream of a posted request begins with an event that has an id and no data.
    pub is_primed: bool,
    /// The refusal of a body that is an array of messages. `None` takes it.
    pub batch_refusal: Option<Refusal>,
    /// Whether a client names the revision in `MCP-Protocol-Version`, in requests after `initialize`. It may name another
    /// one that has sessions.
    pub has_version_header: bool,
    /// The members of `_meta` without which a request is refused.
    pub required_meta: &'static [&'static str],
    /// The requests of earlier revisions that are unknown methods in this one, even if a handler would take them.
    pub removed: &'static [&'static str],
    /// The errors whose status is not 200, by their codes.
    pub error_statuses: &'static [(i64, u16)],
    /// The longest time until the head of a stream leaves, unless the session is told that the request has begun. The
    /// status is open until then.
    pub head_after: Duration,
    /// The meaning of a lost stream.
    pub on_loss: OnLoss,
}

/// The meaning of a stream that closed before its request had a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The request is cancelled at once.
    CancelNow,
    /// The request is cancelled unless its stream is resumed within this time.
    CancelAfter(Duration),
    /// The request goes on.
    GoOn,
}

impl Rules {
    /// MCP 2025-03-26, the first revision with this transport, and with batches.
    pub const MCP_2025_03_26: Self = Self {
        version: "2025-03-26",
        dialect: &Dialect::MCP_2025_03_26_HTTP,
        has_sessions: true,
        session_header: "mcp-session-id",
        shares_streams: false,
        delete_status: 204,
        is_primed: false,
        batch_refusal: None,
        has_version_header: false,
        required_meta: &[],
        removed: &[],
        error_statuses: &[],
        head_after: Duration::ZERO,
        // "Disconnection SHOULD NOT be interpreted as the client cancelling its request."
        on_loss: OnLoss::GoOn,
    };

    /// MCP 2024-11-05. It had another transport, but its servers settle it over this one too.
    pub const MCP_2024_11_05: Self = Self {
        version: "2024-11-05",
        dialect: &Dialect::MCP_2024_11_05_HTTP,
        // "Added support for JSON-RPC batching", says the next revision.
        batch_refusal: Some(Refusal::BATCH),
        ..Self::MCP_2025_03_26
    };

    /// MCP 2025-06-18: one message a body, and the header with the version.
    pub const MCP_2025_06_18: Self = Self {
        version: "2025-06-18",
        dialect: &Dialect::MCP_2025_06_18_HTTP,
        // "The body of the POST request MUST be a single JSON-RPC request, notification, or response."
        batch_refusal: Some(Refusal::BATCH),
        has_version_header: true,
        ..Self::MCP_2025_03_26
    };

    /// MCP 2025-11-25: each stream begins with an event id.
    pub const MCP_2025_11_25: Self = Self {
        version: "2025-11-25",
        dialect: &Dialect::MCP_2025_11_25_HTTP,
        // "The server SHOULD immediately send an SSE event consisting of an event ID and an empty data field."
        is_primed: true,
        ..Self::MCP_2025_06_18
    };

    /// MCP 2026-07-28: no sessions, and the end of a stream is the cancel.
    pub const MCP_2026_07_28: Self = Self {
        version: "2026-07-28",
        dialect: &Dialect::MCP_2026_07_28_HTTP,
        // "The client MUST NOT send JSON-RPC responses." "Resumable SSE streams via Last-Event-ID are not supported."
        has_sessions: false,
        is_primed: false,
        // "Every client request MUST include the following io.modelcontextprotocol/* fields in _meta".
        required_meta: &[
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
        ],
        removed: &[
            "initialize",
            "logging/setLevel",
            "ping",
            "resources/subscribe",
            "resources/unsubscribe",
        ],
        // "it MUST respond with 404 Not Found and a JSON-RPC error with code -32601". A client without a capability that
        // is needed gets -32021, and "the response status code MUST be 400 Bad Request".
        error_statuses: &[(code::METHOD_NOT_FOUND, 404), (-32021, 400)],
        head_after: Duration::from_secs(1),
        // "Closing the SSE response stream MUST be treated by the server as cancellation of that request."
        on_loss: OnLoss::CancelNow,
        ..Self::MCP_2025_11_25
    };

    /// ACP 1, by its RFD on Streamable HTTP and WebSocket.
    pub const ACP_V1: Self = Self {
        version: "1",
        dialect: &Dialect::ACP_V1,
        session_header: "acp-connection-id",
        // "All server→client messages … are delivered via SSE streams opened with GET." "Clients MUST accept, store, and
        // return cookies set by the server".
        shares_streams: true,
        // "Terminate connection and all associated sessions, return 202".
        delete_status: 202,
        // "Batch JSON-RPC requests return 501."
        batch_refusal: Some(Refusal::NO_BATCHES),
        // "Sessions survive disconnects", so a lost stream is no cancel. To resume it after an event is our addition.
        ..Self::MCP_2025_03_26
    };

    /// ACP 2, over the same transport.
    pub const ACP_V2: Self = Self { version: "2", dialect: &Dialect::ACP_V2, ..Self::ACP_V1 };

    /// The presets of ACP. A server offers one of them.
    pub const ACP: &'static [Self] = &[Self::ACP_V1, Self::ACP_V2];

    /// Every preset of MCP, the newest first.
    pub const PRESETS: &'static [Self] = &[
        Self::MCP_2026_07_28,
        Self::MCP_2025_11_25,
        Self::MCP_2025_06_18,
        Self::MCP_2025_03_26,
        Self::MCP_2024_11_05,
    ];

    /// Returns the preset of MCP with this version.
    pub fn named(version: &str) -> Option<&'static Self> {
        Self::PRESETS.iter().find(|rules| rules.version == version)
    }

    /// Returns the rules of a session whose `initialize` names this version. Without such a version they stay the same.
    pub fn settled(&'static self, version: Option<&str>) -> &'static Self {
        let named = version.filter(|_| !self.shares_streams).and_then(Self::named);
        named.filter(|rules| rules.has_sessions).unwrap_or(self)
    }

    /// Returns the cause of a request that is cancelled because its stream was lost.
    ///
    /// It is `peer` where the end of the stream is the cancel, and `peer_gone` where the host decided so.
    pub fn loss_cause(&self) -> Cause {
        self.dialect.closed_stream.unwrap_or(Cause::PeerGone)
    }

    /// Returns whether a request that was cancelled for this gets no response.
    pub fn is_silent(&self, cause: Cause) -> bool {
        cause == Cause::Peer && self.dialect.response != ResponseRule::Required
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::ClientSession;

    #[test]
    fn a_client_names_no_version_but_the_one_that_its_server_settled() {
        for settled in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let mut client = ClientSession::new(&Rules::MCP_2025_11_25);
            let result = format!(r#"{{"id":1,"result":{{"protocolVersion":"{settled}"}}}}"#);
            assert!(client.opened(None, result.as_bytes()));
            assert_eq!(client.rules().version, settled);
            assert!(client.headers().iter().all(|(_, named)| named == settled), "{settled}");
        }
    }
}
