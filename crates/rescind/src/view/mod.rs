//! `rescind view`: what a recording holds, a line a request.

mod chart;
pub(crate) mod files;
mod filter;
mod page;
pub(crate) mod pairing;
pub(crate) mod row;
pub(crate) mod summary;
mod tree;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use protocol_record::Line;
use protocol_record::line::Direction;

use crate::terminal::{harmless, harmless_json};
use crate::{exit, failure, note, output_error, usage_error};
use chart::Lanes;
use filter::Filter;
use page::Page;
use pairing::{Pairing, REMEMBERED};
use row::{Outcome, Row, milliseconds};
use summary::Summary;

/// Show what a recording holds, a line a request
///
/// Reads a file that --record has made, with the older files of the same recording, and prints one line
/// for each request: when it began, over which connection and which way it went, its method, how long it
/// took, how it ended, and how long after its cancel that was. The last line counts them.
#[derive(Debug, Args)]
#[command(after_long_help = FILTERS)]
pub struct ViewArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Which requests to show, such as `~m tools/* & ~late`; `--help` lists all operators
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,

    /// Draw a sequence chart of their messages instead
    #[arg(long, conflicts_with = "json")]
    chart: bool,

    /// Print a JSON object for each request, and one for the counts; times are microseconds
    #[arg(long)]
    json: bool,

    /// Make a page of them, to be opened in a browser: one file that asks for nothing else; `-` is standard output
    #[arg(long, value_name = "OUT", conflicts_with_all = ["json", "chart"])]
    html: Option<PathBuf>,
}

const FILTERS: &str = "\
Filters:
  ~m GLOB       its method; `*` is any text, `?` any character
  WORD          its method has WORD in it
  ~hop GLOB     its connection
  ~id ID        its id
  ~sent         whoever recorded sent it;  ~received  was asked it
  ~o OUTCOME    it ended so: result, error, cancelled, timed_out, malformed, connection_lost,
                duplicate_id, unanswered
  ~c CODE       it was answered with this error code
  ~cause CAUSE  why it was cancelled, timed out or lost: caller, deadline, peer_gone, …
  ~cancel       it was cancelled, however it ended
  ~late         its answer came after it was settled
  ~dup          it was answered twice
  ~open         it was never answered
  ~slow DUR     it took at least so long, such as 300ms
  ~settle DUR   it took at least so long from its cancel to its end
  !  &  |  ( )  not, and (also without a sign), or; words in quotes may hold spaces and signs

Examples:
  rescind view session.jsonl '~m tools/* & ~late'
  rescind view session.jsonl '~cancel & !~o cancelled | ~open' --chart";

/// Runs the command.
#[must_use]
pub fn main(args: &ViewArgs) -> ExitCode {
    let text = args.filter.join(" ");
    let filter = (!text.trim().is_empty()).then(|| Filter::parse(&text)).transpose();
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => {
            // Its place is shown on lines of their own.
            let error = format!("the filter: {error}");
            let mut lines = error.lines();
            let code = usage_error(lines.next().unwrap_or_default());
            lines.for_each(note);
            return code;
        }
    };
    if let Some(out) = &args.html {
        return html(args, filter.as_ref(), out);
    }
    let mut view = View { args, filter, out: BufWriter::new(io::stdout().lock()), written: Ok(()) };
    let shown = if args.chart { view.chart() } else { view.list() };
    if let Err(problem) = shown {
        return usage_error(problem);
    }
    match view.out.flush().and(view.written) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output_error(error),
    }
}

