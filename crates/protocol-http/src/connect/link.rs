//! The connections to the server: one for each exchange, or with HTTP/2 one for many.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::options::{ClientOptions, ServerStream, Stream};
use super::wire::Wire;

/// The bytes of one stream of HTTP/2 that the server may send ahead of us.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same of all streams of a connection.
const CONNECTION_WINDOW: u32 = 1 << 20;

/// The body of a request.
type Body = Full<Bytes>;

/// The task of a connection, which ends with this.
type Running = AbortOnDropHandle<()>;

/// A connection that an exchange has to itself, or shares.
pub(super) enum Link {
    Http1(http1::SendRequest<Body>, #[expect(dead_code, reason = "it ends with the link")] Running),
    Http2(Arc<Shared>),
}

/// A connection of HTTP/2.
pub(super) struct Shared {
    sender: http2::SendRequest<Body>,
    connection: Running,
    /// The exchanges that the server allows at the same time.
    allowed: Arc<AtomicUsize>,
}

/// The parts of the server's behaviour that are known.
#[derive(Default)]
pub(super) struct Known {
    /// Whether the server speaks HTTP/1.1, so that there is nothing to share.
    is_http1: bool,
    /// The connection that exchanges share.
    shared: Option<Arc<Shared>>,
    /// The last failure to open one.
    failure: Option<(Instant, io::ErrorKind, String)>,
}

impl Wire {
    /// Returns a connection for one exchange. Opening one takes at most [`ClientOptions::connect_time`].
    ///
    /// While one is opened the others wait, because they may share it. They share its failure, too, so that nobody waits
    /// for one attempt after the other.
    pub(super) async fn link(&self) -> io::Result<Link> {
        let begun = Instant::now();
        let mut known = self.known.lock().await;
        if known.is_http1 {
            drop(known);
            return self.dial().await;
        }
        if let Some(shared) = known.shared.as_ref().filter(|it| it.has_room(&self.options)) {
            return Ok(Link::Http2(shared.clone()));
        }
        if let Some((_, kind, how)) = known.failure.as_ref().filter(|(at, ..)| *at > begun) {
            return Err(io::Error::new(*kind, how.clone()));
        }
        let dialled = self.dial().await;
        match &dialled {
            Ok(Link::Http1(..)) => (known.is_http1, known.shared) = (true, None),
            Ok(Link::Http2(shared)) => known.shared = Some(shared.clone()),
            // One that is open stays: it may have room again.
            Err(error) => {
                known.failure = Some((Instant::now(), error.kind(), error.to_string()));
            }
        }
        dialled
    }

    /// Opens a connection that nobody shares yet.
    async fn dial(&self) -> io::Result<Link> {
        let dialled = timeout(self.options.connect_time, async {
            let ServerStream { stream, is_http2 } = self.open().await?;
            let stream = TokioIo::new(stream);
            let link = match is_http2 {
                true => http2(stream, self.options.ping_interval).await,
                false => http1::handshake(stream).await.map(|(sender, connection)| {
                    Link::Http1(sender, run(async { drop(connection.await) }))
                }),
            };
            link.map_err(io::Error::other)
        });
        dialled.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn open(&self) -> io::Result<ServerStream> {
        if let Some(open) = &self.options.open {
            return open().await;
        }
        if self.target.is_secure() {
            let why = "TLS is the host's: https needs ClientOptions::open";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let stream = TcpStream::connect((self.target.host(), self.target.port())).await?;
        // It only makes small messages faster.
        let _ = stream.set_nodelay(true);
        Ok(ServerStream::http1(stream))
    }

    /// Ends the connection that is shared, and lets hyper write what it was given.
    pub(super) async fn end(&self) {
        let Some(shared) = self.known.lock().await.shared.take() else { return };
        let Some(Shared { sender, connection, .. }) = Arc::into_inner(shared) else { return };
        drop(sender);
        // A panic of it is the end, too.
        let _ = connection.await;
    }
}

impl Shared {
    /// Returns whether one more exchange may share the connection.
    fn has_room(self: &Arc<Self>, options: &ClientOptions) -> bool {
        let most = options.streams_per_connection.min(self.allowed.load(Relaxed)).max(1);
        // Each exchange has a reference, and so has the place from which it is shared.
        !self.sender.is_closed() && Arc::strong_count(self) <= most
    }
}

impl Link {
    /// Sends a request, and waits for the head of its response. One of which nothing has left comes back.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> hyper::Result<Result<Response<Incoming>, Request<Body>>> {
        match self {
            Self::Http1(sender, _) => sender.send_request(request).await.map(Ok),
            Self::Http2(shared) => match shared.sender.clone().try_send_request(request).await {
                Ok(response) => Ok(Ok(response)),
                Err(mut error) => match error.take_message() {
                    Some(request) => Ok(Err(request)),
                    None => Err(error.into_error()),
                },
            },
        }
    }
}

async fn http2(stream: TokioIo<Box<dyn Stream>>, ping_interval: Duration) -> hyper::Result<Link> {
    let ping = ping_interval.max(Duration::from_millis(1));
    let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        // Otherwise a connection that is dead without a word would take one request after the other.
        .keep_alive_interval(ping)
        .keep_alive_timeout(ping)
        .handshake(stream)
        .await?;
    let allowed = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
    let said = allowed.clone();
    let connection = poll_fn(move |cx| {
        let over = Pin::new(&mut connection).poll(cx);
        said.store(connection.current_max_send_streams(), Relaxed);
        over.map(drop)
    });
    Ok(Link::Http2(Arc::new(Shared { sender, connection: run(connection), allowed })))
}

/// Runs a connection. Its error is that of the response, too.
fn run(connection: impl Future<Output = ()> + Send + 'static) -> Running {
    Running::new(tokio::spawn(connection))
}
