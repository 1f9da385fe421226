//! The clauses that several checks share: the protocol that asks for them, and the page where they stand.

use crate::check::{Clause, Level};
use crate::family::Family::{
    self, Abp, Acp, AcpDraft, AcpV2, Dap, DapPlain, Erlmcp, JsonRpc, Lsp, Mcp2026, McpUntil2025,
};

pub(crate) const JSON_RPC: &str = "https://www.jsonrpc.org/specification";
pub(crate) const ACP: &str = "https://agentclientprotocol.com/rfds/request-cancellation";
pub(crate) const LSP: &str = "https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#cancelRequest";
pub(crate) const LSP_DOLLAR: &str = "https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#dollarRequests";
pub(crate) const LSP_EXIT: &str = "https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#initialize";
pub(crate) const MCP: &str =
    "https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation";
pub(crate) const MCP_NEW: &str =
    "https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation";
pub(crate) const MCP_PROGRESS: &str =
    "https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress";
pub(crate) const MCP_STDIO: &str =
    "https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio";
pub(crate) const MCP_STOP: &str =
    "https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#stdio";
pub(crate) const ABP: &str = "docs/dialects.md, abp";
pub(crate) const DAP: &str =
    "https://microsoft.github.io/debug-adapter-protocol/specification#Requests_Cancel";
pub(crate) const DAP_BASE: &str =
    "https://microsoft.github.io/debug-adapter-protocol/specification#Base_Protocol";
pub(crate) const DAP_PROGRESS: &str =
    "https://microsoft.github.io/debug-adapter-protocol/specification#Events_ProgressStart";
pub(crate) const OURS: &str = "docs/conformance.md, needs of users";

pub(crate) const CANCELLING: &[Family] = &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Abp];
pub(crate) const WITH_ACP: &[Family] = &[Acp, AcpV2, AcpDraft];
pub(crate) const ALL: &[Family] =
    &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Abp, Dap, DapPlain, Erlmcp];
pub(crate) const TYPED: &[Family] =
    &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Erlmcp];
pub(crate) const LARGE: &[Family] = &[JsonRpc, Acp, AcpV2, AcpDraft, McpUntil2025, Mcp2026, Erlmcp];

pub(crate) const fn clause(
    families: &'static [Family],
    level: Level,
    text: &'static str,
    source: &'static str,
) -> Clause {
    Clause { families, level, text, source }
}

pub(crate) const ENDED_IN_ACP: Clause = clause(
    WITH_ACP,
    Level::Must,
    "A cancelled request is answered: with its result, a part of it, or error -32800.",
    ACP,
);
pub(crate) const ENDED_IN_LSP: Clause = clause(
    &[Lsp],
    Level::Must,
    "A cancelled request still has to return and send an answer; it can't be left hanging.",
    LSP,
);
pub(crate) const ENDED_IN_MCP: Clause = clause(
    &[McpUntil2025],
    Level::Should,
    "The receiver of a cancel stops the work and does not answer the request.",
    MCP,
);
pub(crate) const ENDED_IN_MCP_2026: Clause = clause(
    &[Mcp2026],
    Level::Must,
    "On stdio nothing further is sent for a cancelled request.",
    MCP_NEW,
);
pub(crate) const ENDED_IN_DAP: Clause = clause(
    &[Dap],
    Level::Must,
    "The request that got cancelled still needs to send a response back: a normal result, or success false with the message cancelled.",
    DAP,
);

/// The demand of each protocol on a request that was cancelled.
pub(crate) const ENDED: &[Clause] = &[
    ENDED_IN_ACP,
    ENDED_IN_LSP,
    ENDED_IN_MCP,
    ENDED_IN_MCP_2026,
    clause(
        &[Abp],
        Level::Must,
        "A cancelled call is answered, and its cancel is acknowledged.",
        ABP,
    ),
    ENDED_IN_DAP,
];

/// The same for the protocols whose clients choose their ids: all but the last.
pub(crate) const ENDED_BY_ID: &[Clause] = ENDED.split_at(ENDED.len() - 1).0;

