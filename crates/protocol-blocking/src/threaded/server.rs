//! A server whose short methods need no other thread.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::iter;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use protocol_async::{Closed, Options, Peer};

use super::desk::Desk;
use super::threads::{Streams, open};
use crate::handler::Handler;
use crate::park::block_on;

/// A server that reads on one thread and works on others.
///
/// The thread that reads serves the [`immediate`](Self::immediate) methods. Most often it writes their
/// responses too, so that no other thread is woken.
///
/// ```
/// use protocol_blocking::threaded::{Server, Wait, unix};
/// use protocol_blocking::{Request, Responder};
/// use protocol_core::{Config, Dialect};
/// use std::os::unix::net::UnixStream;
/// use std::sync::Arc;
///
/// let (near, far) = UnixStream::pair()?;
/// let handler = |request: &Request, _: &mut dyn Responder| {
///     Ok(serde_json::value::to_raw_value(request.method.as_str())?)
/// };
/// let server = Server::new(Config::server(Dialect::ACP_V1)).workers(2).immediate(["ping"]);
/// let served = server.unix(far, Arc::new(handler))?;
///
/// let (peer, incoming) = unix(near, Config::client(Dialect::ACP_V1))?;
/// assert_eq!(peer.call::<String>("ping", ()).wait().unwrap(), "ping");
/// assert_eq!(peer.call::<String>("work", ()).wait().unwrap(), "work");
///
/// drop((peer, incoming));
/// assert!(served.wait().error.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    options: Options,
    workers: usize,
    immediate: HashSet<Box<str>>,
}

impl Server {
    /// Begins a server with one worker and no immediate methods.
    #[must_use]
    pub fn new(options: impl Into<Options>) -> Self {
        Self { options: options.into(), workers: 1, immediate: HashSet::new() }
    }

    /// Sets the number of threads that serve; at least one.
    ///
    /// One worker takes everything in the peer's order. With more, a notification may be taken while an
    /// earlier request is still being served.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Adds methods of requests and notifications that the reading thread serves in their turn.
    ///
    /// They should be short: nothing is read while one works on the thread that reads. A handler that calls
    /// [`checkpoint`](crate::Responder::checkpoint), `sleep`, `call` or `take_notification` after all
    /// lets another thread read from then on, so that cancels are marked (G3). An immediate request
    /// behind one that waits for a worker waits with it. Once a worker has that one, another that sleeps
    /// serves what is immediate behind it, or else a thread begun for it. No thread takes a later
    /// arrival before an immediate handler returns or calls one of these. So a stop is handled before
    /// the next request begins if its method is immediate.
    #[must_use]
    pub fn immediate<M: Into<Box<str>>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        self.immediate.extend(methods.into_iter().map(Into::into));
        self
    }

    /// Serves on any byte streams; as [`connect`](super::connect) in what it does with them.
    pub fn streams(
        self,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        handler: Arc<impl Handler + Send + Sync + 'static>,
    ) -> Served {
        self.start(Streams::any(reader, writer), handler)
    }

    /// Serves on this process's standard input and output.
    pub fn stdio(self, handler: Arc<impl Handler + Send + Sync + 'static>) -> Served {
        self.start(Streams::stdio(), handler)
    }

    /// Serves on a Unix socket; as [`unix`](super::unix()) in what it does with it.
    ///
    /// # Errors
    ///
    /// Those of cloning the stream.
    #[cfg(unix)]
    pub fn unix(
        self,
        stream: std::os::unix::net::UnixStream,
        handler: Arc<impl Handler + Send + Sync + 'static>,
    ) -> std::io::Result<Served> {
        let stream = std::os::fd::OwnedFd::from(stream).into();
        Ok(self.start(Streams::socket(stream)?, handler))
    }

    fn start(self, streams: Streams, handler: Arc<dyn Handler + Send + Sync>) -> Served {
        let Self { options, workers, immediate } = self;
        let (start, peer, incoming) = open(streams, options);
        let desk = Arc::new(Desk::new(incoming, handler, immediate));
        start(Some(desk.clone()));
        let work = |desk: Arc<Desk>| thread::spawn(move || desk.work());
        Served { peer, workers: iter::repeat_n(desk, workers.max(1)).map(work).collect() }
    }
}

/// A server at work, until its connection closes.
#[derive(Debug)]
#[must_use = "the threads go on without it"]
pub struct Served {
    peer: Peer,
    workers: Vec<JoinHandle<()>>,
}

impl Served {
    /// Returns the peer that is served.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Waits until the connection is closed, and each response is written or can't be any more.
    #[must_use]
    pub fn wait(self) -> Closed {
        for worker in self.workers {
            // A worker contains what panics in handlers.
            let _ = worker.join();
        }
        block_on(self.peer.flushed());
        block_on(self.peer.closed())
    }
}
