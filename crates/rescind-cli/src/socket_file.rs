//! The file of a Unix socket: its owner's from its first moment, and removed by nobody but who made it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{geteuid, umask};

/// All but the owner's right to connect, which on Linux is the right to write.
const OTHERS: Mode = Mode::from_raw_mode(0o177);

/// The rights to a lock: whoever may open a file may lock it, and keep others waiting.
const OWNER: Mode = Mode::from_raw_mode(0o600);

/// The longest wait for others who bind or remove the same file.
const PATIENCE: Duration = Duration::from_secs(1);

/// The file that a socket was bound to. Dropping this removes it, unless it is another's by now.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The identity that tells it from another file of that name.
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds a socket to a file that is not there, or that a server left behind which is gone.
    pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, Self)> {
        let _alone = Alone::with(path)?;
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
        let alone = Alone::with(&self.path);
        if alone.is_ok() && identity(&self.path).is_ok_and(|there| there == self.identity) {
            // Somebody may have removed it already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Keeps others of us from binding or removing this file meanwhile: between a look at it and its removal another
/// could have come in its place.
///
/// It is a lock on a file `FILE.lock` beside it, which is there for a moment only. Dropping this removes it.
struct Alone {
    path: PathBuf,
    _lock: File,
}

impl Alone {
    fn with(path: &Path) -> io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let _lock = lock(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("the lock {}: {error}", path.display()))
        })?;
        Ok(Self { path, _lock })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Still locked. If it stays, the next of us takes it as it is.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a lock, or waits until whoever has it is done.
fn lock(path: &Path) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = File::from(open(path, flags, OWNER)?);
        let file = lock.metadata()?;
        if !file.is_file() || file.uid() != geteuid().as_raw() || file.mode() & 0o077 != 0 {
            let why = "it is there and others have a right to it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let is_there = || identity(path).is_ok_and(|there| there == (file.dev(), file.ino()));
        let error = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_there() => return Ok(lock),
            // Its owner has removed it meanwhile.
            Ok(()) => Errno::WOULDBLOCK,
            Err(error) => error,
        };
        // Each of us holds it for a moment. Whoever holds it longer keeps nobody waiting.
        if error != Errno::WOULDBLOCK || begun.elapsed() >= PATIENCE {
            return Err(error.into());
        }
        thread::sleep(PATIENCE / 100);
    }
}

/// Whether it is a socket that nobody listens on.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && connect_at_once(path).is_err_and(|error| error == Errno::CONNREFUSED)
}

/// Connects without waiting: whoever listens and takes nobody, for it is stopped, would be waited for without end.
/// That it would block says that somebody listens.
fn connect_at_once(path: &Path) -> Result<OwnedFd, Errno> {
    let stream = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    ioctl_fionbio(&stream, true)?;
    connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixStream;

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
        let rest = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(rest.count(), 0, "neither the socket nor its lock");
        fs::write(&path, "a text").unwrap();
        assert_eq!(SocketFile::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a text");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn f47_a_neighbour_who_locks_the_directory_keeps_nobody_from_listening() {
        let path = path("locked");
        let directory = File::open(path.parent().unwrap()).unwrap();
        flock(&directory, FlockOperation::NonBlockingLockExclusive).unwrap();
        let bound = SocketFile::bind(&path).unwrap();
        drop(bound);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn f47_a_lock_that_is_not_its_owners_alone_is_refused_and_named() {
        let path = path("foreign");
        let lock = path.with_extension("lock");
        let refused = || {
            let error = SocketFile::bind(&path).unwrap_err().to_string();
            assert!(error.contains("socket.lock: "), "{error}");
            fs::remove_file(&lock).unwrap();
        };
        fs::write(&lock, "").unwrap();
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
        refused();
        fs::write(path.with_extension("else"), "").unwrap();
        symlink(path.with_extension("else"), &lock).unwrap();
        refused();
        assert!(SocketFile::bind(&path).is_ok());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    /// Elsewhere a server whose clients wait refuses more of them.
    #[cfg(target_os = "linux")]
    #[test]
    fn f47_a_server_that_is_stopped_with_clients_waiting_is_not_waited_for_and_not_replaced() {
        let path = path("stopped");
        let bound = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&bound, 0).unwrap();
        let waiting: Vec<_> = (0..3).map(|_| connect_at_once(&path)).collect();
        assert!(waiting.iter().any(|client| matches!(client, Err(Errno::WOULDBLOCK))));
        assert_eq!(SocketFile::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop((waiting, bound));
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

    #[test]
    fn f47_a_lock_that_is_held_for_a_moment_is_waited_for() {
        let path = path("moment");
        let held = lock(&path.with_extension("lock")).unwrap();
        std::thread::scope(|scope| {
            let bound = scope.spawn(|| SocketFile::bind(&path).map(drop));
            // Let go long before it is given up, and most often after it was tried.
            thread::sleep(PATIENCE / 20);
            drop(held);
            bound.join().unwrap().unwrap();
        });
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
