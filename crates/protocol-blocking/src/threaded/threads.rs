//! The streams of a connection, and its threads.

use std::io::{self, Read, Write};
use std::net::{self, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking::Parker;
use protocol_async::hub::Hub;
use protocol_async::{Incoming, Options, Peer};
use protocol_core::InputBuffer;

use super::desk::Desk;
use super::reading::{Pause, Reading, is_transient};
use super::writing::{self, Sink};
use crate::clock::Clock;

/// The longest time that a socket is read on at its end.
const LINGER: Duration = Duration::from_secs(5);

/// The streams of a connection.
pub(super) struct Streams {
    reader: Box<dyn Read + Send>,
    sink: Sink,
    /// Ends them, so that a thread that is stuck in them comes back, and says whether the peer was given up.
    end: Box<dyn FnOnce(bool) + Send>,
}

impl Streams {
    pub(super) fn any(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        let sink = Sink::blocks(writer);
        Self { reader: Box::new(reader), sink, end: Box::new(|_| ()) }
    }

    pub(super) fn stdio() -> Self {
        let mut stdout = io::stdout();
        // Output goes behind all that was printed. An error shows again when it is written to.
        let _ = stdout.flush();
        Self { reader: Box::new(io::stdin()), sink: Sink::of(stdout), end: Box::new(|_| ()) }
    }

    /// The calls on a Unix socket are those on a TCP stream.
    pub(super) fn socket(stream: TcpStream) -> io::Result<Self> {
        let (reader, sink) = (Box::new(stream.try_clone()?), Sink::of(stream.try_clone()?));
        Ok(Self { reader, sink, end: Box::new(move |is_given_up| linger(&stream, is_given_up)) })
    }
}

/// Ends a socket, and reads on until its peer has ended too, or for some seconds. Anything that comes to a
/// closed TCP stream resets it, and what was written is lost.
fn linger(mut stream: &TcpStream, is_given_up: bool) {
    let (until, mut pause) = (Instant::now() + LINGER, Pause::default());
    // It may be down already.
    let _ = stream.shutdown(net::Shutdown::Write);
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|_| !is_given_up) {
        let _ = stream.set_read_timeout(Some(left.max(Pause::LONGEST)));
        match stream.read(&mut [0; 4 << 10]) {
            Ok(1..) => {}
            Err(error) if is_transient(&error) => pause.take(),
            _ => break,
        }
    }
    let _ = stream.shutdown(net::Shutdown::Both);
}

/// Makes a connection. The function that is returned starts its threads.
///
/// The streams are shut down once nothing is to be read or written any more, though a thread may be stuck in
/// either. A socket is read on first ([`linger`]).
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
            end(timing.is_abandoned());
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
