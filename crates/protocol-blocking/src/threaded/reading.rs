//! The thread that reads.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use protocol_async::hub::Hub;
use protocol_core::InputBuffer;

use super::desk::Desk;
use crate::handler;

/// The right to read, and all that it takes: the thread that has it reads.
pub(super) struct Reading<R> {
    hub: Arc<Hub>,
    reader: R,
    /// The bytes asked for in one read.
    room: usize,
    input: InputBuffer,
    /// The server of immediate methods, if there are any.
    desk: Option<Arc<Desk>>,
    pause: Pause,
}

impl<R: Read + Send + 'static> Reading<R> {
    pub(super) fn new(hub: Arc<Hub>, reader: R, room: usize, desk: Option<Arc<Desk>>) -> Self {
        let (input, pause) = (InputBuffer::new(), Pause::default());
        Self { hub, reader, room, input, desk, pause }
    }

    /// Reads until the input ends, or another thread does. It never waits for workers or for writing
    /// (G3).
    pub(super) fn run(self) {
        let mut reading = self;
        loop {
            if let Some(desk) = reading.desk.clone() {
                let mut own = Some(reading);
                desk.serve_immediate(|| {
                    if let Some(reading) = own.take() {
                        thread::spawn(move || reading.run());
                    }
                });
                let Some(kept) = own else { return };
                reading = kept;
            }
            if reading.hub.is_closed() || !reading.read() {
                return;
            }
        }
    }

    /// Reads once, and reports whether there may be more.
    fn read(&mut self) -> bool {
        let Self { hub, reader, room, input, pause, .. } = self;
        match input.fill(*room, |room| unless_it_panics(|| reader.read(room))) {
            Err(error) if is_transient(&error) => pause.take(),
            Err(error) => {
                hub.finish(input, Some(&error));
                return false;
            }
            Ok(0) => {
                hub.finish(input, None);
                return false;
            }
            Ok(_) => {
                *pause = Pause::default();
                let _ = hub.receive(input);
            }
        }
        true
    }
}

/// Whether to try again: a stream with a timeout, or one that some other process made non-blocking, has
/// not ended.
pub(super) fn is_transient(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// As the stream's own error if it panics: the connection must end then, too.
pub(super) fn unless_it_panics<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    handler::unless_it_panics(work).unwrap_or_else(|| Err(io::Error::other("the stream panicked")))
}

/// Between two tries of a stream that does not block, longer each time.
#[derive(Default)]
pub(super) struct Pause(Duration);

impl Pause {
    const LONGEST: Duration = Duration::from_millis(20);

    pub(super) fn take(&mut self) {
        thread::sleep(self.0);
        self.0 = (2 * self.0).clamp(Duration::from_micros(100), Self::LONGEST);
    }
}
