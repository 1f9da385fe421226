//! The dialects that are spoken today. `docs/dialects.md` names the rule behind each value.

use alloc::borrow::Cow::Borrowed;
use core::mem;
use core::time::Duration;

use super::{
    BeforeStart, CancelRule, Cancellers, CapabilityRule, Dialect, Envelope, Grace, MessageOrder,
    ProgressRule, ResponseRule, Text, Uncancellable, code,
};
use crate::cause::Cause;
use crate::frame::Framing;
use crate::id::IdRule;

/// A preset that is another with some fields changed, written as Rust writes it for values that need no
/// destructor: a constant can't drop what it replaces.
macro_rules! preset {
    (Self { $($field:ident: $value:expr,)* ..$base:expr }) => {{
        let mut preset: Self = $base;
        $(put(&mut preset.$field, $value);)*
        preset
    }};
}

/// Forgets the old value, which is a constant of a preset and owns no memory.
const fn put<T>(place: &mut T, value: T) {
    mem::forget(mem::replace(place, value));
}

/// A list of texts.
macro_rules! list {
    ($($text:expr),*) => { Borrowed(&[$(Borrowed($text)),*]) };
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
    /// Plain JSON-RPC 2.0, one message a line. It has no cancel on the wire: cancelling settles
    /// locally, and a late answer is recognised.
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
        overload_code: code::INTERNAL_ERROR,
        uncancellable: Uncancellable::NOTHING,
        cancellers: Cancellers::Both,
        capability: CapabilityRule::NotNeeded,
        session: None,
        before_start: BeforeStart::Delivered,
        order: MessageOrder::Kept,
        closed_stream: Some(Cause::PeerGone),
        exchanges: list![],
        revisions: list![],
    };

    /// Agent Client Protocol, version 1: `$/cancel_request {requestId}`, always answered.
    pub const ACP_V1: Self = preset!(Self {
        name: Borrowed("acp"),
        ids: IdRule::IntegerStringOrNull,
        cancel: notified("$/cancel_request", "requestId", None),
        grace: Grace::Await,
        batches: None,
        progress: Borrowed(&[ProgressRule {
            method: Borrowed("session/update"),
            token: Borrowed("sessionId"),
            tokens_of_call: Borrowed(&[list!["sessionId"]]),
        }]),
        overload_code: code::REQUEST_CANCELLED,
        ..Self::JSON_RPC
    });

    /// Agent Client Protocol, version 2: as version 1, with ids that are never null.
    pub const ACP_V2: Self =
        preset!(Self { name: Borrowed("acp-v2"), ids: IdRule::IntegerOrString, ..Self::ACP_V1 });

    /// The first draft of cancelling in the Agent Client Protocol: `$/cancelRequest {id}`, only
    /// towards a side that declared it, never for `initialize`.
    pub const ACP_DRAFT: Self = preset!(Self {
        name: Borrowed("acp-draft"),
        ids: IdRule::IntegerOrString,
        cancel: notified("$/cancelRequest", "id", None),
        cancelled_message: Borrowed("Cancelled"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
        capability: CapabilityRule::Declared {
            exchange: Borrowed("initialize"),
            client: list!["clientCapabilities", "cancellation", "request"],
            server: list!["agentCapabilities", "cancellation", "request"],
            later: None,
        },
        ..Self::ACP_V1
    });

    /// Language Server Protocol 3.17: `$/cancelRequest {id}`, always answered.
    pub const LSP_3_17: Self = preset!(Self {
        name: Borrowed("lsp"),
        framing: Framing::ContentLength,
        ids: IdRule::Int32OrString,
        cancel: notified("$/cancelRequest", "id", None),
        grace: Grace::Await,
        batches: None,
        progress: Borrowed(&[ProgressRule {
            method: Borrowed("$/progress"),
            token: Borrowed("token"),
            tokens_of_call: Borrowed(&[list!["workDoneToken"], list!["partialResultToken"]]),
        }]),
        overload_code: code::REQUEST_FAILED,
        ..Self::JSON_RPC
    });

    /// Model Context Protocol 2024-11-05 on stdio: `notifications/cancelled {requestId, reason?}`,
    /// never answered.
    pub const MCP_2024_11_05: Self = preset!(Self {
        name: Borrowed("mcp-2024-11-05"),
        ids: IdRule::IntegerOrString,
        cancel: notified("notifications/cancelled", "requestId", REASON),
        response: ResponseRule::Silent,
        partial_results: false,
        batches: None,
        progress: Borrowed(&[ProgressRule {
            method: Borrowed("notifications/progress"),
            token: Borrowed("progressToken"),
            tokens_of_call: Borrowed(&[list!["_meta", "progressToken"]]),
        }]),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
        ..Self::JSON_RPC
    });

    /// MCP 2025-03-26 on stdio: takes batches, but `initialize` may not be in one.
    pub const MCP_2025_03_26: Self = preset!(Self {
        name: Borrowed("mcp-2025-03-26"),
        batches: Some(list!["initialize"]),
        ..Self::MCP_2024_11_05
    });

    /// MCP 2025-06-18 on stdio: without batches again.
    pub const MCP_2025_06_18: Self =
        preset!(Self { name: Borrowed("mcp-2025-06-18"), ..Self::MCP_2024_11_05 });

    /// MCP 2025-11-25 on stdio: task-augmented requests are cancelled by `tasks/cancel`.
    pub const MCP_2025_11_25: Self = preset!(Self {
        name: Borrowed("mcp-2025-11-25"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list!["task"] },
        ..Self::MCP_2024_11_05
    });

    /// MCP 2026-07-28 on stdio: only the client cancels, and nothing further is sent for a cancelled
    /// request.
    pub const MCP_2026_07_28: Self = preset!(Self {
        name: Borrowed("mcp-2026-07-28"),
        response: ResponseRule::SilentWithProgress,
        uncancellable: Uncancellable { methods: list![], params: list!["task"] },
        cancellers: Cancellers::Client { server_may_end: list!["subscriptions/listen"] },
        ..Self::MCP_2024_11_05
    });

    /// MCP on stdio, in the revision that the peers agree on; until then, the newest.
    pub const MCP: Self = preset!(Self {
        name: Borrowed("mcp"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list!["task"] },
        exchanges: Borrowed(MCP_EXCHANGES),
        revisions: Borrowed(MCP_REVISIONS),
        ..Self::MCP_2026_07_28
    });

    /// MCP 2024-11-05 over HTTP.
    pub const MCP_2024_11_05_HTTP: Self =
        preset!(Self { name: Borrowed("mcp-2024-11-05-http"), ..Self::MCP_2024_11_05.over_http() });

    /// MCP 2025-03-26 over Streamable HTTP.
    pub const MCP_2025_03_26_HTTP: Self =
        preset!(Self { name: Borrowed("mcp-2025-03-26-http"), ..Self::MCP_2025_03_26.over_http() });

    /// MCP 2025-06-18 over Streamable HTTP.
    pub const MCP_2025_06_18_HTTP: Self =
        preset!(Self { name: Borrowed("mcp-2025-06-18-http"), ..Self::MCP_2025_06_18.over_http() });

    /// MCP 2025-11-25 over Streamable HTTP.
    pub const MCP_2025_11_25_HTTP: Self =
        preset!(Self { name: Borrowed("mcp-2025-11-25-http"), ..Self::MCP_2025_11_25.over_http() });

    /// MCP 2026-07-28 over Streamable HTTP, where closing the response's stream is the cancel.
    pub const MCP_2026_07_28_HTTP: Self = preset!(Self {
        name: Borrowed("mcp-2026-07-28-http"),
        cancel: CancelRule::ClosedStream,
        closed_stream: Some(Cause::Peer),
        ..Self::MCP_2026_07_28.over_http()
    });

    /// MCP over Streamable HTTP, in the revision that the peers agree on; until then, the newest.
    pub const MCP_HTTP: Self = preset!(Self {
        name: Borrowed("mcp-http"),
        uncancellable: Uncancellable { methods: list!["initialize"], params: list!["task"] },
        exchanges: Borrowed(MCP_EXCHANGES),
        revisions: Borrowed(MCP_HTTP_REVISIONS),
        ..Self::MCP_2026_07_28_HTTP
    });

    /// App-Browser Protocol: an envelope of its own, `capabilities/cancel {callId, reason?}`
    /// acknowledged, and the cancelled call answered too.
    pub const ABP: Self = preset!(Self {
        name: Borrowed("abp"),
        framing: Framing::Whole,
        envelope: Envelope::Abp,
        ids: IdRule::IntegerOrString,
        cancel: requested("capabilities/cancel", "callId", REASON),
        cancelled_message: Borrowed("Cancelled"),
        grace: Grace::Await,
        partial_results: false,
        batches: None,
        progress: Borrowed(&[ProgressRule {
            method: Borrowed("capabilities/progress"),
            token: Borrowed("progressToken"),
            tokens_of_call: Borrowed(&[]),
        }]),
        overload_code: code::REQUEST_FAILED,
        uncancellable: Uncancellable { methods: list!["initialize"], params: list![] },
        cancellers: Cancellers::Client { server_may_end: list![] },
        session: Some(Borrowed("initialize")),
        before_start: BeforeStart::Skipped,
        ..Self::JSON_RPC
    });

    /// Debug Adapter Protocol: every message is numbered by `seq`, `cancel {requestId}` is acknowledged,
    /// and the cancelled request is answered too. The adapter is the server, and says that it can be asked
    /// to cancel.
    pub const DAP: Self = preset!(Self {
        name: Borrowed("dap"),
        framing: Framing::ContentLength,
        envelope: Envelope::Dap,
        ids: IdRule::Int32OrString,
        cancel: requested("cancel", "requestId", None),
        cancelled_message: Borrowed("cancelled"),
        grace: Grace::Await,
        batches: None,
        overload_code: code::REQUEST_FAILED,
        cancellers: Cancellers::Client { server_may_end: list![] },
        capability: CapabilityRule::Declared {
            exchange: Borrowed("initialize"),
            client: list![],
            server: list!["supportsCancelRequest"],
            later: Some((Borrowed("capabilities"), list!["capabilities", "supportsCancelRequest"])),
        },
        session: Some(Borrowed("initialize")),
        ..Self::JSON_RPC
    });

    /// erlmcp: `tool/call` is answered with a token at once, and `cancel {cancellationToken}` cancels
    /// the operation that goes on.
    pub const ERLMCP: Self = preset!(Self {
        name: Borrowed("erlmcp"),
        ids: IdRule::IntegerOrString,
        cancel: CancelRule::Operation {
            method: Borrowed("cancel"),
            token: Borrowed("cancellationToken"),
            started_by: list!["tool/call"],
            notification: Borrowed("notifications/cancelled"),
            reason: None,
        },
        grace: Grace::Await,
        batches: None,
        overload_code: code::REQUEST_FAILED,
        cancellers: Cancellers::Client { server_may_end: list![] },
        ..Self::JSON_RPC
    });

    /// What Streamable HTTP changes: each message is whole, messages may overtake each other, and a
    /// closed stream is no cancel.
    const fn over_http(mut self) -> Self {
        self.framing = Framing::Whole;
        self.order = MessageOrder::MayChange;
        self.closed_stream = None;
        self
    }

    /// Every preset, in the order `--help` lists them.
    pub const PRESETS: &'static [Self] = &[
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
        Self::DAP,
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
        let is_such = |rule: &CancelRule| {
            matches!(rule, CancelRule::Notification { .. }) && rule.has_method(method)
        };
        self.cancel.has_method(method) && !self.has_operations()
            || Self::PRESETS.iter().any(|preset| is_such(&preset.cancel))
    }

    /// The preset of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|dialect| dialect.name == name).cloned()
    }
}

