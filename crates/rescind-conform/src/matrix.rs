//! A matrix for READMEs: a row a check, a column a server.

use crate::check::Level;
use crate::checks::CHECKS;
use crate::client::CLIENT_CHECKS;
use crate::known::Expected;
use crate::relay::RELAY_CHECKS;
use crate::report::{Outcome, Report, Verdict};

/// A table of what several servers do, each under its name.
#[must_use]
pub fn matrix(servers: &[(&str, &Report)]) -> String {
    let names: String = servers.iter().map(|(name, _)| format!(" {} |", cell(name))).collect();
    let mut out = format!("| check |{names}\n|---|{}\n", "---|".repeat(servers.len()));
    let of_servers = CHECKS.iter().map(|check| check.id);
    let of_clients = CLIENT_CHECKS.iter().map(|check| check.id);
    let of_relays = RELAY_CHECKS.iter().map(|check| check.id);
    for id in of_servers.chain(of_clients).chain(of_relays) {
        let all = servers.iter().map(|(_, report)| &report.outcomes);
        let row: Vec<_> = all.map(|all| all.iter().find(|outcome| outcome.id == id)).collect();
        if row.iter().flatten().any(|outcome| outcome.verdict != Verdict::NotApplicable) {
            let said = row.iter().map(|outcome| format!(" {} |", outcome.map_or("", said)));
            out += &format!("| `{id}` |{}\n", said.collect::<String>());
        }
    }
    out
}

/// Returns the words for an outcome. There are none for a check that does not apply.
fn said(outcome: &Outcome) -> &'static str {
    match (&outcome.verdict, outcome.level) {
        (Verdict::NotApplicable, _) => "",
        (Verdict::Pass | Verdict::Fail { .. }, _) if outcome.known == Expected::Flaky => "varies",
        (Verdict::Pass, _) => "holds",
        (Verdict::NotExercised { .. }, _) => "?",
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
