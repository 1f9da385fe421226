//! The server after its cancels.

use super::base::{BASE, SLOW_A};
use super::clauses::*;
use crate::check::{Check, Id, Item, Level, Need, Rule, Step};
use crate::family::Family::{Abp, Acp, AcpDraft, AcpV2, Dap, Lsp, Mcp2026, McpUntil2025};

/// The checks in their order.
pub(super) const AFTER: &[Check] = &[
    Check {
        id: "after/slow",
        title: "slow requests after a cancel, a late one and one of nothing run to their ends",
        clauses: NOT_NAMED,
        needs: &[Need::Slow],
        steps: &[
            Step::OneRead(&[SLOW_A, Item::Cancel('a')]),
            Step::Natural('t'),
            Step::Send(&[Item::Cancel('t')]),
            Step::Natural('u'),
            Step::Send(&[Item::CancelId("900001"), Item::Cancel('a')]),
            Step::Natural('v'),
            Step::Next,
        ],
        rules: &[
            Rule::Undisturbed('t'),
            Rule::Undisturbed('u'),
            Rule::Undisturbed('v'),
            Rule::NextAnswered,
        ],
        witness: "The answers themselves: to slow requests that were not cancelled.",
    },
    Check {
        id: "after/every",
        title: "of twenty-four cancels one after the other each is honoured as the first",
        clauses: &[
            clause(WITH_ACP, Level::Should, "Every cancel is one, and stops its request.", ACP),
            clause(&[Lsp], Level::Should, "Every cancel is one, whatever came before.", OURS),
            ENDED_IN_MCP,
            ENDED_IN_MCP_2026,
            clause(&[Abp], Level::Should, "Every cancel is one, and stops its operation.", ABP),
            clause(&[Dap], Level::Should, "Every cancel is one, whatever came before.", OURS),
        ],
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[Step::EachCancelled(24), Step::Next],
        rules: &[Rule::EachAsFirst, Rule::NextAnswered],
        witness: "A request that is sent after each cancel is answered, so the cancel was read; in the end the same work is done from its beginning to its end.",
    },
    Check {
        id: "after/many",
        title: "after two hundred cancels as many slow requests are taken at once as before",
        clauses: &[
            clause(CANCELLING, Level::Should, "A cancelled request leaves its place.", OURS),
            clause(&[Dap], Level::Should, "A cancelled request leaves its place.", OURS),
        ],
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[Step::Capacity(200), Step::Next],
        rules: &[Rule::SameCapacity, Rule::AllEnded, Rule::NextAnswered],
        witness: "Slow requests and then a short one in one write: before the cancels the short one is done first. Up to sixteen are tried.",
    },
    Check {
        id: "after/reads-on",
        title: "a server reads on after a cancel: the next request is answered before work that takes longer",
        clauses: &[
            clause(CANCELLING, Level::Should, "A cancel holds nobody up.", OURS),
            clause(&[Dap], Level::Should, "A cancel holds nobody up.", OURS),
        ],
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[
            Step::Send(&[Item::SlowFor('b', 25), SLOW_A]),
            Step::Started('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Send(&[Item::Quick('q', Id::Fresh)]),
            Step::Answered('q'),
            Step::Answered('b'),
        ],
        rules: &[Rule::Before('q', 'b')],
        witness: "Both answers, and their order, which is another without the cancel.",
    },
    Check {
        id: "after/nested",
        title: "a nested request for another request than the cancelled one goes on",
        clauses: &[clause(
            &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026],
            Level::Capability,
            "Of servers that ask: a cancel names one request, and what belongs to others goes on.",
            JSON_RPC,
        )],
        needs: &[Need::Reverse],
        steps: &[
            Step::HoldReverse,
            Step::Send(&[Item::Reverse('a')]),
            Step::AskedFor('a'),
            Step::Send(&[Item::Reverse('b')]),
            Step::AskedFor('b'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::TheirsKept('b')],
        witness: "The next request, sent after the cancel, is answered, and other work is done from its beginning to its end.",
    },
    Check {
        id: "after/duplicate",
        title: "of two requests in flight that have one id something can still be cancelled",
        clauses: &[
            clause(
                WITH_ACP,
                Level::Information,
                "Such a client is wrong; the first request goes on, and can be cancelled.",
                OURS,
            ),
            clause(
                &[Lsp],
                Level::Information,
                "Such a client is wrong; the first request goes on, and can be cancelled.",
                OURS,
            ),
        ],
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[
            Step::Send(&[Item::Slow('a', Id::Token("51")), Item::Slow('b', Id::Token("51"))]),
            Step::Next,
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::SaysCancelled('a')],
        ..BASE
    },
];
