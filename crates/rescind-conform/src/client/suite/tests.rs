//! The needs of a check, and its verdict on a client that lacks them.

use std::time::Duration;

use protocol_core::Dialect;

use super::TestedClient;
use crate::check::Need;
use crate::client::facts::ClientFacts;
use crate::options::ClientOptions;
use crate::report::Verdict::{self, NotApplicable, NotExercised};
use crate::tests::{Absent, IN_TWO_PROTOCOLS, is_played};
use crate::words::Check;

/// Returns the verdict of a check that needs this, on a client with these facts.
fn said(need: Need, dialect: &str, known: impl FnOnce(&mut ClientFacts)) -> Verdict {
    let dialect = Dialect::named(dialect).expect("there is such a dialect");
    let options = ClientOptions::new(dialect);
    let mut facts = ClientFacts::unknown(&options);
    known(&mut facts);
    let needs = Box::leak(Box::new([need]));
    let check = Check::BASE.named("client-cancel/once", "").clauses(IN_TWO_PROTOCOLS).needs(needs);
    let client = TestedClient { target: &Absent, options: &options, facts };
    options.suite.outcome(&client, &check).verdict
}

#[test]
fn what_a_client_lacks_is_said_and_is_no_verdict() {
    let no_ask = "no request of ours is known that takes the client its time (--ask)";
    for (need, dialect, why) in [
        (Need::Cancels, "acp", "the client cancels nothing, by itself or by --trigger"),
        (Need::Answers, "acp", "the client answers no request of ours while it waits"),
        (Need::Ask, "acp", no_ask),
        (Need::AskIfSilent, "mcp", no_ask),
    ] {
        assert_eq!(said(need, dialect, |_| {}), NotExercised { why: why.into() }, "{need:?}");
    }
    let undeclared = "the client does not declare that its work can be cancelled";
    let verdict = said(Need::Declared, "acp", |facts| facts.declares = false);
    assert_eq!(verdict, NotExercised { why: undeclared.into() });
}

#[test]
fn a_check_is_played_with_a_client_that_has_what_it_needs() {
    let all = |facts: &mut ClientFacts| {
        facts.cancels = Some(Duration::ZERO);
        (facts.answers, facts.ask_is_slow, facts.common.is_process) = (true, true, true);
    };
    let is_played =
        |need, dialect, known: fn(&mut ClientFacts)| is_played(&said(need, dialect, known));
    for need in
        [Need::Cancels, Need::Answers, Need::Ask, Need::AskIfSilent, Need::Declared, Need::Process]
    {
        assert!(is_played(need, "acp", all), "{need:?}");
        assert!(is_played(need, "mcp", all), "{need:?}");
    }
    // If cancelled requests get responses, one that is done at once will do.
    assert!(is_played(Need::AskIfSilent, "acp", |_| {}));
}

#[test]
fn a_check_applies_where_there_is_a_clause() {
    assert_eq!(said(Need::Cancels, "lsp", |_| {}), NotApplicable);
    assert_eq!(said(Need::Process, "acp", |_| {}), NotApplicable);
}
