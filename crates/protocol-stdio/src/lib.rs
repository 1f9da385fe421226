//! Pipes and sockets that are read and written without blocking, with their mode unchanged.
//!
//! `O_NONBLOCK` is a mode of the open file. Others share that file: the process that started this one,
//! those that it starts, and standard error if it is the same. So nothing here sets it. A pipe is opened
//! once more, which makes a file of its own. A socket is asked not to block in each call.
#![cfg(unix)]
#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt};

/// One direction of a pipe or a socket, which fails with [`WouldBlock`](io::ErrorKind::WouldBlock) instead
/// of waiting.
#[derive(Debug)]
pub struct NonBlocking {
    stream: OwnedFd,
    is_socket: bool,
}

impl NonBlocking {
    /// Opens a stream for reading, if it is a pipe (on Linux) or a stream socket.
    ///
    /// A file or a terminal has no such direction. A named pipe has none either: one that is opened after
    /// its last writer is gone does not report its end. A pipe of another user may not be opened.
    #[must_use]
    pub fn reader(stream: impl AsFd) -> Option<Self> {
        Self::open(stream.as_fd(), OFlags::RDONLY)
    }

    /// Opens a stream for writing, under the same conditions as [`reader`](Self::reader).
    #[must_use]
    pub fn writer(stream: impl AsFd) -> Option<Self> {
        Self::open(stream.as_fd(), OFlags::WRONLY)
    }

    fn open(stream: BorrowedFd<'_>, direction: OFlags) -> Option<Self> {
        if sockopt::socket_type(stream) == Ok(SocketType::STREAM) {
            return Some(Self { stream: stream.try_clone_to_owned().ok()?, is_socket: true });
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", stream.as_raw_fd()));
        let leads_to = fs::read_link(&path).ok()?;
        if !leads_to.as_os_str().as_encoded_bytes().starts_with(b"pipe:[") {
            return None;
        }
        let flags = direction | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Some(Self { stream: open(&path, flags, Mode::empty()).ok()?, is_socket: false })
    }
}

impl Read for &NonBlocking {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.is_socket {
            return Ok(recv(&self.stream, room, RecvFlags::DONTWAIT)?.0);
        }
        Ok(rustix::io::read(&self.stream, room)?)
    }
}

impl Write for &NonBlocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_socket {
            return Ok(send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?);
        }
        Ok(rustix::io::write(&self.stream, bytes)?)
    }

    /// Does nothing: bytes that were written have left.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for NonBlocking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for NonBlocking {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
