//! The transport of a server on one thread, which a signal ends.

use std::io;
use std::time::Duration;

use protocol_blocking::single::{Readiness, Ready, Transport};

use crate::ending::Ending;

/// A transport whose input is over once the end is asked for.
pub(super) struct EndedTransport<T> {
    pub(super) transport: T,
    pub(super) ending: Ending,
}

impl<T: Transport> Transport for EndedTransport<T> {
    fn readiness(&self) -> Readiness {
        self.transport.readiness()
    }

    fn wait(&mut self, interest: Ready, timeout: Option<Duration>) -> io::Result<Ready> {
        /// The longest time until a signal is noticed.
        const LOOK: Duration = Duration::from_millis(100);
        if interest.read && self.ending.is_asked() {
            return Ok(Ready { read: true, write: false });
        }
        let timeout = timeout.map_or(LOOK, |timeout| timeout.min(LOOK));
        self.transport.wait(interest, Some(timeout))
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.ending.is_asked() { Ok(0) } else { self.transport.read(room) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.transport.write(bytes)
    }
}
