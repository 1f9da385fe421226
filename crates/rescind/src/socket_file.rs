//! The file of a Unix socket: its owner's from its first moment, and removed by nobody but who made it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use rustix::process::umask;

/// All but the owner's right to connect, which on Linux is the right to write.
const OTHERS: Mode = Mode::from_raw_mode(0o177);

/// How long others are waited for who bind in the same directory.
const PATIENCE: Duration = Duration::from_secs(1);

/// The file that a socket was bound to. Dropping this removes it, unless it is another's by now.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// What tells it from another file of that name.
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds a socket to a file that is not there, or that a server left behind which is gone.
    pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, Self)> {
        let _alone = alone(path)?;
        if is_left_behind(path) {
            fs::remove_file(path)?;
        }
        // It belongs to the process, which does nothing else yet.
        let before = umask(OTHERS);
        let bound = UnixListener::bind(path);
        umask(before);
        let (bound, path) = (bound?, path.to_path_buf());
        let identity = identity(&path)?;
        Ok((bound, Self { path, identity }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let alone = alone(&self.path);
        if alone.is_ok() && identity(&self.path).is_ok_and(|there| there == self.identity) {
            // Somebody may have removed it already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Keeps others of us from binding or removing files of this directory meanwhile: between a look at a file and
/// its removal another could have come in its place.
fn alone(path: &Path) -> io::Result<File> {
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    let directory = File::open(directory.unwrap_or(Path::new(".")))?;
    let begun = Instant::now();
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            // Each of us holds it for a moment. Whoever holds it longer keeps nobody waiting.
            Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => thread::sleep(PATIENCE / 100),
            locked => return locked.map(|()| directory).map_err(io::Error::from),
        }
    }
}

/// Whether it is a socket that nobody listens on.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn path(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("rescind-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory.join("socket")
    }

    #[test]
    fn f47_a_file_that_a_server_left_behind_is_replaced_and_no_other() {
        let path = path("stale");
        drop(UnixListener::bind(&path).unwrap());
        let (bound, file) = SocketFile::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let taken = SocketFile::bind(&path).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok(), "whoever could not listen removed nothing");
        drop((bound, file));
        assert!(!path.exists());
        fs::write(&path, "a text").unwrap();
        assert_eq!(SocketFile::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a text");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn f47_a_file_that_came_in_place_of_ours_stays() {
        let path = path("replaced");
        let (_bound, file) = SocketFile::bind(&path).unwrap();
        fs::rename(&path, path.with_extension("old")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn f47_a_file_is_never_there_for_others_not_even_at_first() {
        let path = path("private");
        let seen = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let begun = std::time::Instant::now();
                loop {
                    if let Ok(file) = fs::metadata(&path) {
                        return file.permissions().mode() & 0o077;
                    }
                    assert!(begun.elapsed().as_secs() < 30, "it never is there");
                }
            });
            let bound = SocketFile::bind(&path).unwrap();
            let seen = watching.join().unwrap();
            drop(bound);
            seen
        });
        assert_eq!(seen, 0);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
