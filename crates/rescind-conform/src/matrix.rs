//! A matrix for READMEs: a row a check, a column a server.

use std::collections::BTreeMap;

use crate::check::Level;
use crate::checks::CHECKS;
use crate::client::CLIENT_CHECKS;
use crate::known::Expected;
use crate::relay::RELAY_CHECKS;
use crate::report::{Outcome, Report, Verdict};

/// A column of a table: words for the outcomes of checks that apply, by the ids of these checks.
pub type Column = BTreeMap<String, String>;

/// A table of subjects, each under its name. A check that applies to none of them has no row.
#[must_use]
pub fn matrix(subjects: &[(&str, Column)]) -> String {
    let names: String = subjects.iter().map(|(name, _)| format!(" {} |", cell(name))).collect();
    let mut out = format!("| check |{names}\n|---|{}\n", "---|".repeat(subjects.len()));
    let of_servers = CHECKS.iter().map(|check| check.id);
    let of_clients = CLIENT_CHECKS.iter().map(|check| check.id);
    let of_relays = RELAY_CHECKS.iter().map(|check| check.id);
    for id in of_servers.chain(of_clients).chain(of_relays) {
        if subjects.iter().any(|(_, column)| column.contains_key(id)) {
            let words = |(_, column): &(_, Column)| {
                format!(" {} |", column.get(id).map_or("", String::as_str))
            };
            out += &format!("| `{id}` |{}\n", subjects.iter().map(words).collect::<String>());
        }
    }
    out
}

/// Returns the column of a report.
#[must_use]
pub fn column(report: &Report) -> Column {
    let all =
        report.outcomes.iter().map(|outcome| (outcome.id.to_owned(), said(outcome).to_owned()));
    all.filter(|(_, said)| !said.is_empty()).collect()
}

/// Returns the words for an outcome. There are none for a check that does not apply.
fn said(outcome: &Outcome) -> &'static str {
    match (&outcome.verdict, outcome.level) {
        (Verdict::NotApplicable, _) => "",
        (Verdict::Pass | Verdict::Fail { .. }, _) if outcome.known == Expected::Flaky => "varies",
        (Verdict::Pass, _) => "holds",
        (Verdict::NotExercised { .. } | Verdict::Unclear { .. }, _) => "?",
        (Verdict::Fail { .. }, Level::Must) => "does not hold",
        (Verdict::Fail { .. }, Level::Capability) => "does not hold (capability)",
        (Verdict::Fail { .. }, Level::Should) => "does not hold (SHOULD)",
        (Verdict::Fail { .. }, Level::Information) => "no (information)",
    }
}

/// Text that ends no cell and no line of a table.
pub(crate) fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}
