//! The files of a recording: the newest has the name that was asked for, older ones end in `.1`, `.2`, ….

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file that others take the place of when it is full.
#[derive(Debug)]
pub(crate) struct Rotating {
    path: PathBuf,
    /// Bytes of one file; the line that passes them is still written.
    most: u64,
    /// The number of files that are kept, the newest counted.
    keep: usize,
    /// `None` only while the next takes its place.
    file: Option<File>,
    written: u64,
    /// Of a terminal or a pipe there is only one.
    is_regular: bool,
}

impl Rotating {
    /// Describes the files of a recording. Nothing is made before the [first](Self::next).
    pub(crate) fn new(path: PathBuf, most: u64, keep: usize) -> Self {
        let is_regular = fs::metadata(&path).map_or(true, |there| there.is_file());
        Self { path, most, keep: keep.max(1), file: None, written: 0, is_regular }
    }

    /// Takes the name for the first file.
    fn begin(&self, header: &[u8]) -> io::Result<File> {
        loop {
            match new(&self.path, header) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made,
            }
            let older = match OpenOptions::new().write(true).open(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if self.path.is_symlink() {
                        return Err(io::Error::new(
                            error.kind(),
                            "it is a link that leads nowhere",
                        ));
                    }
                    continue;
                }
                older => older?,
            };
            lock(&older)?;
            // Another recorder may just have made it an older one, and ended.
            if is_at(&older, &self.path)? {
                check_readers(&older, &self.path)?;
                return self.replace(header);
            }
        }
    }

    /// Puts a new file in the place of the one that is there. That one becomes the first of the older ones, and the
    /// oldest is removed. Only a recorder that has locked a file replaces it.
    fn replace(&self, header: &[u8]) -> io::Result<File> {
        // The name is always somebody's, so that no other recorder can take it meanwhile.
        let mut next = OsString::from(".");
        next.push(self.path.file_name().unwrap_or_default());
        next.push(".rescind-next");
        let next = self.path.with_file_name(next);
        // A recorder that was killed may have left one.
        let _ = fs::remove_file(&next);
        let file = new(&next, header)?;
        let there = (1..self.keep).take_while(|age| self.older(*age).exists()).count();
        for older in (2..self.keep.min(there + 2)).rev() {
            fs::rename(self.older(older - 1), self.older(older))?;
        }
        if self.keep > 1 {
            let older = self.older(1);
            let _ = fs::remove_file(&older);
            // Some file systems have no links.
            fs::hard_link(&self.path, &older).or_else(|_| fs::rename(&self.path, &older))?;
        }
        fs::rename(next, &self.path)?;
        Ok(file)
    }

    /// Whether it is time for the next file, with so many bytes more.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.is_regular && self.written + more as u64 >= self.most
    }

    /// Begins the next file with its first line. One of that name which is there becomes the first of the older ones, and
    /// the oldest is removed.
    ///
    /// # Errors
    ///
    /// Another recorder writes that file, others can read it, it is a link that leads nowhere, or a pipe that nobody reads.
    pub(crate) fn next(&mut self, header: &[u8]) -> io::Result<()> {
        self.file = Some(match self.file.take() {
            Some(before) => {
                // Its lock is held until the next one is there. An open file can't be replaced everywhere.
                let _before = Some(before).filter(|_| cfg!(unix));
                self.replace(header)?
            }
            None if self.is_regular => self.begin(header)?,
            None => {
                let mut device = device(&self.path)?;
                device.write_all(header)?;
                device
            }
        });
        self.written = header.len() as u64;
        Ok(())
    }

    /// Writes whole lines, and returns how many bytes of them are in the file, with the error that ended that early.
    pub(crate) fn write(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let (Some(file), mut written) = (self.file.as_mut(), 0) else {
            return (0, Err(ErrorKind::NotFound.into()));
        };
        let mut result = Ok(());
        while result.is_ok() && written < lines.len() {
            match file.write(&lines[written..]) {
                Ok(0) => result = Err(ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
        }
        self.written += written as u64;
        (written, result)
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

/// Makes a file that is not there yet, locks it and writes its first line. Nobody else may read it: messages may hold
/// secrets.
fn new(path: &Path, header: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        kind @ ErrorKind::NotFound => io::Error::new(kind, "its directory is not there"),
        _ => error,
    })?;
    lock(&file)?;
    file.write_all(header)?;
    Ok(file)
}

/// Opens a terminal or a pipe. A pipe that nobody reads is not waited for.
fn device(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        use std::os::unix::fs::OpenOptionsExt;

        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let file = options.custom_flags(nonblock).open(path).map_err(|error| {
            let is_unread = error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
            if is_unread { io::Error::new(error.kind(), "nobody reads it") } else { error }
        })?;
        // From then on the thread that writes may wait.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// The tries to lock a file. A recorder of ours that has just ended may leave its lock to a child for as long as that has not
/// begun its own program.
#[cfg(unix)]
const LOCK_TRIES: u32 = 20;

/// Keeps other recorders from a file for as long as it is open.
#[cfg(unix)]
fn lock(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    for _ in 0..LOCK_TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(std::time::Duration::from_millis(5)),
            // Some file systems have no locks.
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) | Ok(()) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(ErrorKind::WouldBlock, "another program records into it"))
}

#[cfg(not(unix))]
fn lock(_: &File) -> io::Result<()> {
    Ok(())
}

/// Returns whether a file is still the one of that name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let there = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (there.dev(), there.ino())))
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Refuses a file that others can read. It would become an older one, and nobody's file is changed.
#[cfg(unix)]
fn check_readers(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    if file.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display().to_string().replace('\'', r"'\''");
    let why = format!("it is there, and others can read it: chmod 600 '{path}' keeps them out");
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

#[cfg(not(unix))]
fn check_readers(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}
