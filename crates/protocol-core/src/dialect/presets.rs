//! The dialects that are in use. `docs/dialects.md` names the source of each value.

use alloc::borrow::Cow::Borrowed;
use core::time::Duration;

use super::data::put;
use super::{
    BeforeStart, CancelRule, Cancellers, CapabilityRule, Dialect, Envelope, Grace, MessageOrder,
    ProgressRule, ResponseRule, Text, Uncancellable, code, kinds,
};
use crate::cause::Cause;
use crate::frame::Framing;
use crate::id::IdRule;

/// A preset that changes some fields of another, in the syntax of Rust's struct update. Constants can't
/// use that syntax itself, because it would drop the values that it replaces.
macro_rules! preset {
    (Self { $($field:ident: $value:expr,)* ..$base:expr }) => {{
        let mut preset: Self = $base;
        $(put(&mut preset.$field, $value);)*
        preset
    }};
}

/// The one progress rule of a dialect: the notification's method, its token member, and the paths to
/// the tokens in a call's params.
macro_rules! progress {
    ($method:expr, $token:expr $(, [$($member:expr),*])*) => {
        Borrowed(&[ProgressRule {
            method: Borrowed($method),
            token: Borrowed($token),
            tokens_of_call: Borrowed(&[$(list![$($member),*]),*]),
        }])
    };
}

/// A list of presets by their names.
macro_rules! presets {
    ($($name:ident)*) => { &[$(Self::$name),*] };
}

/// A list of presets, each with the name of its revision.
macro_rules! revisions {
    ($($version:literal $name:ident),*) => { &[$((Borrowed($version), Dialect::$name)),*] };
}

/// A cancel that is a notification of this method.
const fn notified(method: &'static str, id: &'static str, reason: Option<Text>) -> CancelRule {
    CancelRule::Notification { method: Borrowed(method), id: Borrowed(id), reason }
}

/// A cancel that is a request of this method.
const fn requested(method: &'static str, id: &'static str, reason: Option<Text>) -> CancelRule {
    CancelRule::Request { method: Borrowed(method), id: Borrowed(id), reason }
}

const REASON: Option<Text> = Some(Borrowed("reason"));

impl Dialect {
    /// Plain JSON-RPC 2.0, one message a line.
    ///
    /// It has no cancel message. A cancelled call settles locally, and a late response is recognised.
    pub const JSON_RPC: Self = Self {
        name: Borrowed("jsonrpc"),
        framing: Framing::Newline,
        envelope: Envelope::JsonRpc,
        ids: IdRule::NumberOrString,
        cancel: CancelRule::Local,
        response: ResponseRule::Required,
        cancelled_message: Borrowed("Request cancelled"),
        grace: Grace::Settle(Duration::ZERO),
        partial_results: true,
        batches: Some(list![]),
        progress: Borrowed(&[]),
        work: Borrowed(&[]),
        overload_code: code::INTERNAL_ERROR,
        uncancellable: Uncancellable { methods: list![], params: list![] },
        cancellers: Cancellers::Both,
        capability: CapabilityRule::NotNeeded,
        session: None,
        before_start: BeforeStart::Delivered,
        order: MessageOrder::Kept,
        closed_stream: Some(Cause::PeerGone),
        exchanges: list![],
        revisions: list![],
    };

    /// The rules that most protocols share: the response to a cancelled call is awaited, and there are no
    /// batches.
    const AWAITED: Self = preset!(Self {
        ids: IdRule::IntegerOrString,
        grace: Grace::Await,
        batches: None,
        overload_code: code::REQUEST_FAILED,
        ..Self::JSON_RPC
    });

    /// Agent Client Protocol, version 1: `$/cancel_request {requestId}`, always with a response.
    pub const ACP_V1: Self = preset!(Self {
        name: Borrowed("acp"),
        ids: IdRule::IntegerStringOrNull,
        cancel: notified("$/cancel_request", "requestId", None),
        progress: progress!("session/update", "sessionId", ["sessionId"]),
        work: Borrowed(kinds::TURN_V1),
        overload_code: code::REQUEST_CANCELLED,
        ..Self::AWAITED
    });

    /// Agent Client Protocol, version 2: as version 1, but ids are never null.
    pub const ACP_V2: Self = preset!(Self {
        name: Borrowed("acp-v2"),
        ids: IdRule::IntegerOrString,
        work: Borrowed(kinds::TURN_V2),
        ..Self::ACP_V1
    });

