//! For each guarantee, a bug that breaks it is planted in real connections. The search finds the bug, names the
//! guarantee, and returns a shortest history.

use std::time::Duration;

use protocol_core::{Cause, Config, Dialect, Grace, Role};
use protocol_testkit::explore::{Failure, Orderings, Scenario, System, replay, search};
use protocol_testkit::{Answering, Asked, Broken, Guarantee, Hostile, Operation, both_roles};

use Role::{Client, Server};

const fn call(at: Role, asked: Asked) -> (Operation, u8) {
    (Operation::Call { at, asked }, 2)
}

const fn cancel(cause: Cause) -> (Operation, u8) {
    (Operation::Cancel { at: Client, call: 0, cause }, 1)
}

const WORK: Asked = Asked::work(1);
const IMPATIENT: Asked = Asked { grace: Some(Grace::Settle(Duration::from_millis(1))), ..WORK };
const CHILD: Asked = Asked { parent: Some(0), ..WORK };

/// Two calls, one of them cancelled; calls made for them; bad messages; time; an end.
const SCENARIO: Scenario = Scenario {
    name: "a little of everything",
    budget: &[
        call(Client, WORK),
        call(Client, IMPATIENT),
        call(Server, CHILD),
        cancel(Cause::Caller),
        (Operation::Hostile { to: Server, message: Hostile::NotJson, id: 0 }, 1),
        (Operation::HangUp { at: Client }, 1),
    ],
    answers: &[Answering::Result],
    timers: true,
};

fn start() -> Orderings {
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.calls = 2;
    config.limits.requests = 1;
    Orderings::new(both_roles(config), SCENARIO)
}

fn found(breaks: Guarantee) -> Failure {
    let report = search(&start().with_a_bug(breaks), 200_000);
    report.failure.unwrap_or_else(|| panic!("{breaks} is not missed in {} states", report.states))
}

/// As they were found, and nothing shorter leads there: the search is breadth first.
const SHORTEST: [(Guarantee, &str); 12] = [
    (
        Guarantee::G1,
        "client call Work 1; client drain 1; server read 0 by 40; server respond 0 Result; \
         server drain 1; client read 0 by 40",
    ),
    (Guarantee::G2, "hostile to server NotJson 1; server read 0 by 40; server drain 1"),
    (
        Guarantee::G3,
        "client call Work 1; client drain 1; server read 0 by 40; client hang up; \
         server read 0 by 40",
    ),
    (Guarantee::G4, "client call Work 1; client drain 1; client cancel 0 caller; client drain 1"),
    (Guarantee::G5, "client call Work 1; client cancel 0 caller"),
    (
        Guarantee::G6,
        "client call Work 1; client drain 1; server read 0 by 40; \
         server call Work 1 parent 0; server respond 0 Result; client hang up; \
         server read 0 by 40",
    ),
    (Guarantee::G7, "client hang up; server read 0 by 40"),
    (
        Guarantee::G8,
        "client call Work 1; client drain 1; server read 0 by 40; client call Work 1; \
         client drain 1; server read 0 by 40",
    ),
    (Guarantee::G9, "hostile to server NotJson 1; server read 0 by 40"),
    (Guarantee::G10, "client call Work 1; client call Work 1; client call Work 1 grace 1"),
    (Guarantee::G11, "client call Work 1; client drain 1; server read 0 by 40"),
    (
        Guarantee::G12,
        "hostile to server NotJson 1; server read 0 by 40; server drain 1; \
         client read 0 by 40",
    ),
];

#[test]
fn a_planted_bug_is_found_for_every_guarantee_with_its_shortest_history() {
    assert_eq!(SHORTEST.map(|(guarantee, _)| guarantee), Guarantee::ALL);
    for (guarantee, line) in SHORTEST {
        let failure = found(guarantee);
        assert_eq!(failure.broken.guarantee, guarantee, "{failure}");
        assert_eq!(failure.line(), line, "{failure}");
        let again = replay(&start().with_a_bug(guarantee), line);
        assert_eq!(again.expect_err("it failed before"), failure);
    }
}

#[test]
fn nothing_is_found_in_the_same_scenario_without_a_bug() {
    let report = search(&start(), 3_000);
    assert!(report.failure.is_none(), "{}", report.failure.expect("some"));
}

#[test]
#[should_panic(expected = "\"client call Work 1\" is in the budget twice")]
fn a_budget_that_holds_an_operation_twice_is_refused() {
    let budget = const { &[call(Client, WORK), call(Server, WORK), call(Client, WORK)] };
    let _ = Orderings::new(
        both_roles(Config::client(Dialect::ACP_V1)),
        Scenario { budget, ..SCENARIO },
    );
}

#[test]
#[should_panic(expected = "\"server respond 0 Result\" happens by itself")]
fn a_budget_that_holds_a_response_is_refused() {
    let budget = &[(Operation::Respond { at: Server, request: 0, answer: Answering::Result }, 1)];
    let _ = Orderings::new(
        both_roles(Config::client(Dialect::ACP_V1)),
        Scenario { budget, ..SCENARIO },
    );
}

/// A system whose one choice panics.
#[derive(Clone)]
struct Panics;

impl System for Panics {
    type Choice = &'static str;

    const LANES: &'static [&'static str] = &[];

    fn choices(&self) -> Vec<&'static str> {
        vec!["go"]
    }

    fn is_fair(&self, _: &&'static str) -> bool {
        true
    }

    fn take(&mut self, choice: &&'static str) -> Result<(), Broken> {
        panic!("no {choice}")
    }

    fn unsettled(&self) -> Option<Broken> {
        None
    }

    fn fingerprint(&self) -> u64 {
        0
    }
}

#[test]
fn the_message_of_a_panic_is_kept() {
    let failure = search(&Panics, 9).failure.expect("it panics");
    assert_eq!(failure.broken, Broken::new(Guarantee::G9, "it panicked: no go"));
}
