//! The streams of a connection, and its threads.

use std::io::{self, Read, Write};
use std::net::{self, TcpStream};
use std::sync::Arc;
use std::thread;

use parking::Parker;
use protocol_async::hub::Hub;
use protocol_async::{Incoming, Options, Peer};
use protocol_core::InputBuffer;

use super::desk::Desk;
use super::reading::{Pause, Reading};
use super::writing::{self, Sink};
use crate::clock::Clock;

/// The streams of a connection.
pub(super) struct Streams {
    reader: Box<dyn Read + Send>,
    sink: Sink,
    /// Shuts them down, so that a thread that is stuck in them comes back.
    end: Box<dyn FnOnce() + Send>,
}

impl Streams {
    fn new(
        reader: impl Read + Send + 'static,
        sink: Sink,
        end: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self { reader: Box::new(reader), sink, end: Box::new(end) }
    }

    pub(super) fn any(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        Self::new(reader, Sink::blocks(writer), || ())
    }

    pub(super) fn stdio() -> Self {
        let mut stdout = io::stdout();
        // Output goes behind all that was printed. An error shows again when it is written to.
        let _ = stdout.flush();
        Self::new(io::stdin(), Sink::of(stdout), || ())
    }

    pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (reader, sink) = (stream.try_clone()?, Sink::of(stream.try_clone()?));
        // It may be down already.
        Ok(Self::new(reader, sink, move || drop(stream.shutdown(net::Shutdown::Both))))
    }

    #[cfg(unix)]
    pub(super) fn unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        let (reader, sink) = (stream.try_clone()?, Sink::of(stream.try_clone()?));
        // It may be down already.
        Ok(Self::new(reader, sink, move || drop(stream.shutdown(net::Shutdown::Both))))
    }
}

/// Makes a connection. The function that is returned starts its threads.
///
/// The streams are shut down once nothing is to be read or written any more, though a thread may be stuck in
/// either.
pub(super) fn open(
    streams: Streams,
    options: Options,
) -> (impl FnOnce(Option<Arc<Desk>>), Peer, Incoming) {
    let (clock, room) = (Clock::start(), options.pipe_bytes.max(1));
    let Options { trace, observer, noise, .. } = &options;
    let has_callbacks = trace.is_some() || observer.is_some() || noise.is_some();
    let (hub, peer, incoming) = Hub::new(options, move || clock.now());
    let start = move |desk: Option<Arc<Desk>>| {
        let Streams { reader, sink, end } = streams;
        let (hub, input, pause) = (Arc::new(hub), InputBuffer::new(), Pause::default());
        let reading = Reading { hub: hub.clone(), reader, room, input, desk: desk.clone(), pause };
        let timing = hub.clone();
        thread::spawn(move || reading.run());
        thread::spawn(move || {
            keep_time(&timing, clock);
            desk.iter().for_each(|desk| desk.close());
            end();
        });
        thread::spawn(move || writing::write(hub, sink, has_callbacks));
    };
    (start, peer, incoming)
}

/// Fires the timers until nothing can come any more. Apart from the writer, which may be stuck in a
/// peer that does not read.
fn keep_time(hub: &Hub, clock: Clock) {
    let parker = Parker::new();
    let waker = parker.unparker().into();
    loop {
        let due = hub.poll_timers(&waker);
        // Asked once the waker is there, so that an end after this wakes us.
        if hub.is_over() {
            return;
        }
        match due {
            Some(due) => drop(parker.park_timeout(clock.until(due))),
            None => parker.park(),
        }
    }
}