/// How the peers of MCP agree on a revision: the server names the one that it chose, or all that it
/// speaks.
const MCP_EXCHANGES: &[(Text, Text)] = &[
    (Borrowed("initialize"), Borrowed("protocolVersion")),
    (Borrowed("server/discover"), Borrowed("supportedVersions")),
];

const MCP_REVISIONS: &[(Text, Dialect)] = &[
    (Borrowed("2026-07-28"), Dialect::MCP_2026_07_28),
    (Borrowed("2025-11-25"), Dialect::MCP_2025_11_25),
    (Borrowed("2025-06-18"), Dialect::MCP_2025_06_18),
    (Borrowed("2025-03-26"), Dialect::MCP_2025_03_26),
    (Borrowed("2024-11-05"), Dialect::MCP_2024_11_05),
];

const MCP_HTTP_REVISIONS: &[(Text, Dialect)] = &[
    (Borrowed("2026-07-28"), Dialect::MCP_2026_07_28_HTTP),
    (Borrowed("2025-11-25"), Dialect::MCP_2025_11_25_HTTP),
    (Borrowed("2025-06-18"), Dialect::MCP_2025_06_18_HTTP),
    (Borrowed("2025-03-26"), Dialect::MCP_2025_03_26_HTTP),
    (Borrowed("2024-11-05"), Dialect::MCP_2024_11_05_HTTP),
];
