//! The table of checks of a client, in the order in which they are made and reported.

use super::clauses::*;
use crate::words::*;

const RESULT: Item = Answer(Reply::Result);
const SLOW_A: Item = Slow('a', Fresh);
const QUICK_A: Item = Quick('a', Fresh);

const fn check(id: &'static str, title: &'static str) -> Check {
    let check = Check::BASE.named(id, title).clauses(SURVIVES).needs(&[Need::Answers]);
    let check = check.rules(&[NextAnswered]);
    check.witness("Two requests of ours, sent after it one after the other, are answered.")
}

/// A row about the cancels of a client.
const fn cancel(id: &'static str, title: &'static str) -> Check {
    Check::BASE.named(id, title).needs(&[Need::Cancels])
}

/// A row about a request that the client has cancelled, or will.
const fn cancelled(id: &'static str, title: &'static str) -> Check {
    check(id, title).needs(&[Need::Cancels, Need::Answers])
}

/// A row about a request of the client's that something of ours is to leave alone.
const fn spared(id: &'static str, title: &'static str) -> Check {
    let check = cancelled(id, title).rules(&[StillInFlight]);
    check.witness("A request of ours, sent after it, is answered, so it was read; after that the client cancels its request, as it does with one that is in flight.")
}

/// A row about all that a client writes.
const fn output(id: &'static str, title: &'static str) -> Check {
    let check = Check::BASE.named(id, title).steps(&[Held, Send(&[RESULT]), NextOrEnd]);
    check.witness("The client has opened a session, and made a request that was answered.")
}

/// A row about an id of ours that has to come back as it was sent.
const fn same_id(id: &'static str, title: &'static str) -> Check {
    let check = check(id, title).clauses(SAME_ID).rules(&[AnsweredOnce('a')]);
    check.witness("The next request, sent after it, is answered.")
}

