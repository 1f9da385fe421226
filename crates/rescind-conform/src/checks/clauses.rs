//! The clauses that several checks share: the protocol that asks for them, and the page where they stand.

use crate::check::{Clause, Source};
use crate::family::Family::{self, *};

/// The address of a part of the specification of a protocol, by the protocol's name.
macro_rules! page {
    (lsp $at:literal) => {
        concat!(
            "https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#",
            $at
        )
    };
    (mcp $at:literal) => {
        concat!("https://modelcontextprotocol.io/specification/", $at)
    };
    (dap $at:literal) => {
        concat!("https://microsoft.github.io/debug-adapter-protocol/specification#", $at)
    };
}
pub(crate) use page;

pub(crate) const JSON_RPC: Source = Source::new(ALL, "https://www.jsonrpc.org/specification");
pub(crate) const ACP: Source =
    Source::new(WITH_ACP, "https://agentclientprotocol.com/rfds/request-cancellation");
pub(crate) const LSP: Source = Source::new(&[Lsp], page!(lsp "cancelRequest"));
pub(crate) const LSP_DOLLAR: Source =
    Source::new(&[Acp, AcpV2, AcpDraft, Lsp], page!(lsp "dollarRequests"));
pub(crate) const LSP_SYNC: Source = Source::new(&[Lsp], page!(lsp "textDocument_didChange"));
pub(crate) const LSP_EXIT: Source = Source::new(&[Lsp], page!(lsp "initialize"));
pub(crate) const MCP: Source =
    Source::new(&[McpUntil2025], page!(mcp "2025-11-25/basic/utilities/cancellation"));
pub(crate) const MCP_NEW: Source =
    Source::new(&[Mcp2026], page!(mcp "2026-07-28/basic/patterns/cancellation"));
pub(crate) const MCP_HTTP: Source =
    Source::new(&[McpUntil2025], page!(mcp "2025-11-25/basic/transports#streamable-http"));
pub(crate) const MCP_PROGRESS: Source =
    Source::new(&[McpUntil2025], page!(mcp "2025-11-25/basic/utilities/progress"));
pub(crate) const MCP_STDIO: Source =
    Source::new(&[McpUntil2025, Mcp2026], page!(mcp "2025-11-25/basic/transports#stdio"));
pub(crate) const MCP_STOP: Source =
    Source::new(&[McpUntil2025, Mcp2026], page!(mcp "2025-11-25/basic/lifecycle#stdio"));
pub(crate) const ABP: Source = Source::new(&[Abp], "docs/dialects.md, abp");
pub(crate) const DAP: Source = Source::new(&[Dap], page!(dap "Requests_Cancel"));
pub(crate) const DAP_BASE: Source = Source::new(&[Dap], page!(dap "Base_Protocol"));
pub(crate) const LSP_PROGRESS: Source = Source::new(&[Lsp], page!(lsp "workDoneProgress"));
pub(crate) const DAP_PROGRESS: Source = Source::new(&[Dap], page!(dap "Events_ProgressStart"));
pub(crate) const OURS: Source = Source::new(ALL, "docs/conformance.md, needs of users");

/// The protocols that have cancels, with the one in which they are requests.
pub(crate) const WITH_DAP: &[Family] =
    &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Abp, Dap];
pub(crate) const CANCELLING: &[Family] = WITH_DAP.split_at(WITH_DAP.len() - 1).0;
pub(crate) const WITH_ACP: &[Family] = &[Acp, AcpV2, AcpDraft];
pub(crate) const ALL: &[Family] =
    &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Abp, Dap, DapPlain, Erlmcp];
/// Those in which cancels are notifications, and ids numbers or texts that the caller chooses.
pub(crate) const BY_ID: &[Family] = CANCELLING.split_at(CANCELLING.len() - 1).0;
pub(crate) const TYPED: &[Family] =
    &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Erlmcp];
pub(crate) const LARGE: &[Family] = &[JsonRpc, Acp, AcpV2, AcpDraft, McpUntil2025, Mcp2026, Erlmcp];

pub(crate) const ENDED_IN_ACP: Clause =
    ACP.must("A cancelled request is answered: with its result, a part of it, or error -32800.");
pub(crate) const ENDED_IN_LSP: Clause = LSP
    .must("A cancelled request still has to return and send an answer; it can't be left hanging.");
pub(crate) const ENDED_IN_MCP: Clause = MCP
    .should("The receiver of a cancel stops the work and does not answer the request.")
    .if_heeded();
