//! Transports that one thread reads and writes without being stuck in either.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::thread;
use std::time::Duration;

/// The two things that a host waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There are bytes to read, or the end of input.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
}

/// The knowledge of a transport about its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can tell that it has bytes, so a handler's checkpoints read.
    Told,
    /// It can't tell: reading may block for ever, so nothing is read while a handler works.
    Unknown,
}

/// A byte stream in both directions that one thread can drive.
pub trait Transport {
    /// Returns whether `wait` can tell that there are bytes.
    fn readiness(&self) -> Readiness;

    /// Waits until something of `interest` is possible, at most `timeout` (`None`: for ever). Returns
    /// everything that is possible then. It may return early with nothing possible, such as for another
    /// descriptor of the host's: then [`Host::wait`](super::Host::wait) ends, and a sleep waits again.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    fn wait(&mut self, interest: Ready, timeout: Option<Duration>) -> io::Result<Ready>;

    /// Reads the bytes that are there; 0 is the end. Called after `wait` returned `read`.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize>;

    /// Writes a part of the bytes. Called after `wait` returned `write`.
    ///
    /// After an error that is to be tried again, the same bytes come again, perhaps with others behind them.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// Two file descriptors whose readiness the operating system knows: pipes, sockets, terminals, files.
///
/// They stay in blocking mode, for standard streams are shared with other processes: nothing is
/// read or written before `poll` says that it won't block.
#[cfg(unix)]
#[derive(Debug)]
pub struct FdTransport<R, W> {
    reader: R,
    writer: W,
}

#[cfg(unix)]
impl<R: std::os::fd::AsFd, W: std::os::fd::AsFd> FdTransport<R, W> {
    /// A pipe that polls writable takes this much without blocking: Linux's `PIPE_BUF`.
    const WRITE_BYTES: usize = 4096;

    /// Reads from one and writes to the other; they may be the same socket.
    ///
    /// They are used below any buffer of their own, such as that of [`std::io::Stdin`].
    pub const fn new(reader: R, writer: W) -> Self {
        Self { reader, writer }
    }
}

#[cfg(unix)]
impl<R: std::os::fd::AsFd, W: std::os::fd::AsFd> Transport for FdTransport<R, W> {
    fn readiness(&self) -> Readiness {
        Readiness::Told
    }

    fn wait(&mut self, interest: Ready, timeout: Option<Duration>) -> io::Result<Ready> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let read = PollFd::new(&self.reader, PollFlags::IN);
        let fds = &mut [read, PollFd::new(&self.writer, PollFlags::OUT)];
        // A descriptor that nobody is interested in must not wake us with its hang-up.
        let of_interest = usize::from(!interest.read)..1 + usize::from(interest.write);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds[of_interest], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [read, write] = fds.each_ref().map(|fd| !fd.revents().is_empty());
        Ok(Ready { read, write })
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.reader, room)?)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(Self::WRITE_BYTES)];
        Ok(rustix::io::write(&self.writer, bytes)?)
    }
}

/// Anything that is `Read` and `Write`, for hosts that need no cancellation while they work.
///
/// Nobody can tell whether it has bytes, so checkpoints read nothing.
#[derive(Debug)]
pub struct PlainTransport<R, W> {
    reader: R,
    writer: W,
    /// The bytes that the writer has taken and not flushed. They count as written once they are flushed.
    unflushed: usize,
}

impl<R: Read, W: Write> PlainTransport<R, W> {
    /// Reads from one and writes to the other.
    pub const fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, unflushed: 0 }
    }
}

impl<R: Read, W: Write> Transport for PlainTransport<R, W> {
    fn readiness(&self) -> Readiness {
        Readiness::Unknown
    }

    /// Returns that everything is possible. Writing goes first, and timers wait while a read blocks.
    fn wait(&mut self, interest: Ready, timeout: Option<Duration>) -> io::Result<Ready> {
        if interest == Ready::default() {
            thread::sleep(timeout.unwrap_or_default());
        }
        Ok(Ready { read: interest.read && !interest.write, write: interest.write })
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.reader.read(room)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unflushed == 0 {
            self.unflushed = self.writer.write(bytes)?;
        }
        self.writer.flush()?;
        Ok(mem::take(&mut self.unflushed))
    }
}

/// Returns whether to try again at the next chance.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
