//! What came of a run, for people and for programs.

mod badge;
mod json;
mod junit;
mod markdown;
mod transcript;

use std::time::Duration;

use serde_json::Value;

use crate::check::Level;
use crate::known::Expected;

pub use markdown::matrix;
pub use transcript::{Line, Transcript, Way};

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What has to hold was seen to hold.
    Pass,
    /// It was seen not to.
    Fail {
        /// What was seen.
        why: String,
    },
    /// It could not be tried on this server, or nothing was seen either way.
    NotExercised {
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
            Self::NotApplicable => "not applicable",
        }
    }

    /// What was seen, or why nothing was.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Fail { why } | Self::NotExercised { why } => Some(why),
            Self::Pass | Self::NotApplicable => None,
        }
    }
}

/// A check, and what came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The id of the check.
    pub id: &'static str,
    /// What holds if it passes.
    pub title: &'static str,
    /// How much the protocol asks for it.
    pub level: Level,
    /// What the protocol asks for, in our words.
    pub clause: &'static str,
    /// Where that stands.
    pub source: &'static str,
    /// What was expected.
    pub known: Expected,
    /// What came of it.
    pub verdict: Verdict,
    /// What each run said: one, or where the first failed the verdict that two agree on.
    pub runs: Vec<Verdict>,
    /// How long all runs took.
    pub took: Duration,
    /// What both sides said in the run that the verdict is from.
    pub transcript: Transcript,
    /// The last of what the server wrote to its standard error.
    pub stderr: String,
}

impl Outcome {
    /// Whether it is a reason for the run to fail.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Fail { .. })
            && self.known == Expected::Pass
            && self.level != Level::Information
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found out about the server.
    pub facts: Value,
    /// Runs the same again.
    pub seed: u64,
    /// How long it took.
    pub took: Duration,
    /// Every check, in the order of the table.
    pub outcomes: Vec<Outcome>,
    /// Checks that are listed as failing and pass.
    pub stale: Vec<String>,
}

/// What a run says in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Everything that was tried holds, and every MUST was tried.
    Pass,
    /// Something does not hold, or the list of what is known to fail is stale.
    Fail,
    /// What was tried holds, but not every MUST was tried.
    Incomplete,
}

impl Whole {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Incomplete => "incomplete",
        }
    }
}

impl Report {
    /// What the run says as a whole.
    #[must_use]
    pub fn whole(&self) -> Whole {
        let unexercised = |outcome: &Outcome| {
            outcome.level == Level::Must && matches!(outcome.verdict, Verdict::NotExercised { .. })
        };
        match () {
            () if !self.stale.is_empty() || self.outcomes.iter().any(Outcome::is_failure) => {
                Whole::Fail
            }
            () if self.outcomes.iter().any(unexercised) => Whole::Incomplete,
            () => Whole::Pass,
        }
    }

    /// How many checks ended so.
    #[must_use]
    pub fn count(&self, verdict: &str) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict.as_str() == verdict).count()
    }

    /// How many checks pass, fail, and so on, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{} pass, {} fail, {} not exercised, {} not applicable",
            self.count("pass"),
            self.count("fail"),
            self.count("not exercised"),
            self.count("not applicable"),
        )
    }
}
