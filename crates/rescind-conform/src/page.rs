//! The checks as a page of documentation.

use std::fmt::Write;

use crate::checks::CHECKS;
use crate::family::Family;

/// Every check, by group: its id, its level in each protocol, the clauses, what makes sure.
#[must_use]
pub fn page() -> String {
    let mut out = String::new();
    let mut group = "";
    for check in CHECKS {
        let own = check.id.split('/').next().unwrap_or_default();
        if own != group {
            group = own;
            // Writing to a string does not fail.
            let _ = writeln!(out, "## {group}\n");
        }
        let _ = writeln!(out, "### `{}`\n", check.id);
        let mut title = check.title.chars();
        let first = title.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        let _ = writeln!(out, "{first}{}.\n", title.as_str());
        for clause in check.clauses {
            let names: Vec<&str> = (Family::ALL.into_iter())
                .filter(|family| clause.families.contains(family))
                .map(Family::name)
                .collect();
            let source = match clause.source {
                url if url.starts_with("http") => format!("[source]({url})"),
                text => text.into(),
            };
            let _ = writeln!(
                out,
                "- **{}** in {}: {} ({source})",
                clause.level,
                names.join(", "),
                clause.text
            );
        }
        let _ = writeln!(out, "\nWitness: {}\n", check.witness);
    }
    out
}
