//! One run of a check, and what is said of the check after as many runs as that takes.

use std::time::Instant;

use crate::check::{Clause, Level};
use crate::known::Known;
use crate::play::Stop;
use crate::report::{Outcome, Transcript, Verdict};

/// What came of one run.
pub(crate) struct Once {
    pub(crate) verdict: Verdict,
    pub(crate) transcript: Transcript,
    pub(crate) stderr: String,
}

impl Once {
    /// Without anything having been said.
    pub(crate) fn without(verdict: Verdict) -> Self {
        Self { verdict, transcript: Transcript::default(), stderr: String::new() }
    }

    fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::Fail { .. })
    }
}

/// What a run says in which the steps `stopped` short, or did not, and something was `broken`, or nothing.
pub(crate) fn verdict(stopped: Option<Stop>, broken: Option<String>) -> Verdict {
    match (stopped, broken) {
        (Some(Stop::NotExercised(why)), _) => Verdict::NotExercised { why },
        (Some(Stop::Ended(why)), _) | (Some(Stop::Stuck(why)), Some(_)) => Verdict::Fail { why },
        // Nothing wrong was seen of what was not done: that is no pass.
        (Some(Stop::Stuck(why)), None) => Verdict::NotExercised { why },
        (None, Some(why)) => Verdict::Fail { why },
        (None, None) => Verdict::Pass,
    }
}

/// A check as reports tell it.
pub(crate) struct Told {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What the protocol asks for, if it does.
    pub(crate) clause: Option<&'static Clause>,
}

impl Told {
    /// Runs the check until its verdict is certain: a failure is one if two of three runs agree. `run` is told whether it
    /// is the first.
    pub(crate) fn outcome(self, known: &Known, mut run: impl FnMut(bool) -> Once) -> Outcome {
        let begun = Instant::now();
        let mut last = run(true);
        let mut runs = vec![last.verdict.clone()];
        if last.fails() {
            let second = run(false);
            runs.push(second.verdict.clone());
            if !second.fails() {
                let third = run(false);
                runs.push(third.verdict.clone());
                if !third.fails() {
                    last = third;
                }
            }
        }
        let Self { id, title, clause } = self;
        Outcome {
            id,
            title,
            level: clause.map_or(Level::Information, |clause| clause.level),
            clause: clause.map_or("", |clause| clause.text),
            source: clause.map_or("", |clause| clause.source),
            known: known.of(id),
            verdict: last.verdict,
            runs,
            took: begun.elapsed(),
            transcript: last.transcript,
            stderr: last.stderr,
        }
    }
}

#[cfg(test)]
mod tests;
