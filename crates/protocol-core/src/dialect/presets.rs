//! The dialects that are spoken today. `docs/dialects.md` names the rule behind each value.

use core::time::Duration;

use super::{
    AnswerRule, BatchRule, BeforeStart, CancelRule, CancelTarget, Cancellers, CapabilityRule,
    ClosedStream, Dialect, Envelope, Grace, MessageOrder, PartialResults, ProgressRule,
    SessionRule, Uncancellable, code,
};
use crate::frame::Framing;
use crate::id::IdRule;

impl Dialect {
    /// Plain JSON-RPC 2.0, one message a line. It has no cancel on the wire: cancelling settles
    /// locally, and a late answer is recognised.
    pub const JSON_RPC: Self = Self {
        name: "jsonrpc",
        framing: Framing::Newline,
        envelope: Envelope::JsonRpc,
        ids: IdRule::NumberOrString,
        cancel: CancelRule::Local,
        answer: AnswerRule::Answered,
        cancelled_message: "Request cancelled",
        grace: Grace::Settle(Duration::ZERO),
        partial_results: PartialResults::Allowed,
        batches: BatchRule::Accepted { except: &[] },
        progress: &[],
        overload_code: code::INTERNAL_ERROR,
        uncancellable: Uncancellable::NOTHING,
        cancellers: Cancellers::Both,
        capability: CapabilityRule::NotNeeded,
        session: SessionRule::NotNeeded,
        before_start: BeforeStart::Delivered,
        order: MessageOrder::Kept,
        closed_stream: ClosedStream::PeerGone,
    };

    /// Agent Client Protocol, version 1: `$/cancel_request {requestId}`, always answered.
    pub const ACP_V1: Self = Self {
        name: "acp",
        ids: IdRule::IntegerStringOrNull,
        cancel: CancelRule::Notification {
            method: "$/cancel_request",
            id: "requestId",
            reason: None,
        },
        grace: Grace::Await,
        batches: BatchRule::Refused,
        progress: &[ProgressRule {
            method: "session/update",
            token: "sessionId",
            tokens_of_call: &[&["sessionId"]],
        }],
        overload_code: code::REQUEST_CANCELLED,
        ..Self::JSON_RPC
    };

    /// Agent Client Protocol, version 2: as version 1, with ids that are never null.
    pub const ACP_V2: Self = Self { name: "acp-v2", ids: IdRule::IntegerOrString, ..Self::ACP_V1 };

    /// The first draft of cancelling in the Agent Client Protocol: `$/cancelRequest {id}`, only
    /// towards a side that declared it, never for `initialize`.
    pub const ACP_DRAFT: Self = Self {
        name: "acp-draft",
        ids: IdRule::IntegerOrString,
        cancel: CancelRule::Notification { method: "$/cancelRequest", id: "id", reason: None },
        cancelled_message: "Cancelled",
        uncancellable: Uncancellable { methods: &["initialize"], params: &[] },
        capability: CapabilityRule::Declared {
            exchange: "initialize",
            client: &["clientCapabilities", "cancellation", "request"],
            server: &["agentCapabilities", "cancellation", "request"],
        },
        ..Self::ACP_V1
    };

    /// Language Server Protocol 3.17: `$/cancelRequest {id}`, always answered.
    pub const LSP_3_17: Self = Self {
        name: "lsp",
        framing: Framing::ContentLength,
        ids: IdRule::Int32OrString,
        cancel: CancelRule::Notification { method: "$/cancelRequest", id: "id", reason: None },
        grace: Grace::Await,
        batches: BatchRule::Refused,
        progress: &[ProgressRule {
            method: "$/progress",
            token: "token",
            tokens_of_call: &[&["workDoneToken"], &["partialResultToken"]],
        }],
        overload_code: code::REQUEST_FAILED,
        ..Self::JSON_RPC
    };

    /// Model Context Protocol 2024-11-05 on stdio: `notifications/cancelled {requestId, reason?}`,
    /// never answered.
    pub const MCP_2024_11_05: Self = Self {
        name: "mcp-2024-11-05",
        ids: IdRule::IntegerOrString,
        cancel: CancelRule::Notification {
            method: "notifications/cancelled",
            id: "requestId",
            reason: Some("reason"),
        },
        answer: AnswerRule::Silent,
        partial_results: PartialResults::Refused,
        batches: BatchRule::Refused,
        progress: &[ProgressRule {
            method: "notifications/progress",
            token: "progressToken",
            tokens_of_call: &[&["_meta", "progressToken"]],
        }],
        uncancellable: Uncancellable { methods: &["initialize"], params: &[] },
        ..Self::JSON_RPC
    };

    /// MCP 2025-03-26 on stdio: takes batches, but `initialize` may not be in one.
    pub const MCP_2025_03_26: Self = Self {
        name: "mcp-2025-03-26",
        batches: BatchRule::Accepted { except: &["initialize"] },
        ..Self::MCP_2024_11_05
    };

    /// MCP 2025-06-18 on stdio: without batches again.
    pub const MCP_2025_06_18: Self = Self { name: "mcp-2025-06-18", ..Self::MCP_2024_11_05 };

    /// MCP 2025-11-25 on stdio: task-augmented requests are cancelled by `tasks/cancel`.
    pub const MCP_2025_11_25: Self = Self {
        name: "mcp-2025-11-25",
        uncancellable: Uncancellable { methods: &["initialize"], params: &["task"] },
        ..Self::MCP_2024_11_05
    };

