//! The clauses about clients that several checks share: the protocol that asks for them, and the page where
//! they stand.

use crate::check::{Clause, Source};
pub(super) use crate::checks::clauses::*;
use crate::family::Family::{self, *};

pub(super) const LSP_ERRORS: Source = Source::new(&[Lsp], page!(lsp "errorCodes"));
pub(super) const MCP_IDS: Source =
    Source::new(&[McpUntil2025, Mcp2026], page!(mcp "2025-11-25/basic#requests"));

/// Those whose clients are asked something, and may be cancelled at it.
const BOTH_WAYS: &[Family] = &[Acp, AcpV2, Lsp, McpUntil2025];
/// Those whose clients are asked something.
const ASKED: &[Family] = &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Erlmcp];

/// A cancel has to name a request that is in flight.
pub(super) const NAMES: &[Clause] = &[
    MCP.must("A cancel names only a request that was sent before in the same direction, and is believed to be in progress."),
    MCP_NEW.must("A cancel names only a request that was sent before, and is believed to be in progress."),
    ACP.must("A cancel names the request that it cancels by its id."),
    LSP.must("A cancel carries the id of the request to cancel."),
    ABP.must("A cancel names the call that it cancels."),
    DAP.must("A cancel carries the number of the request to cancel."),
];

/// The same of the protocols whose ids are numbers or texts.
pub(super) const NAMES_BY_TYPE: &[Clause] = &[
    MCP.of(&[McpUntil2025, Mcp2026])
        .must("A cancel carries the id of the request, which is a text or a number."),
    ACP.must("A cancel names the request that it cancels by its id."),
    LSP.must("A cancel carries the id of the request to cancel."),
];

/// A cancelled request may still get its result.
pub(super) const RESULT_ALL_THE_SAME: &[Clause] = &[
    ACP.must("A cancelled request may still be answered with its result, or a part of it."),
    LSP.must("A cancelled request may still return its result, or a part of it."),
];

/// An answer to a request that the client has cancelled is ignored.
pub(super) const LATE: &[Clause] = &[
    MCP.should("Who has cancelled a request ignores an answer that comes after that."),
    MCP_NEW.should("Who has cancelled a request ignores an answer that comes after that."),
];

/// A bad answer harms nobody.
pub(super) const SURVIVES: &[Clause] = &[OURS
    .of(TYPED)
    .should("An answer that nothing asked for settles nothing and ends no connection.")];

pub(super) const SAME_ID: &[Clause] = &[JSON_RPC
    .of(ASKED)
    .must("An answer has the id of its request: the same value, of the same type.")];

/// [`SAME_ID`] for the protocols whose ids may be greater than 32 bits.
pub(super) const SAME_LARGE_ID: &[Clause] = &[JSON_RPC.of(&[JsonRpc, Acp, AcpV2, AcpDraft, McpUntil2025, Erlmcp]).information("An answer has the id of its request, but RFC 7493 advises senders against numbers over 2^53.")];

/// A request in each direction with one id.
pub(super) const OTHER_DIRECTION: &[Clause] = &[JSON_RPC.of(ASKED).must("Whoever sends a request chooses its id: those of the two directions have nothing to do with each other.")];

/// A request of ours that we cancelled has to end as each protocol wants.
pub(super) const ENDED: &[Clause] = &[
    ACP.of(&[Acp, AcpV2]).must("A cancelled request is answered: with its result, a part of it, or error -32800."),
    ACP.of(&[AcpDraft]).capability("Of clients that declare it: a cancelled request is answered with its result, a part of it, or error -32800."),
    ENDED_IN_LSP,
    ENDED_IN_MCP,
];

/// A cancel that finds nothing.
pub(super) const IGNORED: &[Clause] = &[
    ACP.of(&[Acp, AcpV2]).must("A cancel of an unknown or finished request is ignored."),
    ACP.of(&[AcpDraft]).capability(
        "Of clients that declare it: a cancel of an unknown or finished request is ignored.",
    ),
    IGNORED_IN_LSP,
    IGNORED_IN_MCP,
];

pub(super) const MALFORMED: &[Clause] = &[
    JSON_RPC
        .of(&[Acp, AcpV2, Lsp])
        .must("A notification is never answered, and one bad message ends no connection."),
    MCP.should("A malformed cancel is ignored."),
];

pub(super) const NOT_THEIRS: &[Clause] = &[JSON_RPC.of(BOTH_WAYS).must("A cancel names a request of its sender; ids of the two directions have nothing to do with each other.")];

/// Many requests of ours.
pub(super) const BURST: &[Clause] = &[
    JSON_RPC.of(&[Acp, AcpV2, Lsp]).must("Every request is answered once."),
    JSON_RPC.of(&[McpUntil2025]).must("Every request is answered at most once."),
];

pub(super) const ANSWERED: &[Clause] =
    &[JSON_RPC.of(ASKED).must("Every request is answered, and once.")];

pub(super) const NOT_ANSWERED: &[Clause] = &[
    LSP_DOLLAR.must("Unknown notifications that begin with $/ are ignored."),
    JSON_RPC.of(&[JsonRpc, McpUntil2025, Mcp2026, Erlmcp]).must("Notifications are not answered."),
];
