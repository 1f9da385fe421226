//! Runs checks on a subject, each on a fresh one, and says what held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::check::{Clause, Level, Need, Row};
use crate::judge::rules::Rule;
use crate::known::Expected;
use crate::once::{self, Once};
use crate::options::Suite;
use crate::play::steps::Step;
use crate::report::{Outcome, Report, Verdict};

/// A check that failed or was missed runs again with slow requests that last this many times as long. No cancel
/// then races with the end of its request.
pub(crate) const AGAIN: u8 = 3;

/// News of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Something holds for many checks that is not as usual; it comes first.
    Lacks(&'a str),
    /// A check has its outcome. They come in the order of the table.
    Checked(&'a Outcome),
}

/// A server, a client or a relay that is tested, and what is known of it.
pub(crate) trait Subject<N: 'static = Need, S: 'static = Step, R: 'static = Rule>:
    Sync
{
    /// In one line, for reports.
    fn facts(&self) -> Value;

    /// Something that holds for many checks, if it is not as usual.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// The clause that asks for a check, if that applies.
    fn clause(&self, check: &Row<N, S, R>) -> Option<&'static Clause>;

    /// The strength with which the clause of a check asks for something of this subject.
    fn level(&self, _: &Row<N, S, R>, clause: &Clause) -> Level {
        clause.level
    }

    /// Runs a check that applies, after so many runs of it.
    fn once(&self, check: &Row<N, S, R>, number: usize) -> Once;
}

impl Suite {
    /// Returns whether a check is run, by its id or the part before the slash.
    pub(crate) fn runs(&self, id: &str) -> bool {
        let group = id.split('/').next().unwrap_or_default();
        self.only.is_empty() || self.only.iter().any(|only| only == id || only == group)
    }

    /// Runs these checks on a subject that was met since `begun`, and reports each outcome to `seen` in their order.
    pub(crate) fn run<N: Sync, S: Sync, R: Sync>(
        &self,
        subject: &impl Subject<N, S, R>,
        checks: &'static [Row<N, S, R>],
        begun: Instant,
        seen: impl FnMut(&Outcome),
    ) -> Report {
        let checks: Vec<_> = checks.iter().filter(|check| self.runs(check.id)).collect();
        let outcomes = in_order(&checks, self.jobs, |check| self.outcome(subject, check), seen);
        Report {
            facts: subject.facts(),
            lacks: subject.lacks(),
            seed: self.seed,
            took: begun.elapsed(),
            stale: stale(&outcomes),
            outcomes,
        }
    }

    /// Runs one check as often as it takes.
    pub(crate) fn outcome<N, S, R>(
        &self,
        subject: &impl Subject<N, S, R>,
        check: &Row<N, S, R>,
    ) -> Outcome {
        let clause = subject.clause(check);
        let outcome = once::outcome(check, clause, &self.known, |number| match clause {
            None => Once::without(Verdict::NotApplicable),
            Some(_) => subject.once(check, number),
        });
        let level = clause.map_or(outcome.level, |clause| subject.level(check, clause));
        Outcome { level, ..outcome }
    }
}

/// Returns the checks that are listed as failing and pass.
pub(crate) fn stale(outcomes: &[Outcome]) -> Vec<String> {
    let is_stale =
        |outcome: &&Outcome| outcome.known == Expected::Failing && outcome.verdict == Verdict::Pass;
    outcomes.iter().filter(is_stale).map(|outcome| outcome.id.into()).collect()
}

/// Does so many things at the same time, and tells what came of them in the order that they have.
pub(crate) fn in_order<C: Sync, O: Send>(
    all: &[C],
    jobs: usize,
    make: impl Fn(&C) -> O + Sync,
    mut seen: impl FnMut(&O),
) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let (done, all_done) = mpsc::channel();
    let mut outcomes = Vec::new();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, all.len().max(1)) {
            let (done, next, make) = (done.clone(), &next, &make);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(number) else { return };
                    // The receiver lives as long as this scope.
                    let _ = done.send((number, make(one)));
                }
            });
        }
        drop(done);
        // Told in their order, whatever is done first.
        let mut waiting = BTreeMap::new();
        for (number, outcome) in all_done {
            waiting.insert(number, outcome);
            while let Some(outcome) = waiting.remove(&outcomes.len()) {
                seen(&outcome);
                outcomes.push(outcome);
            }
        }
    });
    outcomes
}

/// Returns the seed for the choices of one check. It is the same on every machine, and differs between checks.
pub(crate) fn case_seed(seed: u64, id: &str) -> u64 {
    seed ^ hash(id)
}

/// Returns the FNV-1a hash of a text.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
pub(crate) mod tests;
