//! One run of a check, and what is said of the check after as many runs as that takes.

use std::time::Instant;

use crate::check::{Clause, Level, Row};
use crate::known::Known;
use crate::report::{Outcome, Transcript, Verdict};
use crate::stop::{Fault, Stop};

/// A check is run until so many runs have missed what they look for, or so many have not.
const RUNS: usize = 3;

/// The outcome of one run.
pub(crate) struct Once {
    pub(crate) verdict: Verdict,
    pub(crate) transcript: Transcript,
    pub(crate) stderr: String,
}

impl Once {
    /// Creates a run in which nothing was said.
    pub(crate) fn without(verdict: Verdict) -> Self {
        Self { verdict, transcript: Transcript::default(), stderr: String::new() }
    }

    /// A run in which the steps `stopped` short, or did not, and something was `broken`, or nothing.
    pub(crate) fn of(stopped: Option<Stop>, fault: Option<Fault>) -> Self {
        Self::without(match (stopped, fault) {
            (Some(Stop::NotExercised(why)), _) => Verdict::NotExercised { why },
            (Some(Stop::Ended(why)), _)
            | (Some(Stop::Stuck(why)), Some(Fault::Broken(_)))
            | (None, Some(Fault::Broken(why))) => Verdict::Fail { why },
            // Nothing wrong was seen of what was not done: that is no pass.
            (Some(Stop::Missed(why) | Stop::Stuck(why)), _) | (None, Some(Fault::Unclear(why))) => {
                Verdict::Unclear { why }
            }
            (None, None) => Verdict::Pass,
        })
    }

    /// Creates a run that could not be done for this reason.
    pub(crate) fn not_exercised(why: impl Into<String>) -> Self {
        Self::of(Some(Stop::NotExercised(why.into())), None)
    }

    /// Creates a run in which nothing was seen for this reason.
    pub(crate) fn missed(why: impl Into<String>) -> Self {
        Self::of(Some(Stop::Missed(why.into())), None)
    }

    /// Returns the run with what was said in it.
    pub(crate) fn with(self, transcript: Transcript, stderr: String) -> Self {
        Self { transcript, stderr, ..self }
    }

    pub(crate) fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::Fail { .. })
    }
}

/// The numbers of the runs that failed, that missed what they look for, and that have seen it.
fn counts(runs: &[Once]) -> (usize, usize, usize) {
    let failed = runs.iter().filter(|run| run.fails()).count();
    let is_missed = |run: &&Once| matches!(run.verdict, Verdict::Unclear { .. });
    let missed = runs.iter().filter(is_missed).count();
    (failed, missed, runs.len() - missed)
}

/// Returns whether enough was seen: two runs that fail agree, and one in which all was seen needs another only if a run has
/// failed. What was missed is looked for again.
fn is_certain(runs: &[Once]) -> bool {
    let (failed, missed, seen) = counts(runs);
    failed > 1 || missed == RUNS || seen == RUNS || (failed == 0 && seen > 0)
}

/// The run that is told: the last that failed if two did; else the last that saw it hold, or, if there is none, that saw
/// nothing. One failure that no third run could be set against says nothing either.
fn told(mut runs: Vec<Once>) -> Once {
    let (failed, missed, _) = counts(&runs);
    let is_open = failed == 1 && missed == RUNS;
    // Of equal ones the last.
    runs.sort_by_key(|run| match run.verdict {
        Verdict::Fail { .. } => 2 * u8::from(failed > 1),
        Verdict::Pass if is_open => 0,
        Verdict::Pass => 1 + u8::from(failed < 2),
        Verdict::NotExercised { .. } | Verdict::Unclear { .. } | Verdict::NotApplicable => 1,
    });
    runs.pop().expect("a check is run at least once")
}

/// Runs a check, for which the protocol may have a clause, until its verdict is certain.
///
/// Two of three runs that see something have to fail. A run that sees nothing is repeated, until there are three of them.
/// `run` gets the number of runs before it.
pub(crate) fn outcome<N, S, R>(
    check: &Row<N, S, R>,
    clause: Option<&'static Clause>,
    known: &Known,
    mut run: impl FnMut(usize) -> Once,
) -> Outcome {
    let begun = Instant::now();
    let mut made = vec![run(0)];
    while !is_certain(&made) {
        made.push(run(made.len()));
    }
    let runs = made.iter().map(|run| run.verdict.clone()).collect();
    let last = told(made);
    Outcome {
        id: check.id,
        title: check.title,
        level: clause.map_or(Level::Information, |clause| clause.level),
        clause: clause.map_or("", |clause| clause.text),
        source: clause.map_or("", |clause| clause.source),
        known: known.of(check.id),
        verdict: last.verdict,
        runs,
        took: begun.elapsed(),
        transcript: last.transcript,
        stderr: last.stderr,
    }
}

#[cfg(test)]
mod tests;
