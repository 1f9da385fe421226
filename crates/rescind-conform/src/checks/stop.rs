//! Whether the stop of a turn is honoured, and stops nothing else.
//!
//! The rules are those of the page on prompt turns, under "Cancellation".

use super::base::BASE;
use super::clauses::{OURS, clause};
use crate::check::{Check, Clause, Id, Item, Level, Need, Rule, Step};
use crate::family::Family::{self, Acp, AcpDraft};

const TURN: &str = "https://agentclientprotocol.com/protocol/prompt-turn#cancellation";
const AGENTS: &[Family] = &[Acp, AcpDraft];
/// The last tells that the stop before it was read.
const STOP_A: Step = Step::Send(&[Item::Stop('a'), Item::Quick('q', Id::Fresh)]);
const STOPPED_A: &[Step] = &[
    Step::Send(&[Item::Turn('a')]),
    Step::TurnStarted('a'),
    STOP_A,
    Step::TurnSettled('a'),
    Step::Next,
];

const STOP: Check = Check {
    needs: &[Need::Turn],
    steps: STOPPED_A,
    witness: "The response to the stopped turn; if there is none, a turn in another session, begun after the stop, has ended.",
    ..BASE
};

const fn demand(level: Level, text: &'static str) -> Clause {
    clause(AGENTS, level, text, TURN)
}

const fn need_of_users(level: Level, text: &'static str) -> Clause {
    clause(AGENTS, level, text, OURS)
}

/// The checks in their order.
pub(super) const STOPS: &[Check] = &[
    Check {
        id: "stop/answer",
        title: "a stopped turn is answered once, and not with an error",
        clauses: &[demand(
            Level::Must,
            "The prompt is answered once its operations were aborted, and errors of these are caught.",
        )],
        rules: &[Rule::StopAnswered('a'), Rule::NextAnswered],
        ..STOP
    },
    Check {
        id: "stop/running",
        title: "the response to a stopped turn says that it was stopped",
        clauses: &[demand(
            Level::Should,
            "An agent stops requests to its model and its tools as soon as it can, and responds with `cancelled`.",
        )],
        rules: &[Rule::StopHonoured('a')],
        ..STOP
    },
    Check {
        id: "stop/twice",
        title: "a second stop, and one after the end, change nothing: the turn is answered once",
        clauses: &[demand(Level::Must, "A prompt has one response.")],
        steps: &[
            Step::Send(&[Item::Turn('a')]),
            Step::TurnStarted('a'),
            Step::Send(&[Item::Stop('a'), Item::Stop('a')]),
            Step::TurnSettled('a'),
            Step::Send(&[Item::Stop('a')]),
            Step::Next,
        ],
        rules: &[Rule::StopAnswered('a'), Rule::NextAnswered],
        ..STOP
    },
    Check {
        id: "stop/quiet",
        title: "nothing is reported in the session after the response to a stopped turn",
        clauses: &[demand(Level::Must, "Updates are sent before the response to the prompt.")],
        steps: &[
            Step::Send(&[Item::Turn('a')]),
            Step::TurnStarted('a'),
            STOP_A,
            Step::TurnSettled('a'),
            Step::Send(&[Item::Turn('t')]),
            Step::Answered('t'),
            Step::Next,
        ],
        rules: &[Rule::QuietAfter('a')],
        witness: "The same turn in another session, from its beginning to its end.",
        ..STOP
    },
    Check {
        id: "stop/next",
        title: "the next turn in the session runs to its end, also if the stop came twice",
        clauses: &[demand(
            Level::Must,
            "A stop ends the turn that runs: the session can be used again.",
        )],
        steps: &[
            Step::Send(&[Item::Turn('a')]),
            Step::TurnStarted('a'),
            Step::Send(&[Item::Stop('a')]),
            Step::TurnSettled('a'),
            Step::Send(&[Item::Stop('a'), Item::TurnAfter('b', 'a')]),
            Step::Answered('b'),
        ],
        rules: &[Rule::TurnEnded('b')],
        witness: "The response to the next turn.",
        ..STOP
    },
    Check {
        id: "stop/before",
        title: "a stop in a session that runs no turn does not stop the first one",
        clauses: &[need_of_users(
            Level::Should,
            "A stop names a session, so it stops the turn that runs when it is read, or none.",
        )],
        steps: &[Step::OneRead(&[Item::Stop('a'), Item::Turn('a')]), Step::Answered('a')],
        rules: &[Rule::TurnEnded('a')],
        witness: "The response to that turn.",
        ..STOP
    },
    Check {
        id: "stop/spares-others",
        title: "the turn of another session runs to its end",
        clauses: &[demand(Level::Must, "A stop names one session.")],
        steps: &[
            Step::Send(&[Item::Turn('a'), Item::Turn('b')]),
            Step::TurnStarted('a'),
            Step::TurnStarted('b'),
            Step::Send(&[Item::Stop('a')]),
            Step::Answered('b'),
        ],
        rules: &[Rule::TurnEnded('b')],
        witness: "The response to the other turn.",
        ..STOP
    },
    Check {
        id: "stop/nested",
        title: "a turn that waits for a permission is stopped once that is answered as cancelled",
        clauses: &[demand(
            Level::Capability,
            "Of agents that ask within a turn: the client answers what is open with `cancelled`, and the agent responds to the prompt.",
        )],
        steps: &[
            Step::HoldReverse,
            Step::Send(&[Item::Turn('a')]),
            Step::AskedFor('a'),
            STOP_A,
            Step::Answered('q'),
            Step::AnswerAsCancelled,
            Step::TurnSettled('a'),
            Step::Next,
        ],
        rules: &[Rule::StopAnswered('a'), Rule::StopHonoured('a'), Rule::NextAnswered],
        ..STOP
    },
];
