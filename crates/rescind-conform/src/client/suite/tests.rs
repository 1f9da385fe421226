//! What a check needs of a client, and what is said where the client does not have it.

use std::time::Duration;

use protocol_core::Dialect;

use super::{Case, ClientOptions};
use crate::by_hand::{Absent, IN_TWO_PROTOCOLS, is_played};
use crate::client::check::{ClientCheck, ClientNeed};
use crate::client::facts::ClientFacts;
use crate::report::Verdict::{self, NotApplicable, NotExercised};

/// What is said of a check that needs this, on a client of which that is known.
fn said(need: ClientNeed, dialect: &str, known: impl FnOnce(&mut ClientFacts)) -> Verdict {
    let dialect = Dialect::named(dialect).expect("there is such a dialect");
    let mut facts = ClientFacts::unknown(dialect.clone());
    known(&mut facts);
    let (options, needs) = (ClientOptions::new(dialect), [need]);
    let check = ClientCheck {
        id: "client-cancel/once",
        title: "",
        clauses: IN_TWO_PROTOCOLS,
        needs: Box::leak(Box::new(needs)),
        steps: &[],
        rules: &[],
        witness: "",
    };
    Case { target: &Absent, options: &options, facts: &facts, check: &check }.run().verdict
}

#[test]
fn what_a_client_lacks_is_said_and_is_no_verdict() {
    let no_ask = "no request of ours is known that takes the client its time (--ask)";
    for (need, dialect, why) in [
        (ClientNeed::Cancels, "acp", "the client cancels nothing by itself (--trigger)"),
        (ClientNeed::Answers, "acp", "the client answers no request of ours while it waits"),
        (ClientNeed::Ask, "acp", no_ask),
        (ClientNeed::AskIfSilent, "mcp", no_ask),
        (ClientNeed::Process, "acp", "the client is no process of its own"),
    ] {
        assert_eq!(said(need, dialect, |_| {}), NotExercised { why: why.into() }, "{need:?}");
    }
    let undeclared = "the client does not declare that its work can be cancelled";
    let verdict = said(ClientNeed::Declared, "acp", |facts| facts.declares = false);
    assert_eq!(verdict, NotExercised { why: undeclared.into() });
}

#[test]
fn a_check_is_played_with_a_client_that_has_what_it_needs() {
    let all = |facts: &mut ClientFacts| {
        facts.cancels = Some(Duration::ZERO);
        (facts.answers, facts.ask_is_slow, facts.is_process) = (true, true, true);
    };
    let is_played =
        |need, dialect, known: fn(&mut ClientFacts)| is_played(&said(need, dialect, known));
    for need in [
        ClientNeed::Cancels,
        ClientNeed::Answers,
        ClientNeed::Ask,
        ClientNeed::AskIfSilent,
        ClientNeed::Declared,
        ClientNeed::Process,
    ] {
        assert!(is_played(need, "acp", all), "{need:?}");
        assert!(is_played(need, "mcp", all), "{need:?}");
    }
    // Where a cancelled request is answered, one that is done at once will do.
    assert!(is_played(ClientNeed::AskIfSilent, "acp", |_| {}));
}

#[test]
fn a_check_applies_where_there_is_a_clause() {
    assert_eq!(said(ClientNeed::Cancels, "lsp", |_| {}), NotApplicable);
}
