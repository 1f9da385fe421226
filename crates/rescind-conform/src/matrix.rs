//! A matrix for READMEs: a row a check, a column a server.

use std::fmt::Write;

use crate::check::Level;
use crate::checks::CHECKS;
use crate::client::CLIENT_CHECKS;
use crate::known::Expected;
use crate::relay::RELAY_CHECKS;
use crate::report::{Report, Verdict};

/// A table of what several servers do, each under its name.
#[must_use]
pub fn matrix(servers: &[(&str, &Report)]) -> String {
    let mut out = String::from("| check |");
    for (name, _) in servers {
        // Writing to a string does not fail.
        let _ = write!(out, " {} |", cell(name));
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(servers.len()));
    out.push('\n');
    let of_servers = CHECKS.iter().map(|check| check.id);
    let of_clients = CLIENT_CHECKS.iter().map(|check| check.id);
    let of_relays = RELAY_CHECKS.iter().map(|check| check.id);
    for id in of_servers.chain(of_clients).chain(of_relays) {
        let found =
            |report: &Report| report.outcomes.iter().find(|outcome| outcome.id == id).cloned();
        let row: Vec<_> = servers.iter().map(|(_, report)| found(report)).collect();
        if row.iter().flatten().all(|outcome| outcome.verdict == Verdict::NotApplicable) {
            continue;
        }
        let _ = write!(out, "| `{id}` |");
        for outcome in row {
            let is_flaky = outcome.as_ref().is_some_and(|it| it.known == Expected::Flaky);
            let text = match outcome.map(|outcome| (outcome.verdict, outcome.level)) {
                None | Some((Verdict::NotApplicable, _)) => "",
                Some((Verdict::Pass | Verdict::Fail { .. }, _)) if is_flaky => "varies",
                Some((Verdict::Pass, _)) => "holds",
                Some((Verdict::NotExercised { .. }, _)) => "?",
                Some((Verdict::Fail { .. }, Level::Must)) => "does not hold",
                Some((Verdict::Fail { .. }, Level::Capability)) => "does not hold (capability)",
                Some((Verdict::Fail { .. }, Level::Should)) => "does not hold (SHOULD)",
                Some((Verdict::Fail { .. }, Level::Information)) => "no (information)",
            };
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    out
}

/// Text that ends no cell and no line of a table.
pub(crate) fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}
