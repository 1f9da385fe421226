//! Byte streams that tests can watch and hold.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::PATIENCE;

/// A pipe: its reading and its writing end.
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

    /// Whether the writer was dropped, with nothing more written.
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

/// A reader that tells when it is dropped.
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
