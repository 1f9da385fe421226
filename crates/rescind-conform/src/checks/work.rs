//! Whether work that was cancelled ends, and what many cancels do.

use super::base::*;

const BEFORE_B: Rule = Honoured('a', 'b');
/// The response to the quick request shows that the cancel before it was read.
const CANCEL_A: Step = Send(&[Cancel('a'), QUICK_Q]);
const ENDS: Step = All(&[Answered('q'), Answered('a')]);
const STOPPED: &str = "The server's word, or the order: the answer says cancelled, or comes before that to a request that was asked first and is done in half the time. Where nobody can ask for a time, as of a language server, it says cancelled or is a part of the result, for one of up to eight requests; if it is for none, a request that was sent with the cancel was answered first.";

/// In their order.
pub(super) const WORK: &[Check] = &[
    check("progress/after-cancel", "no progress of a request once its cancel was read")
        .clauses(&[
            MCP_PROGRESS.should("Processing stops, and with it progress.").if_heeded(),
            ENDED_IN_MCP_2026,
        ])
        .needs(&[Need::Slow, Need::Progress, Need::ReadsOn, Need::Message])
        .steps(&[RUNNING_A, Send(&[Cancel('a')]), WHOLE_T])
        .rules(&[NoProgressAfter('a')])
        .witness("A request that was sent after the cancel is answered, so the cancel was read; then the same work is done anew, with its progress."),
    check("progress/others", "the progress of another request goes on and rises, and each report names a request at work")
        .clauses(&[MCP_PROGRESS.capability("Of servers that report progress: it rises with each report, and names an active request.")])
        .needs(&[Need::Slow, Need::Progress, Need::ReadsOn])
        .steps(&[Send(&[SLOW_B, SLOW_A]), Started('b'), CANCEL_A, Answered('b'), WHOLE_T])
        .rules(&[ProgressOfOthers('a'), ProgressGoesOn('b', 'a'), Reports('t')])
        .witness("A request that was sent after the cancel is answered, so the cancel was read; then the other is answered, and the same work is done anew, with its progress."),
    check("progress/ended", "the end of a cancelled request's progress is reported")
        .clauses(&[
            DAP_PROGRESS.should("Progress of a request is reported until that is completed or cancelled, and then its end."),
            LSP_PROGRESS.information("A token has one begin, many reports and one end. It is valid until the response, so a client may take that for the end."),
        ])
        .needs(&[Need::Slow, Need::Progress, Need::ReadsOn])
        .steps(&[RUNNING_A, CANCEL_A, ENDS, WHOLE_T])
        .rules(&[ProgressEnded('a')])
        .witness("The response to the cancelled request; then the same work is done anew, with its progress."),
    check("honour/one-read", "a request that is cancelled before its turn says so, or is answered before what was asked first")
        .clauses(HONOUR)
        .needs(&[Need::Slow])
        .steps(&[Rounds(
            &[
                OneRead(&[SlowFor('b', 50), SLOW_A, Cancel('a'), QUICK_Q]),
                Answered('b'),
                Answered('a'),
            ],
            Some(BEFORE_B),
            None,
        )])
        .rules(&[BEFORE_B])
        .witness(STOPPED),
    check("honour/running", "a request that is cancelled at work says so, or is answered before what was asked first")
        .clauses(HONOUR)
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[Rounds(
            &[Send(&[SlowFor('b', 50), SLOW_A]), Started('a'), CANCEL_A, Answered('b'), ENDS],
            Some(BEFORE_B),
            Some(('a', 'q')),
        )])
        .rules(&[BEFORE_B])
        .witness(STOPPED),
    check("honour/whole", "a cancelled request that is answered with a result is answered with all of it")
        .clauses(&[
            ACP.information("A cancelled request may be answered with a part of its result."),
            LSP.information("A partial result is allowed; nothing tells a client that it is one."),
            DAP.information("Partial results are possible; a client has no generic way to detect them."),
        ])
        .needs(&[Need::Slow, Need::ReadsOn])
        .steps(&[
            Natural('t'),
            Rounds(
                &[RUNNING_A, CANCEL_A, ENDS],
                Some(Honoured('a', 't')),
                Some(('a', 'q')),
            ),
        ])
        .rules(&[Whole('a', 't')])
        .witness("The result of the same request without a cancel, which is more than twice as long if this one is a part."),
    check("load/burst", "a thousand requests and their cancels in one write: each ends once")
        .clauses(&[
            JSON_RPC.of(&[Acp, AcpV2, AcpDraft, Lsp, Abp]).must("Every request is answered once."),
            JSON_RPC.of(&[McpUntil2025, Mcp2026]).must("Every request is answered at most once."),
            DAP_BASE.must("Every request is answered once."),
        ])
        .needs(&[Need::Message])
        .steps(&[Burst(1000), Next])
        .rules(&[AllEnded, NextAnswered]),
    check("load/half-cancelled", "sixty-four requests in one write, half of them cancelled: the others are answered")
        .clauses(NOT_NAMED)
        .steps(&[HalfCancelled(64), Next])
        .rules(&[AllEnded, OthersUndisturbed, NextAnswered]),
];
