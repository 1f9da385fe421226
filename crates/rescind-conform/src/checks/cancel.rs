//! Cancels: the request that one ends, and the others that it leaves alone.

use super::base::{BASE, END_OF_A, SLOW_A, SLOW_B};
use super::clauses::*;
use crate::check::{Check, Id, Item, Level, Need, Rule, Step};
use crate::family::Family::{Abp, AcpDraft, Dap, Lsp, Mcp2026, McpUntil2025};

macro_rules! cancel_by_id {
    ($id:literal, $title:literal, $token:literal, $families:expr) => {
        Check {
            id: $id,
            title: $title,
            clauses: $families,
            needs: &[Need::Slow],
            steps: &[
                Step::OneRead(&[Item::Slow('a', Id::Token($token)), Item::Cancel('a')]),
                Step::Settled('a'),
            ],
            rules: END_OF_A,
            ..BASE
        }
    };
}

/// In their order.
pub(super) const CANCEL: &[Check] = &[
    Check {
        id: "cancel/one-read",
        title: "a request and its cancel that wait in one read: the request ends as the protocol wants",
        needs: &[Need::Slow],
        steps: &[Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: END_OF_A,
        ..BASE
    },
    Check {
        id: "cancel/running",
        title: "a cancel while the request is at work: it ends as the protocol wants",
        needs: &[Need::Slow, Need::ReadsOn],
        steps: &[Step::Rounds {
            steps: &[
                Step::Send(&[SLOW_A]),
                Step::Started('a'),
                Step::Send(&[Item::Cancel('a')]),
                Step::Settled('a'),
            ],
            until: None,
            in_time: None,
        }],
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
        needs: &[Need::Slow],
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
        title: "fourteen cancels that name nothing: none ends the connection, cancels a request or, as a notification, is answered",
        clauses: MALFORMED,
        steps: &[Step::Send(&[SLOW_A]), Step::MalformedCancels('a'), Step::Answered('a')],
        rules: &[Rule::Undisturbed('a'), Rule::MalformedUnanswered, Rule::NextAnswered],
        witness: "After each of them the next request is answered.",
        ..BASE
    },
    Check {
        id: "cancel/unreadable",
        title: "six cancels whose params are not allowed, or too large to read: none ends the connection",
        clauses: &[
            clause(CANCELLING, Level::Should, "One bad message ends no connection.", OURS),
            clause(&[Dap], Level::Should, "One bad message ends no connection.", OURS),
        ],
        steps: &[Step::UnreadableCancels, Step::Next],
        rules: &[Rule::NextAnswered],
        witness: "After each of them the next request is answered. They may be refused.",
        ..BASE
    },
    Check {
        id: "cancel/other-type",
        title: "7 is in flight and \"7\" is cancelled: 7 goes on",
        clauses: NOT_NAMED_BY_TYPE,
        needs: &[Need::Slow],
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
        needs: &[Need::Slow],
        steps: &[
            Step::OneRead(&[SLOW_B, SLOW_A, Item::Slow('c', Id::Fresh), Item::Cancel('a')]),
            Step::Answered('b'),
            Step::Answered('c'),
        ],
        rules: &[Rule::Undisturbed('b'), Rule::Undisturbed('c')],
        witness: "Both answers.",
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
        needs: &[Need::Slow],
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
                "The answer is a result, or an error that says cancelled (-32800, -32802) or that the document has changed (-32801).",
                LSP,
            ),
            clause(&[Abp], Level::Must, "The answer says cancelled, or is the result.", ABP),
            clause(
                &[Dap],
                Level::Must,
                "The answer is a normal result, or has success false and the message cancelled.",
                DAP,
            ),
        ],
        needs: &[Need::Slow],
        steps: &[Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::AnsweredAsCancelled('a')],
        ..BASE
    },
    Check {
        id: "cancel/any-moment",
        title: "twenty-eight requests, cancelled at 0, 25, 50, 75, 88, 94 and 110 % of the time they take: each ends once",
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
            clause(
                &[Dap],
                Level::Must,
                "A cancelled request is answered once, whenever the cancel comes.",
                DAP,
            ),
        ],
        needs: &[Need::Slow],
        steps: &[Step::AnyMoment, Step::Next],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        ..BASE
    },
    Check {
        id: "cancel/output-full",
        title: "a cancel while nobody reads the server's output: it is read, and the connection lives on",
        clauses: LIVES_ON,
        needs: &[Need::Slow],
        steps: &[Step::OutputFull(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        ..BASE
    },
    cancel_by_id!("cancel/id-zero", "the request with id 0 can be cancelled", "0", ENDED_BY_ID),
    cancel_by_id!(
        "cancel/id-text",
        "the request with id \"7\" can be cancelled",
        "\"7\"",
        ENDED_BY_ID
    ),
    cancel_by_id!(
        "cancel/id-empty",
        "the request with id \"\" can be cancelled",
        "\"\"",
        ENDED_BY_ID
    ),
    cancel_by_id!(
        "cancel/id-large",
        "the request with id 2^53+1 can be cancelled",
        "9007199254740993",
        ENDED_LARGE
    ),
    Check {
        id: "cancel/acknowledged",
        title: "the cancel of a call in flight is acknowledged as having found it",
        clauses: &[
            clause(
                &[Abp],
                Level::Must,
                "A cancel is acknowledged with whether it cancelled something.",
                ABP,
            ),
            clause(
                &[Dap],
                Level::Must,
                "A cancel is a request, and is answered: with an error, if nothing could be cancelled.",
                DAP,
            ),
        ],
        needs: &[Need::Slow],
        steps: &[Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::Acknowledged('a', true)],
        ..BASE
    },
    Check {
        id: "cancel/acknowledged-late",
        title: "the cancel of an answered call is acknowledged as having found nothing",
        clauses: &[
            clause(
                &[Abp],
                Level::Must,
                "A cancel is acknowledged with whether it cancelled something.",
                ABP,
            ),
            clause(
                &[Dap],
                Level::Must,
                "A cancel is a request, and is answered: with an error, if nothing could be cancelled.",
                DAP,
            ),
        ],
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
];