/// Writes a page of the requests that are wanted.
fn html(args: &ViewArgs, filter: Option<&Filter>, out: &Path) -> ExitCode {
    let not_written = |error| failure(exit::OUTPUT, format_args!("{}: {error}", out.display()));
    // A file that is no recording must not cost the page that was there.
    if let Err(problem) = files::parts(&args.file) {
        return usage_error(problem);
    }
    let mut page = match Page::create(out) {
        Ok(page) => page,
        Err(error) => return not_written(error),
    };
    let (mut pairing, mut summary) = (Pairing::new(REMEMBERED), Summary::default());
    let mut written = Ok(());
    let mut row = |page: &mut Page, row: &Row| {
        let is_wanted = filter.is_none_or(|filter| filter.admits(row));
        if is_wanted {
            summary.add(row);
        }
        page.row(row, is_wanted)
    };
    let read = files::read(&args.file, |line| {
        let requests = pairing.take(&line);
        let rows = pairing.forget();
        written = page
            .line(&line, &requests)
            .and_then(|()| rows.iter().try_for_each(|(_, it)| row(&mut page, it)));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let written = written
        .and_then(|()| pairing.rest().values().try_for_each(|it| row(&mut page, it)));
    summary.counts = pairing.counts;
    match read {
        Ok(flaws) => summary.flaws = flaws,
        Err(problem) => return usage_error(problem),
    }
    match written.and_then(|()| page.finish(&summary)) {
        Ok(notes) => {
            notes.iter().for_each(note);
            ExitCode::SUCCESS
        }
        Err(error) => not_written(error),
    }
}

struct View<'a> {
    args: &'a ViewArgs,
    filter: Option<Filter>,
    out: BufWriter<StdoutLock<'static>>,
    /// What ended writing. Nothing more is written then.
    written: io::Result<()>,
}

impl View<'_> {
    fn list(&mut self) -> Result<(), String> {
        let (mut pairing, mut summary) = (Pairing::new(REMEMBERED), Summary::default());
        summary.flaws = files::read(&self.args.file, |line| {
            pairing.take(&line);
            for (_, row) in pairing.forget() {
                self.row(&row, &mut summary);
            }
            self.go_on()
        })?;
        for row in pairing.rest().values() {
            self.row(row, &mut summary);
        }
        summary.counts = pairing.counts;
        if self.args.json {
            self.write(&summary.json().to_string());
        } else {
            self.write(&summary.to_string());
            summary.warnings().iter().for_each(note);
        }
        Ok(())
    }

    fn row(&mut self, row: &Row, summary: &mut Summary) {
        if self.filter.as_ref().is_some_and(|filter| !filter.admits(row)) {
            return;
        }
        summary.add(row);
        let line = if self.args.json {
            harmless_json(&serde_json::to_string(row).expect("a row is JSON"))
        } else {
            describe(row)
        };
        self.write(&line);
    }

    /// Two readings: the first finds the requests that are wanted, and who takes part.
    fn chart(&mut self) -> Result<(), String> {
        let (mut pairing, mut lanes) = (Pairing::new(REMEMBERED), Lanes::default());
        let mut wanted = BTreeSet::new();
        let filter = self.filter.clone();
        let mut judge = |number, row: &Row| {
            if filter.as_ref().is_some_and(|filter| filter.admits(row)) {
                wanted.insert(number);
            }
        };
        files::read(&self.args.file, |line| {
            chart::lanes(&line, &mut lanes);
            pairing.take(&line);
            for (number, row) in pairing.forget() {
                judge(number, &row);
            }
            ControlFlow::Continue(())
        })?;
        pairing.rest().iter().for_each(|(number, row)| judge(*number, row));

        self.write(&lanes.head());
        let mut pairing = Pairing::new(REMEMBERED);
        files::read(&self.args.file, |line| {
            let numbers = pairing.take(&line);
            pairing.forget();
            let is_all = self.filter.is_none();
            let drawn = match &line {
                Line::Message(message) => lanes.message(message, |part| {
                    is_all || numbers[part].is_some_and(|number| wanted.contains(&number))
                }),
                Line::Verdict(verdict) if is_all && &verdict.verdict != "settled" => {
                    lanes.verdict(verdict)
                }
                _ => String::new(),
            };
            drawn.lines().for_each(|line| self.write(line));
            self.go_on()
        })?;
        Ok(())
    }

    fn write(&mut self, line: &str) {
        if self.written.is_ok() {
            self.written = writeln!(self.out, "{line}");
        }
    }

    /// Nobody reads on for a reader that is gone.
    const fn go_on(&self) -> ControlFlow<()> {
        if self.written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// A row for people.
fn describe(row: &Row) -> String {
    let arrow = match row.dir {
        Direction::Sent => "-->",
        Direction::Received => "<--",
    };
    let took = row.duration().map_or("-".into(), milliseconds);
    let mut line = format!(
        "{:>14}  {:6} {arrow} {:32} {took:>14}  {}",
        milliseconds(row.start),
        harmless(&row.hop),
        harmless(&row.method),
        row.outcome.as_str(),
    );
    if let Some(code) = row.code.filter(|_| row.outcome == Outcome::Error) {
        line.push_str(&format!(" {code}"));
    }
    if let Some(cause) = &row.cause {
        line.push_str(&format!(" ({})", harmless(cause)));
    }
    match (row.cancelled, row.settling()) {
        (Some(_), Some(after)) => {
            line.push_str(&format!(", {} after its cancel", milliseconds(after)));
        }
        (Some(_), None) => line.push_str(", cancelled"),
        (None, _) => {}
    }
    if let Some(late) = row.late {
        let after = milliseconds(late.saturating_sub(row.start));
        line.push_str(&format!(", late: answered after {after}"));
    }
    match row.duplicates {
        0 => {}
        1 => line.push_str(", answered twice"),
        more => line.push_str(&format!(", answered {} times", more + 1)),
    }
    if let Some(why) = &row.refused {
        line.push_str(&format!(", {}", harmless(why)));
    }
    line
}
