//! The clauses about relays that several checks share: the protocol that asks for them, and the page where they
//! stand.

use crate::check::Clause;
pub(super) use crate::checks::clauses::*;
use crate::family::Family::{self, *};

/// The protocols with checks of relays, the one in which cancels are requests among them.
pub(super) const ALL: &[Family] = &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026, Dap];

pub(super) const ANSWERED: &[Clause] = &[
    JSON_RPC.of(BY_ID).must("A request is answered once, under its id: the same value, of the same type. A relay owes that to each side as any peer does."),
    DAP_BASE.must("A request is answered once, by a response with its number and its command. A relay owes that to each side as any peer does."),
];

/// The same for the protocols whose clients choose their ids.
pub(super) const ANSWERED_BY_ID: &[Clause] = ANSWERED.split_at(1).0;

pub(super) const REUSED: &[Clause] = &[OURS.of(BY_ID).should("A client that misuses an id gets each of its requests answered or refused, and disturbs no other.")];

pub(super) const ONE_NAMED: &[Clause] = &[JSON_RPC.of(BY_ID).must("A cancel names one request of its own direction; others go on, those with an id that only looks alike included.")];

pub(super) const FORWARDED: &[Clause] = &[
    ACP.should("The receiver of a cancel stops the work and what that had started: what a relay has started is the request on its other side."),
    LSP.should("A cancelled request may be answered early: a relay leaves that to who works on it."),
    MCP.should("The receiver of a cancel stops the work: a relay's work is done on its other side."),
    MCP_NEW.should("The receiver of a cancel stops the work: a relay's work is done on its other side."),
    DAP.should("A cancel says that the client has no interest in the result any more: whoever works on it is told."),
];

pub(super) const PASSED_ON: &[Clause] = &[OURS.of(ALL).should("A relay adds nothing, takes nothing away and changes no order: who hears of a cancelled request hears what was said about it.")];

pub(super) const IGNORED: &[Clause] = &[OURS.of(ALL).should("A cancel that names no request in flight is ignored by who reads it first: on the next connection its id may be another request's.")];

pub(super) const SILENCE: &[Clause] =
    &[MCP.should("The receiver of a cancel does not answer the request."), ENDED_IN_MCP_2026];

pub(super) const FORM: &[Clause] = &[OURS.of(ALL).should("What comes to one side in whatever form leaves on the other in one that every peer reads, and what is no message does not leave.")];

pub(super) const SPELLED: &[Clause] = &[
    JSON_RPC.of(BY_ID).must("How bytes are split, and in which order or how escaped the members of a JSON object come, changes nothing."),
    DAP_BASE.must("How bytes are split, and in which order or how escaped the members of a JSON object come, changes nothing."),
];

pub(super) const GONE: &[Clause] = &[OURS.of(ALL).should(
    "The end of one side leaves nobody waiting and nobody at work for nobody on the other.",
)];
