//! The files of a recording: the newest has the name that was asked for, older ones end in `.1`, `.2`, ….

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that others take the place of when it is full.
#[derive(Debug)]
pub(crate) struct Rotating {
    path: PathBuf,
    /// Bytes of one file; the line that passes them is still written.
    most: u64,
    /// How many files are kept, the newest counted.
    keep: usize,
    /// `None` only while the next takes its place.
    file: Option<File>,
    written: u64,
    kind: FileKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Regular,
    /// A terminal, a pipe: there is only one.
    Device,
}

impl Rotating {
    /// Begins a new file. One of that name which is there already becomes the first of the older ones.
    pub(crate) fn create(path: PathBuf, most: u64, keep: usize) -> io::Result<Self> {
        let kind = match fs::metadata(&path) {
            Ok(there) if !there.is_file() => FileKind::Device,
            _ => FileKind::Regular,
        };
        let mut rotating = Self { path, most, keep: keep.max(1), file: None, written: 0, kind };
        match kind {
            FileKind::Regular => rotating.next()?,
            FileKind::Device => {
                rotating.file = Some(OpenOptions::new().write(true).open(&rotating.path)?);
            }
        }
        Ok(rotating)
    }

    /// Whether it is time for the next file.
    pub(crate) fn is_full(&self) -> bool {
        self.kind == FileKind::Regular && self.written >= self.most
    }

    /// Begins the next file; the oldest is removed.
    pub(crate) fn next(&mut self) -> io::Result<()> {
        // An open file can't be renamed everywhere.
        self.file = None;
        if self.path.exists() {
            for older in (1..self.keep).rev() {
                let newer = self.older(older - 1);
                if newer.exists() {
                    fs::rename(newer, self.older(older))?;
                }
            }
        }
        self.file = Some(private(&self.path)?);
        self.written = 0;
        Ok(())
    }

    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        file.write_all(lines)?;
        self.written += lines.len() as u64;
        Ok(())
    }

    fn older(&self, age: usize) -> PathBuf {
        part(&self.path, age)
    }
}

/// The name of the file that is so many files old.
#[must_use]
pub fn part(path: &Path, age: usize) -> PathBuf {
    if age == 0 {
        return path.to_owned();
    }
    let mut name = OsString::from(path);
    name.push(format!(".{age}"));
    name.into()
}

/// Opens a file that nobody else may read: messages may hold secrets.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let file = options.open(path)?;
    // One that was there keeps its mode.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}
