//! Counts and percentiles of requests.

use std::fmt;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::files::Flaws;
use super::pairing::Counts;
use super::row::{Outcome, Row, milliseconds};
use crate::terminal::counted;

/// Durations of many requests, in little memory: the longest, and all to three digits.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    all: Histogram<u64>,
    longest: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { all: Histogram::new(3).expect("three digits are few enough"), longest: 0 }
    }
}

impl Durations {
    /// Ten days: what is longer counts as that, so that the memory is bounded.
    const LONGEST: u64 = 864_000_000_000;

    pub(crate) fn add(&mut self, micros: u64) {
        self.longest = self.longest.max(micros);
        // It grows as far as that asks for.
        let _ = self.all.record(micros.min(Self::LONGEST));
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.len()
    }

    /// The duration that so many in a hundred don't exceed; `None` if there is none.
    pub(crate) fn percentile(&self, percent: f64) -> Option<u64> {
        // The histogram rounds up.
        let value = || self.all.value_at_percentile(percent).min(self.longest);
        (!self.all.is_empty()).then(value)
    }
}

/// The summary of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) requests: u64,
    /// Turns, tasks and progress.
    pub(crate) works: u64,
    /// Those of them that were stopped, in time or not.
    pub(crate) stopped: u64,
    pub(crate) cancelled: u64,
    pub(crate) late: u64,
    pub(crate) unanswered: u64,
    pub(crate) durations: Durations,
    pub(crate) counts: Counts,
    pub(crate) flaws: Flaws,
}

impl Summary {
    pub(crate) fn add(&mut self, row: &Row) {
        if row.work.is_some() {
            self.works += 1;
            self.stopped += u64::from(row.cancelled.is_some());
        }
        if !row.is_request() {
            return;
        }
        self.requests += 1;
        self.cancelled += u64::from(row.cancelled.is_some());
        self.late += u64::from(row.late.is_some());
        self.unanswered += u64::from(row.outcome == Outcome::Unanswered);
        if let Some(took) = row.duration() {
            self.durations.add(took);
        }
    }

    /// Returns warnings about the recording as such, one line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Flaws { is_cut, unreadable, first, gone } = &self.flaws;
        let Counts { dropped, strays, duplicates, violations, .. } = self.counts;
        let mut warnings = Vec::new();
        let mut warn = |is: bool, text: String| warnings.extend(is.then_some(text));
        warn(*is_cut, "the recording has no end: whoever wrote it was stopped".into());
        warn(*gone > 0, format!("files before these are gone: {gone}"));
        warn(
            dropped > 0,
            format!("lines that were not recorded, for they came too fast: {dropped}"),
        );
        let first = first.as_deref().unwrap_or_default();
        warn(
            *unreadable > 0,
            format!("lines that are none of a recording: {unreadable} ({first})"),
        );
        warn(strays > 0, format!("answers to nothing that was asked: {strays}"));
        warn(duplicates > 0, format!("second answers: {duplicates}"));
        warn(violations > 0, format!("other rules that a peer broke: {violations}"));
        warnings
    }

    /// Describes how long requests took; empty if none ended.
    pub(crate) fn percentiles(&self) -> String {
        match [50.0, 95.0].map(|percent| self.durations.percentile(percent).map(milliseconds)) {
            [Some(p50), Some(p95)] => format!("; p50 {p50}, p95 {p95}"),
            _ => String::new(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut recording = json!(self.counts);
        recording["is_cut"] = self.flaws.is_cut.into();
        recording["unreadable"] = self.flaws.unreadable.into();
        recording["files_gone"] = self.flaws.gone.into();
        json!({ "summary": {
            "requests": self.requests,
            "work": self.works,
            "work_stopped": self.stopped,
            "cancelled": self.cancelled,
            "late": self.late,
            "unanswered": self.unanswered,
            "p50": self.durations.percentile(50.0),
            "p95": self.durations.percentile(95.0),
            "recording": recording,
        }})
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, cancelled, late, unanswered, .. } = self;
        let requests = counted(*requests, "request");
        write!(f, "{requests}: {cancelled} cancelled, {late} late, {unanswered} never answered")?;
        if self.works > 0 {
            write!(f, "; {} of work, {} stopped", counted(self.works, "piece"), self.stopped)?;
        }
        f.write_str(&self.percentiles())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_true_to_three_digits() {
        let mut durations = Durations::default();
        assert_eq!(durations.percentile(50.0), None);
        (1..=1000).for_each(|millis| durations.add(millis * 1000));
        let near = |percent, micros: u64| {
            durations.percentile(percent).is_some_and(|it| it.abs_diff(micros) <= micros / 1000)
        };
        assert!(near(50.0, 500_000) && near(95.0, 950_000) && near(100.0, 1_000_000));
        durations.add(u64::MAX);
        assert!(
            durations.percentile(100.0).is_some_and(|it| it.abs_diff(Durations::LONGEST) < 1 << 30)
        );
    }
}
