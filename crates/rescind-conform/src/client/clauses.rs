//! The clauses about clients that several checks share: the protocol that asks for them, and the page where
//! they stand.

use crate::check::{Clause, Level};
use crate::family::Family::{
    self, Abp, Acp, AcpDraft, AcpV2, Dap, Erlmcp, JsonRpc, Lsp, Mcp2026, McpUntil2025,
};

pub(super) use crate::checks::clauses::{
    ABP, ACP, ALL, CANCELLING, DAP, DAP_BASE, ENDED_IN_LSP, ENDED_IN_MCP, IGNORED_IN_LSP,
    IGNORED_IN_MCP, JSON_RPC, LSP, LSP_DOLLAR, MCP, MCP_NEW, MCP_STDIO, OURS, TYPED, WITH_ACP,
    clause,
};

pub(super) const LSP_ERRORS: &str = "https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#errorCodes";
pub(super) const MCP_IDS: &str =
    "https://modelcontextprotocol.io/specification/2025-11-25/basic#requests";

/// Those whose clients are asked something, and may be cancelled at it.
const BOTH_WAYS: &[Family] = &[Acp, AcpV2, Lsp, McpUntil2025];
/// Those whose clients are asked something.
const ASKED: &[Family] = &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Erlmcp];

/// A cancel has to name a request that is in flight.
pub(super) const NAMES: &[Clause] = &[
    clause(
        &[McpUntil2025],
        Level::Must,
        "A cancel names only a request that was sent before in the same direction, and is believed to be in progress.",
        MCP,
    ),
    clause(
        &[Mcp2026],
        Level::Must,
        "A cancel names only a request that was sent before, and is believed to be in progress.",
        MCP_NEW,
    ),
    clause(WITH_ACP, Level::Must, "A cancel names the request that it cancels by its id.", ACP),
    clause(&[Lsp], Level::Must, "A cancel carries the id of the request to cancel.", LSP),
    clause(&[Abp], Level::Must, "A cancel names the call that it cancels.", ABP),
    clause(&[Dap], Level::Must, "A cancel carries the number of the request to cancel.", DAP),
];

/// The same of the protocols whose ids are numbers or texts.
pub(super) const NAMES_BY_TYPE: &[Clause] = &[
    clause(
        &[McpUntil2025, Mcp2026],
        Level::Must,
        "A cancel carries the id of the request, which is a text or a number.",
        MCP,
    ),
    clause(WITH_ACP, Level::Must, "A cancel names the request that it cancels by its id.", ACP),
    clause(&[Lsp], Level::Must, "A cancel carries the id of the request to cancel.", LSP),
];

/// A cancelled request may still get its result.
pub(super) const RESULT_ALL_THE_SAME: &[Clause] = &[
    clause(
        WITH_ACP,
        Level::Must,
        "A cancelled request may still be answered with its result, or a part of it.",
        ACP,
    ),
    clause(
        &[Lsp],
        Level::Must,
        "A cancelled request may still return its result, or a part of it.",
        LSP,
    ),
];

/// An answer to a request that the client has cancelled is ignored.
pub(super) const LATE: &[Clause] = &[
    clause(
        &[McpUntil2025],
        Level::Should,
        "Who has cancelled a request ignores an answer that comes after that.",
        MCP,
    ),
    clause(
        &[Mcp2026],
        Level::Should,
        "Who has cancelled a request ignores an answer that comes after that.",
        MCP_NEW,
    ),
];

/// A bad answer harms nobody.
pub(super) const SURVIVES: &[Clause] = &[clause(
    TYPED,
    Level::Should,
    "An answer that nothing asked for settles nothing and ends no connection.",
    OURS,
)];

pub(super) const SAME_ID: &[Clause] = &[clause(
    ASKED,
    Level::Must,
    "An answer has the id of its request: the same value, of the same type.",
    JSON_RPC,
)];

/// [`SAME_ID`] for the protocols whose ids may be greater than 32 bits.
pub(super) const SAME_LARGE_ID: &[Clause] = &[clause(
    &[JsonRpc, Acp, AcpV2, AcpDraft, McpUntil2025, Erlmcp],
    Level::Should,
    "An answer has the id of its request. (Numbers over 2^53 are not carried by everybody: SHOULD at most.)",
    JSON_RPC,
)];

/// A request in each direction with one id.
pub(super) const OTHER_DIRECTION: &[Clause] = &[clause(
    ASKED,
    Level::Must,
    "Whoever sends a request chooses its id: those of the two directions have nothing to do with each other.",
    JSON_RPC,
)];

/// A request of ours that we cancelled has to end as each protocol wants.
pub(super) const ENDED: &[Clause] = &[
    clause(
        &[Acp, AcpV2],
        Level::Must,
        "A cancelled request is answered: with its result, a part of it, or error -32800.",
        ACP,
    ),
    clause(
        &[AcpDraft],
        Level::Capability,
        "Of clients that declare it: a cancelled request is answered with its result, a part of it, or error -32800.",
        ACP,
    ),
    ENDED_IN_LSP,
    ENDED_IN_MCP,
];

/// A cancel that finds nothing.
pub(super) const IGNORED: &[Clause] = &[
    clause(
        &[Acp, AcpV2],
        Level::Must,
        "A cancel of an unknown or finished request is ignored.",
        ACP,
    ),
    clause(
        &[AcpDraft],
        Level::Capability,
        "Of clients that declare it: a cancel of an unknown or finished request is ignored.",
        ACP,
    ),
    IGNORED_IN_LSP,
    IGNORED_IN_MCP,
];

pub(super) const MALFORMED: &[Clause] = &[
    clause(
        &[Acp, AcpV2, Lsp],
        Level::Must,
        "A notification is never answered, and one bad message ends no connection.",
        JSON_RPC,
    ),
    clause(&[McpUntil2025], Level::Should, "A malformed cancel is ignored.", MCP),
];

pub(super) const NOT_THEIRS: &[Clause] = &[clause(
    BOTH_WAYS,
    Level::Must,
    "A cancel names a request of its sender; ids of the two directions have nothing to do with each other.",
    JSON_RPC,
)];

/// Many requests of ours.
pub(super) const BURST: &[Clause] = &[
    clause(&[Acp, AcpV2, Lsp], Level::Must, "Every request is answered once.", JSON_RPC),
    clause(&[McpUntil2025], Level::Must, "Every request is answered at most once.", JSON_RPC),
];

pub(super) const ANSWERED: &[Clause] =
    &[clause(ASKED, Level::Must, "Every request is answered, and once.", JSON_RPC)];

pub(super) const NOT_ANSWERED: &[Clause] = &[
    clause(
        &[Acp, AcpV2, AcpDraft, Lsp],
        Level::Must,
        "Unknown notifications that begin with $/ are ignored.",
        LSP_DOLLAR,
    ),
    clause(
        &[JsonRpc, McpUntil2025, Mcp2026, Erlmcp],
        Level::Must,
        "Notifications are not answered.",
        JSON_RPC,
    ),
];
