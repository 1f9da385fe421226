//! The threads of a connection.

use std::io::Read;
use std::sync::Arc;
use std::thread;

use protocol_async::hub::Hub;
use protocol_async::{Incoming, Options, Peer};

use super::desk::Desk;
use super::reading::Reading;
use super::sink::Sink;
use crate::clock::Clock;
use crate::park::Parker;

/// Starts the threads of a connection. `end` runs once nothing is to be read or written any more, though
/// a thread may be stuck in either. `serve` makes what serves immediate methods, if there are any.
pub(super) fn start<T>(
    reader: impl Read + Send + 'static,
    sink: Sink,
    options: impl Into<Options>,
    end: impl FnOnce() + Send + 'static,
    serve: impl FnOnce(Incoming) -> (T, Option<Arc<Desk>>),
) -> (Peer, T) {
    let clock = Clock::start();
    let options = options.into();
    let room = options.pipe_bytes.max(1);
    let (hub, peer, incoming) = Hub::new(options, move || clock.now());
    let hub = Arc::new(hub);
    let (served, desk) = serve(incoming);
    let (reading, timing) = (Reading::new(hub.clone(), reader, room, desk), hub.clone());
    thread::spawn(move || reading.run());
    thread::spawn(move || {
        keep_time(&timing, clock);
        end();
    });
    thread::spawn(move || sink.write(hub));
    (peer, served)
}

/// Fires the timers until nothing can come any more. Apart from the writer, which may be stuck in a
/// peer that does not read.
fn keep_time(hub: &Hub, clock: Clock) {
    let parker = Parker::new();
    loop {
        let due = hub.poll_timers(parker.waker());
        // Asked once the waker is there, so that an end after this wakes us.
        if hub.is_over() {
            return;
        }
        parker.park(due.map(|due| clock.until(due)));
    }
}
