//! The table of checks of a client, in the order in which they are made and reported.

use super::check::{ClientCheck, ClientItem, ClientNeed, ClientRule, ClientStep, Reply};
use super::clauses::*;
use crate::check::{Id, Level};
use crate::family::Family::{
    Abp, Acp, AcpDraft, AcpV2, Dap, Erlmcp, JsonRpc, Lsp, Mcp2026, McpUntil2025,
};
use ClientItem as Item;
use ClientNeed as Need;
use ClientRule as Rule;
use ClientStep as Step;

const RESULT: Item = Item::Answer(Reply::Result);
const SLOW_A: Item = Item::Slow('a');
const QUICK_A: Item = Item::Quick('a', Id::Fresh);

const BASE: ClientCheck = ClientCheck {
    id: "",
    title: "",
    clauses: SURVIVES,
    needs: &[Need::Answers],
    steps: &[],
    rules: &[Rule::NextAnswered],
    witness: "Two requests of ours, sent after it one after the other, are answered.",
};

/// An id of ours that has to come back as it was sent.
macro_rules! same_id {
    ($id:literal, $title:literal, $token:literal, $clauses:expr) => {
        ClientCheck {
            id: $id,
            title: $title,
            clauses: $clauses,
            steps: &[Step::Held, Step::Send(&[Item::Quick('a', Id::Token($token))]), Step::Next],
            rules: &[Rule::AnsweredOnce('a')],
            witness: "The next request, sent after it, is answered.",
            ..BASE
        }
    };
}

