//! Whether the stop of work is honoured, and stops nothing else: of turns, of tasks and of progress.

use super::base::*;
use crate::check::Clause;

const AGENTS: &[Family] = &[Acp, AcpDraft];
const TURN: Source =
    Source::new(AGENTS, "https://agentclientprotocol.com/protocol/prompt-turn#cancellation");
/// "Cancels the named session's active foreground work and earlier prompts not yet inserted" (the schema's notification).
const TURN_V2: Source = Source::new(
    &[AcpV2],
    "https://agentclientprotocol.com/protocol/v2/prompt-lifecycle#cancellation",
);
/// Servers that declare `tasks.cancel` and `tasks.requests.tools.call`.
const TASK: Source =
    Source::new(&[McpUntil2025], page!(mcp "2025-11-25/basic/utilities/tasks#task-cancellation"));
const TASK_ERRORS: Source =
    Source::new(&[McpUntil2025], page!(mcp "2025-11-25/basic/utilities/tasks#protocol-errors"));
const PROGRESS: Source = Source::new(&[Lsp], page!(lsp "window_workDoneProgress_cancel"));
const TOKEN: Source = Source::new(&[Lsp], page!(lsp "serverInitiatedProgress"));
const OWN_TOKEN: Source = Source::new(&[Lsp], page!(lsp "clientInitiatedProgress"));
const ONE_STOP: Source = OURS.of(&[Acp, AcpDraft, AcpV2]);

/// The response to the quick request shows that the stop before it was read.
const STOP_A: Step = Send(&[Stop('a'), QUICK_Q]);
const WORKING_A: Step = All(&[Send(&[Work('a')]), WorkStarted('a')]);
/// Work that waits for a permission.
const ASKING_A: Step = All(&[HoldReverse, Send(&[Work('a')]), AskedFor('a')]);
const STOPPED_A: Step = All(&[WORKING_A, STOP_A, WorkSettled('a')]);
/// Work from its beginning to its end.
const WORK_T: Step = All(&[Send(&[Work('t')]), WorkOver('t')]);
/// Otherwise nothing is seen of stopped work.
const STOPPED_IN_TIME: Rule = StoppedWhile('a', 'a');
const STOPS_AT_ONCE: &[Clause] = &[
    TURN.should("An agent stops requests to its model and its tools as soon as it can, and responds with `cancelled`."),
    TURN_V2.should("An agent stops requests to its model and its tools as soon as it can, and is idle with `cancelled`."),
];
/// A prompt is cancelled by its id, and another turn goes from its beginning to its end.
const CANCELLED_A: Step = All(&[
    WORKING_A,
    Send(&[Cancel('a'), QUICK_Q]),
    Answered('q'),
    AnswerAsCancelled,
    Answered('a'),
    SaidCancelled('a'),
    WORK_T,
]);
const LATER: &str = "The end of that work.";

const fn stop(id: &'static str, title: &'static str) -> Check {
    BASE.named(id, title).needs(&[Need::Work]).steps(&[STOPPED_A, WorkWhole('t'), Next])
        .witness("The end of the stopped work, which says so, is cut short, or comes after the response to a request that was sent with the stop. Without an end, that of other work that began after the stop.")
}