    /// The first draft of cancellation in the Agent Client Protocol: `$/cancelRequest {id}`.
    ///
    /// A cancel is sent only to a side that declared its support, and never for `initialize`.
    pub const ACP_DRAFT: Self = preset!(Self {
        name: Borrowed("acp-draft"),
        work: Borrowed(kinds::TURN_V1),
        cancel: notified("$/cancelRequest", "id", None),
        cancelled_message: Borrowed("Cancelled"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
        capability: CapabilityRule::Declared {
            exchange: Borrowed("initialize"),
            client: list!["clientCapabilities", "cancellation", "request"],
            server: list!["agentCapabilities", "cancellation", "request"],
            later: None,
        },
        ..Self::ACP_V2
    });

    /// Language Server Protocol 3.17: `$/cancelRequest {id}`, always with a response.
    pub const LSP_3_17: Self = preset!(Self {
        name: Borrowed("lsp"),
        framing: Framing::ContentLength,
        ids: IdRule::Int32OrString,
        cancel: notified("$/cancelRequest", "id", None),
        progress: progress!("$/progress", "token", ["workDoneToken"], ["partialResultToken"]),
        work: Borrowed(kinds::PROGRESS_OF_LSP),
        ..Self::AWAITED
    });

    /// Model Context Protocol 2024-11-05 on stdio: `notifications/cancelled {requestId, reason?}`, never
    /// with a response.
    pub const MCP_2024_11_05: Self = preset!(Self {
        name: Borrowed("mcp-2024-11-05"),
        ids: IdRule::IntegerOrString,
        cancel: notified("notifications/cancelled", "requestId", REASON),
        response: ResponseRule::Silent,
        partial_results: false,
        batches: None,
        progress: progress!("notifications/progress", "progressToken", ["_meta", "progressToken"]),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
        ..Self::JSON_RPC
    });

    /// MCP 2025-03-26 on stdio: with batches, which may not hold `initialize`.
    pub const MCP_2025_03_26: Self = preset!(Self {
        name: Borrowed("mcp-2025-03-26"),
        batches: Some(list!["initialize"]),
        ..Self::MCP_2024_11_05
    });

    /// MCP 2025-06-18 on stdio: without batches again.
    pub const MCP_2025_06_18: Self =
        preset!(Self { name: Borrowed("mcp-2025-06-18"), ..Self::MCP_2024_11_05 });

    /// MCP 2025-11-25 on stdio: requests that start a task are cancelled by `tasks/cancel` instead.
    pub const MCP_2025_11_25: Self = preset!(Self {
        name: Borrowed("mcp-2025-11-25"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list!["task"] },
        work: Borrowed(kinds::TASK),
        ..Self::MCP_2024_11_05
    });

    /// MCP 2026-07-28 on stdio: only the client cancels, and a cancelled request gets no response and no
    /// more progress. Its tasks are an extension.
    pub const MCP_2026_07_28: Self = preset!(Self {
        name: Borrowed("mcp-2026-07-28"),
        response: ResponseRule::SilentWithProgress,
        uncancellable: Uncancellable { methods: list![], params: list![] },
        work: Borrowed(kinds::TASK_OF_EXTENSION),
        cancellers: Cancellers::Client { server_may_end: list!["subscriptions/listen"] },
        ..Self::MCP_2024_11_05
    });

    /// MCP on stdio, in the revision that the peers agree on. Until then, it is the newest one.
    pub const MCP: Self = Self::MCP_2026_07_28.negotiated("mcp", MCP_REVISIONS);

    /// MCP 2024-11-05 over HTTP.
    pub const MCP_2024_11_05_HTTP: Self = Self::MCP_2024_11_05.over_http("mcp-2024-11-05-http");

    /// MCP 2025-03-26 over Streamable HTTP.
    pub const MCP_2025_03_26_HTTP: Self = Self::MCP_2025_03_26.over_http("mcp-2025-03-26-http");

    /// MCP 2025-06-18 over Streamable HTTP.
    pub const MCP_2025_06_18_HTTP: Self = Self::MCP_2025_06_18.over_http("mcp-2025-06-18-http");

    /// MCP 2025-11-25 over Streamable HTTP.
    pub const MCP_2025_11_25_HTTP: Self = Self::MCP_2025_11_25.over_http("mcp-2025-11-25-http");

    /// MCP 2026-07-28 over Streamable HTTP: the cancel is the end of the response's stream.
    pub const MCP_2026_07_28_HTTP: Self = preset!(Self {
        cancel: CancelRule::ClosedStream,
        closed_stream: Some(Cause::Peer),
        ..Self::MCP_2026_07_28.over_http("mcp-2026-07-28-http")
    });

    /// MCP over Streamable HTTP, in the revision that the peers agree on. Until then, it is the newest
    /// one.
    pub const MCP_HTTP: Self = Self::MCP_2026_07_28_HTTP.negotiated("mcp-http", MCP_HTTP_REVISIONS);

    /// App-Browser Protocol: an envelope of its own, and `capabilities/cancel {callId, reason?}`.
    ///
    /// Both the cancel and the cancelled call get a response.
    pub const ABP: Self = preset!(Self {
        name: Borrowed("abp"),
        framing: Framing::Whole,
        envelope: Envelope::Abp,
        cancel: requested("capabilities/cancel", "callId", REASON),
        cancelled_message: Borrowed("Cancelled"),
        partial_results: false,
        progress: progress!("capabilities/progress", "progressToken"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
        cancellers: Cancellers::Client { server_may_end: list![] },
        session: Some(Borrowed("initialize")),
        before_start: BeforeStart::Skipped,
        ..Self::AWAITED
    });

    /// Debug Adapter Protocol: every message is numbered by `seq`, and the cancel is
    /// `cancel {requestId}`.
    ///
    /// Both the cancel and the cancelled request get a response. The adapter is the server, and declares
    /// its support for cancellation.
    pub const DAP: Self = preset!(Self {
        name: Borrowed("dap"),
        framing: Framing::ContentLength,
        envelope: Envelope::Dap,
        ids: IdRule::Int32OrString,
        cancel: requested("cancel", "requestId", None),
        cancelled_message: Borrowed("cancelled"),
        cancellers: Cancellers::Client { server_may_end: list![] },
        capability: CapabilityRule::Declared {
            exchange: Borrowed("initialize"),
            client: list![],
            server: list!["supportsCancelRequest"],
            later: Some((Borrowed("capabilities"), list!["capabilities", "supportsCancelRequest"])),
        },
        session: Some(Borrowed("initialize")),
        work: Borrowed(kinds::PROGRESS_OF_DAP),
        ..Self::AWAITED
    });

    /// MCP as erlmcp speaks it: the response to `tool/call` is a token, and the operation goes on.
    ///
    /// `cancel {cancellationToken}` cancels the operation.
    pub const ERLMCP: Self = preset!(Self {
        name: Borrowed("erlmcp"),
        cancel: CancelRule::Operation {
            method: Borrowed("cancel"),
            token: Borrowed("cancellationToken"),
            started_by: list!["tool/call"],
            notification: Borrowed("notifications/cancelled"),
            reason: None,
        },
        cancellers: Cancellers::Client { server_may_end: list![] },
        ..Self::AWAITED
    });

    /// Returns the dialect for Streamable HTTP: messages are whole and may overtake each other, and a
    /// closed stream is no cancel.
    const fn over_http(mut self, name: &'static str) -> Self {
        put(&mut self.name, Borrowed(name));
        self.framing = Framing::Whole;
        self.order = MessageOrder::MayChange;
        self.closed_stream = None;
        self
    }

    /// Returns the family of MCP dialects that begins as this one. Older peers ask for `initialize`, which
    /// can't be cancelled.
    const fn negotiated(self, name: &'static str, revisions: &'static [(Text, Self)]) -> Self {
        preset!(Self {
            name: Borrowed(name),
            uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
            // The server names the revision that it chose, or all that it speaks.
            exchanges: Borrowed(&[
                (Borrowed("initialize"), Borrowed("protocolVersion")),
                (Borrowed("server/discover"), Borrowed("supportedVersions")),
            ]),
            revisions: Borrowed(revisions),
            ..self
        })
    }

    /// Every preset, in the order that `--help` lists them.
    pub const PRESETS: &'static [Self] = presets! {
        JSON_RPC ACP_V1 ACP_V2 ACP_DRAFT LSP_3_17
        MCP MCP_2024_11_05 MCP_2025_03_26 MCP_2025_06_18 MCP_2025_11_25 MCP_2026_07_28
        MCP_HTTP MCP_2024_11_05_HTTP MCP_2025_03_26_HTTP MCP_2025_06_18_HTTP
        MCP_2025_11_25_HTTP MCP_2026_07_28_HTTP
        ABP DAP ERLMCP
    };

    /// Returns whether messages of this method are cancels that name an id: in this dialect, or as
    /// notifications in any preset.
    ///
    /// Such an id means nothing on another connection, so a proxy must never pass the cancel on (B25).
    /// The token of an operation means the same everywhere.
    pub fn is_cancel(&self, method: &str) -> bool {
        let notifies = |it: &Self| {
            matches!(it.cancel, CancelRule::Notification { .. }) && it.cancel.has_method(method)
        };
        let is_own = self.cancel.has_method(method) && !self.has_operations();
        !self.tells_of_cancels(method) && (is_own || Self::PRESETS.iter().any(notifies))
    }

    /// Returns the preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|dialect| dialect.name == name).cloned()
    }
}

const MCP_REVISIONS: &[(Text, Dialect)] = revisions! {
    "2026-07-28" MCP_2026_07_28, "2025-11-25" MCP_2025_11_25, "2025-06-18" MCP_2025_06_18,
    "2025-03-26" MCP_2025_03_26, "2024-11-05" MCP_2024_11_05
};

const MCP_HTTP_REVISIONS: &[(Text, Dialect)] = revisions! {
    "2026-07-28" MCP_2026_07_28_HTTP, "2025-11-25" MCP_2025_11_25_HTTP, "2025-06-18" MCP_2025_06_18_HTTP,
    "2025-03-26" MCP_2025_03_26_HTTP, "2024-11-05" MCP_2024_11_05_HTTP
};
