//! Whether the stop of a turn is honoured, and stops nothing else.
//!
//! The rules are those of the page on prompt turns, under "Cancellation".

use super::base::*;

const AGENTS: &[Family] = &[Acp, AcpDraft];
const TURN: Source =
    Source::new(AGENTS, "https://agentclientprotocol.com/protocol/prompt-turn#cancellation");
/// The last tells that the stop before it was read.
const STOP_A: Step = Send(&[Stop('a'), Quick('q', Fresh)]);
const STOPPED_A: &[Step] = &[Send(&[Turn('a')]), TurnStarted('a'), STOP_A, TurnSettled('a'), Next];

const fn stop(id: &'static str, title: &'static str) -> Check {
    BASE.named(id, title).needs(&[Need::Turn]).steps(STOPPED_A)
        .witness("The response to the stopped turn; if there is none, a turn in another session, begun after the stop, has ended.")
}

/// The checks in their order.
pub(super) const STOPS: &[Check] = &[
    stop("stop/answer", "a stopped turn is answered once, and not with an error")
        .clauses(&[TURN.must("The prompt is answered once its operations were aborted, and errors of these are caught.")])
        .rules(&[StopAnswered('a'), NextAnswered]),
    stop("stop/running", "the response to a stopped turn says that it was stopped")
        .clauses(&[TURN.should("An agent stops requests to its model and its tools as soon as it can, and responds with `cancelled`.")])
        .rules(&[StopHonoured('a')]),
    stop("stop/twice", "a second stop, and one after the end, change nothing: the turn is answered once")
        .clauses(&[TURN.must("A prompt has one response.")])
        .steps(&[
            Send(&[Turn('a')]),
            TurnStarted('a'),
            Send(&[Stop('a'), Stop('a')]),
            TurnSettled('a'),
            Send(&[Stop('a')]),
            Next,
        ])
        .rules(&[StopAnswered('a'), NextAnswered]),
    stop("stop/quiet", "nothing is reported in the session after the response to a stopped turn")
        .clauses(&[TURN.must("Updates are sent before the response to the prompt.")])
        .steps(&[
            Send(&[Turn('a')]),
            TurnStarted('a'),
            STOP_A,
            TurnSettled('a'),
            Send(&[Turn('t')]),
            Answered('t'),
            Next,
        ])
        .rules(&[QuietAfter('a')])
        .witness("The same turn in another session, from its beginning to its end."),
    stop("stop/next", "the next turn in the session runs to its end, also if the stop came twice")
        .clauses(&[TURN.must("A stop ends the turn that runs: the session can be used again.")])
        .steps(&[
            Send(&[Turn('a')]),
            TurnStarted('a'),
            Send(&[Stop('a')]),
            TurnSettled('a'),
            Send(&[Stop('a'), TurnAfter('b', 'a')]),
            Answered('b'),
        ])
        .rules(&[TurnEnded('b')])
        .witness("The response to the next turn."),
    stop("stop/before", "a stop in a session that runs no turn does not stop the first one")
        .clauses(&[OURS.of(AGENTS).should("A stop names a session, so it stops the turn that runs when it is read, or none.")])
        .steps(&[OneRead(&[Stop('a'), Turn('a')]), Answered('a')])
        .rules(&[TurnEnded('a')])
        .witness("The response to that turn."),
    stop("stop/spares-others", "the turn of another session runs to its end")
        .clauses(&[TURN.must("A stop names one session.")])
        .steps(&[
            Send(&[Turn('a'), Turn('b')]),
            TurnStarted('a'),
            TurnStarted('b'),
            Send(&[Stop('a')]),
            Answered('b'),
        ])
        .rules(&[TurnEnded('b')])
        .witness("The response to the other turn."),
    stop("stop/nested", "a turn that waits for a permission is stopped once that is answered as cancelled")
        .clauses(&[TURN.capability("Of agents that ask within a turn: the client answers what is open with `cancelled`, and the agent responds to the prompt.")])
        .steps(&[
            HoldReverse,
            Send(&[Turn('a')]),
            AskedFor('a'),
            STOP_A,
            Answered('q'),
            AnswerAsCancelled,
            TurnSettled('a'),
            Next,
        ])
        .rules(&[StopAnswered('a'), StopHonoured('a'), NextAnswered]),
];
