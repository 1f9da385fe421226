//! What is said of a check after so many runs, and what is known of it before.

use super::{Once, Told, verdict};
use crate::check::{Clause, Level};
use crate::family::Family;
use crate::known::{Expected, Known};
use crate::play::Stop;
use crate::report::Verdict::{self, Fail, NotApplicable, NotExercised, Pass};

fn why() -> String {
    "why".into()
}

#[test]
fn a_run_fails_by_what_is_broken_or_by_an_end_that_nobody_asked_for() {
    let other = || Some("other".to_owned());
    assert_eq!(verdict(None, None), Pass);
    assert_eq!(verdict(None, Some(why())), Fail { why: why() });
    assert_eq!(verdict(Some(Stop::Ended(why())), None), Fail { why: why() });
    assert_eq!(verdict(Some(Stop::Ended(why())), other()), Fail { why: why() });
    assert_eq!(verdict(Some(Stop::Stuck(why())), other()), Fail { why: why() });
}

#[test]
fn a_run_that_stops_short_without_anything_broken_is_no_pass() {
    assert_eq!(verdict(Some(Stop::Stuck(why())), None), NotExercised { why: why() });
    assert_eq!(verdict(Some(Stop::NotExercised(why())), None), NotExercised { why: why() });
    let broken = Some("what was not tried can't be broken".to_owned());
    assert_eq!(verdict(Some(Stop::NotExercised(why())), broken), NotExercised { why: why() });
}

static CLAUSE: Clause =
    Clause { families: &[Family::Acp], level: Level::Must, text: "it holds", source: "here" };

/// What is said of a check whose runs end like these, and how often it was run.
fn after(runs: &[Verdict]) -> (Verdict, usize) {
    let mut made = 0;
    let told = Told { id: "cancel/late", title: "title", clause: Some(&CLAUSE) };
    let outcome = told.outcome(&Known::default(), |is_first| {
        assert_eq!(is_first, made == 0);
        made += 1;
        Once::without(runs[made - 1].clone())
    });
    assert_eq!(outcome.runs, runs[..made]);
    let said = (outcome.id, outcome.title, outcome.level, outcome.clause, outcome.source);
    assert_eq!(said, ("cancel/late", "title", Level::Must, "it holds", "here"));
    (outcome.verdict, made)
}

#[test]
fn a_failure_is_one_if_two_of_three_runs_agree() {
    let fail = || Fail { why: why() };
    for verdict in [Pass, NotExercised { why: why() }, NotApplicable] {
        assert_eq!(after(std::slice::from_ref(&verdict)), (verdict, 1));
    }
    assert_eq!(after(&[fail(), fail()]), (fail(), 2));
    assert_eq!(after(&[fail(), Pass, fail()]), (fail(), 3));
    assert_eq!(after(&[fail(), Pass, Pass]), (Pass, 3));
    assert_eq!(after(&[fail(), NotExercised { why: why() }, Pass]), (Pass, 3));
}

#[test]
fn what_is_known_to_fail_is_stale_once_it_passes() {
    let known = Known::read("id/zero # Node\n\n # a remark\n", "id/text\nid/zero").expect("checks");
    assert_eq!(known.of("id/text"), Expected::Flaky);
    assert_eq!(known.of("id/zero"), Expected::Flaky, "that it fails now and then is less");
    assert_eq!(known.of("id/large"), Expected::Pass);
    assert!(Known::read("id/zero\nid/none", "").is_err_and(|why| why.contains("\"id/none\"")));

    let known = Known::read_among(&["a", "b", "c"], "a\nb", "c").expect("checks");
    let outcome = |id, verdict: &Verdict| {
        Told { id, title: "", clause: None }.outcome(&known, |_| Once::without(verdict.clone()))
    };
    assert_eq!(known.of("a"), Expected::Failing);
    let all = [
        outcome("a", &Pass),
        outcome("b", &Fail { why: why() }),
        outcome("c", &Pass),
        outcome("d", &Pass),
    ];
    assert_eq!(known.stale(&all), ["a"]);
    assert_eq!(all[1].known, Expected::Failing);
}
