//! Whether work that was cancelled ends, and what many cancels do.

use super::base::{BASE, SLOW_A};
use super::clauses::*;
use crate::check::{Check, Id, Item, Level, Need, Rule, Step};
use crate::family::Family::{Abp, Acp, AcpDraft, AcpV2, Dap, Lsp, Mcp2026, McpUntil2025};

const BEFORE_B: Rule = Rule::Honoured { cancelled: 'a', before: 'b' };
const STOPPED: &str = "The server's word, or the order: the answer says cancelled, or comes before that to a request that was asked first and is done in half the time. Where nobody can ask for a time, as of a language server, it says cancelled or is a part of the result, for one of up to eight requests; if it is for none, a request that was sent with the cancel was answered first.";

/// In their order.
pub(super) const WORK: &[Check] = &[
    Check {
        id: "progress/after-cancel",
        title: "no progress of a request once its cancel was read",
        clauses: &[
            clause(
                &[McpUntil2025],
                Level::Should,
                "Processing stops, and with it progress.",
                MCP_PROGRESS,
            ),
            ENDED_IN_MCP_2026,
        ],
        needs: &[Need::Slow, Need::Progress, Need::ReadsOn],
        steps: &[
            Step::Send(&[SLOW_A]),
            Step::Started('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::NoProgressAfter('a')],
        witness: "A request that was sent after the cancel is answered, so the cancel was read; then the same work is done anew, with its progress.",
    },
    Check {
        id: "honour/one-read",
        title: "a request that is cancelled before its turn says so, or is answered before what was asked first",
        clauses: HONOUR,
        needs: &[Need::Slow],
        steps: &[Step::Rounds {
            steps: &[
                Step::OneRead(&[
                    Item::SlowFor('b', 50),
                    SLOW_A,
                    Item::Cancel('a'),
                    Item::Quick('q', Id::Fresh),
                ]),
                Step::Answered('b'),
                Step::Answered('a'),
            ],
            until: Some(BEFORE_B),
            in_time: None,
        }],
        rules: &[BEFORE_B],
        witness: STOPPED,
    },
    Check {
        id: "honour/running",
        title: "a request that is cancelled at work says so, or is answered before what was asked first",
        clauses: HONOUR,
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[Step::Rounds {
            steps: &[
                Step::Send(&[Item::SlowFor('b', 50), SLOW_A]),
                Step::Started('a'),
                Step::Send(&[Item::Cancel('a'), Item::Quick('q', Id::Fresh)]),
                Step::Answered('b'),
                Step::Answered('q'),
                Step::Answered('a'),
            ],
            until: Some(BEFORE_B),
            in_time: Some(('a', 'q')),
        }],
        rules: &[BEFORE_B],
        witness: STOPPED,
    },
    Check {
        id: "honour/whole",
        title: "a cancelled request that is answered with a result is answered with all of it",
        clauses: &[
            clause(
                WITH_ACP,
                Level::Information,
                "A cancelled request may be answered with a part of its result.",
                ACP,
            ),
            clause(
                &[Lsp],
                Level::Information,
                "A partial result is allowed; nothing tells a client that it is one.",
                LSP,
            ),
            clause(
                &[Dap],
                Level::Information,
                "Partial results are possible; a client has no generic way to detect them.",
                DAP,
            ),
        ],
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[
            Step::Natural('t'),
            Step::Rounds {
                steps: &[
                    Step::Send(&[SLOW_A]),
                    Step::Started('a'),
                    Step::Send(&[Item::Cancel('a'), Item::Quick('q', Id::Fresh)]),
                    Step::Answered('q'),
                    Step::Answered('a'),
                ],
                until: Some(Rule::Honoured { cancelled: 'a', before: 't' }),
                in_time: Some(('a', 'q')),
            },
        ],
        rules: &[Rule::Whole { cancelled: 'a', like: 't' }],
        witness: "The result of the same request without a cancel, which is more than twice as long if this one is a part.",
    },
    Check {
        id: "honour/freed",
        title: "cancelled requests free the server sooner than others do",
        clauses: &[
            clause(CANCELLING, Level::Information, "Work that nobody waits for is not done.", OURS),
            clause(&[Dap], Level::Information, "Work that nobody waits for is not done.", OURS),
        ],
        needs: &[Need::Slow],
        steps: &[Step::Compare],
        rules: &[Rule::FreedSooner],
        witness: "How long it takes until the server has done the last of four requests, three times with cancels of the others and three times without, in turn: the shortest of each, told as a ratio. Up to half is sooner, from four fifths on it is not, and between them nothing can be told.",
    },
    Check {
        id: "load/burst",
        title: "a thousand requests and their cancels in one write: each ends once",
        clauses: &[
            clause(
                &[Acp, AcpV2, AcpDraft, Lsp, Abp],
                Level::Must,
                "Every request is answered once.",
                JSON_RPC,
            ),
            clause(
                &[McpUntil2025, Mcp2026],
                Level::Must,
                "Every request is answered at most once.",
                JSON_RPC,
            ),
            clause(&[Dap], Level::Must, "Every request is answered once.", DAP_BASE),
        ],
        steps: &[Step::Burst(1000), Step::Next],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        ..BASE
    },
    Check {
        id: "load/half-cancelled",
        title: "sixty-four requests in one write, half of them cancelled: the others are answered",
        clauses: NOT_NAMED,
        steps: &[Step::HalfCancelled(64), Step::Next],
        rules: &[Rule::AllEnded, Rule::OthersUndisturbed, Rule::NextAnswered],
        ..BASE
    },
];
