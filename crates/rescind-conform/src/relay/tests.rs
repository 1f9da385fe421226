//! The verdicts on a conversation with a relay.

use protocol_core::Dialect;

use super::checks::{RELAY_CHECKS, RelayCheck};
use super::rules::{Checks, Rule};
use super::target::Side;
use super::{of_callers, outcome, shift};
use crate::once::Once;
use crate::report::Verdict;

fn check(id: &str) -> &'static RelayCheck {
    RELAY_CHECKS.iter().find(|check| check.id == id).expect("there is such a check")
}

/// Returns the verdict after these were judged, each held or broken.
fn said(id: &str, judged: &[(Rule, bool)], played: Option<()>) -> Verdict {
    let mut checks = Checks::default();
    for (rule, holds) in judged {
        checks.check(*rule, *holds, || "it does not".into());
    }
    outcome(check(id), &checks, played, Side::Far).verdict
}

fn not_exercised(why: &str) -> Verdict {
    Verdict::NotExercised { why: format!("called by the server: {why}") }
}

#[test]
fn a_check_passes_if_what_it_is_about_was_judged_and_holds() {
    let forwarded = (Rule::CancelForwarded, true);
    assert_eq!(said("relay-cancel/live", &[forwarded], Some(())), Verdict::Pass);
    let nothing = not_exercised("there was nothing to judge");
    assert_eq!(said("relay-cancel/live", &[], Some(())), nothing);
    assert_eq!(said("relay-cancel/live", &[(Rule::AnsweredOnce, true)], Some(())), nothing);
    // A check without a rule of its own is about those of every conversation.
    assert_eq!(said("relay-id/kinds", &[], Some(())), Verdict::Pass);
}

#[test]
fn a_conversation_that_comes_to_a_halt_is_no_pass() {
    let why = "called by the server: the conversation came to a halt";
    let halted = Verdict::Unclear { why: why.into() };
    assert_eq!(said("relay-cancel/live", &[(Rule::CancelForwarded, true)], None), halted);
    assert_eq!(said("relay-id/kinds", &[], None), halted);
}

#[test]
fn a_check_fails_by_its_own_rules_and_those_of_every_conversation() {
    for &rule in Rule::ALL {
        let is_own = rule == Rule::CancelForwarded || RelayCheck::ALWAYS.contains(&rule);
        let judged = [(Rule::CancelForwarded, true), (rule, false)];
        for played in [Some(()), None] {
            let fails = matches!(said("relay-cancel/live", &judged, played), Verdict::Fail { .. });
            assert_eq!(fails, is_own, "{rule:?}");
        }
    }
    let why = "called by the server: it does not (each request is answered once, under its id and JSON type)";
    let answered = said("relay-id/kinds", &[(Rule::AnsweredOnce, false)], Some(()));
    assert_eq!(answered, Verdict::Fail { why: why.into() });
}

#[test]
fn a_side_that_shows_nothing_keeps_no_failure_of_the_other_back() {
    let told = |played: &[Verdict]| {
        let mut played = played.iter().cloned().map(Once::without);
        (of_callers(&mut played).verdict, played.len())
    };
    let fail = || Verdict::Fail { why: "it does not".into() };
    let nothing = || not_exercised("there was nothing to judge");
    assert_eq!(told(&[nothing(), fail()]), (fail(), 0));
    assert_eq!(told(&[fail(), nothing()]), (fail(), 1), "it is enough");
    assert_eq!(told(&[nothing(), Verdict::Pass]), (nothing(), 0), "silence is no pass");
    assert_eq!(told(&[Verdict::Pass, nothing()]), (nothing(), 0));
    assert_eq!(told(&[Verdict::Pass, Verdict::Pass]), (Verdict::Pass, 0));
    assert_eq!(told(&[]), (Verdict::NotApplicable, 0));
}

#[test]
fn the_seed_shifts_the_ids() {
    assert_eq!([1, 2, 1_000, 1_001].map(shift), [0, 1_000, 999_000, 0]);
}

#[test]
fn a_check_of_batches_is_for_protocols_without_them() {
    for (dialect, applies) in
        [("acp", true), ("lsp", true), ("mcp-2025-03-26", false), ("mcp-2025-11-25", true)]
    {
        let dialect = Dialect::named(dialect).expect("there is such a dialect");
        assert_eq!(
            check("relay-form/batches").needs.iter().all(|fits| fits(&dialect)),
            applies,
            "{}",
            dialect.name
        );
    }
}
