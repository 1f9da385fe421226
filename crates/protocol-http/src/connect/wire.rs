//! The server, and how it is asked.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, RETRY_AFTER, SET_COOKIE};
use http::request::Builder;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::exchange::Report;
use super::link::{Known, Link};
use super::options::ClientOptions;
use super::target::Target;
use crate::client::ClientSession;
use crate::endpoint::lock;

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

/// Returns whether this is `Max-Age=0`, or less. "If delta-seconds is less than or equal to zero", it is over (RFC 6265).
fn ends_at_once(attribute: &str) -> bool {
    attribute.split_once('=').is_some_and(|(name, seconds)| {
        let is_over = seconds.trim().parse().is_ok_and(|seconds: i64| seconds <= 0);
        name.trim().eq_ignore_ascii_case("max-age") && is_over
    })
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
            let request = self.request(method, headers, &link)?.body(body).map_err(other)?;
            match link.send(request).await.map_err(other)? {
                Ok(response) => {
                    if self.options.rules.shares_streams {
                        self.keep_cookies(&response);
                    }
                    return Ok((response, link));
                }
                Err(unsent) => body = unsent.into_body(),
            }
        }
        Err(io::Error::other("the connection ended before the request has left"))
    }

    fn request(&self, method: &Method, headers: &Headers, link: &Link) -> io::Result<Builder> {
        let target = &self.target;
        let mut request = Request::builder().method(method);
        request = if let Link::Http2(_) = link {
            request.version(Version::HTTP_2).uri(target.uri().clone())
        } else {
            request.uri(target.path()).header(HOST, target.authority())
        };
        let accepted = match *method {
            Method::GET => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        request = request.header(ACCEPT, accepted);
        if *method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.options.token {
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(other)?;
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

    /// Reports a message that the server did not take. A panic of the callback is contained.
    pub(super) fn untaken(&self, message: &[u8], why: &str) {
        if let Some(tell) = &self.options.untaken {
            let _ = catch_unwind(AssertUnwindSafe(|| tell(message, why)));
        }
    }

    /// Reports why the stream of the session is not read any more. A panic of the callback is contained.
    pub(super) fn unheard(&self, why: &str) {
        if let Some(tell) = &self.options.unheard {
            let _ = catch_unwind(AssertUnwindSafe(|| tell(why)));
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
}

/// Returns the time after which a server that is busy wants to be asked again.
pub(super) fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let is_busy = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    let seconds = value(response, RETRY_AFTER.as_str()).filter(|_| is_busy)?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

pub(super) fn value<'a>(response: &'a Response<Incoming>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

fn other(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}
