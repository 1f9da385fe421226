//! Blocking threads: one reads, one writes, one keeps the timers, and any number of the host's own
//! call, cancel and serve.
//!
//! Over a pipe or a socket of this process, whoever responds writes, and the writer's thread only goes
//! on where a write would block. With callbacks, such as [`Options::trace`], that thread writes everything.
//! A [`Server`] serves short methods on the thread that reads.
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

mod desk;
mod reading;
mod server;
mod threads;
mod work;
mod writing;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use protocol_async::CallError;
pub use protocol_async::{Arrival, CancellationHandle, Cork, Incoming, Peer, SentRequest};
pub use protocol_async::{Options, Trace, Way};
use protocol_core::CloseReason;
use serde::de::DeserializeOwned;

use crate::handler::Handler;
use crate::park::{block_on, block_on_for};
pub use server::{Served, Server};
use threads::{Streams, open};
use work::AtWork;

/// Runs a connection over any byte streams, on three threads of its own.
///
/// When every handle is dropped, what is queued is written and the writer is dropped. The reader
/// thread ends with its input: close that from outside if the peer doesn't.
///
/// A stream with a timeout, or one that does not block, is tried again: neither is an end or an error.
/// Any error of writing closes the connection, as does any other of reading; [`Peer::closed`] tells it.
///
/// A write that blocks because the peer does not read can't be interrupted here. Every handle learns
/// that the peer is given up (`Options::patience`). But the writer and its thread stay until that write
/// returns: close the stream from outside, or use [`stdio`], [`tcp`] or [`unix`].
pub fn connect(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    options: impl Into<Options>,
) -> (Peer, Incoming) {
    start(Streams::any(reader, writer), options.into())
}

/// Runs a connection over this process's standard input and output.
///
/// A thread that responds writes by itself where standard output is a pipe (on Linux) or a socket. A
/// thread of its own goes on where a write would block. No mode changes that others who share the stream
/// could notice.
pub fn stdio(options: impl Into<Options>) -> (Peer, Incoming) {
    start(Streams::stdio(), options.into())
}

/// Runs a connection over a TCP stream. Its small messages are not held back.
///
/// At the end the stream is shut down for writing, and read on until the peer has ended too, for five seconds at
/// most. Anything that comes to a closed stream would discard what was written.
///
/// # Errors
///
/// Those of cloning the stream.
pub fn tcp(stream: TcpStream, options: impl Into<Options>) -> io::Result<(Peer, Incoming)> {
    stream.set_nodelay(true)?;
    Ok(start(Streams::socket(stream)?, options.into()))
}

/// Runs a connection over a Unix socket, which ends as one over [`tcp`] does.
///
/// # Errors
///
/// Those of cloning the stream.
#[cfg(unix)]
pub fn unix(
    stream: std::os::unix::net::UnixStream,
    options: impl Into<Options>,
) -> io::Result<(Peer, Incoming)> {
    let stream = std::os::fd::OwnedFd::from(stream).into();
    Ok(start(Streams::socket(stream)?, options.into()))
}

fn start(streams: Streams, options: Options) -> (Peer, Incoming) {
    let (start, peer, incoming) = open(streams, options);
    start(None);
    (peer, incoming)
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
    let take_notification = &|method: &str| incoming.take_notification(method);
    loop {
        let arrival = match block_on(incoming.receive()) {
            Ok(arrival) => arrival,
            Err(reason) => return reason,
        };
        let let_read = &mut || ();
        let work = AtWork { incoming, take_notification, let_read, responder: None, undoing: None };
        work.serve(arrival, handler);
    }
}