pub(crate) const IGNORED_IN_LSP: Clause = clause(
    &[Lsp],
    Level::Must,
    "A cancel is a notification: nothing answers it, and a finished request is not answered again.",
    LSP,
);
pub(crate) const IGNORED_IN_MCP: Clause = clause(
    &[McpUntil2025],
    Level::Should,
    "A cancel of an unknown or finished request is ignored.",
    MCP,
);

pub(crate) const IGNORED: &[Clause] = &[
    clause(WITH_ACP, Level::Must, "A cancel of an unknown or finished request is ignored.", ACP),
    IGNORED_IN_LSP,
    IGNORED_IN_MCP,
    clause(
        &[Mcp2026],
        Level::Should,
        "A cancel of an unknown or finished request is ignored.",
        MCP_NEW,
    ),
    clause(
        &[Abp],
        Level::Must,
        "A cancel that finds nothing is acknowledged as such, and changes nothing.",
        ABP,
    ),
    clause(
        &[Dap],
        Level::Must,
        "A cancel that could not cancel anything may return an error; a finished request is not answered again.",
        DAP,
    ),
];

pub(crate) const MALFORMED: &[Clause] = &[
    clause(
        &[Acp, AcpV2, AcpDraft, Lsp, Abp],
        Level::Must,
        "A notification is never answered, and one bad message ends no connection.",
        JSON_RPC,
    ),
    clause(&[McpUntil2025, Mcp2026], Level::Should, "A malformed cancel is ignored.", MCP),
    clause(&[Dap], Level::Should, "A bad request is refused, and ends no connection.", OURS),
];

pub(crate) const NOT_NAMED: &[Clause] = &[
    clause(
        CANCELLING,
        Level::Must,
        "A cancel names one request; others go on, those with an id that only looks alike included.",
        JSON_RPC,
    ),
    clause(&[Dap], Level::Must, "A cancel concerns one specific request.", DAP),
];

/// The same for the protocols whose ids are numbers or texts.
pub(crate) const NOT_NAMED_BY_TYPE: &[Clause] = &[clause(
    &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026],
    Level::Must,
    "A cancel names one request; others go on, those with an id that only looks alike included.",
    JSON_RPC,
)];

pub(crate) const SAME_ID: &[Clause] = &[clause(
    TYPED,
    Level::Must,
    "An answer has the id of its request: the same value, of the same type.",
    JSON_RPC,
)];

pub(crate) const HONOUR: &[Clause] = &[
    clause(
        WITH_ACP,
        Level::Should,
        "The receiver stops the work and what that had started, as soon as it can.",
        ACP,
    ),
    clause(
        &[Lsp],
        Level::Information,
        "A server may answer with its result; the point of a cancel is that it need not.",
        LSP,
    ),
    clause(&[Abp], Level::Should, "A cancelled operation is stopped.", ABP),
    clause(
        &[Dap],
        Level::Information,
        "An adapter makes a best effort; there are no guarantees.",
        DAP,
    ),
];

pub(crate) const LIVES_ON: &[Clause] = &[
    clause(
        CANCELLING,
        Level::Must,
        "The connection serves on after a cancel: later requests are answered.",
        JSON_RPC,
    ),
    clause(
        &[Dap],
        Level::Must,
        "The connection serves on after a cancel: later requests are answered.",
        DAP_BASE,
    ),
];

/// [`ENDED`] for the protocols whose ids may be greater than 32 bits.
pub(crate) const ENDED_LARGE: &[Clause] = &[clause(
    &[Acp, AcpV2, AcpDraft, McpUntil2025, Mcp2026],
    Level::Should,
    "An id is an integer of any size, or a text. (Numbers over 2^53 are not carried by everybody: SHOULD at most.)",
    JSON_RPC,
)];

/// [`SAME_ID`] for the protocols whose ids may be greater than 32 bits.
pub(crate) const SAME_LARGE_ID: &[Clause] = &[clause(
    LARGE,
    Level::Should,
    "An answer has the id of its request. (Numbers over 2^53 are not carried by everybody: SHOULD at most.)",
    JSON_RPC,
)];
