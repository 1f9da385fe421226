//! Ids, requests of the server's own, and the connection as a whole.

use super::base::*;

/// In their order.
pub(super) const CONNECTION: &[Check] = &[
    same_id("id/zero", "id 0 is answered as 0")
        .steps(&[Send(&[Quick('a', Token("0"))]), Next]),
    same_id("id/text", "id \"7\" is answered as \"7\"")
        .steps(&[Send(&[Quick('a', Token("\"7\""))]), Next]),
    same_id("id/unicode", "id \"é\" is answered as \"é\"")
        .steps(&[Send(&[Quick('a', Token("\"é\""))]), Next]),
    same_id("id/empty", "id \"\" is answered as \"\"")
        .steps(&[Send(&[Quick('a', Token("\"\""))]), Next]),
    same_id("id/large", "id 2^53+1 is answered as 2^53+1")
        .clauses(SAME_LARGE_ID)
        .steps(&[Send(&[Quick('a', Token("9007199254740993"))]), Next]),
    check("id/reused", "the id of a cancelled request, used again, names the new request")
        .clauses(&[OURS.of(&[Acp, AcpV2, AcpDraft, Lsp]).should("An id that is not in flight is free.")])
        .needs(&[Need::Slow])
        .steps(&[
            OneRead(&[Slow('a', Token("61")), Cancel('a')]),
            Settled('a'),
            Send(&[Cancel('a')]),
            Next,
            Send(&[Slow('b', Token("61"))]),
            Answered('b'),
            Next,
        ])
        .rules(&[Undisturbed('b'), NextAnswered]),
    check("id/duplicate", "an id that is in flight, used again, ends no connection")
        .clauses(&[OURS.of(CANCELLING).should("Such a client is wrong; a server refuses the second, and the first goes on.")])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[
            OneRead(&[Slow('a', Token("51")), Slow('b', Token("51")), QUICK_Q]),
            Answered('a'),
            Answered('q'),
            Next,
        ])
        .rules(&[AtWorkUntil('a', 'q'), NextAnswered])
        .witness("A request that comes after both is answered before either has a result."),
    check("id/both-directions", "our cancel of an id that only the server uses leaves the server's request alone")
        .clauses(&[JSON_RPC.of(&[Acp, AcpV2, AcpDraft, Lsp, McpUntil2025]).capability("Of servers that ask: a cancel names a request of its sender; ids of the two directions have nothing to do with each other.")])
        .needs(&[Need::Reverse])
        .steps(&[ASKED_A, Send(&[CancelTheirs]), WHOLE_T])
        .rules(&[TheirsUndisturbed]),
    check("cancel/nested", "the cancel of a request cancels what the server had asked of us for it")
        .clauses(&[
            ACP.should("A cancelled request's own requests are cancelled.").if_heeded(),
            OURS.of(&[Lsp, McpUntil2025]).information("Nobody works for a cancelled request."),
        ])
        .needs(&[Need::Reverse])
        .steps(&[ASKED_A, Send(&[Cancel('a')]), WHOLE_T, Heeded('a')])
        .rules(&[TheirsCancelled])
        .witness("The next request, sent after the cancel, is answered, and other work is done from its beginning to its end."),
    check("after/withdrawn", "the response to a request that the server has cancelled changes nothing")
        .clauses(&[
            JSON_RPC.of(&[Acp, AcpV2, AcpDraft, Lsp]).capability("Of servers that ask: a cancelled request is answered, and its sender goes on."),
            MCP.should("Of servers that ask: a response that has crossed its cancel is ignored.").if_heeded(),
        ])
        .needs(&[Need::Reverse])
        .steps(&[
            ASKED_A,
            Send(&[Cancel('a')]),
            WHOLE_T,
            AnswerWithdrawn,
            Send(&[Reverse('b')]),
            Next,
            Natural('u'),
            Next,
        ])
        .rules(&[Ended('a'), IdsUnique, NextAnswered])
        .witness("A request that is sent after the response is answered, and other work is done from its beginning to its end."),
    check("load/asking", "eight requests for which the server asks something of us: it still reads the cancel of one")
        .clauses(&[OURS.of(&[Acp, AcpV2, AcpDraft, Lsp]).should("A server that waits for its client reads on, cancels above all.")])
        .needs(&[Need::Reverse])
        .steps(&[
            HoldReverse,
            Send(&[
                Reverse('a'),
                Reverse('b'),
                Reverse('c'),
                Reverse('d'),
                Reverse('e'),
                Reverse('f'),
                Reverse('g'),
                Reverse('h'),
            ]),
            AskedFor('a'),
            Send(&[Cancel('a'), QUICK_Q]),
            Step::CancelRead('a', 'q'),
        ])
        .rules(&[Rule::CancelRead('a', 'q')])
        .witness("The answer to the cancelled request or to a later one, or a cancel of what the server had asked for it, before we have answered anything."),
    check("unknown/notification", "an unknown notification is not answered, and ends nothing")
        .clauses(&[
            LSP_DOLLAR.must("Unknown notifications that begin with $/ are ignored."),
            JSON_RPC.of(&[JsonRpc, McpUntil2025, Mcp2026, Erlmcp]).must("Notifications are not answered."),
        ])
        .steps(&[Next, Send(&[Notification("$/conformanceUnknown")]), Next, Next])
        .rules(&[NothingUnder("(none)"), NextAnswered])
        .witness("Two requests, sent after it one after the other, are answered."),
    check("unknown/request", "an unknown request that begins with $/ is refused as an unknown method")
        .clauses(&[LSP_DOLLAR.must("Unknown requests that begin with $/ are answered -32601.")])
        .steps(&[Send(&[Request('a', "$/conformanceUnknown")]), Next, Next])
        .rules(&[UnknownMethod('a')]),
    check("output/clean", "everything that the server writes to its standard output is a message")
        .clauses(&[
            MCP_STDIO.must("A server writes nothing to its standard output that is no message."),
            JSON_RPC.of(&[JsonRpc, Acp, AcpV2, AcpDraft, Lsp, Abp, Erlmcp]).must("What is sent is a message of the protocol."),
            DAP_BASE.of(&[Dap, DapPlain]).must("What is sent is a message of the protocol."),
        ])
        .needs(&[Need::OneStream])
        .steps(&[Next, OneRead(&[SLOW_A, Cancel('a')]), WHOLE_T])
        .rules(&[Clean])
        .witness("The server has been opened, called, cancelled and called again."),
    check("output/seq", "each message of the server has the number after that of the one before")
        .clauses(&[DAP_BASE.should("seq is one greater than that of the message before.")])
        .steps(&[Next, OneRead(&[SLOW_A, Cancel('a')]), WHOLE_T])
        .rules(&[SeqCounts])
        .witness("The server has been opened, called, cancelled and called again."),
    check("call/next", "after a cancelled request the next one is answered")
        .clauses(LIVES_ON)
        .steps(&[
            OneRead(&[SLOW_A, Cancel('a'), QUICK_Q]),
            OneRead(&[SLOW_B, Cancel('b'), QUICK_Q]),
            OneRead(&[Slow('c', Fresh), Cancel('c'), QUICK_Q]),
            OneRead(&[Slow('d', Fresh), Cancel('d'), QUICK_Q]),
            OneRead(&[Slow('e', Fresh), Cancel('e'), QUICK_Q]),
            OneRead(&[Slow('f', Fresh), Cancel('f'), QUICK_Q]),
            Natural('t'),
            Next,
        ])
        .rules(&[NextAnswered, AnsweredOnce('t')])
        .witness("The answer itself, after six cancelled requests."),
    check("end/pending", "the input ends with a request at work, and another cancelled: the server ends")
        .clauses(&[
            MCP_STOP.should("A client ends a server by closing its input; the server exits then."),
            LSP_EXIT.should("A server that has lost its client ends."),
            OURS.of(&[JsonRpc, Acp, AcpV2, AcpDraft, Abp, Erlmcp]).should("Servers that nobody talks to any more end."),
            OURS.of(&[Dap, DapPlain]).should("Adapters that nobody talks to any more end."),
        ])
        .needs(&[Need::OneStream])
        .steps(&[Send(&[SLOW_B]), Next, Send(&[Cancel('b')]), Next, Send(&[SLOW_A]), Next, End])
        .rules(&[Exited])
        .witness("The end of its output, and of the process, within the patience."),
    check("end/orphan", "the input ends: the server leaves no process behind")
        .clauses(&[OURS.should("What a server has started ends with it.")])
        .needs(&[Need::Process])
        .steps(&[Next, End])
        .rules(&[NoOrphan])
        .witness("Once it has ended, nothing that it started runs: under the tool on Linux no descendant, elsewhere none of its process group."),
];