pub(crate) const ENDED_IN_MCP_2026: Clause =
    MCP_NEW.must("On stdio nothing further is sent for a cancelled request.").if_heeded();
pub(crate) const ENDED_IN_ABP: Clause =
    ABP.must("A cancelled call is answered, and its cancel is acknowledged.");
pub(crate) const ENDED_IN_DAP: Clause = DAP.must("The request that got cancelled still needs to send a response back: a normal result, or success false with the message cancelled.");

/// The demand of each protocol on a request that was cancelled.
pub(crate) const ENDED: &[Clause] =
    &[ENDED_IN_ACP, ENDED_IN_LSP, ENDED_IN_MCP, ENDED_IN_MCP_2026, ENDED_IN_ABP, ENDED_IN_DAP];

/// The same for the protocols in which a cancelled request is answered.
pub(crate) const ENDED_WITH_ANSWER: &[Clause] =
    &[ENDED_IN_ACP, ENDED_IN_LSP, ENDED_IN_ABP, ENDED_IN_DAP];

/// [`ENDED`] for the protocols whose clients choose their ids: all but the last.
pub(crate) const ENDED_BY_ID: &[Clause] = ENDED.split_at(ENDED.len() - 1).0;

pub(crate) const IGNORED_IN_LSP: Clause = LSP.must(
    "A cancel is a notification: nothing answers it, and a finished request is not answered again.",
);
pub(crate) const IGNORED_IN_MCP: Clause =
    MCP.should("A cancel of an unknown or finished request is ignored.");

pub(crate) const IGNORED: &[Clause] = &[
    ACP.must("A cancel of an unknown or finished request is ignored."),
    IGNORED_IN_LSP,
    IGNORED_IN_MCP,
    MCP_NEW.should("A cancel of an unknown or finished request is ignored."),
    ABP.must("A cancel that finds nothing is acknowledged as such, and changes nothing."),
    DAP.must("A cancel that could not cancel anything may return an error; a finished request is not answered again."),
];

pub(crate) const MALFORMED: &[Clause] = &[
    JSON_RPC
        .of(&[Acp, AcpV2, AcpDraft, Lsp, Abp])
        .must("A notification is never answered, and one bad message ends no connection."),
    MCP.of(&[McpUntil2025, Mcp2026]).should("A malformed cancel is ignored."),
    OURS.of(&[Dap]).should("A bad request is refused, and ends no connection."),
];

pub(crate) const ACKNOWLEDGED: &[Clause] = &[
    ABP.must("A cancel is acknowledged with whether it cancelled something."),
    DAP.must(
        "A cancel is a request, and is answered: with an error, if nothing could be cancelled.",
    ),
];

pub(crate) const NOT_NAMED: &[Clause] = &[
    JSON_RPC.of(CANCELLING).must("A cancel names one request; others go on, those with an id that only looks alike included."),
    DAP.must("A cancel concerns one specific request."),
];

/// The same for the protocols whose ids are numbers or texts.
pub(crate) const NOT_NAMED_BY_TYPE: &[Clause] = &[JSON_RPC.of(BY_ID).must(
    "A cancel names one request; others go on, those with an id that only looks alike included.",
)];

pub(crate) const SAME_ID: &[Clause] = &[JSON_RPC
    .of(TYPED)
    .must("An answer has the id of its request: the same value, of the same type.")];

pub(crate) const HONOUR: &[Clause] = &[
    ACP.should("The receiver stops the work and what that had started, as soon as it can.")
        .if_heeded(),
    LSP.information(
        "A server may answer with its result; the point of a cancel is that it need not.",
    ),
    ABP.should("A cancelled operation is stopped."),
    DAP.information("An adapter makes a best effort; there are no guarantees."),
];

pub(crate) const LIVES_ON: &[Clause] = &[
    JSON_RPC
        .of(CANCELLING)
        .must("The connection serves on after a cancel: later requests are answered."),
    DAP_BASE.must("The connection serves on after a cancel: later requests are answered."),
];

/// [`ENDED`] for the protocols whose ids may be greater than 32 bits.
pub(crate) const ENDED_LARGE: &[Clause] = &[JSON_RPC.of(&[Acp, AcpV2, AcpDraft, McpUntil2025, Mcp2026]).information("An id is an integer of any size, or a text, but RFC 7493 advises senders against numbers over 2^53.")];

/// [`SAME_ID`] for the protocols whose ids may be greater than 32 bits.
pub(crate) const SAME_LARGE_ID: &[Clause] = &[JSON_RPC.of(LARGE).information(
    "An answer has the id of its request, but RFC 7493 advises senders against numbers over 2^53.",
)];
