//! The thread that reads.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use protocol_async::hooks;
use protocol_async::hub::Hub;
use protocol_core::InputBuffer;

use super::desk::Desk;
use crate::park::block_on;

/// The right to read, and all that it takes: the thread that has it reads.
pub(super) struct Reading {
    pub(super) hub: Arc<Hub>,
    pub(super) reader: Box<dyn Read + Send>,
    /// The bytes asked for in one read.
    pub(super) room: usize,
    pub(super) input: InputBuffer,
    /// The server of immediate methods, if there are any.
    pub(super) desk: Option<Arc<Desk>>,
    pub(super) pause: Pause,
}

impl Reading {
    /// Reads until the input ends, or another thread does. It never waits for workers or for writing
    /// (G3).
    pub(super) fn run(mut self) {
        loop {
            if let Some(desk) = self.desk.clone() {
                let mut own = Some(self);
                desk.serve_immediate(|| {
                    if let Some(reading) = own.take() {
                        thread::spawn(move || reading.run());
                    }
                });
                let Some(kept) = own else { return };
                self = kept;
            }
            self.wait_for_memory();
            // The end of the input may be a message too, which is served first.
            if self.hub.is_closed() {
                return;
            }
            self.read();
        }
    }

    /// Waits until the account of memory lets the connection read, or ends it.
    fn wait_for_memory(&self) {
        if !self.hub.may_read() {
            block_on(poll_fn(|cx| {
                let waits = !self.hub.poll_may_read(cx.waker()) && !self.hub.is_closed();
                if waits { Poll::Pending } else { Poll::Ready(()) }
            }));
        }
    }

    /// Reads once. The end of the input closes the connection.
    fn read(&mut self) {
        let Self { hub, reader, room, input, pause, .. } = self;
        match input.fill(*room, |room| unless_it_panics(|| reader.read(room))) {
            Err(error) if is_transient(&error) => pause.take(),
            Ok(1..) => {
                *pause = Pause::default();
                let _ = hub.receive(input);
            }
            ended => hub.finish(input, ended.err().as_ref()),
        }
    }
}

/// Nobody else can read, so the connection ends if it is lost on the way to another thread.
impl Drop for Reading {
    fn drop(&mut self) {
        if !self.hub.is_closed() {
            self.hub.finish(&self.input, Some(&io::Error::other("no thread reads any more")));
        }
    }
}

/// Returns whether to try again: a stream with a timeout, or one that another process made non-blocking,
/// has not ended. On Unix a socket's own timeout is `WouldBlock`, and `TimedOut` of the system means that its
/// peer is lost.
pub(super) fn is_transient(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let is_end = cfg!(unix) && error.raw_os_error().is_some();
    matches!(error.kind(), Interrupted | WouldBlock) || error.kind() == TimedOut && !is_end
}

/// Makes a panic of a stream its error: the connection must end then, too.
pub(super) fn unless_it_panics<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    hooks::unless_it_panics(work).unwrap_or_else(|| Err(io::Error::other("the stream panicked")))
}

/// The time between two tries of a stream that does not block, longer each time.
#[derive(Default)]
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) const LONGEST: Duration = Duration::from_millis(20);

    pub(super) fn take(&mut self) {
        thread::sleep(self.0);
        self.0 = (2 * self.0).clamp(Duration::from_micros(100), Self::LONGEST);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use protocol_async::Options;
    use protocol_core::{Config, Dialect, Timestamp};

    use super::*;

    #[test]
    fn g07_a_connection_that_no_thread_reads_any_more_is_closed() {
        let options = Options::new(Config::server(Dialect::JSON_RPC));
        let (hub, peer, _incoming) = Hub::new(options, || Timestamp::ZERO);
        let (hub, reader, input) = (Arc::new(hub), Box::new(io::empty()), InputBuffer::new());
        let call = peer.call::<()>("work", ());
        drop(Reading { hub, reader, room: 1, input, desk: None, pause: Pause::default() });
        assert!(block_on(call).unwrap_err().to_string().contains("no thread reads any more"));
    }
}
