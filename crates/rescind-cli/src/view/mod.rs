//! `rescind view`: what a recording holds, a line a request.

mod chart;
pub(crate) mod files;
mod filter;
#[cfg(feature = "live")]
mod live;
mod page;
pub(crate) mod pairing;
pub(crate) mod row;
pub(crate) mod summary;
pub(crate) mod trace;
mod tree;
pub(crate) mod walk;
mod works;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use protocol_record::line::Direction;

use crate::exit::{self, Exit};
use crate::note;
use crate::terminal::{harmless, harmless_json};
use filter::Filter;
use page::Page;
use row::{Outcome, Row, milliseconds};
use summary::Summary;
use walk::{Trouble, Visitor, walk};

/// Show what a recording holds, a line a request
///
/// Reads a file that --record has made, with the older files of the same recording, and prints one line a request.
/// The line has its beginning, its connection and direction, its method, its time, its end, and the time from its
/// cancel to that. The last line counts them.
#[derive(Debug, Args)]
#[command(after_long_help = FILTERS)]
pub struct ViewArgs {
    /// The recording to show
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The requests to show, such as `~m tools/* & ~late`; `--help` lists all operators
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

    /// Show it on the terminal while it is being written, with those in flight; `?` there lists the keys
    #[cfg(feature = "live")]
    #[arg(long, conflicts_with_all = ["json", "chart", "html"])]
    live: bool,

    /// So many requests that are done stay in the table of --live, and about a quarter more
    #[cfg(feature = "live")]
    #[arg(long, value_name = "N", default_value = "10000", requires = "live", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
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
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &ViewArgs) -> Result<ExitCode, Exit> {
    let text = args.filter.join(" ");
    let filter = (!text.trim().is_empty()).then(|| Filter::parse(&text)).transpose();
    let filter = filter.map_err(|error| {
        // The filter and the mark follow on lines of their own.
        let (problem, place) = error.split_once('\n').unwrap_or((&error, ""));
        let _ = Exit::usage(format_args!("the filter: {problem}")).report();
        place.lines().for_each(note);
        Exit::told(exit::USAGE)
    })?;
    #[cfg(feature = "live")]
    if args.live {
        return live::show(&args.file, args.rows as usize, filter, text);
    }
    if let Some(out) = &args.html {
        return html(args, filter, out);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = if args.chart {
        chart::draw(&args.file, filter, &mut out)
    } else {
        list(args, filter, &mut out)
    };
    let shown = shown.and_then(|()| Ok(out.flush()?));
    shown.map_err(|trouble| trouble.exit(Exit::shown))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page of the requests that are wanted.
fn html(args: &ViewArgs, filter: Option<Filter>, out: &Path) -> Result<ExitCode, Exit> {
    // A file that is no recording must not cost the page that was there, nor a page the recording.
    let parts = files::parts(&args.file)?;
    let there = out.canonicalize().ok();
    if there.is_some() && parts.iter().any(|part| part.canonicalize().ok() == there) {
        return Err(format!("{} is the recording", out.display()).into());
    }
    let written = Page::create(out, filter).map_err(Trouble::from).and_then(|mut page| {
        let (flaws, counts) = walk(&args.file, &mut page)?;
        Ok(page.finish(flaws, counts)?)
    });
    let unwritten = |error| Exit::new(exit::OUTPUT, format_args!("{}: {error}", out.display()));
    written.map_err(|trouble| trouble.exit(unwritten))?.iter().for_each(note);
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each request that is wanted, and counts them.
fn list(args: &ViewArgs, filter: Option<Filter>, out: &mut dyn Write) -> Result<(), Trouble> {
    let mut list = List { filter, is_json: args.json, summary: Summary::default(), out };
    let (flaws, counts) = walk(&args.file, &mut list)?;
    let List { mut summary, out, .. } = list;
    (summary.flaws, summary.counts) = (flaws, counts);
    if args.json {
        writeln!(out, "{}", summary.json())?;
    } else {
        writeln!(out, "{summary}")?;
        summary.warnings().iter().for_each(note);
    }
    Ok(())
}

struct List<'a> {
    filter: Option<Filter>,
    is_json: bool,
    summary: Summary,
    out: &'a mut dyn Write,
}

impl Visitor for List<'_> {
    fn row(&mut self, row: &Row) -> io::Result<()> {
        if self.filter.as_ref().is_some_and(|filter| !filter.admits(row)) {
            return Ok(());
        }
        self.summary.add(row);
        if self.is_json {
            writeln!(self.out, "{}", harmless_json(&serde_json::to_string(row)?))
        } else {
            writeln!(self.out, "{}", describe(row))
        }
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
        harmless(&row.hop.name),
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
        (Some(_), Some(after)) if after > 0 => {
            line.push_str(&format!(", {} after its cancel", milliseconds(after)));
        }
        (Some(_), _) if row.outcome != Outcome::Cancelled => line.push_str(", cancelled"),
        _ => {}
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
