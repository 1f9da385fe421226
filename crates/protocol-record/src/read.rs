//! Reading a recording, line by line: no more of it than one line is in memory.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::mem;

use crate::line::{Line, VERSION};

/// The longest line that is read. A message of 16 MiB fits: an escape has six bytes at most, and its parts are few.
const LINE_BYTES: usize = 128 << 20;
/// The longest first line. The files of two dialects fit, each of which has up to 4 MiB.
const HEADER_BYTES: usize = 16 << 20;

/// Reads the lines of one file. No line is longer than 128 MiB, and the first is no longer than 16 MiB.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// A line, or as much of one as there was.
    bytes: Vec<u8>,
    is_given: bool,
    number: u64,
}

/// The reason that there is no line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unread {
    /// The recording could not be read.
    Io(io::Error),
    /// The file's first line is not the header of a recording.
    NoRecording,
    /// It is one of a version that this program does not know.
    Version(u32),
    /// The last line is not whole: whoever wrote it was stopped. Nothing before it is lost.
    Cut {
        /// The number of the line, from 1.
        line: u64,
    },
    /// A line is none of a recording, or of a kind that this program does not know. What follows can still be read.
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// The fault that was found in it.
        problem: String,
    },
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NoRecording => f.write_str("this is no recording: it does not begin with one"),
            Self::Version(version) => {
                write!(f, "a recording of version {version}; this program reads {VERSION}")
            }
            Self::Cut { line } => {
                write!(f, "line {line} is cut: the recording was stopped while it was written")
            }
            Self::Line { line, problem } => write!(f, "line {line}: {problem}"),
        }
    }
}

impl std::error::Error for Unread {}

impl<R: BufRead> Reader<R> {
    /// Reads from there.
    pub const fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), is_given: true, number: 0 }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    ///
    /// The text in its place. After [`Unread::Line`] reading can go on.
    pub fn line(&mut self) -> Result<Option<Line<'_>>, Unread> {
        self.fill()?;
        if self.bytes.is_empty() {
            return if self.number == 0 { Err(Unread::NoRecording) } else { Ok(None) };
        }
        self.give()
    }

    /// The next line, of a file that is still being written; `None` if it is not there yet, or not whole. Once
    /// more of it was written, another call gives it.
    ///
    /// # Errors
    ///
    /// As for [`line`](Self::line), but nothing is [cut](Unread::Cut).
    pub fn written_line(&mut self) -> Result<Option<Line<'_>>, Unread> {
        self.fill()?;
        if self.bytes.ends_with(b"\n") { self.give() } else { Ok(None) }
    }

    /// Reads to the end of the line, or of the file. The rest of a line that is too long is skipped.
    fn fill(&mut self) -> Result<(), Unread> {
        if mem::take(&mut self.is_given) {
            self.bytes.clear();
        }
        let most = if self.number == 0 { HEADER_BYTES } else { LINE_BYTES };
        let room = most.saturating_sub(self.bytes.len()) as u64;
        self.input.by_ref().take(room).read_until(b'\n', &mut self.bytes).map_err(Unread::Io)?;
        if self.bytes.len() < most || self.bytes.ends_with(b"\n") {
            return Ok(());
        }
        if self.number == 0 {
            return Err(Unread::NoRecording);
        }
        (self.bytes, self.is_given) = (Vec::new(), true);
        self.number += 1;
        self.input.skip_until(b'\n').map_err(Unread::Io)?;
        let problem = format!("it is longer than {} MiB", LINE_BYTES >> 20);
        Err(Unread::Line { line: self.number, problem })
    }

    fn give(&mut self) -> Result<Option<Line<'_>>, Unread> {
        self.is_given = true;
        self.number += 1;
        let number = self.number;
        let is_whole = self.bytes.ends_with(b"\n");
        let line = serde_json::from_slice(&self.bytes);
        let version = match line {
            Ok(Line::Recording(_)) | Err(_) => version(&self.bytes),
            Ok(_) => None,
        };
        match (line, version) {
            (_, Some(version)) if version != VERSION => Err(Unread::Version(version)),
            (Ok(_), None) | (Err(_), _) if number == 1 => Err(Unread::NoRecording),
            (Ok(line), _) => Ok(Some(line)),
            (Err(_), _) if !is_whole => Err(Unread::Cut { line: number }),
            (Err(error), _) => Err(Unread::Line { line: number, problem: error.to_string() }),
        }
    }
}

/// Returns the version in a header. A later version may have changed all that stands beside it.
fn version(header: &[u8]) -> Option<u32> {
    let header = protocol_json::value(std::str::from_utf8(header).ok()?)?;
    protocol_json::path(header, &["recording", "version"])?.get().parse().ok()
}

#[cfg(test)]
mod tests;
