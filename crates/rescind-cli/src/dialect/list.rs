//! `rescind dialects`: what can be spoken.

use std::io::{self, Write};
use std::process::ExitCode;

use protocol_core::{CancelRule, Dialect, Framing};

use crate::exit::Exit;

/// Prints every dialect, each family by itself.
///
/// # Errors
///
/// Standard output can't be written.
pub fn print() -> Result<ExitCode, Exit> {
    write().map_err(Exit::output)?;
    Ok(ExitCode::SUCCESS)
}

fn write() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{:24} {:16} CANCELLED BY", "NAME", "FRAMING")?;
    let mut last = None;
    for dialect in Dialect::PRESETS {
        let family = family(dialect);
        if last.replace(family) != Some(family) {
            writeln!(out)?;
        }
        let framing = match dialect.framing {
            Framing::Newline => "lines",
            Framing::ContentLength => "Content-Length",
            Framing::Whole => "the transport's",
        };
        writeln!(out, "{:24} {framing:16} {}", dialect.name, cancel(dialect))?;
    }
    out.flush()
}

/// The names of the families, each of which is a dialect too.
pub(super) fn families() -> Vec<&'static str> {
    let mut families: Vec<_> = Dialect::PRESETS.iter().map(family).collect();
    families.dedup();
    families
}

/// `mcp` of `mcp-2025-11-25`.
fn family(dialect: &'static Dialect) -> &'static str {
    dialect.name.split('-').next().unwrap_or_default()
}

fn cancel(dialect: &Dialect) -> &str {
    match &dialect.cancel {
        CancelRule::Notification { method, .. }
        | CancelRule::Request { method, .. }
        | CancelRule::Operation { method, .. } => method,
        CancelRule::ClosedStream => "closing the stream of the answer",
        CancelRule::Local => "nothing: a cancelled call settles here",
        _ => "in a way of its own",
    }
}
