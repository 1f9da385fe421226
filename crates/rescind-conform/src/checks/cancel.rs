//! Cancels: the request that one ends, and the others that it leaves alone.

use super::base::*;

/// A slow request that is cancelled, and ends as the protocol wants.
const fn ended(id: &'static str, title: &'static str) -> Check {
    check(id, title).needs(&[Need::Slow, Need::Message]).rules(END_OF_A)
}

/// In their order.
pub(super) const CANCEL: &[Check] = &[
    ended("cancel/one-read", "a request and its cancel that wait in one read: the request ends as the protocol wants")
        .steps(&[OneRead(&[SLOW_A, Cancel('a')]), Settled('a')]),
    check("cancel/running", "a cancel while the request is at work: it ends as the protocol wants")
        .needs(&[Need::Slow, Need::ReadsOn, Need::Message])
        .steps(&[Rounds(&[RUNNING_A, Send(&[Cancel('a')]), Settled('a')], None, None)])
        .rules(END_OF_A)
        .witness("Progress of the request, or an answer to another while it was at work, says that it had begun; then as cancel/one-read."),
    check("cancel/alone", "a cancelled request ends though nothing more is sent")
        .clauses(ENDED_WITH_ANSWER)
        .needs(&[Need::Slow, Need::Message])
        .steps(&[Alone('a')])
        .rules(&[Unprompted, AnsweredOnce('a')])
        .witness("Its answer, which comes twice only after the next message."),
    ended("cancel/waiting", "a cancel of a request that comes behind another: it ends once")
        .clauses(ENDED_WITH_ANSWER)
        .steps(&[
            OneRead(&[SLOW_B, SLOW_A, Slow('c', Fresh), Cancel('a'), QUICK_Q]),
            Answered('b'),
            Answered('c'),
            Settled('a'),
        ]),
    check("cancel/together", "of five requests three are cancelled in one write: each of these ends as the others")
        .clauses(&[
            ACP.should("Every cancel is one, and stops its request.").if_heeded(),
            OURS.of(&[Lsp, Dap]).information("Every cancel is one, also of a request that waits."),
            ENDED_IN_MCP,
            MCP_NEW.should("On stdio nothing further is sent for a cancelled request.").if_heeded(),
            ABP.should("Every cancel is one, and stops its operation."),
        ])
        .needs(&[Need::Slow, Need::ReadsOn, Need::Message])
        .steps(&[Natural('s'), Natural('t'), CancelledTogether])
        .rules(&[EachAsOthers, OthersUndisturbed, NextAnswered]),
    ended("cancel/closed", "a request about a document that is closed before its cancel ends")
        .clauses(&[LSP.capability("Of servers with documents: a cancelled request still has to return and send an answer.")])
        .steps(&[OneRead(&[SLOW_A, Close, Cancel('a'), QUICK_Q]), Answered('a'), Next])
        .rules(&[AnsweredOnce('a'), NextAnswered])
        .witness("The answer to a request that was sent after the cancel, and its own."),
    check("cancel/late", "a cancel of an answered request: no second answer, and nothing else")
        .clauses(IGNORED)
        .needs(&[Need::Message])
        .steps(&[Send(&[Quick('a', Fresh)]), Answered('a'), Send(&[Cancel('a')]), Next, Next])
        .rules(&[AnsweredOnce('a'), NothingUnder("(none)"), NextAnswered])
        .witness("Two requests, sent after the cancel one after the other, are answered."),
    ended("cancel/twice", "two cancels of one request: it ends once")
        .steps(&[OneRead(&[SLOW_A, Cancel('a'), Cancel('a')]), Settled('a'), Send(&[Cancel('a')]), Next]),
    check("cancel/unknown", "a cancel of an id that was never used: nothing is said about it")
        .clauses(IGNORED)
        .needs(&[Need::Message])
        .steps(&[Next, Send(&[CancelId("900001"), CancelId("\"never\"")]), Next, Next])
        .rules(&[NothingUnder("900001"), NothingUnder("\"never\""), NothingUnder("(none)"), NextAnswered])
        .witness("Two requests, sent after the cancels one after the other, are answered."),
    check("cancel/malformed", "fourteen cancels that name nothing: none ends the connection, cancels a request or, as a notification, is answered")
        .clauses(MALFORMED)
        .steps(&[Send(&[SLOW_A]), MalformedCancels('a'), Answered('a')])
        .rules(&[Undisturbed('a'), MalformedUnanswered, NextAnswered])
        .witness("After each of them the next request is answered."),
    check("cancel/unreadable", "six cancels whose params are not allowed, or too large to read: none ends the connection")
        .clauses(&[OURS.of(WITH_DAP).should("One bad message ends no connection.")])
        .steps(&[UnreadableCancels, Next])
        .rules(&[NextAnswered])
        .witness("After each of them the next request is answered. They may be refused."),
    check("cancel/other-type", "77 and \"78\" are in flight, and \"77\", 78, 7 and 770 are cancelled: both go on")
        .clauses(NOT_NAMED_BY_TYPE)
        .needs(&[Need::Slow, Need::Message])
        .steps(&[
            OneRead(&[Slow('a', Token("77")), Slow('b', Token("\"78\""))]),
            Send(&[CancelId("\"77\""), CancelId("7"), CancelId("770"), CancelId("78")]),
            Next,
            Settled('a'),
            Settled('b'),
        ])
        .rules(&[Undisturbed('a'), Undisturbed('b'), NextAnswered]),
    check("cancel/spares-others", "one of three requests is cancelled twice, and one that was never made: the other two are answered")
        .clauses(NOT_NAMED)
        .needs(&[Need::Slow])
        .steps(&[
            OneRead(&[SLOW_B, SLOW_A, Slow('c', Fresh), Cancel('a'), Cancel('a')]),
            Send(&[CancelId("900001"), QUICK_Q]),
            Answered('b'),
            Answered('c'),
        ])
        .rules(&[Undisturbed('b'), Undisturbed('c')])
        .witness("Both answers."),
    check("cancel/before-request", "a cancel that is written before its request does not keep that from being answered")
        .clauses(&[JSON_RPC.of(CANCELLING).should("Messages of one stream are read in order: a cancel of what is not in flight is ignored.")])
        .needs(&[Need::OneStream])
        .steps(&[Next, OneRead(&[CancelId("41"), Slow('a', Token("41"))]), Next, Settled('a')])
        .rules(&[Undisturbed('a'), NextAnswered]),
    ended("cancel/more-members", "a cancel with members that the server does not know is a cancel")
        .steps(&[OneRead(&[SLOW_A, CancelWithMore('a')]), Settled('a')]),
    check("cancel/answer", "the answer to a cancelled request is a result or says that it was cancelled")
        .clauses(&[
            ACP.must("The answer is a result or error -32800."),
            LSP.should("The answer is a result, or an error that says cancelled (-32800, -32802) or that the document has changed (-32801)."),
            ABP.must("The answer says cancelled, or is the result."),
            DAP.must("The answer is a normal result, or has success false and the message cancelled."),
        ])
        .needs(&[Need::Slow])
        .steps(&[OneRead(&[SLOW_A, Cancel('a')]), Settled('a')])
        .rules(&[AnsweredAsCancelled('a')]),
    check("cancel/any-moment", "twenty-eight requests, cancelled at 0, 25, 50, 75, 88, 94 and 110 % of the time they take: each ends once")
        .clauses(&[
            ACP.must("A cancelled request is answered once, whenever the cancel comes."),
            LSP.must("A cancelled request is answered once, whenever the cancel comes."),
            MCP.must("A request is answered at most once, whenever the cancel comes."),
            MCP_NEW.must("A request is answered at most once, whenever the cancel comes."),
            ABP.must("A cancelled call is answered once, whenever the cancel comes."),
            DAP.must("A cancelled request is answered once, whenever the cancel comes."),
        ])
        .needs(&[Need::Slow, Need::Message])
        .steps(&[AnyMoment, Next])
        .rules(&[AllEnded, NextAnswered]),
    check("cancel/output-full", "a cancel while nobody reads the server's output: it is read, and the connection lives on")
        .clauses(LIVES_ON)
        .needs(&[Need::Slow, Need::OneStream, Need::Process])
        .steps(&[OutputFull(&[SLOW_A, Cancel('a')]), Settled('a')])
        .rules(&[AllEnded, NextAnswered]),
    ended("cancel/id-zero", "the request with id 0 can be cancelled")
        .clauses(ENDED_BY_ID)
        .steps(&[OneRead(&[Slow('a', Token("0")), Cancel('a')]), Settled('a')]),
    ended("cancel/id-text", "the request with id \"7\" can be cancelled")
        .clauses(ENDED_BY_ID)
        .steps(&[OneRead(&[Slow('a', Token("\"7\"")), Cancel('a')]), Settled('a')]),
    ended("cancel/id-empty", "the request with id \"\" can be cancelled")
        .clauses(ENDED_BY_ID)
        .steps(&[OneRead(&[Slow('a', Token("\"\"")), Cancel('a')]), Settled('a')]),
    ended("cancel/id-unicode", "the request with id \"é\" can be cancelled")
        .clauses(ENDED_BY_ID)
        .steps(&[OneRead(&[Slow('a', Token("\"é\"")), Cancel('a')]), Settled('a')]),
    ended("cancel/id-large", "the request with id 2^53+1 can be cancelled")
        .clauses(ENDED_LARGE)
        .steps(&[OneRead(&[Slow('a', Token("9007199254740993")), Cancel('a')]), Settled('a')]),
    check("cancel/acknowledged", "the cancel of a call in flight is acknowledged, in ABP as having found it")
        .clauses(ACKNOWLEDGED)
        .needs(&[Need::Slow])
        .steps(&[OneRead(&[SLOW_A, Cancel('a')]), Settled('a'), CancelAnswered('a')])
        .rules(&[Acknowledged('a', true)]),
    check("cancel/acknowledged-each", "two cancels of one request, and one of nothing, are answered")
        .clauses(&[DAP.must("A cancel is a request, and is answered: with an error, if nothing could be cancelled.")])
        .needs(&[Need::Slow])
        .steps(&[
            OneRead(&[SLOW_A, Cancel('a'), Cancel('a'), CancelId("900001")]),
            Settled('a'),
            Natural('t'),
            Next,
        ])
        .rules(&[CancelsAnswered])
        .witness("The same work, done anew from its beginning to its end."),
    check("cancel/acknowledged-late", "the cancel of an answered call is acknowledged, in ABP as having found nothing")
        .clauses(ACKNOWLEDGED)
        .steps(&[
            Send(&[Quick('a', Fresh)]),
            Answered('a'),
            Send(&[Cancel('a')]),
            CancelAnswered('a'),
            Next,
        ])
        .rules(&[Acknowledged('a', false)]),
    check("cancel/progress", "the cancel of a request's progress is acknowledged, and the request and its progress end")
        .clauses(&[DAP.capability("Of adapters whose progress can be cancelled: what was cancelled still ends with a response and with progressEnd.")])
        .needs(&[Need::Slow, Need::Progress, Need::ReadsOn])
        .steps(&[RUNNING_A, Send(&[CancelProgress('a'), QUICK_Q]), Answered('a'), WHOLE_T])
        .rules(&[AnsweredOnce('a'), ProgressEnded('a'), Acknowledged('a', true)])
        .witness("The response to the request; then the same work is done anew, with its progress."),
    check("cancel/initialize", "the request that opens the session can't be cancelled")
        .clauses(&[ACP.of(&[AcpDraft]).must("initialize can't be cancelled: nothing is declared before its answer.")])
        .steps(&[OneRead(&[Opening('a'), Cancel('a')]), Next])
        .rules(&[Undisturbed('a')]),
];
