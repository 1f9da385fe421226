//! Ids, requests of the server's own, and the connection as a whole.

use super::base::{BASE, SLOW_A, SLOW_B};
use super::clauses::*;
use crate::check::{Check, Id, Item, Level, Need, Rule, Step};
use crate::family::Family::{
    Abp, Acp, AcpDraft, AcpV2, Dap, DapPlain, Erlmcp, JsonRpc, Lsp, Mcp2026, McpUntil2025,
};

macro_rules! same_id {
    ($id:literal, $title:literal, $token:literal, $clauses:expr) => {
        Check {
            id: $id,
            title: $title,
            clauses: $clauses,
            steps: &[Step::Send(&[Item::Quick('a', Id::Token($token))]), Step::Next],
            rules: &[Rule::AnsweredOnce('a')],
            witness: "The next request, sent after it, is answered.",
            ..BASE
        }
    };
}

/// In their order.
pub(super) const CONNECTION: &[Check] = &[
    same_id!("id/zero", "id 0 is answered as 0", "0", SAME_ID),
    same_id!("id/text", "id \"7\" is answered as \"7\"", "\"7\"", SAME_ID),
    same_id!("id/empty", "id \"\" is answered as \"\"", "\"\"", SAME_ID),
    same_id!("id/large", "id 2^53+1 is answered as 2^53+1", "9007199254740993", SAME_LARGE_ID),
    Check {
        id: "id/duplicate",
        title: "an id that is in flight, used again, ends no connection",
        clauses: &[clause(
            CANCELLING,
            Level::Should,
            "Such a client is wrong; a server refuses the second, and the first goes on.",
            OURS,
        )],
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[
            Step::OneRead(&[
                Item::Slow('a', Id::Token("51")),
                Item::Slow('b', Id::Token("51")),
                Item::Quick('q', Id::Fresh),
            ]),
            Step::Answered('a'),
            Step::Answered('q'),
            Step::Next,
        ],
        rules: &[Rule::AtWorkUntil('a', 'q'), Rule::NextAnswered],
        witness: "A request that comes after both is answered before either has a result.",
    },
    Check {
        id: "id/both-directions",
        title: "our cancel of an id that only the server uses leaves the server's request alone",
        clauses: &[clause(
            &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025],
            Level::Capability,
            "Of servers that ask: a cancel names a request of its sender; ids of the two directions have nothing to do with each other.",
            JSON_RPC,
        )],
        needs: &[Need::Reverse],
        steps: &[
            Step::HoldReverse,
            Step::Send(&[Item::Reverse('a')]),
            Step::Asked,
            Step::CancelTheirId,
            Step::Next,
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::TheirsUndisturbed],
        ..BASE
    },
    Check {
        id: "cancel/nested",
        title: "the cancel of a request cancels what the server had asked of us for it",
        clauses: &[
            clause(
                WITH_ACP,
                Level::Should,
                "A cancelled request's own requests are cancelled.",
                ACP,
            ),
            clause(
                &[Lsp, McpUntil2025],
                Level::Information,
                "Nobody works for a cancelled request.",
                OURS,
            ),
        ],
        needs: &[Need::Reverse],
        steps: &[
            Step::HoldReverse,
            Step::Send(&[Item::Reverse('a')]),
            Step::Asked,
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::TheirsCancelled],
        witness: "The next request, sent after the cancel, is answered, and other work is done from its beginning to its end.",
    },
    Check {
        id: "load/asking",
        title: "eight requests for which the server asks something of us: it still reads the cancel of one",
        clauses: &[clause(
            &[Acp, AcpV2, AcpDraft, Lsp],
            Level::Should,
            "A server that waits for its client reads on, cancels above all.",
            OURS,
        )],
        needs: &[Need::Reverse],
        steps: &[
            Step::HoldReverse,
            Step::Send(&[
                Item::Reverse('a'),
                Item::Reverse('b'),
                Item::Reverse('c'),
                Item::Reverse('d'),
                Item::Reverse('e'),
                Item::Reverse('f'),
                Item::Reverse('g'),
                Item::Reverse('h'),
            ]),
            Step::Asked,
            Step::Send(&[Item::Cancel('a')]),
            Step::CancelRead('a'),
        ],
        rules: &[Rule::CancelRead('a')],
        witness: "The answer to the cancelled request, or a cancel of what the server had asked for it, before we have answered anything.",
    },
    Check {
        id: "unknown/notification",
        title: "an unknown notification is not answered, and ends nothing",
        clauses: &[
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
        ],
        steps: &[
            Step::Next,
            Step::Send(&[Item::Notification("$/conformanceUnknown")]),
            Step::Next,
            Step::Next,
        ],
        rules: &[Rule::NothingUnder("null"), Rule::NothingUnder("(none)"), Rule::NextAnswered],
        witness: "Two requests, sent after it one after the other, are answered.",
        ..BASE
    },
    Check {
        id: "unknown/request",
        title: "an unknown request that begins with $/ is refused as an unknown method",
        clauses: &[clause(
            &[Acp, AcpV2, AcpDraft, Lsp],
            Level::Must,
            "Unknown requests that begin with $/ are answered -32601.",
            LSP_DOLLAR,
        )],
        steps: &[Step::Send(&[Item::Request('a', "$/conformanceUnknown")]), Step::Next, Step::Next],
        rules: &[Rule::UnknownMethod('a')],
        ..BASE
    },
    Check {
        id: "output/clean",
        title: "everything that the server writes to its standard output is a message",
        clauses: &[
            clause(
                &[McpUntil2025, Mcp2026],
                Level::Must,
                "A server writes nothing to its standard output that is no message.",
                MCP_STDIO,
            ),
            clause(
                &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, Abp, Erlmcp],
                Level::Must,
                "What is sent is a message of the protocol.",
                JSON_RPC,
            ),
            clause(
                &[Dap, DapPlain],
                Level::Must,
                "What is sent is a message of the protocol.",
                DAP_BASE,
            ),
        ],
        steps: &[
            Step::Next,
            Step::OneRead(&[SLOW_A, Item::Cancel('a')]),
            Step::Next,
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::Clean],
        witness: "The server has been opened, called, cancelled and called again.",
        ..BASE
    },
    Check {
        id: "call/next",
        title: "after a cancelled request the next one is answered",
        clauses: LIVES_ON,
        steps: &[
            Step::OneRead(&[SLOW_A, Item::Cancel('a')]),
            Step::OneRead(&[SLOW_B, Item::Cancel('b')]),
            Step::OneRead(&[Item::Slow('c', Id::Fresh), Item::Cancel('c')]),
            Step::OneRead(&[Item::Slow('d', Id::Fresh), Item::Cancel('d')]),
            Step::OneRead(&[Item::Slow('e', Id::Fresh), Item::Cancel('e')]),
            Step::OneRead(&[Item::Slow('f', Id::Fresh), Item::Cancel('f')]),
            Step::Natural('t'),
            Step::Next,
        ],
        rules: &[Rule::NextAnswered, Rule::AnsweredOnce('t')],
        witness: "The answer itself, after six cancelled requests.",
        ..BASE
    },
    Check {
        id: "end/pending",
        title: "the input ends with a request at work: the server ends",
        clauses: &[
            clause(
                &[McpUntil2025, Mcp2026],
                Level::Should,
                "A client ends a server by closing its input; the server exits then.",
                MCP_STOP,
            ),
            clause(&[Lsp], Level::Should, "A server that has lost its client ends.", LSP_EXIT),
            clause(
                &[JsonRpc, Acp, AcpV2, AcpDraft, Abp, Erlmcp],
                Level::Should,
                "Servers that nobody talks to any more end.",
                OURS,
            ),
            clause(
                &[Dap, DapPlain],
                Level::Should,
                "Adapters that nobody talks to any more end.",
                OURS,
            ),
        ],
        steps: &[Step::Send(&[SLOW_A]), Step::Next, Step::End],
        rules: &[Rule::Exited],
        witness: "The end of its output, and of the process, within the patience.",
        ..BASE
    },
    Check {
        id: "end/orphan",
        title: "the input ends: the server leaves no process behind",
        clauses: &[clause(ALL, Level::Should, "What a server has started ends with it.", OURS)],
        needs: &[Need::Process],
        steps: &[Step::Next, Step::End],
        rules: &[Rule::NoOrphan],
        witness: "Once it has ended, nothing of its process group runs.",
    },
];
