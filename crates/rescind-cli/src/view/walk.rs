//! One reading of a recording: its lines as they come, and its requests as they are done.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use protocol_record::Line;
use protocol_record::line::Header;

use super::files::{self, Flaws};
use super::pairing::{Counts, Pairing, REMEMBERED};
use super::row::Row;
use crate::exit::Exit;

/// Makes something of a recording.
pub(crate) trait Visitor {
    /// A line, and which request each part of it is about, if it is a message.
    fn line(&mut self, _line: &Line<'_>, _requests: &[Option<u64>]) -> io::Result<()> {
        Ok(())
    }

    /// A request of which nothing more is expected.
    fn row(&mut self, _row: &Row) -> io::Result<()> {
        Ok(())
    }

    /// Ends an export, and returns a note about the output, if there is one. Only `export` calls it.
    fn finish(&mut self) -> io::Result<Option<String>> {
        Ok(None)
    }
}

/// The reason that it ended early.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The recording can't be read, or is none.
    Unreadable(String),
    /// The output can't be written.
    Unwritten(io::Error),
}

impl Trouble {
    /// Returns the end of a command that meets it, by that of one whose output can't be written.
    pub(crate) fn exit(self, unwritten: impl FnOnce(io::Error) -> Exit) -> Exit {
        match self {
            Self::Unreadable(problem) => problem.into(),
            Self::Unwritten(error) => unwritten(error),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

/// Reads a recording once.
pub(crate) fn walk(path: &Path, visitor: &mut dyn Visitor) -> Result<(Flaws, Counts), Trouble> {
    let mut pairing = Pairing::new(REMEMBERED);
    let mut visited = Ok(());
    let flaws = files::read(path, |line| {
        let requests = pairing.take(&line);
        visited = visitor
            .line(&line, &requests)
            .and_then(|()| pairing.forget().iter().try_for_each(|(_, row)| visitor.row(row)));
        if visited.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let flaws = flaws.map_err(Trouble::Unreadable)?;
    visited?;
    pairing.rest().values().try_for_each(|row| visitor.row(row))?;
    Ok((flaws, pairing.counts))
}

/// Returns the time of a message, of a verdict or of the end. It is 0 for other lines, for nothing that is shown lasts until them.
pub(crate) fn time(line: &Line<'_>) -> u64 {
    match line {
        Line::Message(message) => message.t,
        Line::Verdict(verdict) => verdict.t,
        Line::End(end) => end.t,
        _ => 0,
    }
}

/// When a recording began, in nanoseconds since 1970. One that does not say began then.
pub(crate) fn start(header: &Header<'_>) -> u64 {
    let start = humantime::parse_rfc3339(&header.start).ok();
    let since = start.and_then(|start| start.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.and_then(|since| since.as_nanos().try_into().ok()).unwrap_or(0)
}
