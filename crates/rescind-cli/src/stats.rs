//! `rescind stats`: counts and percentiles of recordings.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::terminal::{harmless, harmless_json};
use crate::view::files;
use crate::view::pairing::{Pairing, REMEMBERED};
use crate::view::row::{Outcome, Row, milliseconds};
use crate::view::summary::{Durations, Summary};
use crate::{exit, note};

/// Count what recordings hold, by method and by outcome
///
/// Prints a line for each method and each way in which its requests ended: how many there were, and how
/// long they took. Of requests that were cancelled, the lines below say how long that took from the
/// cancel. The last line counts all.
///
/// Exit codes: 0, 1 if something that --fail-on names was found, 2 usage, 7 standard output could not be written.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// The recordings to count
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print one JSON object; times are microseconds
    #[arg(long)]
    json: bool,

    /// Fail if there is any of these, for scripts
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<Finding>,
}

/// A flaw that a recording may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Finding {
    /// A request that was never answered
    Hung,
    /// An answer that came after its request was settled
    Late,
    /// A rule that a peer broke; late answers are none
    Violation,
    /// Something is missing in the recording
    Gap,
}

impl Finding {
    fn count(self, summary: &Summary) -> u64 {
        let counts = summary.counts;
        match self {
            Self::Hung => summary.unanswered,
            Self::Late => counts.late,
            Self::Violation => counts.violations + counts.duplicates + counts.strays,
            Self::Gap => {
                let flaws = &summary.flaws;
                [counts.dropped, flaws.unreadable, flaws.gone, u64::from(flaws.is_cut)]
                    .into_iter()
                    .fold(0, u64::saturating_add)
            }
        }
    }
}

/// So many methods are told apart; the requests of all others count as those of one.
const METHODS: usize = 1_000;
const OTHERS: &str = "(others)";

/// Requests by method, and then by how they ended.
#[derive(Debug, Default)]
struct Table(BTreeMap<String, BTreeMap<Outcome, Cell>>);

#[derive(Debug, Default)]
struct Cell {
    count: u64,
    cancelled: u64,
    took: Durations,
    /// From the cancel to the end.
    settling: Durations,
}

impl Table {
    fn add(&mut self, row: &Row) {
        let is_known = self.0.contains_key(&row.method) || self.0.len() < METHODS;
        let method = if is_known { &*row.method } else { OTHERS };
        let cell = self.0.entry(method.into()).or_default().entry(row.outcome).or_default();
        cell.count += 1;
        cell.cancelled += u64::from(row.cancelled.is_some());
        row.duration().into_iter().for_each(|took| cell.took.add(took));
        row.settling().into_iter().for_each(|took| cell.settling.add(took));
    }

    fn cells(&self) -> impl Iterator<Item = (&str, Outcome, &Cell)> {
        self.0.iter().flat_map(|(method, cells)| {
            cells.iter().map(move |(outcome, cell)| (&**method, *outcome, cell))
        })
    }
}

/// The percentiles that are told, by name.
const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)];

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &StatsArgs) -> Result<ExitCode, Exit> {
    let (mut table, mut all) = (Table::default(), Summary::default());
    for file in &args.files {
        add(file, &mut table, &mut all)?;
    }
    let text = if args.json { json_text(&table, &all) } else { plain_text(&table, &all) };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that has seen enough changes nothing about the findings.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(Exit::output(error)),
        _ => {}
    }
    all.warnings().iter().for_each(note);
    let found = args.fail_on.iter().any(|finding| finding.count(&all) > 0);
    Ok(if found { exit::ERROR } else { 0 }.into())
}

/// Returns the summary of a whole recording.
pub(crate) fn summary(file: &std::path::Path) -> Result<Summary, String> {
    let mut all = Summary::default();
    add(file, &mut Table::default(), &mut all)?;
    Ok(all)
}

fn add(file: &std::path::Path, table: &mut Table, all: &mut Summary) -> Result<(), String> {
    let mut pairing = Pairing::new(REMEMBERED);
    pairing.counts = all.counts;
    let flaws = files::read_shown(file, true, |line| {
        pairing.take(&line);
        for (_, row) in pairing.forget() {
            table.add(&row);
            all.add(&row);
        }
        ControlFlow::Continue(())
    })?;
    for row in pairing.rest().values() {
        table.add(row);
        all.add(row);
    }
    all.counts = pairing.counts;
    all.flaws.add(flaws);
    Ok(())
}

fn plain_text(table: &Table, all: &Summary) -> String {
    let mut text = String::new();
    let mut line = |method: &str, what: &str, count: &str, [p50, p90, p99, max]: [String; 4]| {
        let method = harmless(method);
        text.push_str(&format!(
            "{method:32} {what:28} {count:>8} {p50:>14} {p90:>14} {p99:>14} {max:>14}\n"
        ));
    };
    let times = |durations: &Durations| {
        PERCENTILES.map(|(_, at)| durations.percentile(at).map_or("-".into(), milliseconds))
    };
    line("method", "outcome", "count", PERCENTILES.map(|(name, _)| name.into()));
    for (method, outcome, cell) in table.cells() {
        line(method, outcome.as_str(), &cell.count.to_string(), times(&cell.took));
    }
    for (method, outcome, cell) in table.cells().filter(|(.., cell)| cell.settling.count() > 0) {
        let what = format!("{} after cancel", outcome.as_str());
        line(method, &what, &cell.settling.count().to_string(), times(&cell.settling));
    }
    format!("{text}{all}\n")
}

fn json_text(table: &Table, all: &Summary) -> String {
    let times = |durations: &Durations| -> Value {
        let named =
            PERCENTILES.map(|(name, at)| (name.to_owned(), durations.percentile(at).into()));
        Value::Object(named.into_iter().collect())
    };
    let requests: Vec<Value> = table
        .cells()
        .map(|(method, outcome, cell)| {
            json!({
                "method": method,
                "outcome": outcome,
                "count": cell.count,
                "duration": times(&cell.took),
                "cancelled": cell.cancelled,
                "cancel_to_settle": times(&cell.settling),
            })
        })
        .collect();
    let mut stats = all.json();
    stats["requests"] = requests.into();
    format!("{}\n", harmless_json(&stats.to_string()))
}
