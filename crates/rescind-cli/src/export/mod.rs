//! `rescind export`: a recording in the format of another program.

mod mcp_trace;
mod otlp;
mod perfetto;
mod protobuf;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::note;
use crate::view::summary::Summary;
use crate::view::walk::{Trouble, Visitor, walk};
use mcp_trace::McpTrace;
use otlp::Otlp;
use perfetto::Perfetto;

/// Write a recording in the format of another program
///
/// Standard output is the trace. Requests are spans or slices, below those that they were made for, as
/// `rescind view --html` shows them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ExportArgs {
    /// The format of the output
    #[arg(long, value_name = "FORMAT")]
    format: Format,

    /// The recording to export
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Of which connection, for mcp-trace; else of the first that leads to a server
    #[arg(long, value_name = "NAME")]
    hop: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Perfetto's protobuf, for ui.perfetto.dev: a track for each request
    Perfetto,
    /// OpenTelemetry's JSON lines, for Jaeger or otel-desktop-viewer: a span for each request
    Otlp,
    /// The JSON lines of mcp-trace-validator: every message of one connection
    McpTrace,
}

const EXAMPLES: &str = "\
Examples:
  rescind export --format perfetto session.jsonl > session.pftrace
  rescind export --format otlp session.jsonl > session.otlp.jsonl
  rescind relay --dialect mcp --record session.jsonl --payloads -- my-server
  rescind export --format mcp-trace session.jsonl | mcp-trace-validator validate -";

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &ExportArgs) -> Result<ExitCode, Exit> {
    let stdout = io::stdout().lock();
    if args.format == Format::Perfetto && stdout.is_terminal() {
        return Err("this format is no text: send it to a file, with > session.pftrace".into());
    }
    if args.hop.is_some() && args.format != Format::McpTrace {
        return Err("--hop goes with --format mcp-trace: the others hold all connections".into());
    }
    let notes = export(args, &mut BufWriter::new(stdout));
    notes.map_err(|trouble| trouble.exit(Exit::output))?.iter().for_each(note);
    Ok(ExitCode::SUCCESS)
}

/// Writes the trace; gives what is to be known about the recording.
fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<Vec<String>, Trouble> {
    let mut trace: Box<dyn Visitor + '_> = match args.format {
        Format::Perfetto => Box::new(Perfetto::new(out)),
        Format::Otlp => Box::new(Otlp::new(out)),
        Format::McpTrace => {
            let trace = McpTrace::of(&args.file, args.hop.as_deref(), out);
            Box::new(trace.map_err(Trouble::Unreadable)?)
        }
    };
    let mut summary = Summary::default();
    (summary.flaws, summary.counts) = walk(&args.file, &mut *trace)?;
    let more = trace.finish()?;
    drop(trace);
    out.flush()?;
    let mut notes = summary.warnings();
    notes.extend(more);
    Ok(notes)
}
