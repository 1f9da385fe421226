//! The clauses about relays: the protocol that asks for them, and the page where they stand.

use crate::check::{Clause, Level};
use crate::checks::clauses::{
    ACP, DAP, DAP_BASE, DAP_PROGRESS, ENDED_IN_ACP, ENDED_IN_DAP, ENDED_IN_LSP, ENDED_IN_MCP_2026,
    JSON_RPC, LSP, MCP, MCP_NEW, MCP_PROGRESS, OURS, WITH_ACP, clause,
};
use crate::family::Family::{self, Acp, AcpDraft, AcpV2, Dap, Lsp, Mcp2026, McpUntil2025};

pub(super) use crate::checks::clauses::ENDED_LARGE;

/// Those in which cancels are notifications, and ids numbers or texts that the caller chooses.
const BY_ID: &[Family] = &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026];

/// With the one in which cancels are requests.
const ALL: &[Family] = &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Dap];

pub(super) const ANSWERED: &[Clause] = &[
    clause(
        BY_ID,
        Level::Must,
        "A request is answered once, under its id: the same value, of the same type. A relay owes that to each side as any peer does.",
        JSON_RPC,
    ),
    clause(
        &[Dap],
        Level::Must,
        "A request is answered once, by a response with its number and its command. A relay owes that to each side as any peer does.",
        DAP_BASE,
    ),
];

/// The same for the protocols whose clients choose their ids.
pub(super) const ANSWERED_BY_ID: &[Clause] = ANSWERED.split_at(1).0;

pub(super) const REUSED: &[Clause] = &[clause(
    BY_ID,
    Level::Should,
    "A client that misuses an id gets each of its requests answered or refused, and disturbs no other.",
    OURS,
)];

pub(super) const ONE_NAMED: &[Clause] = &[clause(
    BY_ID,
    Level::Must,
    "A cancel names one request of its own direction; others go on, those with an id that only looks alike included.",
    JSON_RPC,
)];

pub(super) const FORWARDED: &[Clause] = &[
    clause(
        WITH_ACP,
        Level::Should,
        "The receiver of a cancel stops the work and what that had started: what a relay has started is the request on its other side.",
        ACP,
    ),
    clause(
        &[Lsp],
        Level::Should,
        "A cancelled request may be answered early: a relay leaves that to who works on it.",
        LSP,
    ),
    clause(
        &[McpUntil2025],
        Level::Should,
        "The receiver of a cancel stops the work: a relay's work is done on its other side.",
        MCP,
    ),
    clause(
        &[Mcp2026],
        Level::Should,
        "The receiver of a cancel stops the work: a relay's work is done on its other side.",
        MCP_NEW,
    ),
    clause(
        &[Dap],
        Level::Should,
        "A cancel says that the client has no interest in the result any more: whoever works on it is told.",
        DAP,
    ),
];

pub(super) const ENDED: &[Clause] = &[
    ENDED_IN_ACP,
    ENDED_IN_LSP,
    clause(
        &[McpUntil2025],
        Level::Should,
        "A cancel and an answer may cross: neither disturbs another request.",
        MCP,
    ),
    clause(
        &[Mcp2026],
        Level::Should,
        "A cancel and an answer may cross: neither disturbs another request.",
        MCP_NEW,
    ),
    ENDED_IN_DAP,
];

pub(super) const PASSED_ON: &[Clause] = &[clause(
    ALL,
    Level::Should,
    "A relay adds nothing, takes nothing away and changes no order: who hears of a cancelled request hears what was said about it.",
    OURS,
)];

pub(super) const IGNORED: &[Clause] = &[clause(
    ALL,
    Level::Should,
    "A cancel that names no request in flight is ignored by who reads it first: on the next connection its id may be another request's.",
    OURS,
)];

pub(super) const STRAY: &[Clause] = &[clause(
    ALL,
    Level::Should,
    "An answer that names no request is ignored by who reads it first: on the next connection its id may be another request's.",
    OURS,
)];

pub(super) const STRAY_BY_TYPE: &[Clause] = &[clause(
    BY_ID,
    Level::Should,
    "An answer that names no request is ignored by who reads it first: on the next connection its id may be another request's.",
    OURS,
)];

pub(super) const SILENCE: &[Clause] = &[
    clause(
        &[McpUntil2025],
        Level::Should,
        "The receiver of a cancel does not answer the request.",
        MCP,
    ),
    ENDED_IN_MCP_2026,
];

pub(super) const PROGRESS: &[Clause] = &[clause(
    &[McpUntil2025, Mcp2026],
    Level::Should,
    "Progress goes to who asked for it, by the token that he gave.",
    MCP_PROGRESS,
)];

pub(super) const ACKNOWLEDGED: &[Clause] = &[clause(
    &[Dap],
    Level::Must,
    "A cancel is a request, and its response an acknowledgement; one that could not cancel anything may return an error.",
    DAP,
)];

pub(super) const PROGRESS_CANCELLED: &[Clause] = &[clause(
    &[Dap],
    Level::Should,
    "A cancel may name a progress, by the id that its adapter gave it, instead of a request.",
    DAP,
)];

pub(super) const PROGRESS_NAMES: &[Clause] = &[clause(
    &[Dap],
    Level::Should,
    "A progress that belongs to a request names that by its number: the one that its caller has given it.",
    DAP_PROGRESS,
)];

pub(super) const UNCANCELLABLE: &[Clause] = &[
    clause(&[AcpDraft], Level::Must, "The request that opens the session is not cancelled.", ACP),
    clause(&[McpUntil2025], Level::Must, "A client does not cancel its initialize.", MCP),
];

pub(super) const FORM: &[Clause] = &[clause(
    ALL,
    Level::Should,
    "What comes to one side in whatever form leaves on the other in one that every peer reads, and what is no message does not leave.",
    OURS,
)];

pub(super) const SPELLED: &[Clause] = &[
    clause(
        BY_ID,
        Level::Must,
        "How bytes are split, and in which order or how escaped the members of a JSON object come, changes nothing.",
        JSON_RPC,
    ),
    clause(
        &[Dap],
        Level::Must,
        "How bytes are split, and in which order or how escaped the members of a JSON object come, changes nothing.",
        DAP_BASE,
    ),
];

pub(super) const GONE: &[Clause] = &[clause(
    ALL,
    Level::Should,
    "The end of one side leaves nobody waiting and nobody at work for nobody on the other.",
    OURS,
)];