/// The table of all checks of clients.
pub const CLIENT_CHECKS: &[ClientCheck] = &[
    ClientCheck {
        id: "client-cancel/names-request",
        title: "a cancel names a request that was made before it",
        clauses: NAMES,
        needs: &[Need::Cancels],
        steps: &[Step::Held, Step::Cancelled],
        rules: &[Rule::NamesRequest],
        witness: "The cancel itself.",
    },
    ClientCheck {
        id: "client-cancel/as-written",
        title: "a cancel names its request by the id as it was written: 7 is not \"7\"",
        clauses: NAMES_BY_TYPE,
        needs: &[Need::Cancels],
        steps: &[Step::Held, Step::Cancelled],
        rules: &[Rule::NamedAsWritten],
        witness: "The cancel itself.",
    },
    ClientCheck {
        id: "client-cancel/once",
        title: "a request is cancelled once, however long its answer takes",
        clauses: &[clause(
            CANCELLING,
            Level::Should,
            "One cancel is enough: a second one of the same request says nothing.",
            OURS,
        )],
        needs: &[Need::Cancels],
        steps: &[
            Step::Held,
            Step::Cancelled,
            Step::MayCancel,
            Step::Send(&[Item::Answer(Reply::Cancelled)]),
            Step::MayCancel,
        ],
        rules: &[Rule::CancelledOnce],
        witness: "The answer is kept back for twice as long as it took the client to cancel, and the client is listened to as long again after it.",
    },
    ClientCheck {
        id: "client-cancel/after-answer",
        title: "an answered request is not cancelled any more",
        clauses: &[
            clause(
                &[McpUntil2025],
                Level::Must,
                "A cancel names only a request that is believed to be in progress.",
                MCP,
            ),
            clause(
                &[Mcp2026],
                Level::Must,
                "A cancel names only a request that is believed to be in progress.",
                MCP_NEW,
            ),
            clause(
                &[Acp, AcpV2, AcpDraft, Lsp, Abp, Dap],
                Level::Should,
                "There is nothing to cancel in a request that was answered.",
                OURS,
            ),
        ],
        needs: &[Need::Cancels],
        steps: &[Step::Held, Step::Send(&[RESULT]), Step::NextOrEnd, Step::MayCancel],
        rules: &[Rule::NotCancelledAfterAnswer],
        witness: "A request of ours that was sent after the answer is answered, so the answer was read; then the client is listened to for twice as long as it took it to cancel, or until it has ended.",
    },
    ClientCheck {
        id: "client-cancel/opening",
        title: "the request that opens the session is not cancelled",
        clauses: &[
            clause(
                &[McpUntil2025],
                Level::Must,
                "A client does not cancel its initialize request.",
                MCP,
            ),
            clause(
                &[AcpDraft],
                Level::Must,
                "initialize can't be cancelled: nothing is declared before its answer.",
                ACP,
            ),
        ],
        needs: &[Need::Cancels],
        steps: &[Step::HoldOpening, Step::Held, Step::MayCancel],
        rules: &[Rule::NotCancelled],
        witness: "It is held for twice as long as it took the client to cancel another, or until it has ended.",
    },
    ClientCheck {
        id: "client-cancel/undeclared",
        title: "no cancel is sent to a server that did not declare it",
        clauses: &[
            clause(
                &[AcpDraft],
                Level::Must,
                "Cancels are sent only to a side that has declared that it knows them.",
                ACP,
            ),
            clause(
                &[Dap],
                Level::Should,
                "Clients should call cancel only if the adapter has declared supportsCancelRequest.",
                DAP,
            ),
        ],
        needs: &[Need::Cancels],
        steps: &[Step::DeclareNothing, Step::Held, Step::MayCancel],
        rules: &[Rule::NotCancelled],
        witness: "The request is held for twice as long as it took the client to cancel another, or until it has ended.",
    },
    ClientCheck {
        id: "client-answer/cancelled",
        title: "a cancelled request that is answered as cancelled: the client lives on",
        clauses: &[
            clause(
                WITH_ACP,
                Level::Must,
                "A cancelled request is answered, by -32800 if not by its result.",
                ACP,
            ),
            clause(
                &[Lsp],
                Level::Must,
                "A cancelled request is answered, by -32800 if not by its result.",
                LSP,
            ),
        ],
        needs: &[Need::Cancels, Need::Answers],
        steps: &[
            Step::Held,
            Step::Cancelled,
            Step::Send(&[Item::Answer(Reply::Cancelled)]),
            Step::NextOrEnd,
        ],
        witness: "A request of ours, sent after the answer, is answered, or the client ends by itself.",
        ..BASE
    },
    ClientCheck {
        id: "client-answer/result",
        title: "a cancelled request that is answered with its result all the same: the client lives on",
        clauses: RESULT_ALL_THE_SAME,
        needs: &[Need::Cancels, Need::Answers],
        steps: &[Step::Held, Step::Cancelled, Step::Send(&[RESULT]), Step::NextOrEnd],
        witness: "A request of ours, sent after the answer, is answered, or the client ends as it does when nothing is wrong.",
        ..BASE
    },
    ClientCheck {
        id: "client-answer/late",
        title: "an answer to a request that the client has cancelled, and waits for no more: it lives on",
        clauses: LATE,
        needs: &[Need::Cancels, Need::Answers],
        steps: &[Step::Held, Step::Cancelled, Step::Send(&[RESULT]), Step::Next, Step::Next],
        ..BASE
    },
    ClientCheck {
        id: "client-answer/twice",
        title: "a request that is answered twice: the client lives on",
        steps: &[Step::Held, Step::OneRead(&[RESULT, RESULT]), Step::Next, Step::Next],
        ..BASE
    },
    ClientCheck {
        id: "client-answer/unknown",
        title: "answers to ids that the client never used, and to none: it lives on, and its own request goes on",
        steps: &[
            Step::Held,
            Step::Send(&[
                Item::Answer(Reply::Unknown("900001")),
                Item::Answer(Reply::Unknown("\"never\"")),
                Item::Answer(Reply::NoId),
            ]),
            Step::Next,
            Step::Next,
        ],
        ..BASE
    },
    ClientCheck {
        id: "client-answer/other-type",
        title: "7 is in flight and \"7\" is answered: 7 goes on",
        clauses: &[clause(
            &[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025, Mcp2026],
            Level::Should,
            "An answer has the id of its request; another id is none to it.",
            JSON_RPC,
        )],
        needs: &[Need::Cancels, Need::Answers],
        steps: &[
            Step::Held,
            Step::Send(&[Item::Answer(Reply::OtherType)]),
            Step::Next,
            Step::NotYetCancelled,
            Step::Cancelled,
        ],
        rules: &[Rule::StillInFlight],
        witness: "A request of ours, sent after it, is answered, so it was read; after that the client cancels its request, as it does with one that is in flight.",
    },
    ClientCheck {
        id: "client-answer/unasked-cancelled",
        title: "error -32800 that the client has not asked for: it lives on",
        clauses: &[
            clause(
                WITH_ACP,
                Level::Should,
                "A request may be cancelled by the side that works on it.",
                ACP,
            ),
            clause(
                &[JsonRpc, Lsp, McpUntil2025, Mcp2026, Erlmcp],
                Level::Should,
                "Any error is an answer.",
                JSON_RPC,
            ),
        ],
        steps: &[Step::Held, Step::Send(&[Item::Answer(Reply::Error(-32800))]), Step::NextOrEnd],
        witness: "A request of ours, sent after the answer, is answered, or the client ends as it does after any error.",
        ..BASE
    },
    ClientCheck {
        id: "client-answer/content-modified",
        title: "error -32801, the document has changed: the client lives on",
        clauses: &[clause(
            &[Lsp],
            Level::Must,
            "A server answers -32801 where the result would be outdated.",
            LSP_ERRORS,
        )],
        steps: &[Step::Held, Step::Send(&[Item::Answer(Reply::Error(-32801))]), Step::NextOrEnd],
        witness: "A request of ours, sent after the answer, is answered, or the client ends as it does after any error.",
        ..BASE
    },
    ClientCheck {
        id: "client-asked/unknown-method",
        title: "a request of ours of an unknown method is refused as that, once",
        clauses: ANSWERED,
        needs: &[],
        steps: &[
            Step::Held,
            Step::Send(&[Item::Request('a', "conformance/unknown")]),
            Step::Answered('a'),
        ],
        rules: &[Rule::UnknownMethod('a')],
        witness: "The answer itself.",
    },
    ClientCheck {
        id: "client-asked/notification",
        title: "an unknown notification is not answered, and ends nothing",
        clauses: NOT_ANSWERED,
        steps: &[
            Step::Held,
            Step::Send(&[Item::Notification("$/conformanceUnknown")]),
            Step::Next,
            Step::Next,
        ],
        rules: &[Rule::NothingUnder("null"), Rule::NothingUnder("(none)"), Rule::NextAnswered],
        ..BASE
    },
    same_id!("client-asked/id-zero", "our id 0 is answered as 0", "0", SAME_ID),
    same_id!("client-asked/id-text", "our id \"7\" is answered as \"7\"", "\"7\"", SAME_ID),
    same_id!("client-asked/id-empty", "our id \"\" is answered as \"\"", "\"\"", SAME_ID),
    same_id!(
        "client-asked/id-large",
        "our id 2^53+1 is answered as 2^53+1",
        "9007199254740993",
        SAME_LARGE_ID
    ),
    ClientCheck {
        id: "client-asked/both-directions",
        title: "a request of ours with the id of the client's own in flight is answered",
        clauses: OTHER_DIRECTION,
        steps: &[Step::Held, Step::Send(&[Item::UnderTheirId('a')]), Step::Next],
        rules: &[Rule::AnsweredOnce('a'), Rule::NextAnswered],
        witness: "The next request, sent after it, is answered.",
        ..BASE
    },
    ClientCheck {
        id: "client-asked/cancel-one-read",
        title: "a request of ours and its cancel that wait in one read: the request ends as the protocol wants",
        clauses: ENDED,
        needs: &[Need::Answers, Need::AskIfSilent, Need::Declared],
        steps: &[Step::Held, Step::OneRead(&[SLOW_A, Item::Cancel('a')]), Step::Settled('a')],
        rules: &[Rule::Ended('a'), Rule::NextAnswered],
        witness: "The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice.",
    },
    ClientCheck {
        id: "client-asked/cancel-running",
        title: "a cancel while a request of ours is at work: it ends as the protocol wants",
        clauses: ENDED,
        needs: &[Need::Ask, Need::Declared],
        steps: &[
            Step::Held,
            Step::Send(&[SLOW_A]),
            Step::Next,
            Step::Send(&[Item::Cancel('a')]),
            Step::Settled('a'),
        ],
        rules: &[Rule::Ended('a'), Rule::NextAnswered],
        witness: "An answer to another request while it was at work says that it had begun; then as client-asked/cancel-one-read.",
    },
    ClientCheck {
        id: "client-asked/cancel-late",
        title: "a cancel of a request of ours that was answered: no second answer, and nothing else",
        clauses: IGNORED,
        needs: &[Need::Answers, Need::Declared],
        steps: &[
            Step::Held,
            Step::Send(&[QUICK_A]),
            Step::Answered('a'),
            Step::Send(&[Item::Cancel('a')]),
            Step::Next,
            Step::Next,
        ],
        rules: &[Rule::AnsweredOnce('a'), Rule::NextAnswered],
        ..BASE
    },
    ClientCheck {
        id: "client-asked/cancel-unknown",
        title: "our cancel of an id that we never used: nothing is said about it",
        clauses: IGNORED,
        needs: &[Need::Answers, Need::Declared],
        steps: &[
            Step::Held,
            Step::Send(&[Item::CancelId("900001"), Item::CancelId("\"never\"")]),
            Step::Next,
            Step::Next,
        ],
        rules: &[Rule::NothingUnder("900001"), Rule::NothingUnder("\"never\""), Rule::NextAnswered],
        ..BASE
    },
    ClientCheck {
        id: "client-asked/cancel-malformed",
        title: "fourteen cancels of ours that name nothing: none ends the connection, cancels a request or, as a notification, is answered",
        clauses: MALFORMED,
        steps: &[
            Step::Held,
            Step::Send(&[SLOW_A]),
            Step::MalformedCancels('a'),
            Step::Answered('a'),
        ],
        rules: &[Rule::Undisturbed('a'), Rule::MalformedUnanswered, Rule::NextAnswered],
        witness: "After each of them the next request is answered.",
        ..BASE
    },
    ClientCheck {
        id: "client-asked/cancel-theirs",
        title: "our cancel of an id that only the client uses leaves the client's request alone",
        clauses: NOT_THEIRS,
        needs: &[Need::Cancels, Need::Answers],
        steps: &[
            Step::Held,
            Step::Send(&[Item::CancelTheirs]),
            Step::Next,
            Step::NotYetCancelled,
            Step::Cancelled,
        ],
        rules: &[Rule::StillInFlight],
        witness: "A request of ours, sent after it, is answered, so it was read; after that the client cancels its request, as it does with one that is in flight.",
    },
    ClientCheck {
        id: "client-load/burst",
        title: "a thousand requests of ours and their cancels in one write: each ends once",
        clauses: BURST,
        steps: &[Step::Held, Step::Burst(1000), Step::Next],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        witness: "Answers to all of them where the protocol wants answers, and to two requests after them.",
        ..BASE
    },
    ClientCheck {
        id: "client-load/output-full",
        title: "requests of ours while nobody reads the client's output: all of them are answered once it is read",
        clauses: ANSWERED,
        steps: &[Step::Held, Step::OutputFull, Step::Next],
        rules: &[Rule::AllEnded, Rule::NextAnswered],
        witness: "The answers, which are more than fits between the two.",
        ..BASE
    },
    ClientCheck {
        id: "client-output/clean",
        title: "everything that the client writes is a message",
        clauses: &[
            clause(
                &[McpUntil2025, Mcp2026],
                Level::Must,
                "A client writes nothing to the server's standard input that is no message.",
                MCP_STDIO,
            ),
            clause(
                &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, Abp, Erlmcp],
                Level::Must,
                "What is sent is a message of the protocol.",
                JSON_RPC,
            ),
            clause(&[Dap], Level::Must, "What is sent is a message of the protocol.", DAP_BASE),
        ],
        needs: &[],
        steps: &[Step::Held, Step::Send(&[RESULT]), Step::NextOrEnd],
        rules: &[Rule::Clean],
        witness: "The client has opened a session, and made a request that was answered.",
    },
    ClientCheck {
        id: "client-output/ids",
        title: "no id is used twice",
        clauses: &[
            clause(
                &[McpUntil2025, Mcp2026],
                Level::Must,
                "The id of a request was not used before by the same side in the same session.",
                MCP_IDS,
            ),
            clause(
                &[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, Abp, Dap, Erlmcp],
                Level::Should,
                "No two requests in flight have the same id: nobody could tell their answers apart.",
                OURS,
            ),
        ],
        needs: &[],
        steps: &[Step::Held, Step::Send(&[RESULT]), Step::NextOrEnd],
        rules: &[Rule::IdsUnique],
        witness: "The client has opened a session, and made a request that was answered.",
    },
    ClientCheck {
        id: "client-end/pending",
        title: "the server is gone with a request in flight: the client ends",
        clauses: &[clause(
            ALL,
            Level::Should,
            "A client that has lost its only server ends, and does not wait for it for ever.",
            OURS,
        )],
        needs: &[Need::Process],
        steps: &[Step::Held, Step::End],
        rules: &[Rule::Exited],
        witness: "The end of the process, within the patience.",
    },
    ClientCheck {
        id: "client-end/orphan",
        title: "the server is gone: the client leaves no process behind",
        clauses: &[clause(ALL, Level::Should, "What a client has started ends with it.", OURS)],
        needs: &[Need::Process],
        steps: &[Step::Held, Step::Send(&[RESULT]), Step::End],
        rules: &[Rule::NoOrphan],
        witness: "Once it has ended, nothing of its process group runs.",
    },
];
