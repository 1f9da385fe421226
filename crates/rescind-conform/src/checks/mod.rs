//! The table of checks, in the order in which they are made and reported.

pub(crate) mod clauses;

use crate::check::{Check, Id, Item, Level, Need, Rule, Step};
use crate::family::Family::{
    Abp, Acp, AcpDraft, AcpV2, Erlmcp, JsonRpc, Lsp, Mcp2026, McpUntil2025,
};
use clauses::*;

const SLOW_A: Item = Item::Slow('a', Id::Fresh);
const SLOW_B: Item = Item::Slow('b', Id::Fresh);
const END_OF_A: &[Rule] = &[Rule::Ended('a'), Rule::NextAnswered];

const BASE: Check = Check {
    id: "",
    title: "",
    clauses: ENDED,
    needs: &[],
    steps: &[],
    rules: &[],
    witness: "The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice.",
};

macro_rules! cancel_by_id {
    ($id:literal, $title:literal, $token:literal, $families:expr) => {
        Check {
            id: $id,
            title: $title,
            clauses: $families,
            needs: &[Need::SlowIfSilent],
            steps: &[
                Step::OneRead(&[Item::Slow('a', Id::Token($token)), Item::Cancel('a')]),
                Step::Settled('a'),
            ],
            rules: END_OF_A,
            ..BASE
        }
    };
}

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

