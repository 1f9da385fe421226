//! A report for programs, and a badge for READMEs as shields.io reads it.

use serde_json::{Value, json};

use super::{Outcome, Report, Whole};
use crate::known::Expected;

impl Report {
    /// All of it, with every transcript.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "verdict": self.whole().as_str(),
            "facts": self.facts,
            "lacks": self.lacks,
            "seed": self.seed,
            "took_ms": milliseconds(self.took),
            "checks": self.outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
            "stale": self.stale,
        })
    }

    /// The JSON of an endpoint badge.
    #[must_use]
    pub fn to_badge(&self) -> Value {
        let pass = self.count("pass");
        let tried = pass + self.outcomes.iter().filter(|outcome| outcome.is_failure()).count();
        let (message, color) = match self.whole() {
            Whole::Pass => (format!("{pass} checks"), "brightgreen"),
            Whole::Incomplete => (format!("{pass} of {tried} checks, incomplete"), "yellow"),
            Whole::Fail => (format!("{pass} of {tried} checks"), "orange"),
        };
        json!({ "schemaVersion": 1, "label": "cancellation", "message": message, "color": color })
    }
}

impl Outcome {
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "title": self.title,
            "level": self.level.as_str(),
            "clause": self.clause,
            "source": self.source,
            "verdict": self.verdict.as_str(),
            "why": self.verdict.why(),
            "known": match self.known {
                Expected::Pass => Value::Null,
                Expected::Failing => json!("failing"),
                Expected::Flaky => json!("flaky"),
            },
            "runs": self.runs.iter().map(super::Verdict::as_str).collect::<Vec<_>>(),
            "took_ms": milliseconds(self.took),
            "transcript": self.transcript,
            "stderr": self.stderr,
        })
    }
}

/// Returns whole milliseconds, as reports have them.
pub(crate) fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
