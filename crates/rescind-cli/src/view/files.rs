//! The files of a recording, as one stream of lines.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use protocol_record::{Line, Reader, Unread, part};

use crate::terminal::{spin, stop_spinning};

/// Flaws of a recording that was read all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flaws {
    /// The last line is not whole, or there is no last line.
    pub(crate) is_cut: bool,
    /// Lines that are none of a recording, and what is wrong with the first.
    pub(crate) unreadable: u64,
    pub(crate) first: Option<String>,
    /// Older files that are gone.
    pub(crate) gone: u64,
}

impl Flaws {
    /// Counts a line that is none of a recording.
    pub(crate) fn count_unreadable(&mut self, error: &Unread) {
        self.unreadable += 1;
        self.first.get_or_insert_with(|| error.to_string());
    }

    /// Those of another recording, too.
    pub(crate) fn add(&mut self, other: Self) {
        self.is_cut |= other.is_cut;
        self.unreadable += other.unreadable;
        self.first = self.first.take().or(other.first);
        self.gone = self.gone.saturating_add(other.gone);
    }
}

/// The files that hold one recording, the oldest first.
pub(crate) fn parts(path: &Path) -> Result<Vec<PathBuf>, String> {
    let newest = first_line(path)?;
    let mut parts = vec![path.to_owned()];
    for age in 1.. {
        let older = part(path, age);
        let expected = newest.part.saturating_sub(age as u64);
        match first_line(&older) {
            Ok(first) if first.start == newest.start && first.part == expected => parts.push(older),
            _ => break,
        }
    }
    parts.reverse();
    Ok(parts)
}

/// Reads the lines of a recording, in all of its files, until it is told to stop. How far that is is shown
/// where what is printed meanwhile goes to no terminal.
pub(crate) fn read(
    path: &Path,
    take: impl FnMut(Line<'_>) -> ControlFlow<()>,
) -> Result<Flaws, String> {
    read_shown(path, !io::stdout().is_terminal(), take)
}

/// The same, where whoever reads knows whether to show how far it is.
pub(crate) fn read_shown(
    path: &Path,
    is_shown: bool,
    mut take: impl FnMut(Line<'_>) -> ControlFlow<()>,
) -> Result<Flaws, String> {
    let parts = parts(path)?;
    let mut flaws = Flaws { gone: first_line(&parts[0])?.part - 1, ..Flaws::default() };
    for part in &parts {
        let mut reader = reader(part, is_shown)?;
        flaws.is_cut = true;
        loop {
            match reader.line() {
                Ok(Some(line)) => {
                    flaws.is_cut = !matches!(line, Line::End(_));
                    if take(line).is_break() {
                        return Ok(Flaws::default());
                    }
                }
                Ok(None) => break,
                Err(Unread::Cut { .. }) => flaws.is_cut = true,
                Err(error @ Unread::Line { .. }) => flaws.count_unreadable(&error),
                Err(error) => return Err(format!("{}: {error}", part.display())),
            }
        }
    }
    Ok(flaws)
}

/// The part of a recording that a file holds.
pub(crate) struct First {
    /// When the recording began.
    pub(crate) start: String,
    /// The number of the file, counted from 1.
    pub(crate) part: u64,
}

/// Reads the first line of a file, which says what it is.
pub(crate) fn first_line(path: &Path) -> Result<First, String> {
    let mut reader = reader(path, false)?;
    match reader.line() {
        Ok(Some(Line::Recording(header))) => {
            Ok(First { start: header.start.into_owned(), part: header.part.max(1) })
        }
        Ok(_) => Err(format!("{}: {}", path.display(), Unread::NoRecording)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// A reader of one file.
pub(crate) type Lines = Reader<BufReader<Progress>>;

/// Opens one file of a recording.
pub(crate) fn reader(path: &Path, is_shown: bool) -> Result<Lines, String> {
    let progress = Progress::open(path, is_shown);
    let file = progress.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Reader::new(BufReader::with_capacity(256 << 10, file)))
}

/// A file, and how much of it is read, which is shown if it is long.
pub(crate) struct Progress {
    file: File,
    /// Its name and length, if that is shown.
    shown: Option<(String, u64)>,
    read: u64,
}

impl Progress {
    /// Shorter files are read before anybody could look.
    const LONG: u64 = 16 << 20;

    fn open(path: &Path, is_shown: bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // It is read more than once.
        #[cfg(unix)]
        if std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type()) {
            return Err(io::Error::other("a pipe can't be read: save it to a file first"));
        }
        let length = metadata.len();
        let is_shown = is_shown && length > Self::LONG;
        let shown = is_shown.then(|| (path.display().to_string(), length));
        Ok(Self { file, shown, read: 0 })
    }
}

impl Read for Progress {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if let Some((name, length)) = &self.shown {
            let percent = |read: u64| read * 100 / length;
            let before = percent(self.read);
            self.read += read as u64;
            if percent(self.read) > before {
                spin(format_args!("reading {name}: {} %", percent(self.read)));
            }
        }
        Ok(read)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            stop_spinning();
        }
    }
}
