//! Blocking threads: one reads, one writes, one keeps the timers, and any number of the host's own
//! call, cancel and serve.
//!
//! The handles are those of [`protocol_async`]; here they are waited for by blocking a thread.
//!
//! ```
//! use protocol_blocking::threaded::{Wait, serve, unix};
//! use protocol_blocking::{Request, Responder};
//! use protocol_core::{Config, Dialect};
//! use std::os::unix::net::UnixStream;
//! use std::time::Duration;
//!
//! let (near, far) = UnixStream::pair()?;
//!
//! // A server whose requests take a minute, unless they are cancelled.
//! let (_, incoming) = unix(far, Config::server(Dialect::ACP_V1))?;
//! let server = std::thread::spawn(move || {
//!     serve(&incoming, 1, &|_: &Request, responder: &mut dyn Responder| {
//!         responder.sleep(Duration::from_secs(60))?;
//!         Ok(serde_json::value::to_raw_value("done")?)
//!     })
//! });
//!
//! // A client that cancels.
//! let (peer, incoming) = unix(near, Config::client(Dialect::ACP_V1))?;
//! let sent = peer.call::<String>("slow", ());
//! sent.cancel();
//! assert_eq!(sent.wait().unwrap_err().to_string(), "cancelled (caller)");
//!
//! drop((peer, incoming));
//! server.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::{self, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use protocol_async::CallError;
use protocol_async::hub::{Hub, Messages, Output};
pub use protocol_async::{Arrival, CancellationHandle, Cork, Incoming, Peer, SentRequest};
pub use protocol_async::{Options, Trace, Way};
use protocol_core::{CallOptions, CloseReason, InputBuffer, Refusal, Shutdown};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::clock::Clock;
use crate::handler::{self, BeforeStart, Cancelled, Handler, Notification, Responder};
use crate::park::{Parker, block_on, block_on_for};

/// Runs a connection over any byte streams, on three threads of its own.
///
/// When every handle is dropped, what is queued is written and the writer is dropped. The reader
/// thread ends with its input: close that from outside if the peer doesn't.
///
/// A stream with a timeout, or one that does not block, is tried again: neither is an end or an error.
/// Any error of writing closes the connection, as does any other of reading; [`Peer::closed`] tells it.
///
/// A write that blocks because the peer does not read can't be interrupted here. When the peer is given
/// up ([`Options::patience`]) every handle is told so, but the writer's thread, and the writer, stay
/// until that write returns: close the stream from outside, as [`tcp`] and [`unix`] do.
pub fn connect(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    options: impl Into<Options>,
) -> (Peer, Incoming) {
    connect_until(reader, writer, options, || ())
}

/// As [`connect`]; `end` is run once nothing is to be read or written any more, though a thread may be
/// stuck in either.
fn connect_until(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    options: impl Into<Options>,
    end: impl FnOnce() + Send + 'static,
) -> (Peer, Incoming) {
    let clock = Clock::start();
    let options = options.into();
    let room = options.pipe_bytes.max(1);
    let (hub, peer, incoming) = Hub::new(options, move || clock.now());
    let hub = Arc::new(hub);
    let (reading, timing) = (hub.clone(), hub.clone());
    thread::spawn(move || read(&reading, reader, room));
    thread::spawn(move || {
        keep_time(&timing, clock);
        end();
    });
    thread::spawn(move || write(&hub, writer));
    (peer, incoming)
}

/// Runs a connection over a TCP stream, which is shut down at the end. Its small messages are not
/// held back.
///
/// # Errors
///
/// Those of cloning the stream.
pub fn tcp(stream: TcpStream, options: impl Into<Options>) -> io::Result<(Peer, Incoming)> {
    stream.set_nodelay(true)?;
    let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
    Ok(connect_until(reader, writer, options, move || {
        // It may be down already.
        let _ = stream.shutdown(net::Shutdown::Both);
    }))
}

/// Runs a connection over a Unix socket, which is shut down at the end.
///
/// # Errors
///
/// Those of cloning the stream.
#[cfg(unix)]
pub fn unix(
    stream: std::os::unix::net::UnixStream,
    options: impl Into<Options>,
) -> io::Result<(Peer, Incoming)> {
    let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
    Ok(connect_until(reader, writer, options, move || {
        // It may be down already.
        let _ = stream.shutdown(net::Shutdown::Both);
    }))
}

/// Reads until the input ends. It never waits for handlers or for the writer (G3).
fn read(hub: &Hub, mut reader: impl Read, room: usize) {
    let mut input = InputBuffer::new();
    let mut pause = Pause::default();
    while !hub.is_closed() {
        match input.fill(room, |room| unless_it_panics(|| reader.read(room))) {
            Err(error) if is_transient(&error) => pause.take(),
            Err(error) => return hub.finish(&input, Some(&error)),
            Ok(0) => return hub.finish(&input, None),
            Ok(_) => {
                pause = Pause::default();
                let _ = hub.receive(&mut input);
            }
        }
    }
}

