//! The clauses about clients that several checks share: the protocol that asks for them, and the page where
//! they stand.

use crate::check::{Clause, Source};
pub(super) use crate::checks::clauses::*;
use crate::family::Family::{self, *};

pub(super) const LSP_ERRORS: Source = Source::new(&[Lsp], page!(lsp "errorCodes"));
pub(super) const MCP_IDS: Source =
    Source::new(&[McpUntil2025, Mcp2026], page!(mcp "2025-11-25/basic#requests"));

/// Those whose clients are asked something, and may be cancelled at it.
pub(super) const BOTH_WAYS: &[Family] = &[Acp, AcpV2, Lsp, McpUntil2025];
/// Those whose clients are asked something.
pub(super) const ASKED: &[Family] = &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Erlmcp];

/// A bad answer harms nobody.
pub(super) const SURVIVES: &[Clause] = &[OURS
    .of(TYPED)
    .should("An answer that nothing asked for settles nothing and ends no connection.")];

pub(super) const SAME_ID: &[Clause] = &[JSON_RPC
    .of(ASKED)
    .must("An answer has the id of its request: the same value, of the same type.")];

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

pub(super) const ANSWERED: &[Clause] =
    &[JSON_RPC.of(ASKED).must("Every request is answered, and once.")];
