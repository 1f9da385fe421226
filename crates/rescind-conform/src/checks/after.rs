//! The server after its cancels.

use super::base::*;

/// Long enough for a server that looks at a document some time after its change.
const STABLE: Step = All(&[Pause, Pause, Pause]);

/// The checks in their order.
pub(super) const AFTER: &[Check] = &[
    check("after/slow", "slow requests after a cancel, and before late ones and one of nothing, run to their ends")
        .clauses(NOT_NAMED)
        .needs(&[Need::Slow])
        .steps(&[
            OneRead(&[SLOW_A, Cancel('a'), QUICK_Q]),
            Natural('t'),
            Send(&[Cancel('t')]),
            Natural('u'),
            Send(&[Slow('v', Fresh)]),
            Next,
            Send(&[CancelId("900001"), Cancel('u'), Cancel('t'), Cancel('a')]),
            Answered('v'),
            Natural('w'),
            Next,
        ])
        .rules(&[
            Undisturbed('t'),
            Undisturbed('u'),
            Undisturbed('v'),
            Undisturbed('w'),
            NextAnswered,
        ])
        .witness("The answers themselves: to slow requests that were not cancelled."),
    check("after/running", "a slow request after the cancel of one at work runs to its end")
        .clauses(NOT_NAMED)
        .needs(&[Need::Slow, Need::ReadsOn, Need::Message])
        .steps(&[Rounds(&[RUNNING_A, Send(&[Cancel('a')]), Natural('t')], None, None), Next])
        .rules(&[Undisturbed('t'), NextAnswered])
        .witness("The answer to the slow request that was not cancelled."),
    check("after/result", "after a cancel requests have the results that they had before it")
        .clauses(&[OURS.of(WITH_DAP).should("A result belongs to its own request, whatever was cancelled before.")])
        .needs(&[Need::Slow, Need::ReadsOn, Need::Message])
        .steps(&[
            Natural('t'),
            Half('b'),
            Half('c'),
            Repeats('b', 'c'),
            Rounds(&[RUNNING_A, Send(&[Cancel('a')]), Over('a'), Half('d')], None, None),
            Rounds(
                &[RUNNING_A, Partway('a', 40, 'c'), Send(&[Cancel('a')]), Over('a'), Half('e')],
                None,
                None,
            ),
            Next,
        ])
        .rules(&[
            Undisturbed('d'),
            Undisturbed('e'),
            SameResult(&['d', 'e'], 'b'),
            OwnResult('d', ['b', 'c'], 't'),
            OwnResult('e', ['b', 'c'], 't'),
            NextAnswered,
        ])
        .witness("The results themselves: two equal ones before the cancels, and one of the same request after each. Words with digits are not compared, nor is the order in lists."),
    check("after/edit", "after a cancel the document is as it was edited last")
        .clauses(&[LSP_SYNC.capability("Of servers with documents: the state of a document is the one of the last change.")])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[
            Natural('t'),
            RUNNING_A,
            Send(&[Shorten, Cancel('a')]),
            Over('a'),
            STABLE,
            Send(&[SlowFor('d', 100)]),
            Answered('d'),
            Send(&[Shorten]),
            STABLE,
            Send(&[SlowFor('e', 100)]),
            Answered('e'),
            Send(&[Shorten]),
            STABLE,
            Send(&[SlowFor('f', 100)]),
            Answered('f'),
            Differs('t', 'e'),
            Next,
        ])
        .rules(&[Undisturbed('d'), SameResult(&['d'], 'e'), Repeated('d', ['e', 'f']), NextAnswered])
        .witness("The results of three requests about the same text, which are others than those about the text before."),
    check("after/every", "of seventy cancels one after the other each is honoured as the first")
        .clauses(&[
            ACP.should("Every cancel is one, and stops its request.").if_heeded(),
            OURS.of(&[Lsp, Dap]).should("Every cancel is one, whatever came before."),
            ENDED_IN_MCP,
            ENDED_IN_MCP_2026,
            ABP.should("Every cancel is one, and stops its operation."),
        ])
        .needs(&[Need::Slow, Need::ReadsOn, Need::Message])
        .steps(&[Natural('s'), Natural('t'), EachCancelled(70), Next])
        .rules(&[EachAsOthers, OthersUndisturbed, NextAnswered])
        .witness("A request that is sent after each cancel is answered, so the cancel was read; in the end the same work is done from its beginning to its end."),
    check("after/many", "after two hundred cancels as many slow requests are taken at once as before")
        .clauses(&[OURS.of(WITH_DAP).should("A cancelled request leaves its place.")])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[Capacity(200), Next])
        .rules(&[SameCapacity, AllEnded, NextAnswered])
        .witness("Slow requests and then a short one in one write: before the cancels the short one is done first. Up to sixteen are tried."),
    check("after/reads-on", "a server reads on after a cancel: the next request is answered before work that takes longer")
        .clauses(&[OURS.of(WITH_DAP).should("A cancel holds nobody up.")])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[
            Send(&[SlowFor('b', 25), SLOW_A]),
            Started('a'),
            Send(&[Cancel('a')]),
            Send(&[QUICK_Q]),
            Answered('q'),
            Answered('b'),
        ])
        .rules(&[Before('q', 'b')])
        .witness("Both answers, and their order, which is another without the cancel."),
    check("after/nested", "a nested request for another request than the cancelled one goes on, and cancels name nested requests")
        .clauses(&[JSON_RPC.of(BY_ID).capability("Of servers that ask: a cancel names one request, and what belongs to others goes on.")])
        .needs(&[Need::Reverse])
        .steps(&[
            ASKED_A,
            Send(&[Reverse('b')]),
            AskedFor('b'),
            Send(&[Cancel('a')]),
            WHOLE_T,
        ])
        .rules(&[TheirsKept('b'), NamesRequest])
        .witness("The next request, sent after the cancel, is answered, and other work is done from its beginning to its end."),
    check("after/shutdown", "after a cancel the server can be shut down, and exits when it is told to")
        .clauses(&[LSP_EXIT.must("Every request is answered, shutdown too, and exit ends the server.")])
        .needs(&[Need::OneStream])
        .steps(&[
            OneRead(&[SLOW_A, Cancel('a'), Request('s', "shutdown")]),
            Answered('s'),
            Exit,
        ])
        .rules(&[AnsweredOnce('s'), ExitedOnRequest])
        .witness("The answer, and the end of the process."),
    check("after/disconnect", "after a cancel the session can be ended")
        .clauses(&[DAP_BASE.capability("Of adapters that read on while they work: every request is answered, disconnect too.")])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[Send(&[SLOW_A]), Next, Send(&[Cancel('a'), Request('s', "disconnect")]), Answered('s')])
        .rules(&[AnsweredOnce('s'), Soon('s', 'a')])
        .witness("The answer itself. It does not wait until the cancelled work would have been done."),
    check("after/duplicate", "of two requests in flight that have one id something can still be cancelled")
        .clauses(&[OURS.of(&[Acp, AcpV2, AcpDraft, Lsp]).information("Such a client is wrong; the first request goes on, and can be cancelled.")])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[
            Send(&[Slow('a', Token("51")), Slow('b', Token("51"))]),
            Next,
            Send(&[Cancel('a')]),
            WHOLE_T,
        ])
        .rules(&[SaysCancelled('a')]),
];
