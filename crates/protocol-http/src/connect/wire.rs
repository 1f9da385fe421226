//! The server, the connections to it, and how it is asked.
//!
//! An exchange has a connection of its own. With HTTP/2 many share one.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use http::request::Builder;
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::options::{ClientOptions, ServerStream, Stream, Target};
use crate::client::ClientSession;
use crate::endpoint::{CONNECTION_WINDOW, STREAM_WINDOW, lock, set_tcp_options};
use crate::gate::JSON;

/// The connections that a request is tried on. One that is shared may end just before the request leaves.
const ATTEMPTS: u32 = 3;

/// The most bytes of all cookies together, for a server refuses a head that is too long.
const COOKIE_BYTES: usize = 4 << 10;

/// The time in which the last messages, and then DELETE, have to be taken.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// The headers that a message has beside those of HTTP.
pub(super) type Headers = Vec<(Cow<'static, str>, String)>;

/// The server, and how it is asked.
pub(super) struct Wire {
    pub(super) target: Target,
    pub(super) options: ClientOptions,
    pub(super) known: tokio::sync::Mutex<Known>,
    /// The cookies of a connection, `name=value` each, by which a balancer finds its server again.
    ///
    /// They go to one address, which set them.
    cookies: Mutex<Vec<String>>,
    /// The tasks of the exchanges, and the ways of their reports to the owner.
    pub(super) running: TaskTracker,
    pub(super) messages: Sender<Report>,
    pub(super) heads: Sender<Report>,
}

/// A report of the exchange with this number.
pub(super) type Report = (u64, Said);

/// The news of an exchange.
#[derive(Debug)]
pub(super) enum Said {
    /// A message came, in a response with this session id.
    Message(Vec<u8>, Option<String>),
    /// The head of a stream came, and what waited for it goes on.
    Taken,
    /// The exchange is over, and so is its call. If it was lost, this is how.
    Over(Option<String>),
    /// The server knows the session no longer, which comes behind the messages that were read.
    SessionGone,
    /// The same, ahead of them. Nothing more is to be posted.
    Parting,
}

/// The task of a connection or of an exchange, which ends with this.
pub(super) type Task = AbortOnDropHandle<()>;

/// A connection that an exchange has to itself, or shares.
pub(super) enum Link {
    Http1 { sender: http1::SendRequest<Full<Bytes>>, _connection: Task },
    Http2(Arc<Shared>),
}

/// A connection of HTTP/2.
pub(super) struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
    _connection: Task,
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
    /// Reports of `heads` may not wait for room to read.
    pub(super) fn new(
        target: Target,
        options: ClientOptions,
        messages: Sender<Report>,
        heads: Sender<Report>,
    ) -> Arc<Self> {
        let (known, cookies, running) = Default::default();
        Arc::new(Self { target, options, known, cookies, running, messages, heads })
    }

    /// Sends a request, and waits for the head of its response.
    pub(super) async fn send(
        &self,
        method: &Method,
        headers: &Headers,
        body: Bytes,
    ) -> io::Result<(Response<Incoming>, Link)> {
        let mut body = Full::new(body);
        for _ in 0..ATTEMPTS {
            let mut link = self.link().await?;
            let request =
                self.request(method, headers, &link)?.body(body).map_err(io::Error::other)?;
            let sent = match &mut link {
                Link::Http1 { sender, .. } => sender.try_send_request(request).await,
                Link::Http2(shared) => shared.sender.clone().try_send_request(request).await,
            };
            match sent {
                Ok(response) => {
                    if self.options.rules.shares_streams {
                        self.keep_cookies(&response);
                    }
                    return Ok((response, link));
                }
                Err(mut error) => match error.take_message() {
                    // Nothing of it has left.
                    Some(unsent) => body = unsent.into_body(),
                    None => return Err(io::Error::other(error.into_error())),
                },
            }
        }
        Err(io::Error::other("the connection ended before the request has left"))
    }

    fn request(&self, method: &Method, headers: &Headers, link: &Link) -> io::Result<Builder> {
        let uri = self.target.uri();
        let mut request = Request::builder().method(method);
        request = match (link, uri.authority(), uri.path_and_query()) {
            (Link::Http1 { .. }, Some(authority), Some(path)) => {
                request.uri(path.as_str()).header(HOST, authority.as_str())
            }
            _ => request.version(Version::HTTP_2).uri(uri.clone()),
        };
        request = request.header(ACCEPT, "application/json, text/event-stream");
        if *method == Method::POST {
            request = request.header(CONTENT_TYPE, JSON);
        }
        if let Some(token) = &self.options.token {
            let mut bearer =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(io::Error::other)?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let cookies = lock(&self.cookies).join("; ");
        if !cookies.is_empty() {
            request = request.header(COOKIE, cookies);
        }
        Ok(headers.iter().fold(request, |request, (name, value)| request.header(&**name, value)))
    }

    /// Keeps the cookies of a response, but not those over the limit, nor those that the server deletes.
    fn keep_cookies(&self, response: &Response<Incoming>) {
        let mut cookies = lock(&self.cookies);
        for cookie in response.headers().get_all(SET_COOKIE) {
            let mut parts = cookie.to_str().unwrap_or_default().split(';').map(str::trim);
            let pair = parts.next().unwrap_or_default();
            let Some((name, _)) = pair.split_once('=') else { continue };
            cookies.retain(|it| it.split_once('=').is_none_or(|(other, _)| other != name));
            let kept: usize = cookies.iter().map(|it| it.len() + "; ".len()).sum();
            if !parts.any(ends_at_once) && kept + pair.len() + "; ".len() <= COOKIE_BYTES {
                cookies.push(pair.into());
            }
        }
    }

    /// Reports a message that the server did not take, or why a stream of the session is not read any more. A panic of the
    /// callback is contained.
    pub(super) fn trouble(&self, message: Option<&[u8]>, why: &str) {
        if let Some(tell) = &self.options.trouble {
            let _ = catch_unwind(AssertUnwindSafe(|| tell(message, why)));
        }
    }

    /// Tells the server that the session is over, if it has one.
    pub(super) async fn leave(&self, session: &ClientSession) {
        if session.id().is_some() {
            let headers = session.headers();
            let delete = self.send(&Method::DELETE, &headers, Bytes::new());
            // A server that is gone, or takes no such request, ends it by itself.
            let _ = timeout(FAREWELL, delete).await;
        }
    }

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
        let options = &self.options;
        let has_room = |it: &&Arc<Shared>| {
            let most = options.streams_per_connection.min(it.allowed.load(Relaxed)).max(1);
            // Each exchange has a reference, and so has the place from which it is shared.
            !it.sender.is_closed() && Arc::strong_count(it) <= most
        };
        if let Some(shared) = known.shared.as_ref().filter(has_room) {
            return Ok(Link::Http2(shared.clone()));
        }
        if let Some((_, kind, how)) = known.failure.as_ref().filter(|(at, ..)| *at > begun) {
            return Err(io::Error::new(*kind, how.clone()));
        }
        let dialled = self.dial().await;
        match &dialled {
            Ok(Link::Http1 { .. }) => (known.is_http1, known.shared) = (true, None),
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
                    // Its error is that of the response, too.
                    let _connection = Task::new(tokio::spawn(async { drop(connection.await) }));
                    Link::Http1 { sender, _connection }
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
        let uri = self.target.uri();
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let why = "TLS is the host's: https needs ClientOptions::open";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
        set_tcp_options(&stream);
        Ok(ServerStream { stream: Box::new(stream), is_http2: false })
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
    let _connection = Task::new(tokio::spawn(connection));
    Ok(Link::Http2(Arc::new(Shared { sender, _connection, allowed })))
}

/// Returns whether this is `Max-Age=0`, or less. "If delta-seconds is less than or equal to zero", it is over (RFC 6265).
fn ends_at_once(attribute: &str) -> bool {
    attribute.split_once('=').is_some_and(|(name, seconds)| {
        let is_over = seconds.trim().parse().is_ok_and(|seconds: i64| seconds <= 0);
        name.trim().eq_ignore_ascii_case("max-age") && is_over
    })
}

pub(super) fn value<'a>(response: &'a Response<Incoming>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}
