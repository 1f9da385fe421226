//! The verdict of a check after so many runs, and the facts before them.

use super::{Once, outcome};
use crate::check::{Clause, Level, Source};
use crate::family::Family;
use crate::known::{Expected, Known};
use crate::report::Verdict::{self, Fail, NotApplicable, NotExercised, Pass, Unclear};
use crate::stop::{Fault, Stop};
use crate::words::Check;

fn why() -> String {
    "why".into()
}

fn broken() -> Fault {
    Fault::Broken(why())
}

#[test]
fn a_run_fails_by_what_is_broken_or_by_an_end_that_nobody_asked_for() {
    let verdict = |stopped, broken| Once::of(stopped, broken).verdict;
    let other = || Some(Fault::Broken("other".to_owned()));
    assert_eq!(verdict(None, None), Pass);
    assert_eq!(verdict(None, Some(broken())), Fail { why: why() });
    assert_eq!(verdict(Some(Stop::Ended(why())), None), Fail { why: why() });
    assert_eq!(verdict(Some(Stop::Ended(why())), other()), Fail { why: why() });
    assert_eq!(verdict(Some(Stop::Stuck(why())), other()), Fail { why: why() });
}

#[test]
fn a_run_that_stops_short_without_anything_broken_is_no_pass() {
    let broken = || Some(Fault::Broken("what was not tried can't be broken".to_owned()));
    let (unclear, not) = (|| Unclear { why: why() }, || NotExercised { why: why() });
    assert_eq!(Once::of(None, Some(Fault::Unclear(why()))).verdict, unclear());
    for (stopped, broken, verdict) in [
        (Stop::Stuck(why()), None, unclear()),
        (Stop::Missed(why()), None, unclear()),
        (Stop::Missed(why()), broken(), unclear()),
        (Stop::NotExercised(why()), None, not()),
        (Stop::NotExercised(why()), broken(), not()),
    ] {
        assert_eq!(Once::of(Some(stopped), broken).verdict, verdict);
    }
}

static CLAUSE: Clause = Source::new(&[Family::Acp], "here").must("it holds");

fn runs(verdicts: &[Verdict]) -> Vec<Once> {
    verdicts.iter().cloned().map(Once::without).collect()
}

/// Returns the verdict of a check whose runs end like these, and the number of its runs.
fn after(runs: Vec<Once>) -> (Verdict, usize) {
    let verdicts: Vec<Verdict> = runs.iter().map(|run| run.verdict.clone()).collect();
    let mut runs = runs.into_iter();
    let mut made = 0;
    let check = Check::BASE.named("cancel/late", "title");
    let outcome = outcome(&check, Some(&CLAUSE), &Known::default(), |number| {
        assert_eq!(number, made);
        made += 1;
        runs.next().expect("a run that says more")
    });
    assert_eq!(outcome.runs, verdicts[..made]);
    let said = (outcome.id, outcome.title, outcome.level, outcome.clause, outcome.source);
    assert_eq!(said, ("cancel/late", "title", Level::Must, "it holds", "here"));
    (outcome.verdict, made)
}

#[test]
fn a_failure_is_one_if_two_of_three_runs_agree() {
    let fail = || Fail { why: why() };
    let not = || NotExercised { why: why() };
    for verdict in [Pass, not(), NotApplicable] {
        assert_eq!(after(runs(std::slice::from_ref(&verdict))), (verdict, 1));
    }
    assert_eq!(after(runs(&[fail(), fail()])), (fail(), 2));
    assert_eq!(after(runs(&[fail(), Pass, fail()])), (fail(), 3));
    assert_eq!(after(runs(&[fail(), Pass, Pass])), (Pass, 3));
    assert_eq!(after(runs(&[fail(), not(), Pass])), (Pass, 3));
    assert_eq!(after(runs(&[fail(), Pass, not()])), (Pass, 3));
}

#[test]
fn what_was_missed_is_looked_for_twice_more() {
    let missed = || Once::of(Some(Stop::Missed(why())), None);
    let passes = || Once::without(Pass);
    let fails = || Once::of(None, Some(broken()));
    let (fail, unclear) = (|| Fail { why: why() }, || Unclear { why: why() });
    let not = || NotExercised { why: why() };
    assert_eq!(after(vec![missed(), missed(), missed()]), (unclear(), 3));
    assert_eq!(after(vec![missed(), missed(), passes()]), (Pass, 3));
    assert_eq!(after(vec![missed(), passes()]), (Pass, 2));
    assert_eq!(after(vec![missed(), fails(), fails()]), (fail(), 3));
    assert_eq!(after(vec![missed(), missed(), fails(), fails()]), (fail(), 4));
    assert_eq!(after(vec![missed(), fails(), passes(), passes()]), (Pass, 4));
    assert_eq!(after(vec![missed(), fails(), passes(), missed(), fails()]), (fail(), 5));
    assert_eq!(after(vec![fails(), missed(), missed(), missed()]), (unclear(), 4));
    assert_eq!(after(vec![fails(), passes(), missed(), missed(), missed()]), (unclear(), 5));
    assert_eq!(after(vec![missed(), Once::without(not())]), (not(), 2));
}

#[test]
fn what_is_known_to_fail_is_stale_once_it_passes() {
    let known = Known::read("id/zero # Node\n\n # a remark\n", "id/text\nid/zero").expect("checks");
    assert_eq!(known.of("id/text"), Expected::Flaky);
    assert_eq!(known.of("id/zero"), Expected::Flaky, "that it fails now and then is less");
    assert_eq!(known.of("id/large"), Expected::Pass);
    let unknown = "known failing checks, line 3: there is no check \"id/none\"";
    assert_eq!(Known::read("id/zero\n\nid/none", "").unwrap_err(), unknown);

    let known = Known::read_among(&["a", "b", "c"], "a\nb", "c").expect("checks");
    let outcome = |id, verdict: &Verdict| {
        outcome(&Check::BASE.named(id, ""), None, &known, |_| Once::without(verdict.clone()))
    };
    assert_eq!(known.of("a"), Expected::Failing);
    let all = [
        outcome("a", &Pass),
        outcome("b", &Fail { why: why() }),
        outcome("c", &Pass),
        outcome("d", &Pass),
    ];
    assert_eq!(crate::suite::stale(&all), ["a"]);
    assert_eq!(all[1].known, Expected::Failing);
}
