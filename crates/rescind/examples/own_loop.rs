//! A driver of the core for a loop that polls, and a server that runs it on one socket:
//! `cargo run -p rescind --example own_loop PATH`.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
#[cfg(unix)]
use std::time::Instant;

use rescind::blocking::single::Ready;
#[cfg(unix)]
use rescind::blocking::single::{FdTransport, Transport};
use rescind::core::{
    Connection, Event, InputBuffer, Refusal, RequestHandle, Response, StreamConnection,
};
use rescind::{Config, Timestamp};

/// The bytes of one read, at most.
const INPUT_BYTES: usize = 64 << 10;
/// No more is polled than this and one message. A call that was polled can't be withdrawn.
const OUTPUT_BYTES: usize = 16 << 10;

/// One connection, over a stream that never blocks.
pub(crate) struct Driver {
    /// The connection, for commands. A turn has to follow them.
    pub(crate) core: StreamConnection<()>,
    input: InputBuffer,
    output: Vec<u8>,
    written: usize,
}

impl Driver {
    /// Creates a driver that has read nothing yet.
    pub(crate) fn new(config: Config) -> Self {
        let core = StreamConnection::new(config);
        Self { core, input: InputBuffer::new(), output: Vec::new(), written: 0 }
    }

    /// Reads once, serves all that has come, and writes once.
    ///
    /// Returns what the next turn waits for, beside the time of `poll_timeout`. If it is nothing, the
    /// connection is over.
    pub(crate) fn turn(
        &mut self,
        mut stream: impl Read + Write,
        now: Timestamp,
        mut serve: impl FnMut(&mut Connection<()>, Event<'_, ()>),
    ) -> io::Result<Ready> {
        if !self.core.connection().is_closed() {
            match self.input.fill(INPUT_BYTES, |room| stream.read(room)) {
                Ok(1..) => {}
                Err(error) if is_transient(&error) => {}
                _ => _ = self.core.handle_eof(self.input.unread(), now),
            }
        }
        self.receive(now, &mut serve);
        self.core.connection_mut().handle_timeout(now);
        self.receive(now, &mut serve);
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
            while self.output.len() < OUTPUT_BYTES
                && self.core.poll_transmit(&mut self.output).is_some()
            {}
            // Messages that were polled make room, so `Ready` may have come.
            self.receive(now, &mut serve);
        }
        if !self.output.is_empty() {
            match stream.write(&self.output[self.written..]) {
                Ok(len @ 1..) => self.written += len,
                Err(error) if is_transient(&error) => {}
                ended => {
                    self.core.handle_eof(&[], now);
                    self.receive(now, &mut serve);
                    return Err(ended.err().unwrap_or(ErrorKind::WriteZero.into()));
                }
            }
        }
        let core = self.core.connection();
        let write = self.written < self.output.len() || core.next_transmit_len().is_some();
        Ok(Ready { read: !core.is_closed(), write })
    }

    /// Receives all messages, and serves the events of each before the next.
    fn receive(
        &mut self,
        now: Timestamp,
        serve: &mut impl FnMut(&mut Connection<()>, Event<'_, ()>),
    ) {
        loop {
            let received = self.core.receive(self.input.unread(), now);
            let (consumed, mut next) = (received.consumed, received.event);
            while let Some(event) = next {
                serve(self.core.connection_mut(), event);
                next = self.core.connection_mut().poll_event();
            }
            self.input.consume(consumed);
            if consumed == 0 {
                break;
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The requests whose work is done, and whether it was cancelled.
#[derive(Default)]
pub(crate) struct Server(VecDeque<(RequestHandle, bool)>);

impl Server {
    /// Handles one event. The work of each request is done at once.
    pub(crate) fn serve(&mut self, core: &mut Connection<()>, event: Event<'_, ()>) {
        match event {
            Event::Request { request, .. } => self.0.push_back((request, false)),
            Event::Cancelled { request, .. } => {
                self.0.retain(|(owed, _)| *owed != request);
                self.0.push_back((request, true));
            }
            _ => {}
        }
        let done = serde_json::value::to_raw_value("done").expect("a text is JSON");
        while let Some(&(request, is_cancelled)) = self.0.front() {
            let response = if is_cancelled { Response::Cancelled } else { Response::Result(&done) };
            if let Err(Refusal::OutboxFull) = core.respond(request, response) {
                return; // `Ready` comes once there is room.
            }
            self.0.pop_front();
        }
    }
}

/// Runs a driver until its connection is over.
#[cfg(unix)]
pub(crate) fn run(
    stream: &UnixStream,
    config: Config,
    mut serve: impl FnMut(&mut Connection<()>, Event<'_, ()>),
) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    // Any poller will do: `poll`, `epoll`, or a crate for them.
    let mut poller = FdTransport::new(stream, stream);
    let start = Instant::now();
    let now = || Timestamp::ZERO + start.elapsed();
    let mut driver = Driver::new(config);
    loop {
        let wait = driver.turn(stream, now(), &mut serve)?;
        if wait == Ready::default() {
            return Ok(());
        }
        let due = driver.core.connection().poll_timeout();
        poller.wait(wait, due.map(|(due, _)| due.since(now())))?;
    }
}

#[cfg(unix)]
fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).expect("the argument is the path of a socket");
    let (stream, _) = UnixListener::bind(path)?.accept()?;
    let mut server = Server::default();
    run(&stream, Config::server(rescind::Dialect::ACP_V1), |core, event| server.serve(core, event))
}

#[cfg(not(unix))]
fn main() {}
