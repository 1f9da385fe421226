//! Writing that never blocks, to pipes and sockets.
//!
//! `O_NONBLOCK` is a mode of the open file, which other processes share. So it is never set here. A
//! pipe is opened once more, which makes a file of our own. A socket is asked not to block in each call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::net::{SendFlags, SocketType, send, sockopt};

/// A descriptor that is written without blocking.
pub(super) struct Direct {
    kind: Kind,
    /// The stream that was opened once more, which is closed with it.
    _kept: Option<Box<dyn Send>>,
}

enum Kind {
    Pipe(File),
    Socket(OwnedFd),
}

impl Direct {
    /// Opens the same pipe or socket, if the stream is one and the system can do that.
    pub(super) fn new(stream: BorrowedFd<'_>) -> Option<Self> {
        let direct = |kind| Self { kind, _kept: None };
        if sockopt::socket_type(stream) == Ok(SocketType::STREAM) {
            return Some(direct(Kind::Socket(stream.try_clone_to_owned().ok()?)));
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", stream.as_raw_fd()));
        let leads_to = fs::read_link(&path).ok()?;
        if !leads_to.as_os_str().as_encoded_bytes().starts_with(b"pipe:[") {
            return None;
        }
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
        let pipe = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        Some(direct(Kind::Pipe(pipe)))
    }

    /// Keeps the stream open as long as this is.
    pub(super) fn keeping(self, stream: impl Send + 'static) -> Self {
        Self { _kept: Some(Box::new(stream)), ..self }
    }

    /// Writes a part, or fails with `WouldBlock`.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.kind {
            Kind::Pipe(pipe) => (&*pipe).write(bytes),
            Kind::Socket(socket) => {
                Ok(send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
            }
        }
    }

    /// Waits until there is room, or so long. An error shows when it is written to.
    pub(super) fn wait(&self, timeout: Duration) {
        let stream = match &self.kind {
            Kind::Pipe(pipe) => pipe.as_fd(),
            Kind::Socket(socket) => socket.as_fd(),
        };
        let timeout = Timespec::try_from(timeout).ok();
        let _ = poll(&mut [PollFd::new(&stream, PollFlags::OUT)], timeout.as_ref());
    }
}
