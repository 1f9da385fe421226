//! The verdicts on real peers, in `tests/recorded`. docs/conformance.md sums them up.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rescind_conform::{Report, matrix};

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

/// Writes all pages.
///
/// # Errors
///
/// They can't be written.
pub fn write(tested: &[Tested<'_>]) -> io::Result<()> {
    for (end, title) in PAGES {
        let here: Vec<&Tested<'_>> =
            tested.iter().filter(|(peer, _)| page_of(peer) == end).collect();
        fs::write(file(end), page(title, &here))?;
    }
    Ok(())
}

fn page(title: &str, tested: &[&Tested<'_>]) -> String {
    let columns: Vec<(&str, &Report)> =
        tested.iter().map(|(peer, report)| (peer.name, report)).collect();
    let mut page = format!(
        "What `rescind conform` sees of {title}. BLESS=1 rewrites this file.\n\n{}\n",
        matrix(&columns)
    );
    for (peer, report) in tested {
        page += &section(peer, report);
    }
    page.truncate(page.trim_end().len());
    page + "\n"
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
    let mut unexercised: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for outcome in
        report.outcomes.iter().filter(|outcome| outcome.verdict.as_str() == "not exercised")
    {
        let why = outcome.verdict.why().unwrap_or_default();
        unexercised.entry(why).or_default().push(format!("`{}`", outcome.id));
    }
    for (why, checks) in &unexercised {
        let _ = writeln!(out, "- not exercised: {}: {why}", checks.join(", "));
    }
    if !unexercised.is_empty() {
        out.push('\n');
    }
    out
}

/// The cells of a peer's column that say something, by their checks: of its page, as it stands.
///
/// # Errors
///
/// There is no such page.
pub fn recorded(peer: &Peer) -> io::Result<BTreeMap<String, String>> {
    Ok(column(&fs::read_to_string(file(page_of(peer)))?, peer.name))
}

/// The same of a report.
#[must_use]
pub fn seen(peer: &Peer, report: &Report) -> BTreeMap<String, String> {
    column(&matrix(&[(peer.name, report)]), peer.name)
}

fn column(page: &str, name: &str) -> BTreeMap<String, String> {
    let mut rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let Some(at) = rows.next().and_then(|head| cells(head).iter().position(|cell| cell == name))
    else {
        return BTreeMap::new();
    };
    let cell = |row: &str| {
        let cells = cells(row);
        let said = cells.get(at).filter(|said| !said.is_empty())?.clone();
        cells.get(1).map(|id| (id.trim_matches('`').to_owned(), said))
    };
    rows.skip(1).filter_map(cell).collect()
}