/// Every one.
pub const CHECKS: &[Check] = &[
    Check {
        id: "cancel/one-read",
        title: "a request and its cancel that wait in one read: the request ends as the protocol wants",
        needs: &[Need::SlowIfSilent],
        steps: &[Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: END_OF_A,
        ..BASE
    },
    Check {
        id: "cancel/running",
        title: "a cancel while the request is at work: it ends as the protocol wants",
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[
            Step::Send(&[SLOW_A]),
            Step::Started('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Settled('a'),
        ],
        rules: END_OF_A,
        witness: "Progress of the request, or an answer to another while it was at work, says that it had begun; then as cancel/one-read.",
        ..BASE
    },
    Check {
        id: "cancel/late",
        title: "a cancel of an answered request: no second answer, and nothing else",
        clauses: IGNORED,
        steps: &[
            Step::Send(&[Item::Quick('a', Id::Fresh)]),
            Step::Answered('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Next,
        ],
        rules: &[Rule::AnsweredOnce('a'), Rule::NextAnswered],
        witness: "Two requests, sent after the cancel one after the other, are answered.",
        ..BASE
    },
    Check {
        id: "cancel/twice",
        title: "two cancels of one request: it ends once",
        needs: &[Need::SlowIfSilent],
        steps: &[
            Step::OneRead(&[SLOW_A, Item::Cancel('a'), Item::Cancel('a')]),
            Step::Settled('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
        ],
        rules: END_OF_A,
        ..BASE
    },
    Check {
        id: "cancel/unknown",
        title: "a cancel of an id that was never used: nothing is said about it",
        clauses: IGNORED,
        steps: &[
            Step::Next,
            Step::Send(&[Item::CancelId("900001"), Item::CancelId("\"never\"")]),
            Step::Next,
            Step::Next,
        ],
        rules: &[
            Rule::NothingUnderToken("900001"),
            Rule::NothingUnderToken("\"never\""),
            Rule::NextAnswered,
        ],
        witness: "Two requests, sent after the cancels one after the other, are answered.",
        ..BASE
    },
    Check {
        id: "cancel/malformed",
        title: "twenty malformed cancels: none ends the connection, no request is cancelled by one, and none that is a notification which merely names nothing is answered",
        clauses: MALFORMED,
        steps: &[Step::Send(&[SLOW_A]), Step::MalformedCancels('a'), Step::Answered('a')],
        rules: &[Rule::Undisturbed('a'), Rule::MalformedUnanswered, Rule::NextAnswered],
        witness: "After each of them the next request is answered; one whose params are no object and no array, or hold what not everybody can read, may be refused.",
        ..BASE
    },
    Check {
        id: "cancel/other-type",
        title: "7 is in flight and \"7\" is cancelled: 7 goes on",
        clauses: NOT_NAMED_BY_TYPE,
        needs: &[Need::SlowIfSilent],
        steps: &[
            Step::OneRead(&[Item::Slow('a', Id::Token("7")), Item::CancelId("\"7\"")]),
            Step::Next,
            Step::Settled('a'),
        ],
        rules: &[Rule::Undisturbed('a'), Rule::NextAnswered],
        ..BASE
    },
    Check {
        id: "cancel/spares-others",
        title: "one of three requests is cancelled: the other two are answered",
        clauses: NOT_NAMED,
        steps: &[
            Step::OneRead(&[SLOW_B, SLOW_A, Item::Slow('c', Id::Fresh), Item::Cancel('a')]),
            Step::Answered('b'),
            Step::Answered('c'),
        ],
        rules: &[Rule::Undisturbed('b'), Rule::Undisturbed('c')],
        witness: "Both answers.",
        ..BASE
    },
    Check {
        id: "cancel/before-request",
        title: "a cancel that is written before its request does not keep that from being answered",
        clauses: &[clause(
            CANCELLING,
            Level::Should,
            "Messages of one stream are read in order: a cancel of what is not in flight is ignored.",
            JSON_RPC,
        )],
        steps: &[
            Step::Next,
            Step::OneRead(&[Item::CancelId("41"), Item::Slow('a', Id::Token("41"))]),
            Step::Next,
            Step::Settled('a'),
        ],
        rules: &[Rule::Undisturbed('a'), Rule::NextAnswered],
        ..BASE
    },
    Check {
        id: "cancel/more-members",
        title: "a cancel with members that the server does not know is a cancel",
        needs: &[Need::SlowIfSilent],
        steps: &[Step::OneRead(&[SLOW_A, Item::CancelWithMore('a')]), Step::Settled('a')],
        rules: END_OF_A,
        ..BASE
    },
    Check {
        id: "cancel/answer",
        title: "the answer to a cancelled request is a result or says that it was cancelled",
        clauses: &[
            clause(WITH_ACP, Level::Must, "The answer is a result or error -32800.", ACP),
            clause(
                &[Lsp],
                Level::Should,
                "The answer is a result, or an error that says cancelled (-32800, -32802).",
                LSP,
            ),
            clause(&[Abp], Level::Must, "The answer says cancelled, or is the result.", ABP),
        ],
        steps: &[Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::AnsweredAsCancelled('a')],
        ..BASE
    },
    Check {
        id: "cancel/any-moment",
        title: "twenty requests, cancelled at 0, 25, 50, 75 and 110 % of the time they take: each ends once",
        clauses: &[
            clause(
                WITH_ACP,
                Level::Must,
                "A cancelled request is answered once, whenever the cancel comes.",
                ACP,
            ),
            clause(
                &[Lsp],
                Level::Must,
                "A cancelled request is answered once, whenever the cancel comes.",
                LSP,
            ),
            clause(
                &[McpUntil2025],
                Level::Must,
                "A request is answered at most once, whenever the cancel comes.",
                MCP,
            ),
            clause(
                &[Mcp2026],
                Level::Must,
                "A request is answered at most once, whenever the cancel comes.",
                MCP_NEW,
            ),
            clause(
                &[Abp],
                Level::Must,
                "A cancelled call is answered once, whenever the cancel comes.",
                ABP,
            ),
        ],
        steps: &[Step::AnyMoment, Step::Next],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        ..BASE
    },
    Check {
        id: "cancel/output-full",
        title: "a cancel while nobody reads the server's output: it is read, and the connection lives on",
        clauses: LIVES_ON,
        steps: &[Step::OutputFull(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        ..BASE
    },
    cancel_by_id!("cancel/id-zero", "the request with id 0 can be cancelled", "0", ENDED),
    cancel_by_id!("cancel/id-text", "the request with id \"7\" can be cancelled", "\"7\"", ENDED),
    cancel_by_id!("cancel/id-empty", "the request with id \"\" can be cancelled", "\"\"", ENDED),
    cancel_by_id!(
        "cancel/id-large",
        "the request with id 2^53+1 can be cancelled",
        "9007199254740993",
        ENDED_LARGE
    ),
    Check {
        id: "cancel/acknowledged",
        title: "the cancel of a call in flight is acknowledged as having found it",
        clauses: &[clause(
            &[Abp],
            Level::Must,
            "A cancel is acknowledged with whether it cancelled something.",
            ABP,
        )],
        needs: &[Need::Slow],
        steps: &[Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::Acknowledged('a', true)],
        ..BASE
    },
    Check {
        id: "cancel/acknowledged-late",
        title: "the cancel of an answered call is acknowledged as having found nothing",
        clauses: &[clause(
            &[Abp],
            Level::Must,
            "A cancel is acknowledged with whether it cancelled something.",
            ABP,
        )],
        steps: &[
            Step::Send(&[Item::Quick('a', Id::Fresh)]),
            Step::Answered('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Next,
        ],
        rules: &[Rule::Acknowledged('a', false)],
        ..BASE
    },
    Check {
        id: "cancel/initialize",
        title: "the request that opens the session can't be cancelled",
        clauses: &[clause(
            &[AcpDraft],
            Level::Must,
            "initialize can't be cancelled: nothing is declared before its answer.",
            ACP,
        )],
        steps: &[Step::OneRead(&[Item::Opening('a'), Item::Cancel('a')]), Step::Next],
        rules: &[Rule::Undisturbed('a')],
        ..BASE
    },
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
            clause(
                &[Mcp2026],
                Level::Must,
                "On stdio nothing further is sent for a cancelled request.",
                MCP_NEW,
            ),
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
        title: "a request that is cancelled before its turn is not worked on to its end",
        clauses: HONOUR,
        needs: &[Need::Slow],
        steps: &[
            Step::OneRead(&[Item::SlowForHalf('b'), SLOW_A, Item::Cancel('a')]),
            Step::Answered('b'),
            Step::Settled('a'),
        ],
        rules: &[Rule::Honoured { cancelled: 'a', before: 'b' }],
        witness: "The answer says cancelled, or comes before that to a request that was asked first and is done in half the time.",
    },
    Check {
        id: "honour/running",
        title: "a request that is cancelled at work is not worked on to its end",
        clauses: HONOUR,
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[
            Step::Send(&[Item::SlowForHalf('b'), SLOW_A]),
            Step::Started('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Answered('b'),
            Step::Settled('a'),
        ],
        rules: &[Rule::Honoured { cancelled: 'a', before: 'b' }],
        witness: "The answer says cancelled, or comes before that to a request that was asked first and is done in half the time.",
    },
    Check {
        id: "honour/freed",
        title: "cancelled requests free the server sooner than others do",
        clauses: &[clause(
            CANCELLING,
            Level::Information,
            "Work that nobody waits for is not done.",
            OURS,
        )],
        needs: &[Need::Slow],
        steps: &[Step::Compare],
        rules: &[Rule::FreedSooner],
        witness: "How long it takes until the server has done the next request like it, five times with a cancel and five times without, in turn: told as a ratio, never a MUST.",
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
        steps: &[
            Step::OneRead(&[Item::Slow('a', Id::Token("51")), Item::Slow('b', Id::Token("51"))]),
            Step::Answered('a'),
            Step::Next,
        ],
        rules: &[Rule::NextAnswered],
        ..BASE
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
        rules: &[Rule::TheirsUndisturbed, Rule::NextAnswered],
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
