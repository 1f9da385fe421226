//! A report as continuous integration reads it.

use quick_junit::{NonSuccessKind, Report as JUnit, TestCase, TestCaseStatus, TestSuite};

use super::{Outcome, Report, Verdict};
use crate::check::Level;

impl Report {
    /// `JUnit` XML: what fails and counts is a failure, what was not tried is skipped.
    ///
    /// # Errors
    ///
    /// The writer of XML fails.
    pub fn to_junit(&self, name: &str) -> Result<String, String> {
        let mut suite = TestSuite::new(name);
        suite.set_time(self.took);
        suite.add_test_cases(self.outcomes.iter().map(case));
        let mut report = JUnit::new("rescind conform");
        report.set_time(self.took).add_test_suite(suite);
        report.to_string().map_err(|error| error.to_string())
    }
}

fn case(outcome: &Outcome) -> TestCase {
    let why = outcome.verdict.why().unwrap_or_default();
    let mut status = match &outcome.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        _ if outcome.is_failure() => TestCaseStatus::non_success(NonSuccessKind::Failure),
        _ => TestCaseStatus::skipped(),
    };
    if outcome.verdict != Verdict::Pass {
        let expected = match (&outcome.verdict, outcome.level) {
            (Verdict::Fail { .. }, Level::Information) => "information: ",
            (Verdict::Fail { .. }, _) if !outcome.is_failure() => "known: ",
            (Verdict::NotApplicable, _) => "not applicable",
            _ => "",
        };
        status.set_message(format!("{expected}{why}"));
    }
    let (group, _) = outcome.id.split_once('/').unwrap_or(("", ""));
    let mut case = TestCase::new(outcome.id, status);
    case.set_classname(format!("rescind-conform.{group}")).set_time(outcome.took);
    if matches!(outcome.verdict, Verdict::Fail { .. }) {
        let lines = outcome
            .transcript
            .lines
            .iter()
            .map(|line| format!("{:>10} us {} {}\n", line.at_us, line.way.arrow(), line.text));
        case.set_system_out(lines.collect::<String>());
        case.set_system_err(outcome.stderr.clone());
    }
    case
}