/// Whether to try again: a stream with a timeout, or one that some other process made non-blocking, has
/// not ended.
fn is_transient(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// As the stream's own error if it panics: the connection must end then, too.
fn unless_it_panics<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    handler::unless_it_panics(work).unwrap_or_else(|| Err(io::Error::other("the stream panicked")))
}

/// Between two tries of a stream that does not block, longer each time.
#[derive(Default)]
struct Pause(Duration);

impl Pause {
    const LONGEST: Duration = Duration::from_millis(20);

    fn take(&mut self) {
        thread::sleep(self.0);
        self.0 = (2 * self.0).clamp(Duration::from_micros(100), Self::LONGEST);
    }
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

/// Writes what there is to write, until nothing can come any more.
fn write(hub: &Hub, writer: impl Write) {
    let parker = Parker::new();
    let mut writer = Some(writer);
    let mut output = Messages::default();
    loop {
        match hub.poll_output(parker.waker(), &mut output) {
            Output::Write => {
                if let Some(open) = &mut writer {
                    let written = unless_it_panics(|| write_all(hub, open, output.bytes()));
                    if let Err(error) = written {
                        hub.fail(&error);
                        writer = None;
                    }
                }
                output.clear();
            }
            Output::Idle => parker.park(None),
            Output::Over => return,
        }
    }
}

/// Writes all of it, unless it is given up meanwhile.
fn write_all(hub: &Hub, writer: &mut impl Write, mut rest: &[u8]) -> io::Result<()> {
    let mut pause = Pause::default();
    loop {
        let written = if rest.is_empty() { writer.flush().map(|()| 0) } else { writer.write(rest) };
        match written {
            Ok(_) if rest.is_empty() => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                rest = &rest[written..];
                pause = Pause::default();
            }
            Err(error) if is_transient(&error) && !hub.is_over() => pause.take(),
            Err(error) => return Err(error),
        }
    }
}

/// Waiting for a call by blocking the thread.
pub trait Wait<T>: Sized {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// Every outcome but a result.
    fn wait(self) -> Result<T, CallError>;

    /// Waits at most that long; `None` if the call is still in flight then, which it stays.
    fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<T, CallError>>;
}

impl<T: DeserializeOwned> Wait<T> for SentRequest<T> {
    fn wait(self) -> Result<T, CallError> {
        block_on(self)
    }

    fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<T, CallError>> {
        block_on_for(self, timeout)
    }
}

/// Serves until the connection closes, on this thread and `workers - 1` more, and what was answered is
/// written or can't be any more.
///
/// One worker takes everything in the peer's order. With more, a notification may be taken while an
/// earlier request is still being served.
pub fn serve(
    incoming: &Incoming,
    workers: usize,
    handler: &(impl Handler + Sync + ?Sized),
) -> CloseReason {
    let reason = thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| serve_here(incoming, handler));
        }
        serve_here(incoming, handler)
    });
    block_on(incoming.peer().flushed());
    reason
}

fn serve_here(incoming: &Incoming, handler: &(impl Handler + ?Sized)) -> CloseReason {
    loop {
        match block_on(incoming.receive()) {
            Ok(Arrival::Request(request, responder)) => {
                let peer = responder.peer();
                let cancelled = responder.cancellation().cause();
                let mut at_work = AtWork { incoming, peer, responder: &responder };
                let rule = BeforeStart::Delivered;
                let answer = responder
                    .in_span(|| handler::answer(handler, &request, &mut at_work, cancelled, rule));
                responder.answer(answer);
            }
            Ok(Arrival::Notification(notification)) => {
                if handler::notify(handler, &notification).is_break() {
                    incoming.peer().shutdown(Shutdown::CancelAll);
                }
            }
            Ok(Arrival::Violation { violation, id }) => {
                handler::report(handler, violation, id.as_ref());
            }
            Ok(_) => {}
            Err(reason) => return reason,
        }
    }
}

/// What a handler on one of our threads can do.
struct AtWork<'s> {
    incoming: &'s Incoming,
    peer: Peer,
    responder: &'s protocol_async::Responder,
}

impl Responder for AtWork<'_> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        self.responder.cancellation().checkpoint()
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        let mut cancelled = self.responder.cancellation().cancelled();
        block_on_for(&mut cancelled, duration).map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.peer.try_notify_raw(method, params)
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.incoming.take_notification(method)
    }

    fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let sent = self.peer.call_raw(method, params, options.parent(self.responder.handle()));
        sent.wait()
    }
}
