//! Standard streams that smol's reactor waits for, where they are pipes or sockets.
//!
//! `O_NONBLOCK` is a mode of the open file. Others share that file: the process that started us, the
//! ones that we start, and standard error if it is the same. So it is never set here. A pipe is opened
//! once more, which makes a file of our own. A socket is asked not to block in each call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use rustix::fs::OFlags;
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt};
use smol::{Async, Unblock};

use super::thread::{read_on_thread, write_on_thread};

/// Standard input as it is read.
#[derive(Debug)]
pub(super) enum Input {
    Pipe(Async<File>),
    Socket(Async<OwnedFd>),
    Thread(Unblock<io::Stdin>),
}

/// Standard output as it is written.
#[derive(Debug)]
pub(super) enum Output {
    Pipe(Async<File>),
    Socket(Async<OwnedFd>),
    Thread(Unblock<io::Stdout>),
}

impl Input {
    pub(super) fn new(pipe_bytes: usize) -> Self {
        let stdin = io::stdin();
        if let Some(pipe) = pipe(stdin.as_fd(), OpenOptions::new().read(true)) {
            return Self::Pipe(pipe);
        }
        let thread = || Self::Thread(read_on_thread(pipe_bytes));
        socket(stdin.as_fd()).map_or_else(thread, Self::Socket)
    }
}

impl Output {
    pub(super) fn new(pipe_bytes: usize) -> Self {
        let stdout = io::stdout();
        if let Some(pipe) = pipe(stdout.as_fd(), OpenOptions::new().write(true)) {
            return Self::Pipe(pipe);
        }
        let thread = || Self::Thread(write_on_thread(pipe_bytes));
        socket(stdout.as_fd()).map_or_else(thread, Self::Socket)
    }
}

/// Opens another file of the same pipe, if it is a pipe and the system can do that. Linux can.
///
/// It has to be a pipe without a name. A named pipe that is opened after its last writer is gone does
/// not report its end. A pipe that another user made may not be opened.
fn pipe(stream: BorrowedFd<'_>, options: &mut OpenOptions) -> Option<Async<File>> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", stream.as_raw_fd()));
    let leads_to = fs::read_link(&path).ok()?;
    if !leads_to.as_os_str().as_encoded_bytes().starts_with(b"pipe:[") {
        return None;
    }
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    Async::new_nonblocking(options.custom_flags(flags).open(path).ok()?).ok()
}

/// Clones the descriptor of a stream socket.
fn socket(stream: BorrowedFd<'_>) -> Option<Async<OwnedFd>> {
    if sockopt::socket_type(stream) != Ok(SocketType::STREAM) {
        return None;
    }
    Async::new_nonblocking(stream.try_clone_to_owned().ok()?).ok()
}

/// Whether a call that does not block did something.
fn is_done<T>(tried: &io::Result<T>) -> bool {
    let kind = tried.as_ref().err().map(io::Error::kind);
    !matches!(kind, Some(ErrorKind::WouldBlock | ErrorKind::Interrupted))
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let socket = match self.get_mut() {
            Self::Pipe(pipe) => return Pin::new(pipe).poll_read(cx, room),
            Self::Thread(thread) => return Pin::new(thread).poll_read(cx, room),
            Self::Socket(socket) => socket,
        };
        loop {
            let read = recv(&*socket, &mut *room, RecvFlags::DONTWAIT);
            let read = read.map(|(bytes, _)| bytes).map_err(io::Error::from);
            if is_done(&read) {
                return Poll::Ready(read);
            }
            ready!(socket.poll_readable(cx))?;
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = match self.get_mut() {
            Self::Pipe(pipe) => return Pin::new(pipe).poll_write(cx, bytes),
            Self::Thread(thread) => return Pin::new(thread).poll_write(cx, bytes),
            Self::Socket(socket) => socket,
        };
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = send(&*socket, bytes, flags).map_err(io::Error::from);
            if is_done(&sent) {
                return Poll::Ready(sent);
            }
            ready!(socket.poll_writable(cx))?;
        }
    }

    /// Bytes that were written to a pipe or a socket have left.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Thread(thread) => Pin::new(thread).poll_flush(cx),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Thread(thread) => Pin::new(thread).poll_close(cx),
        }
    }
}
