//! The verdicts on real peers, in `tests/recorded`. docs/conformance.md sums them up.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rescind_conform::{Column, Outcome, Report, column, matrix};

use super::peers::shown;
use super::{How, Peer, failed};

/// The pages, by the names of their files, with the subject of each.
const PAGES: [(&str, &str); 5] = [
    ("lsp", "language servers"),
    ("mcp", "servers of the Model Context Protocol"),
    ("acp", "agents of the Agent Client Protocol"),
    ("dap", "debug adapters"),
    ("relays", "relays"),
];

/// A peer, and the report on it.
type Tested<'p> = (&'p Peer, Report);

fn file(end: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/{end}.txt"))
}

/// The end of the name of the page that a peer is on.
fn page_of(peer: &Peer) -> &'static str {
    let about = match peer.how {
        How::Relay => "relays",
        _ => &peer.dialect.name,
    };
    PAGES.iter().map(|(end, _)| *end).find(|end| about.starts_with(end)).unwrap_or("lsp")
}

/// Writes all pages. A peer that was not tested keeps its cells and its section.
///
/// # Errors
///
/// They can't be read or written.
pub fn write(all: &[Peer], tested: &[Tested<'_>]) -> io::Result<()> {
    for (end, title) in PAGES {
        let here: Vec<&Peer> = all.iter().filter(|peer| page_of(peer) == end).collect();
        let page = page(title, &here, tested, &fs::read_to_string(file(end))?);
        fs::write(file(end), page)?;
    }
    Ok(())
}

fn page(title: &str, peers: &[&Peer], tested: &[Tested<'_>], before: &str) -> String {
    let report = |peer: &Peer| tested.iter().find(|(it, _)| it.name == peer.name);
    let columns: Vec<(&str, Column)> = (peers.iter())
        .map(|peer| match report(peer) {
            Some((_, report)) => (peer.name, column(report)),
            None => (peer.name, kept_column(before, peer.name)),
        })
        .collect();
    let mut page = format!(
        "What `rescind conform` sees of {title}. BLESS=1 rewrites this file.\n\n{}\n",
        matrix(&columns)
    );
    for peer in peers {
        page += &match report(peer) {
            Some((_, report)) => section(peer, report),
            None => kept(before, peer.name),
        };
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

/// The section of a peer on the page as it stands.
fn kept(page: &str, name: &str) -> String {
    let mut sections = page.split("\n## ").skip(1);
    let section = sections.find(|it| it.lines().next() == Some(name));
    section.map_or_else(String::new, |it| format!("## {}\n\n", it.trim_end()))
}

fn section(peer: &Peer, report: &Report) -> String {
    let mut out = format!(
        "## {}\n\n{}.\n\n```sh\nrescind conform {} --dialect {} {}-- {}\n```\n\n",
        peer.name,
        report.summary(),
        peer.how.tested(),
        peer.dialect.name,
        peer.how.arguments(),
        shown(peer.command.as_deref().unwrap_or_default()),
    );
    for outcome in failed(report) {
        let why: String = outcome.verdict.why().unwrap_or_default().chars().take(300).collect();
        let _ = writeln!(out, "- `--only {}` ({}): {why}", outcome.id, outcome.level);
    }
    if !failed(report).is_empty() {
        out.push('\n');
    }
    let mut unexercised: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let is_open =
        |outcome: &&Outcome| ["not exercised", "unclear"].contains(&outcome.verdict.as_str());
    for outcome in report.outcomes.iter().filter(is_open) {
        let why = outcome.verdict.why().unwrap_or_default();
        let said = (outcome.verdict.as_str(), why);
        unexercised.entry(said).or_default().push(format!("`{}`", outcome.id));
    }
    for ((verdict, why), checks) in &unexercised {
        let _ = writeln!(out, "- {verdict}: {}: {why}", checks.join(", "));
    }
    if !unexercised.is_empty() {
        out.push('\n');
    }
    out
}

/// A peer's column on its page, as it stands.
///
/// # Errors
///
/// There is no such page.
pub fn recorded(peer: &Peer) -> io::Result<Column> {
    Ok(kept_column(&fs::read_to_string(file(page_of(peer)))?, peer.name))
}

fn kept_column(page: &str, name: &str) -> Column {
    let mut rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let Some(at) = rows.next().and_then(|head| cells(head).iter().position(|cell| cell == name))
    else {
        return Column::new();
    };
    let cell = |row: &str| {
        let cells = cells(row);
        let said = cells.get(at).filter(|said| !said.is_empty())?.clone();
        cells.get(1).map(|id| (id.trim_matches('`').to_owned(), said))
    };
    rows.skip(1).filter_map(cell).collect()
}
