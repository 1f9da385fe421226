//! A server of MCP or ACP over HTTP, on tokio with hyper.
//!
//! It speaks HTTP/1.1 and HTTP/2, in all revisions of Streamable HTTP at the same time. Each session has an endpoint of
//! its own. So has each request of a revision without sessions.
//!
//! ```
//! use core::time::Duration;
//! use protocol_http::server::{Server, ServerOptions};
//! use protocol_router::Router;
//! use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let router = Router::new().request("tools/call", async |params: serde_json::Value, cx| {
//!     // Work that takes until it is cancelled.
//!     cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
//!     Ok(params)
//! });
//! let server = Server::new(ServerOptions::default(), move |_peer, incoming| {
//!     let router = router.clone();
//!     async move { _ = router.serve(&incoming).await }
//! });
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let serving = tokio::spawn({
//!     let server = server.clone();
//!     async move { server.serve(listener).await }
//! });
//!
//! // At the end: what is in flight may finish for 5 s, and has 1 s more once it is cancelled.
//! server.drain(Duration::from_secs(5), Duration::from_secs(1)).await;
//! serving.await?
//! # }
//! ```
//!
//! # A lost stream
//!
//! A client that closes the stream of a request cancels it in MCP 2026-07-28, and in no revision before.
//! [`SessionOptions::on_loss`](crate::SessionOptions::on_loss) chooses otherwise. The
//! [cause](protocol_core::Cause) of a request that was cancelled so is `peer` where the revision says that the end of the
//! stream is the cancel. It is `peer_gone` where the host chose so.
//!
//! # Heads
//!
//! A stream of events begins at once. In MCP 2026-07-28 it begins after the first turn of the handler, because an unknown
//! method has status 404 there.

mod driver;
mod link;
mod options;
mod respond;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Buf;
use http::{Request, Response};
use hyper::body::Incoming as Received;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use protocol_async::{Incoming, Peer};
use protocol_core::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::io::InspectWriter;
use tokio_util::task::AbortOnDropHandle;

use self::driver::Shared;
pub use self::link::Body;
use self::link::Link;
pub use self::options::ServerOptions;
use self::options::{BUFFER_BYTES, STREAMS};
use crate::endpoint::{CONNECTION_WINDOW, STREAM_WINDOW, lock, set_tcp_options};
use crate::refusal::Refusal;

/// The pause when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);
/// The time that tasks have to go once nobody waits for their work.
const LAST: Duration = Duration::from_secs(1);
/// The interval at which clients of HTTP/2 are asked whether they are there.
const PING: Duration = Duration::from_secs(20);

/// A server of MCP or ACP over HTTP. Clones are the same server; see the [module](self).
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Makes a server whose sessions are served by this handler.
    ///
    /// It is called once for each session, and once for each request in a revision without sessions. Its future runs in
    /// a task of its own. It should end when `incoming` ends.
    pub fn new<F>(
        options: ServerOptions,
        handler: impl Fn(Peer, Incoming) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Shared {
            places: Arc::new(Semaphore::new(options.sessions.min(Semaphore::MAX_PERMITS))),
            seats: Mutex::default(),
            shutdown: watch::Sender::default(),
            options,
            handler: Box::new(move |peer, incoming| Box::pin(handler(peer, incoming))),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves the clients of a listener until the server [drains](Self::drain).
    ///
    /// # Errors
    ///
    /// Returns the error of a listener that is broken. Without room for another connection, it waits.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let most = self.shared.options.connections.min(Semaphore::MAX_PERMITS);
        let connections = Arc::new(Semaphore::new(most));
        let mut shutdown = self.shared.shutdown.subscribe();
        loop {
            let accept = async {
                // It is never closed.
                let permit = connections.clone().acquire_owned().await;
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                accepted = accept => accepted,
                _ = shutdown.wait_for(Option::is_some) => return Ok(()),
            };
            match accepted {
                Ok((stream, _)) => {
                    set_tcp_options(&stream);
                    let server = self.clone();
                    tokio::spawn(async move {
                        server.serve_connection(stream).await;
                        drop(permit);
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Serves one connection that the host accepted, such as one with TLS or of a Unix socket.
    pub async fn serve_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let options = &self.shared.options;
        let builder = builder(options);
        let mut shutdown = self.shared.shutdown.subscribe();
        let link = Link::new(&self.shared.options.account);
        let service = service_fn(|request: Request<Received>| {
            let (shared, link) = (self.shared.clone(), link.clone());
            link.asked(request.version());
            let is_here = request.uri().path() == shared.options.path;
            let refused = async move { if is_here { pending().await } else { Refusal::PATH } };
            async move { Ok::<_, Infallible>(shared.respond(request, link, refused).await) }
        });
        let transport = link.clone();
        let stream = InspectWriter::new(stream, move |bytes: &[u8]| transport.wrote(bytes.len()));
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut revoked = pin!(link.revoked());
        let mut unread = pin!(link.unread(options.patience, options.response_bytes));
        let mut unused = pin!(link.unused(options.receive_time));
        let mut is_closing = false;
        loop {
            let has_come = |how: &Option<Shutdown>| {
                *how == Some(Shutdown::Abandon) || !is_closing && how.is_some()
            };
            tokio::select! {
                // The client has gone, which its sessions have noticed.
                _ = connection.as_mut() => return,
                _ = revoked.as_mut() => return,
                () = unread.as_mut() => return,
                // A request that crosses the end of HTTP/2 is served. A client that does not end is left at the next time.
                () = unused.as_mut() => {
                    if is_closing || !link.was_asked() {
                        return;
                    }
                    unused.set(link.unused(options.receive_time));
                }
                come = shutdown.wait_for(has_come) => match come {
                    Ok(how) if *how != Some(Shutdown::Abandon) => {}
                    _ => return,
                }
            }
            is_closing = true;
            connection.as_mut().graceful_shutdown();
        }
    }

    /// Responds to one request, for a host that has hyper or axum already. Its path is the host's.
    ///
    /// A stream whose client reads nothing for [`ServerOptions::patience`] is lost to its session, unless it is finished. The
    /// connection is the host's, so the host has to end it.
    pub async fn respond(
        &self,
        request: Request<impl http_body::Body<Data: Buf>>,
    ) -> Response<Body> {
        let &ServerOptions { patience, response_bytes: most, .. } = &self.shared.options;
        let link = Link::new(&self.shared.options.account);
        let mut response = self.shared.respond(request, link.clone(), link.revoked()).await;
        // One of a known length is finished.
        if http_body::Body::size_hint(response.body()).exact().is_none() {
            let looks = tokio::spawn(async move { link.unread(patience, most).await });
            response.body_mut().looks = Some(AbortOnDropHandle::new(looks));
        }
        response
    }

    /// Returns the number of sessions that are open.
    pub fn sessions(&self) -> usize {
        lock(&self.shared.seats).len()
    }

    /// Ends the server, and waits until all of its tasks are gone.
    ///
    /// Nobody is accepted any more, and no session begins. What is in flight has the time `finish` to be done. Then it is
    /// cancelled, and has the time `cancel` to respond. Then nobody is waited for any more, and handlers are dropped.
    pub async fn drain(&self, finish: Duration, cancel: Duration) {
        use Shutdown::{Abandon, CancelAll, Drain};
        for (how, time) in [(Drain, finish), (CancelAll, cancel), (Abandon, LAST)] {
            let (next, shutdown) = (Some(how), &self.shared.shutdown);
            // Another call may have gone further.
            shutdown.send_if_modified(|now| mem::replace(now, next.max(*now)) < next);
            if timeout(time, shutdown.closed()).await.is_ok() {
                return;
            }
        }
    }
}

/// Returns what makes the connections of clients.
fn builder(options: &ServerOptions) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let (timer, head_time) = (TokioTimer::new(), options.receive_time);
    builder.http1().timer(timer.clone()).header_read_timeout(head_time);
    builder.http1().max_buf_size(BUFFER_BYTES);
    let mut http2 = builder.http2();
    http2.timer(timer).keep_alive_interval(PING).max_concurrent_streams(STREAMS);
    http2.max_send_buf_size(BUFFER_BYTES);
    // A body that is not read leaves room for others on its connection.
    http2.initial_stream_window_size(STREAM_WINDOW);
    http2.initial_connection_window_size(CONNECTION_WINDOW);
    builder
}