/// The table of all checks of clients.
pub const CLIENT_CHECKS: &[Check] = &[
    cancel("client-cancel/names-request", "a cancel names a request that was made before it")
        .clauses(&[
            MCP.must("A cancel names only a request that was sent before in the same direction, and is believed to be in progress."),
            MCP_NEW.must("A cancel names only a request that was sent before, and is believed to be in progress."),
            ACP.must("A cancel names the request that it cancels by its id."),
            LSP.must("A cancel carries the id of the request to cancel."),
            ABP.must("A cancel names the call that it cancels."),
            DAP.must("A cancel carries the number of the request to cancel."),
        ])
        .steps(&[Held, Cancelled])
        .rules(&[NamesRequest])
        .witness("The cancel itself."),
    cancel("client-cancel/as-written", "a cancel names its request by the id as it was written: 7 is not \"7\"")
        .clauses(&[
            MCP.of(&[McpUntil2025, Mcp2026]).must("A cancel carries the id of the request, which is a text or a number."),
            ACP.must("A cancel names the request that it cancels by its id."),
            LSP.must("A cancel carries the id of the request to cancel."),
        ])
        .steps(&[Held, Cancelled])
        .rules(&[NamedAsWritten])
        .witness("The cancel itself."),
    cancel("client-cancel/once", "a request is cancelled once, however long its answer takes")
        .clauses(&[OURS.of(CANCELLING).should("One cancel is enough: a second one of the same request says nothing.")])
        .steps(&[Held, Cancelled, MayCancel, Send(&[Answer(Reply::Cancelled)]), MayCancel])
        .rules(&[CancelledOnce])
        .witness("The answer is kept back for twice as long as it took the client to cancel, and the client is listened to as long again after it."),
    cancel("client-cancel/after-answer", "an answered request is not cancelled any more")
        .clauses(&[
            MCP.must("A cancel names only a request that is believed to be in progress."),
            MCP_NEW.must("A cancel names only a request that is believed to be in progress."),
            OURS.of(&[Acp, AcpV2, AcpDraft, Lsp, Abp, Dap]).should("There is nothing to cancel in a request that was answered."),
        ])
        .steps(&[Held, Send(&[RESULT]), NextOrEnd, MayCancel])
        .rules(&[NotCancelledAfterAnswer])
        .witness("A request of ours that was sent after the answer is answered, so the answer was read; then the client is listened to for twice as long as it took it to cancel, or until it has ended."),
    cancel("client-cancel/opening", "the request that opens the session is not cancelled")
        .clauses(&[
            MCP.must("A client does not cancel its initialize request."),
            ACP.of(&[AcpDraft]).must("initialize can't be cancelled: nothing is declared before its answer."),
        ])
        .steps(&[HoldOpening, Held, MayCancel])
        .rules(&[NotCancelled])
        .witness("It is held for twice as long as it took the client to cancel another, or until it has ended."),
    cancel("client-cancel/undeclared", "no cancel is sent to a server that did not declare it")
        .clauses(&[
            ACP.of(&[AcpDraft]).must("Cancels are sent only to a side that has declared that it knows them."),
            DAP.should("Clients should call cancel only if the adapter has declared supportsCancelRequest."),
        ])
        .steps(&[DeclareNothing, Held, MayCancel])
        .rules(&[NotCancelled])
        .witness("The request is held for twice as long as it took the client to cancel another, or until it has ended."),
    cancelled("client-answer/cancelled", "a cancelled request that is answered as cancelled: the client lives on")
        .clauses(&[
            ACP.must("A cancelled request is answered, by -32800 if not by its result."),
            LSP.must("A cancelled request is answered, by -32800 if not by its result."),
        ])
        .steps(&[Held, Cancelled, Send(&[Answer(Reply::Cancelled)]), NextOrEnd])
        .witness("A request of ours, sent after the answer, is answered, or the client ends by itself."),
    cancelled("client-answer/result", "a cancelled request that is answered with its result all the same: the client lives on")
        .clauses(&[
            ACP.must("A cancelled request may still be answered with its result, or a part of it."),
            LSP.must("A cancelled request may still return its result, or a part of it."),
        ])
        .steps(&[Held, Cancelled, Send(&[RESULT]), NextOrEnd])
        .witness("A request of ours, sent after the answer, is answered, or the client ends as it does when nothing is wrong."),
    cancelled("client-answer/late", "an answer to a request that the client has cancelled, and waits for no more: it lives on")
        .clauses(&[
            MCP.should("Who has cancelled a request ignores an answer that comes after that."),
            MCP_NEW.should("Who has cancelled a request ignores an answer that comes after that."),
        ])
        .steps(&[Held, Cancelled, Send(&[RESULT]), Next, Next]),
    check("client-answer/twice", "a request that is answered twice: the client lives on")
        .steps(&[Held, OneRead(&[RESULT, RESULT]), Next, Next]),
    check("client-answer/unknown", "answers to ids that the client never used, and to none: it lives on, and its own request goes on")
        .steps(&[
            Held,
            Send(&[
                Answer(Reply::Unknown("900001")),
                Answer(Reply::Unknown("\"never\"")),
                Answer(Reply::NoId),
            ]),
            Next,
            Next,
        ]),
    spared("client-answer/other-type", "7 is in flight and \"7\" is answered: 7 goes on")
        .clauses(&[JSON_RPC.of(BY_ID).should("An answer has the id of its request; another id is none to it.")])
        .steps(&[Held, Send(&[Answer(Reply::OtherType)]), Next, NotYetCancelled, Cancelled]),
    check("client-answer/unasked-cancelled", "error -32800 that the client has not asked for: it lives on")
        .clauses(&[
            ACP.should("A request may be cancelled by the side that works on it."),
            JSON_RPC.of(&[JsonRpc, Lsp, McpUntil2025, Mcp2026, Erlmcp]).should("Any error is an answer."),
        ])
        .steps(&[Held, Send(&[Answer(Reply::Error(-32800))]), NextOrEnd])
        .witness("A request of ours, sent after the answer, is answered, or the client ends as it does after any error."),
    check("client-answer/content-modified", "error -32801, the document has changed: the client lives on")
        .clauses(&[LSP_ERRORS.must("A server answers -32801 where the result would be outdated.")])
        .steps(&[Held, Send(&[Answer(Reply::Error(-32801))]), NextOrEnd])
        .witness("A request of ours, sent after the answer, is answered, or the client ends as it does after any error."),
    check("client-asked/unknown-method", "a request of ours of an unknown method is refused as that, once")
        .clauses(ANSWERED)
        .needs(&[])
        .steps(&[Held, Send(&[Request('a', "conformance/unknown")]), Answered('a')])
        .rules(&[UnknownMethod('a')])
        .witness("The answer itself."),
    check("client-asked/notification", "an unknown notification is not answered, and ends nothing")
        .clauses(&[
            LSP_DOLLAR.must("Unknown notifications that begin with $/ are ignored."),
            JSON_RPC.of(&[JsonRpc, McpUntil2025, Mcp2026, Erlmcp]).must("Notifications are not answered."),
        ])
        .steps(&[Held, Send(&[Notification("$/conformanceUnknown")]), Next, Next])
        .rules(&[NothingUnder("(none)"), NextAnswered]),
    same_id("client-asked/id-zero", "our id 0 is answered as 0")
        .steps(&[Held, Send(&[Quick('a', Token("0"))]), Next]),
    same_id("client-asked/id-text", "our id \"7\" is answered as \"7\"")
        .steps(&[Held, Send(&[Quick('a', Token("\"7\""))]), Next]),
    same_id("client-asked/id-empty", "our id \"\" is answered as \"\"")
        .steps(&[Held, Send(&[Quick('a', Token("\"\""))]), Next]),
    same_id("client-asked/id-large", "our id 2^53+1 is answered as 2^53+1")
        .clauses(&[JSON_RPC.of(&[JsonRpc, Acp, AcpV2, AcpDraft, McpUntil2025, Erlmcp]).information("An answer has the id of its request, but RFC 7493 advises senders against numbers over 2^53.")])
        .steps(&[Held, Send(&[Quick('a', Token("9007199254740993"))]), Next]),
    check("client-asked/both-directions", "a request of ours with the id of the client's own in flight is answered")
        .clauses(&[JSON_RPC.of(ASKED).must("Whoever sends a request chooses its id: those of the two directions have nothing to do with each other.")])
        .steps(&[Held, Send(&[UnderTheirId('a')]), Next])
        .rules(&[AnsweredOnce('a'), NextAnswered])
        .witness("The next request, sent after it, is answered."),
    check("client-asked/cancel-one-read", "a request of ours and its cancel that wait in one read: the request ends as the protocol wants")
        .clauses(ENDED)
        .needs(&[Need::Answers, Need::AskIfSilent, Need::Declared])
        .steps(&[Held, OneRead(&[SLOW_A, Cancel('a')]), Settled('a')])
        .rules(&[Ended('a'), NextAnswered])
        .witness("The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice."),
    check("client-asked/cancel-running", "a cancel while a request of ours is at work: it ends as the protocol wants")
        .clauses(ENDED)
        .needs(&[Need::Ask, Need::Declared])
        .steps(&[Held, Send(&[SLOW_A]), Next, Send(&[Cancel('a')]), Settled('a')])
        .rules(&[Ended('a'), NextAnswered])
        .witness("An answer to another request while it was at work says that it had begun; then as client-asked/cancel-one-read."),
    check("client-asked/cancel-late", "a cancel of a request of ours that was answered: no second answer, and nothing else")
        .clauses(IGNORED)
        .needs(&[Need::Answers, Need::Declared])
        .steps(&[Held, Send(&[QUICK_A]), Answered('a'), Send(&[Cancel('a')]), Next, Next])
        .rules(&[AnsweredOnce('a'), NothingUnder("(none)"), NextAnswered]),
    check("client-asked/cancel-unknown", "our cancel of an id that we never used: nothing is said about it")
        .clauses(IGNORED)
        .needs(&[Need::Answers, Need::Declared])
        .steps(&[Held, Send(&[CancelId("900001"), CancelId("\"never\"")]), Next, Next])
        .rules(&[NothingUnder("900001"), NothingUnder("\"never\""), NothingUnder("(none)"), NextAnswered]),
    check("client-asked/cancel-malformed", "fourteen cancels of ours that name nothing: none ends the connection, cancels a request or, as a notification, is answered")
        .clauses(&[
            JSON_RPC.of(&[Acp, AcpV2, Lsp]).must("A notification is never answered, and one bad message ends no connection."),
            MCP.should("A malformed cancel is ignored."),
        ])
        .steps(&[Held, Send(&[SLOW_A]), MalformedCancels('a'), Answered('a'), Next])
        .rules(&[Undisturbed('a'), MalformedUnanswered, NextAnswered])
        .witness("After each of them the next request is answered."),
    spared("client-asked/cancel-theirs", "our cancel of an id that only the client uses leaves the client's request alone")
        .clauses(&[JSON_RPC.of(BOTH_WAYS).must("A cancel names a request of its sender; ids of the two directions have nothing to do with each other.")])
        .steps(&[Held, Send(&[CancelTheirs]), Next, NotYetCancelled, Cancelled]),
    check("client-load/burst", "a thousand requests of ours and their cancels in one write: each ends once")
        .clauses(&[
            JSON_RPC.of(&[Acp, AcpV2, Lsp]).must("Every request is answered once."),
            JSON_RPC.of(&[McpUntil2025]).must("Every request is answered at most once."),
        ])
        .steps(&[Held, Burst(1000), Next])
        .rules(&[AllEnded, NextAnswered])
        .witness("Answers to all of them where the protocol wants answers, and to two requests after them."),
    check("client-load/output-full", "requests of ours while nobody reads the client's output: all of them are answered once it is read")
        .clauses(ANSWERED)
        .needs(&[Need::Answers, Need::Process])
        .steps(&[Held, OutputFull(&[])])
        .rules(&[AllEnded, NextAnswered])
        .witness("The answers, which are more than fits between the two."),
    output("client-output/clean", "everything that the client writes is a message")
        .clauses(&[
            MCP_STDIO.must("A client writes nothing to the server's standard input that is no message."),
            JSON_RPC.of(&[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, Abp, Erlmcp]).must("What is sent is a message of the protocol."),
            DAP_BASE.must("What is sent is a message of the protocol."),
        ])
        .rules(&[Clean]),
    output("client-output/ids", "no id is used twice")
        .clauses(&[
            MCP_IDS.must("The id of a request was not used before by the same side in the same session."),
            OURS.of(&[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, Abp, Dap, Erlmcp]).should("No two requests in flight have the same id: nobody could tell their answers apart."),
        ])
        .rules(&[IdsUnique]),
    check("client-end/pending", "the server is gone with a request in flight: the client ends")
        .clauses(&[OURS.should("A client that has lost its only server ends, and does not wait for it for ever.")])
        .needs(&[Need::Process])
        .steps(&[Held, End])
        .rules(&[Exited])
        .witness("The end of the process, within the patience."),
    check("client-end/orphan", "the server is gone: the client leaves no process behind")
        .clauses(&[OURS.should("What a client has started ends with it.")])
        .needs(&[Need::Process])
        .steps(&[Held, Send(&[RESULT]), End])
        .rules(&[NoOrphan])
        .witness("Once it has ended, nothing that it started runs: under the tool on Linux no descendant, elsewhere none of its process group."),
];
