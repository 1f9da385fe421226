//! Reports of a run, for people and for programs.

pub(crate) mod json;
mod junit;
mod transcript;

use std::time::Duration;

use serde_json::Value;

use crate::check::Level;
use crate::known::Expected;
use crate::worded::worded;

pub use transcript::{Line, Transcript, Way};

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rules were seen to hold.
    Pass,
    /// It was seen not to.
    Fail {
        /// The evidence, in words.
        why: String,
    },
    /// It could not be tried on this server.
    NotExercised {
        /// The reason why it could not.
        why: String,
    },
    /// It was tried, and nothing was seen either way. Another run may see it.
    Unclear {
        /// The reason why nothing was seen.
        why: String,
    },
    /// The protocol does not ask for it.
    NotApplicable,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::NotExercised { .. } => "not exercised",
            Self::Unclear { .. } => "unclear",
            Self::NotApplicable => "not applicable",
        }
    }

    /// Returns the evidence, or the reason why there is none.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Fail { why } | Self::NotExercised { why } | Self::Unclear { why } => Some(why),
            Self::Pass | Self::NotApplicable => None,
        }
    }
}

/// The word for a check that does not hold, and only informs.
const NO: &str = "no";

/// A check, and what came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The id of the check.
    pub id: &'static str,
    /// The statement that holds if it passes.
    pub title: &'static str,
    /// The strength with which the protocol asks for it.
    pub level: Level,
    /// The demand of the protocol, in our words.
    pub clause: &'static str,
    /// The place where that stands.
    pub source: &'static str,
    /// The expectation about the check.
    pub known: Expected,
    /// The verdict after all runs.
    pub verdict: Verdict,
    /// The verdict of each run. There is one run, or if that failed as many as it takes for two to agree.
    pub runs: Vec<Verdict>,
    /// The time that all runs took.
    pub took: Duration,
    /// The messages of both sides in the run that the verdict is from.
    pub transcript: Transcript,
    /// The last of what the server wrote to its standard error.
    pub stderr: String,
}

impl Outcome {
    /// The word for its verdict. Nothing fails that is told as information.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match (&self.verdict, self.level) {
            (Verdict::Fail { .. }, Level::Information) => NO,
            (verdict, _) => verdict.as_str(),
        }
    }

    /// Whether it is a reason for the run to fail.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Fail { .. }) && self.is_judged()
    }

    fn is_judged(&self) -> bool {
        self.known == Expected::Pass && self.level != Level::Information
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The facts about the server.
    pub facts: Value,
    /// Something that many checks need and that is not known, if there is such a thing.
    pub lacks: Option<String>,
    /// Runs the same again.
    pub seed: u64,
    /// The time that it took.
    pub took: Duration,
    /// Every check, in the order of the table.
    pub outcomes: Vec<Outcome>,
    /// Checks that are listed as failing and pass.
    pub stale: Vec<String>,
}

worded! {
    /// The verdict of a whole run.
    pub enum Whole {
        /// Everything that was tried holds, and every MUST was tried.
        Pass = "pass",
        /// Something does not hold, or the list of what is known to fail is stale.
        Fail = "fail",
        /// All checks that were tried hold, but not every MUST was tried, or none, or another run may find that one fails.
        Incomplete = "incomplete",
    }
}

impl Report {
    /// Returns the verdict of the whole run.
    #[must_use]
    pub fn whole(&self) -> Whole {
        let is_open = |outcome: &Outcome| match outcome.verdict {
            Verdict::NotExercised { .. } => outcome.level == Level::Must,
            // Another run may find that it fails.
            Verdict::Unclear { .. } => outcome.level == Level::Must || outcome.is_judged(),
            _ => false,
        };
        let says = |outcome: &Outcome| match outcome.verdict {
            Verdict::Pass => true,
            Verdict::Fail { .. } => outcome.word() != NO,
            _ => false,
        };
        let fails = !self.stale.is_empty() || self.outcomes.iter().any(Outcome::is_failure);
        match () {
            () if fails => Whole::Fail,
            () if self.outcomes.iter().any(is_open) => Whole::Incomplete,
            // Silence is no pass.
            () if !self.outcomes.iter().any(says) => Whole::Incomplete,
            () => Whole::Pass,
        }
    }

    /// Counts the checks with this verdict.
    #[must_use]
    pub fn count(&self, verdict: &str) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict.as_str() == verdict).count()
    }

    /// Returns the number of checks that pass, that fail and so on, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let unclear = self.count("unclear");
        let unclear = if unclear == 0 { String::new() } else { format!("{unclear} unclear, ") };
        let told = self.outcomes.iter().filter(|outcome| outcome.word() == NO).count();
        let no = if told == 0 { String::new() } else { format!("{told} {NO} (information), ") };
        format!(
            "{} pass, {} fail, {no}{unclear}{} not exercised, {} not applicable",
            self.count("pass"),
            self.count("fail") - told,
            self.count("not exercised"),
            self.count("not applicable"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Clause, Source};
    use crate::known::Known;
    use crate::once::{Once, outcome};
    use crate::stop::Stop;
    use crate::words::Check;

    #[test]
    fn a_run_is_incomplete_if_another_may_find_that_something_fails() {
        let whole = |level, stop: Stop| {
            let report = report(level, [Some(stop), None]);
            (report.whole(), report.summary())
        };
        let unclear = "1 pass, 0 fail, 1 unclear, 0 not exercised, 0 not applicable".to_owned();
        let certain = "1 pass, 0 fail, 1 not exercised, 0 not applicable".to_owned();
        let lacks = || Stop::NotExercised("no cancel".into());
        for (level, stop, expected) in [
            (Level::Should, Stop::too_late(), (Whole::Incomplete, &unclear)),
            (Level::Information, Stop::too_late(), (Whole::Pass, &unclear)),
            (Level::Should, lacks(), (Whole::Pass, &certain)),
            (Level::Must, lacks(), (Whole::Incomplete, &certain)),
        ] {
            let (verdict, summary) = whole(level, stop);
            assert_eq!((verdict, &summary), expected, "{level}");
        }
    }

    /// A report of checks that stop short, or pass.
    fn report<const N: usize>(level: Level, stops: [Option<Stop>; N]) -> Report {
        let clause = &*Box::leak(Box::new(Clause { level, ..CLAUSE }));
        let outcome = |stop: Option<Stop>| {
            let run = |_| Once::of(stop.clone(), None);
            outcome(&Check::BASE, Some(clause), &Known::default(), run)
        };
        Report {
            facts: Value::Null,
            lacks: None,
            seed: 1,
            took: Duration::ZERO,
            outcomes: stops.map(outcome).into(),
            stale: vec![],
        }
    }

    #[test]
    fn a_run_without_a_verdict_is_no_pass() {
        let whole = |stops| report(Level::Should, stops).whole();
        let lacks = || Some(Stop::NotExercised("no cancel".into()));
        assert_eq!(whole([lacks(), lacks()]), Whole::Incomplete);
        assert_eq!(whole([lacks(), None]), Whole::Pass);
        assert_eq!(report(Level::Must, []).whole(), Whole::Incomplete);
    }

    #[test]
    fn a_badge_counts_what_fails_and_no_information() {
        let ended = || Some(Stop::Ended("it ended".into()));
        let mut report_of_both = report(Level::Must, [ended(), None]);
        report_of_both.outcomes.extend(report(Level::Information, [ended()]).outcomes);
        assert_eq!(report_of_both.to_badge()["message"], "1 of 2 checks");
    }

    const CLAUSE: Clause = Source::new(&[], "").must("");
}
