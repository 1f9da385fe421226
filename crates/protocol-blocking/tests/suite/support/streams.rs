//! Byte streams that tests can watch and hold.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::PATIENCE;

/// Returns the reading and the writing end of a pipe.
pub(crate) fn pipe() -> (File, File) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    (read.into(), write.into())
}

/// A writer each of whose writes waits for the test.
pub(crate) struct HeldWriter {
    writes: Sender<Vec<u8>>,
    permits: Receiver<()>,
}

/// The test's side of a [`HeldWriter`].
pub(crate) struct Held {
    writes: Receiver<Vec<u8>>,
    permits: Sender<()>,
}

pub(crate) fn held_writer() -> (HeldWriter, Held) {
    let (writes, written) = channel();
    let (permit, permits) = channel();
    (HeldWriter { writes, permits }, Held { writes: written, permits: permit })
}

impl Held {
    /// Waits until a write begins; it stays stuck.
    pub(crate) fn begun(&self) -> String {
        String::from_utf8(self.writes.recv_timeout(PATIENCE).expect("a write")).unwrap()
    }

    /// Lets the write that has begun end.
    pub(crate) fn permit(&self) {
        // The writer may be gone.
        let _ = self.permits.send(());
    }

    /// Waits for one write, and lets it end.
    pub(crate) fn write(&self) -> String {
        let written = self.begun();
        self.permit();
        written
    }

    /// Returns whether the writer was dropped, with nothing more written.
    pub(crate) fn is_dropped(&self) -> bool {
        use std::sync::mpsc::RecvTimeoutError::Disconnected;
        self.writes.recv_timeout(PATIENCE) == Err(Disconnected)
    }
}

impl Write for HeldWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let closed = |_| io::ErrorKind::BrokenPipe;
        self.writes.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.permits.recv().map_err(closed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that reports when it is dropped.
pub(crate) struct ToldReader<R> {
    reader: R,
    _tell: Sender<()>,
}

pub(crate) fn told_reader<R>(reader: R) -> (ToldReader<R>, Receiver<()>) {
    let (tell, told) = channel();
    (ToldReader { reader, _tell: tell }, told)
}

impl<R: Read> Read for ToldReader<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.reader.read(room)
    }
}

/// A stream that is not ready every other time, and then moves a few bytes.
pub(crate) struct Fickle<S> {
    stream: S,
    tries: usize,
}

impl<S> Fickle<S> {
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, tries: 0 }
    }

    fn try_again(&mut self) -> io::Result<()> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        self.tries += 1;
        let refusals = [Some(WouldBlock), None, Some(TimedOut), None, Some(Interrupted), None];
        refusals[self.tries % refusals.len()].map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl<S: Read> Read for Fickle<S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.try_again()?;
        let few = room.len().min(7);
        self.stream.read(&mut room[..few])
    }
}

impl<S: Write> Write for Fickle<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_again()?;
        self.stream.write(&bytes[..bytes.len().min(7)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.try_again()?;
        self.stream.flush()
    }
}

/// A stream that panics.
pub(crate) struct Panicking;

impl Read for Panicking {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("reading")
    }
}

impl Write for Panicking {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("writing")
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
