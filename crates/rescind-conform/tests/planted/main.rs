//! Servers, clients and relays that are wrong on purpose, one fault each: the checks find that, and only what follows
//! from it; and servers that are asked in rounds. One program, since all of them mostly wait.

mod clients;
mod relays;
mod rounds;
mod servers;

use std::collections::BTreeSet;
use std::env;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Failed};
use rescind_conform::{Outcome, Report, Verdict};

/// As many as cargo gives the other tests.
const AT_ONCE: usize = 12;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if servers::plays(&words) || clients::plays(&words) {
        return;
    }
    // `.ci/run` sets it, so that another sample is tried after each commit.
    let turn = env::var("RESCIND_TURN").map_or(0, |turn| turn.parse::<usize>().expect("a number"));
    // Those that wait longest begin first.
    let mut trials = clients::trials(turn);
    trials.extend(servers::trials(turn));
    trials.extend(rounds::trials());
    trials.extend(relays::trials());
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(AT_ONCE));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !are_judged() {
        exit(1);
    }
    conclusion.exit();
}

/// The number of failures that were judged, and of those that nothing could be told of.
static JUDGED: AtomicUsize = AtomicUsize::new(0);
static UNCLEAR: AtomicUsize = AtomicUsize::new(0);
/// The least number of a hundred faults that are judged, however busy the machine is.
const LEAST: usize = 70;

/// Asserts that these checks fail, and no others.
///
/// On a machine that is late a verdict may become one that nothing can be told of, and no other.
fn fail(report: &Report, expected: &[&str]) -> Result<(), Failed> {
    let with = |is_such: fn(&Outcome) -> bool| -> BTreeSet<&str> {
        let such = report.outcomes.iter().filter(|outcome| is_such(outcome));
        such.map(|outcome| outcome.id).collect()
    };
    let found = with(|outcome| matches!(outcome.verdict, Verdict::Fail { .. }));
    let unclear = with(|outcome| matches!(outcome.verdict, Verdict::Unclear { .. }));
    let all: BTreeSet<&str> = expected.iter().copied().collect();
    let judged: BTreeSet<&str> = all.difference(&unclear).copied().collect();
    JUDGED.fetch_add(judged.len(), Ordering::Relaxed);
    UNCLEAR.fetch_add(all.len() - judged.len(), Ordering::Relaxed);
    match found == judged {
        true => Ok(()),
        false => {
            let differs = found.symmetric_difference(&judged).copied().collect();
            Err(format!("expected {judged:?}\nfound {found:?}\n{}", told(report, &differs)).into())
        }
    }
}

/// Asserts that everything is tried that applies, as far as the machine lets it.
fn are_tried(report: &Report) -> Result<(), Failed> {
    let is_open = |outcome: &&Outcome| matches!(outcome.verdict, Verdict::NotExercised { .. });
    let open: BTreeSet<&str> = report.outcomes.iter().filter(is_open).map(|it| it.id).collect();
    if open.is_empty() { Ok(()) } else { Err(told(report, &open).into()) }
}

/// Asserts that every check has this verdict, as far as the machine lets it.
fn are_all(report: &Report, verdict: &str) -> Result<(), Failed> {
    let is_other = |outcome: &&Outcome| {
        let is_late = outcome.verdict.why().is_some_and(|why| why.contains("too slow to tell"));
        outcome.verdict.as_str() != verdict && !is_late
    };
    let others: BTreeSet<&str> = report.outcomes.iter().filter(is_other).map(|it| it.id).collect();
    if others.is_empty() { Ok(()) } else { Err(told(report, &others).into()) }
}

/// Returns the outcomes of these checks, with what was said.
fn told(report: &Report, ids: &BTreeSet<&str>) -> String {
    let outcomes = report.outcomes.iter().filter(|outcome| ids.contains(outcome.id));
    let lines = outcomes.map(|outcome| {
        let said: Vec<&str> =
            outcome.transcript.lines.iter().map(|line| line.text.as_str()).collect();
        let (runs, said) = (&outcome.runs, said.join("\n  "));
        format!("{}: {:?} after {runs:?}\n  {said}\n", outcome.id, outcome.verdict)
    });
    lines.collect()
}

/// Reports how many verdicts were clear, and returns whether those are enough.
fn are_judged() -> bool {
    let (judged, unclear) = (JUDGED.load(Ordering::Relaxed), UNCLEAR.load(Ordering::Relaxed));
    println!("{judged} verdicts are clear, {unclear} are not");
    let enough = judged * 100 >= (judged + unclear) * LEAST;
    if !enough {
        eprintln!("fewer than {LEAST} of a hundred verdicts are clear");
    }
    enough
}
