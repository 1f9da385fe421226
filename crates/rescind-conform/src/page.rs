//! The checks as pages, which `rescind conform checks` prints.

use std::fmt::Debug;

use crate::check::{Clause, Row};
use crate::checks::CHECKS;
use crate::client::CLIENT_CHECKS;
use crate::family::Family;
use crate::relay::{RELAY_CHECKS, RelayCheck};
use crate::words::Check;

/// Every check of servers, by group: its id, its level in each protocol, the clauses, what makes sure.
#[must_use]
pub fn page() -> String {
    page_of(String::new(), &CHECKS, data)
}

/// The same of clients.
#[must_use]
pub fn client_page() -> String {
    page_of(String::new(), CLIENT_CHECKS, data)
}

/// The same of relays, below what is judged of every conversation with one.
#[must_use]
pub fn relay_page() -> String {
    let always = RelayCheck::ALWAYS.map(|rule| format!("- {rule}\n")).concat();
    let head = format!("## In every check\n\nJudged in every one of them:\n\n{always}\n");
    let judged =
        |check: &RelayCheck| check.rules.iter().map(|it| format!("Judged: {it}.\n")).collect();
    page_of(head, RELAY_CHECKS, judged)
}

fn page_of<N, S, R>(
    mut out: String,
    checks: &[Row<N, S, R>],
    data: impl Fn(&Row<N, S, R>) -> String,
) -> String {
    let mut group = "";
    for check in checks {
        let own = check.id.split('/').next().unwrap_or_default();
        if own != group {
            group = own;
            out += &format!("## {own}\n\n");
        }
        out += &format!("### `{}`\n\n{}.\n\n", check.id, capitalized(check.title));
        out.extend(check.clauses.iter().map(clause));
        out += &format!("\nWitness: {}\n{}\n", check.witness, data(check));
    }
    out
}

fn capitalized(title: &str) -> String {
    let mut rest = title.chars();
    let first = rest.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(rest).collect()
}

fn clause(clause: &Clause) -> String {
    let asking = Family::ALL.iter().filter(|family| clause.families.contains(family));
    let names: Vec<&str> = asking.map(|family| family.as_str()).collect();
    let source = match clause.source {
        url if url.starts_with("http") => format!("[source]({url})"),
        text => text.into(),
    };
    format!("- **{}** in {}: {} ({source})\n", clause.level, names.join(", "), clause.text)
}

/// Returns the needs, the steps and the rules in one line, in the words of this crate.
fn data(check: &Check) -> String {
    let (needs, steps, rules) = (words(check.needs), words(check.steps), words(check.rules));
    let all = [("Needs", needs), ("Steps", steps), ("Rules", rules)];
    let said = all.iter().filter(|(_, words)| !words.is_empty());
    let said: Vec<String> = said.map(|(what, words)| format!("{what}: {words}")).collect();
    said.join(". ") + "\n"
}

fn words(words: &[impl Debug]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word:?}`")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