/// The checks in their order.
pub(super) const STOPS: &[Check] = &[
    stop("stop/answer", "stopped work ends once, and not with an error")
        .clauses(&[
            TURN.must("The prompt is answered once its operations were aborted, and errors of these are caught."),
            TURN_V2.must("An idle update is sent once the operations were aborted, and errors of these are caught."),
            TASK.capability("A task is `cancelled` before tasks/cancel is answered, and tasks/result is answered then."),
            TOKEN.should("A token has one begin, many reports and one end."),
        ])
        .rules(&[StopAnswered('a'), NextAnswered, STOPPED_IN_TIME]),
    stop("stop/early", "a turn that is stopped before anything is seen of it ends once, and not with an error")
        .clauses(&[TURN.must("The prompt is answered once its operations were aborted, and errors of these are caught.")])
        .steps(&[OneRead(&[Work('a'), Stop('a'), QUICK_Q]), WorkSettled('a'), Next])
        .rules(&[StopAnswered('a'), NextAnswered, STOPPED_IN_TIME]),
    stop("stop/soon", "a turn that is stopped before anything is seen of it says that it was stopped")
        .clauses(STOPS_AT_ONCE.split_at(1).0)
        .steps(&[OneRead(&[Work('a'), Stop('a'), QUICK_Q]), WorkSettled('a'), Next])
        .rules(&[StopHonoured('a')]),
    stop("stop/replaced", "a stopped turn is stopped though the next prompt comes with the stop")
        .clauses(&[OURS.of(AGENTS).information("Such a client is too early; the turn that it has stopped is stopped.")])
        .steps(&[WORKING_A, Send(&[Stop('a'), QUICK_Q, WorkAfter('b', 'a')]), WorkSettled('a'), Next])
        .rules(&[StopHonoured('a')]),
    stop("stop/and-cancel", "a prompt that is stopped and cancelled by its id, or the other way round, is answered once")
        .clauses(&[TURN.must("A prompt has one response.")])
        .steps(&[
            WORKING_A,
            Send(&[Stop('a'), Cancel('a'), QUICK_Q]),
            WorkSettled('a'),
            Send(&[Work('b')]),
            WorkStarted('b'),
            Send(&[Cancel('b'), Stop('b'), QUICK_Q]),
            WorkSettled('b'),
            WORK_T,
            Next,
        ])
        .rules(&[AnsweredOnce('a'), AnsweredOnce('b'), NextAnswered])
        .witness("Another turn, from its beginning to its end."),
    stop("stop/any-moment", "turns that are stopped after a quarter, a half and three quarters of their time end once, not with an error, and say no more")
        .clauses(&[TURN.must("The prompt is answered once its operations were aborted, and errors of these are caught.")])
        .steps(&[
            Send(&[Work('s')]),
            WorkOver('s'),
            WORK_T,
            WORKING_A,
            Partway('a', 25, 't'),
            STOP_A,
            WorkSettled('a'),
            Send(&[Work('b')]),
            Partway('b', 50, 't'),
            Send(&[Stop('b')]),
            WorkSettled('b'),
            Send(&[Work('c')]),
            Partway('c', 75, 't'),
            Send(&[Stop('c')]),
            WorkSettled('c'),
            Next,
        ])
        .rules(&[
            StopAnswered('a'),
            StopAnswered('b'),
            StopAnswered('c'),
            QuietAfter('a'),
            QuietAfter('b'),
            QuietAfter('c'),
            NextAnswered,
            STOPPED_IN_TIME,
        ]),
    stop("stop/running", "the end of a stopped turn says that it was stopped")
        .clauses(STOPS_AT_ONCE)
        .rules(&[StopHonoured('a')]),
    stop("stop/sooner", "a stopped progress ends before an equally long one that began first")
        .clauses(&[OURS.of(&[Lsp]).should("Work that nobody waits for is not done.")])
        .steps(&[Send(&[Work('b')]), WorkStarted('b'), WORKING_A, STOP_A, WorkOver('b')])
        .rules(&[StoppedBefore('a', 'b')])
        .witness("The end of the other."),
    stop("stop/twice", "a second stop, and one after the end, change nothing: work ends once")
        .clauses(&[
            TURN.must("A prompt has one response."),
            TURN_V2.must("A prompt has one response."),
            TASK.capability("A cancel of a task in a terminal status is rejected with -32602."),
            TOKEN.should("A token has one begin, many reports and one end."),
        ])
        .steps(&[
            WORKING_A,
            Send(&[Stop('a'), Stop('a'), QUICK_Q]),
            WorkSettled('a'),
            Send(&[Stop('a')]),
            WorkSettled('a'),
            WorkWhole('t'),
            Next,
        ])
        .rules(&[StopAnswered('a'), NextAnswered, STOPPED_IN_TIME]),
    stop("stop/quiet", "nothing is reported of stopped work after its end, and it stays stopped")
        .clauses(&[
            TURN.must("Updates are sent before the response to the prompt."),
            TURN_V2.must("Updates are sent before the idle update that reports the cancellation."),
            TASK.capability("A cancelled task remains cancelled, even if execution continues to completion."),
            TOKEN.should("A token is used once, and its end is the last report."),
        ])
        .steps(&[
            STOPPED_A,
            Send(&[Status('a'), Work('t')]),
            WorkOver('t'),
            Send(&[Status('a')]),
            Next,
        ])
        .rules(&[QuietAfter('a'), STOPPED_IN_TIME])
        .witness("The same work once more, from its beginning to its end."),
    stop("stop/next", "the next work runs to its end, also if the stop came twice, and the stopped work stays ended")
        .clauses(&[
            TURN.must("A stop ends the turn that runs: the session can be used again."),
            TURN_V2.must("A stop does not cover later prompts."),
            TASK.capability("A cancel names one task: later ones complete."),
            PROGRESS.should("A cancel names one progress."),
        ])
        .steps(&[
            STOPPED_A,
            Send(&[Stop('a'), WorkAfter('b', 'a')]),
            WorkOver('b'),
            WorkWhole('t'),
        ])
        .rules(&[WorkFinished('b'), Reports('b'), StopAnswered('a'), STOPPED_IN_TIME])
        .witness(LATER),
    stop("stop/again", "a turn is stopped after another of its session was")
        .clauses(STOPS_AT_ONCE)
        .steps(&[
            STOPPED_A,
            Send(&[WorkAfter('b', 'a')]),
            WorkStarted('b'),
            Send(&[Stop('b'), QUICK_Q]),
            WorkSettled('b'),
            Next,
        ])
        .rules(&[StopHonoured('a'), StopHonoured('b'), NextAnswered]),
    stop("stop/before", "a stop that finds no work does not stop work that begins later")
        .clauses(&[
            ONE_STOP.should("A stop names a session, so it stops the turn that runs when it is read, or none."),
            TASK_ERRORS.capability("A cancel of an unknown task is refused with -32602."),
            OURS.of(&[Lsp]).should("A cancel of an unknown token changes nothing."),
        ])
        .steps(&[OneRead(&[Stop('a'), Work('a')]), WorkOver('a'), WorkWhole('t')])
        .rules(&[WorkFinished('a')])
        .witness(LATER),
    stop("stop/spares-others", "other work runs to its end")
        .clauses(&[
            TURN.must("A stop names one session."),
            TURN_V2.must("A stop names one session."),
            TASK.capability("A cancel names one task."),
            PROGRESS.should("A cancel names one progress."),
        ])
        .steps(&[
            Send(&[Work('a'), Work('b')]),
            WorkStarted('a'),
            WorkStarted('b'),
            Send(&[StopNothing]),
            STOP_A,
            WorkOver('b'),
            WorkWhole('t'),
        ])
        .rules(&[WorkFinished('b'), StoppedWhile('a', 'b')])
        .witness(LATER),
    stop("stop/both", "turns of two sessions that are stopped one right after the other are both stopped")
        .clauses(STOPS_AT_ONCE)
        .steps(&[
            Send(&[Work('a'), Work('b')]),
            WorkStarted('a'),
            WorkStarted('b'),
            Send(&[Stop('a'), Stop('b'), QUICK_Q]),
            WorkSettled('a'),
            WorkSettled('b'),
            Next,
        ])
        .rules(&[StopHonoured('a'), StopHonoured('b')]),
    stop("stop/request", "a session whose prompt is cancelled by its id takes the next prompt")
        .clauses(&[OURS.of(AGENTS).should("A prompt that was cancelled is over: the session can be used again.")])
        .steps(&[CANCELLED_A, Send(&[WorkAfter('b', 'a')]), WorkOver('b'), Next])
        .rules(&[WorkFinished('b'), NextAnswered])
        .witness(LATER),
    stop("stop/request-quiet", "nothing is reported of a prompt after it is answered as cancelled")
        .clauses(&[TURN.must("Updates are sent before the response to the prompt.")])
        .steps(&[CANCELLED_A, Next])
        .rules(&[QuietAfter('a')])
        .witness("Another turn, from its beginning to its end."),
    stop("stop/nested", "a turn that waits for a permission is stopped once that is answered as cancelled")
        .clauses(&[
            TURN.capability("Of agents that ask within a turn: the client answers what is open with `cancelled`, and the agent responds to the prompt."),
            TURN_V2.capability("Of agents that ask within a turn: it stops waiting for permissions, and becomes idle."),
        ])
        .steps(&[ASKING_A, STOP_A, Answered('q'), AnswerAsCancelled, WorkSettled('a'), Next])
        .rules(&[StopAnswered('a'), StopHonoured('a'), NextAnswered]),
    stop("stop/permissions", "the permission requests of a stopped turn are cancelled")
        .clauses(&[TURN_V2.capability("Of agents that ask within a turn: each pending permission request of stopped work is cancelled with $/cancel_request.")])
        .steps(&[ASKING_A, STOP_A, WorkSettled('a'), AnswerAsCancelled, Next])
        .rules(&[TheirsCancelled]),
    stop("stop/uninserted", "a prompt that comes before the stop of its session is accepted, or answered with -32800")
        .clauses(&[TURN_V2.must("A prompt that was not inserted when its session is stopped is answered with -32800.")])
        .steps(&[
            WORKING_A,
            Send(&[WorkAfter('b', 'a'), Stop('a'), QUICK_Q]),
            WorkSettled('a'),
            Next,
        ])
        .rules(&[Accepted('b'), STOPPED_IN_TIME]),
    stop("stop/own-token", "nothing is reported under a token of the client's after its cancelled request is answered")
        .clauses(&[OWN_TOKEN.capability("Of servers that report under it: the token is valid until the response, and cancelling the request cancels its progress.")])
        .steps(&[
            Send(&[WorkUnderToken('a')]),
            WorkStarted('a'),
            Send(&[Cancel('a'), QUICK_Q]),
            Answered('a'),
            WorkWhole('t'),
            Next,
        ])
        .rules(&[QuietAfterResponse('a')])
        .witness("The same work once more, from its beginning to its end."),
];
