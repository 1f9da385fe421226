//! A recording that is still being written: its lines as they come, from one file to the next.

use std::path::{Path, PathBuf};
use std::time::Instant;

use protocol_record::{Line, Unread};

use crate::view::files::{self, Flaws};

/// Reads what is there, and later what was added.
pub(super) struct Follower {
    path: PathBuf,
    reader: files::Lines,
    /// The start of the recording that is read; `part` is the number of its file.
    start: String,
    part: u64,
    /// Another file has taken the place of the one that is read, so that nothing is added to it any more.
    is_left: bool,
    /// Flaws of the lines that were read.
    pub(super) flaws: Flaws,
}

/// The state of the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// There is more to read.
    Behind,
    /// Everything that was written is read.
    CaughtUp,
}

impl Follower {
    /// Begins with the oldest file of the recording.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let parts = files::parts(path)?;
        let first = files::first_line(&parts[0])?;
        Ok(Self {
            path: path.to_owned(),
            reader: files::reader(&parts[0], false)?,
            start: first.start,
            part: first.part,
            is_left: false,
            flaws: Flaws { gone: first.part - 1, ..Flaws::default() },
        })
    }

    /// Gives the lines that are there, until that time.
    pub(super) fn read(
        &mut self,
        until: Instant,
        mut take: impl FnMut(&Line<'_>),
    ) -> Result<Pace, String> {
        while Instant::now() < until {
            match self.reader.written_line() {
                Ok(Some(line)) => take(&line),
                // The text that was added between the last reading and the change of files is read first.
                Ok(None) if self.is_left => self.next()?,
                Ok(None) => {
                    self.is_left = self.is_another_there();
                    if !self.is_left {
                        return Ok(Pace::CaughtUp);
                    }
                }
                Err(error @ Unread::Line { .. }) => self.flaws.count_unreadable(&error),
                Err(error) => return Err(format!("{}: {error}", self.path.display())),
            }
        }
        Ok(Pace::Behind)
    }

    /// Whether the newest file is another. One that is just being made has no first line yet.
    fn is_another_there(&self) -> bool {
        files::first_line(&self.path)
            .is_ok_and(|newest| newest.start != self.start || newest.part > self.part)
    }

    /// Goes on with the file after this one, or with the oldest of another recording.
    fn next(&mut self) -> Result<(), String> {
        let (Ok(parts), Ok(newest)) = (files::parts(&self.path), files::first_line(&self.path))
        else {
            // The files are changing places.
            self.is_left = false;
            return Ok(());
        };
        if newest.start != self.start {
            *self = Self::open(&self.path)?;
            return Ok(());
        }
        let oldest = newest.part.saturating_sub(parts.len() as u64 - 1);
        let next = oldest.max(self.part + 1);
        let Some(path) = parts.get(usize::try_from(next - oldest).unwrap_or(usize::MAX)) else {
            self.is_left = false;
            return Ok(());
        };
        let reader = files::reader(path, false)?;
        self.flaws.gone += next - self.part - 1;
        (self.reader, self.part, self.is_left) = (reader, next, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