    /// MCP 2026-07-28 on stdio: only the client cancels, and nothing further is sent for a cancelled
    /// request.
    pub const MCP_2026_07_28: Self = Self {
        name: "mcp-2026-07-28",
        answer: AnswerRule::SilentWithProgress,
        uncancellable: Uncancellable { methods: &[], params: &["task"] },
        cancellers: Cancellers::Client { server_ends: &["subscriptions/listen"] },
        ..Self::MCP_2024_11_05
    };

    /// The newest MCP on stdio.
    pub const MCP: Self = Self { name: "mcp", ..Self::MCP_2026_07_28 };

    /// MCP 2024-11-05 over HTTP.
    pub const MCP_2024_11_05_HTTP: Self =
        Self { name: "mcp-2024-11-05-http", ..Self::MCP_2024_11_05.over_http() };

    /// MCP 2025-03-26 over Streamable HTTP.
    pub const MCP_2025_03_26_HTTP: Self =
        Self { name: "mcp-2025-03-26-http", ..Self::MCP_2025_03_26.over_http() };

    /// MCP 2025-06-18 over Streamable HTTP.
    pub const MCP_2025_06_18_HTTP: Self =
        Self { name: "mcp-2025-06-18-http", ..Self::MCP_2025_06_18.over_http() };

    /// MCP 2025-11-25 over Streamable HTTP.
    pub const MCP_2025_11_25_HTTP: Self =
        Self { name: "mcp-2025-11-25-http", ..Self::MCP_2025_11_25.over_http() };

    /// MCP 2026-07-28 over Streamable HTTP, where closing the response's stream is the cancel.
    pub const MCP_2026_07_28_HTTP: Self = Self {
        name: "mcp-2026-07-28-http",
        cancel: CancelRule::ClosedStream,
        closed_stream: ClosedStream::Cancel,
        ..Self::MCP_2026_07_28.over_http()
    };

    /// The newest MCP over Streamable HTTP.
    pub const MCP_HTTP: Self = Self { name: "mcp-http", ..Self::MCP_2026_07_28_HTTP };

    /// App-Browser Protocol: an envelope of its own, `capabilities/cancel {callId, reason?}`
    /// acknowledged, and the cancelled call answered too.
    pub const ABP: Self = Self {
        name: "abp",
        framing: Framing::Whole,
        envelope: Envelope::Abp,
        ids: IdRule::IntegerOrString,
        cancel: CancelRule::Request {
            method: "capabilities/cancel",
            target: CancelTarget::Id { member: "callId" },
            reason: Some("reason"),
        },
        cancelled_message: "Cancelled",
        grace: Grace::Await,
        partial_results: PartialResults::Refused,
        batches: BatchRule::Refused,
        progress: &[ProgressRule {
            method: "capabilities/progress",
            token: "progressToken",
            tokens_of_call: &[],
        }],
        overload_code: code::REQUEST_FAILED,
        uncancellable: Uncancellable { methods: &["initialize"], params: &[] },
        cancellers: Cancellers::Client { server_ends: &[] },
        session: SessionRule::Opened { by: "initialize" },
        before_start: BeforeStart::Skipped,
        ..Self::JSON_RPC
    };

    /// erlmcp: `tool/call` is answered with a token at once, and `cancel {cancellationToken}` cancels
    /// the operation that goes on.
    pub const ERLMCP: Self = Self {
        name: "erlmcp",
        ids: IdRule::IntegerOrString,
        cancel: CancelRule::Request {
            method: "cancel",
            target: CancelTarget::Operation {
                starts: &["tool/call"],
                token: "cancellationToken",
                told: "notifications/cancelled",
            },
            reason: None,
        },
        grace: Grace::Await,
        batches: BatchRule::Refused,
        overload_code: code::REQUEST_FAILED,
        cancellers: Cancellers::Client { server_ends: &[] },
        ..Self::JSON_RPC
    };

    /// What Streamable HTTP changes: each message is whole, messages may overtake each other, and a
    /// closed stream is no cancel.
    const fn over_http(self) -> Self {
        Self {
            framing: Framing::Whole,
            order: MessageOrder::MayChange,
            closed_stream: ClosedStream::NoCancel,
            ..self
        }
    }

    /// Every preset, in the order `--help` lists them.
    pub const PRESETS: [Self; 19] = [
        Self::JSON_RPC,
        Self::ACP_V1,
        Self::ACP_V2,
        Self::ACP_DRAFT,
        Self::LSP_3_17,
        Self::MCP,
        Self::MCP_2024_11_05,
        Self::MCP_2025_03_26,
        Self::MCP_2025_06_18,
        Self::MCP_2025_11_25,
        Self::MCP_2026_07_28,
        Self::MCP_HTTP,
        Self::MCP_2024_11_05_HTTP,
        Self::MCP_2025_03_26_HTTP,
        Self::MCP_2025_06_18_HTTP,
        Self::MCP_2025_11_25_HTTP,
        Self::MCP_2026_07_28_HTTP,
        Self::ABP,
        Self::ERLMCP,
    ];

    /// Whether messages of this method are cancels that name an id, in this dialect, or as notifications
    /// in any preset. That id means nothing on another connection, so a proxy must never pass one on
    /// (B25). The token of an operation means the same everywhere.
    #[must_use]
    pub fn is_cancel(&self, method: &str) -> bool {
        if self.tells_of_cancels(method) {
            return false;
        }
        let is_notification = |rule| matches!(rule, CancelRule::Notification { .. });
        let mut others = Self::PRESETS.iter().map(|preset| preset.cancel);
        self.cancel.is(method) && !self.has_operations()
            || others.any(|rule| is_notification(rule) && rule.is(method))
    }

    /// The preset of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::PRESETS.into_iter().find(|dialect| dialect.name == name)
    }
}
