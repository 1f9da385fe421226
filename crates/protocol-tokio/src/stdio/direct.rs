//! Standard streams that the runtime waits for itself, where they are pipes or sockets.
//!
//! `O_NONBLOCK` is of the open file, which others have too: who started us, what we start, and standard error
//! if it is the same. It is never set here. A pipe is opened once more, and that is a file of our own; a socket
//! can be asked not to block in each call.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::unix::pipe;

/// Standard input as it is read.
#[derive(Debug)]
pub(super) enum Input {
    Pipe(pipe::Receiver),
    Socket(AsyncFd<OwnedFd>),
    Thread(tokio::io::Stdin),
}

/// Standard output as it is written.
#[derive(Debug)]
pub(super) enum Output {
    Pipe(pipe::Sender),
    Socket(AsyncFd<OwnedFd>),
    Thread(tokio::io::Stdout),
}

impl Input {
    pub(super) fn new() -> Self {
        let stdin = io::stdin();
        let pipe = path_of_pipe(stdin.as_fd());
        // One that another user made may not be opened.
        if let Some(Ok(pipe)) = pipe.map(|path| pipe::OpenOptions::new().open_receiver(path)) {
            return Self::Pipe(pipe);
        }
        match socket(stdin.as_fd(), Interest::READABLE) {
            Some(socket) => Self::Socket(socket),
            None => Self::Thread(tokio::io::stdin()),
        }
    }
}

impl Output {
    pub(super) fn new() -> Self {
        let stdout = io::stdout();
        let pipe = path_of_pipe(stdout.as_fd());
        if let Some(Ok(pipe)) = pipe.map(|path| pipe::OpenOptions::new().open_sender(path)) {
            return Self::Pipe(pipe);
        }
        match socket(stdout.as_fd(), Interest::WRITABLE) {
            Some(socket) => Self::Socket(socket),
            None => Self::Thread(tokio::io::stdout()),
        }
    }
}

/// What to open for another file of the same pipe, if it is one and the system has such a thing: Linux has.
///
/// It has to be a pipe without a name. Who opens one with a name after its last writer is gone is not told of
/// the end.
fn path_of_pipe(stream: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", stream.as_raw_fd()));
    let leads_to = fs::read_link(&path).ok()?;
    leads_to.as_os_str().as_encoded_bytes().starts_with(b"pipe:[").then_some(path)
}

/// The same socket, if it is one of a stream.
fn socket(stream: BorrowedFd<'_>, interest: Interest) -> Option<AsyncFd<OwnedFd>> {
    if sockopt::socket_type(stream) != Ok(SocketType::STREAM) {
        return None;
    }
    let stream = stream.try_clone_to_owned().ok()?;
    #[allow(deprecated, reason = "it is for what may close its descriptor; an owned one does not")]
    AsyncFd::with_interest(stream, interest).ok()
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = match self.get_mut() {
            Self::Pipe(pipe) => return Pin::new(pipe).poll_read(cx, buffer),
            Self::Thread(thread) => return Pin::new(thread).poll_read(cx, buffer),
            Self::Socket(socket) => socket,
        };
        let room = buffer.initialize_unfilled();
        loop {
            let mut ready = ready!(socket.poll_read_ready(cx))?;
            let read = ready.try_io(|socket| Ok(recv(socket, &mut *room, RecvFlags::DONTWAIT)?.0));
            let Ok(read) = read else { continue };
            buffer.advance(read?);
            return Poll::Ready(Ok(()));
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
            let mut ready = ready!(socket.poll_write_ready(cx))?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            if let Ok(sent) = ready.try_io(|socket| Ok(send(socket, bytes, flags)?)) {
                return Poll::Ready(sent);
            }
        }
    }

    /// What is written to a pipe or a socket has left.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Thread(thread) => Pin::new(thread).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Thread(thread) => Pin::new(thread).poll_shutdown(cx),
        }
    }
}
