//! One exchange with the server.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Display;
use core::mem;
use core::time::Duration;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, RETRY_AFTER, SET_COOKIE};
use http::request::Builder;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use protocol_async::hub::Charge;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};

use super::link::{Link, Links};
use super::options::ClientOptions;
use super::target::Target;
use crate::client::{ClientSession, ResponseStream, StreamStep};
use crate::head::{LAST_EVENT_ID, SCOPE};
use crate::rules::Rules;

/// The connections that a request is tried on. One that is shared may end just before the request leaves.
const ATTEMPTS: u32 = 3;

/// The most bytes of all cookies together, for a server refuses a head that is too long.
const COOKIE_BYTES: usize = 4 << 10;

/// The headers that name a session, or in ACP a connection.
const SESSIONS: [&str; 2] = [Rules::MCP_2025_03_26.session_header, Rules::ACP_V1.session_header];

/// The time in which the last messages, and then DELETE, have to be taken.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

const TOO_LONG: &str = "the server took too long (options.post_time)";

/// The shortest time before a busy server is asked again, whatever it names.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The server, and how it is asked.
pub(super) struct Wire {
    target: Target,
    pub(super) options: ClientOptions,
    pub(super) links: Links,
    cookies: Cookies,
}

/// The cookies of a connection, `name=value` each, by which a balancer finds its server again.
///
/// They go to one address, which set them.
#[derive(Default)]
struct Cookies(Mutex<Vec<String>>);

impl Cookies {
    /// Takes the cookies of a response. Those over the limit are not kept, nor those that the server deletes.
    fn take(&self, response: &Response<Incoming>) {
        let mut cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn header(&self) -> Option<String> {
        let cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!cookies.is_empty()).then(|| cookies.join("; "))
    }
}

/// Returns whether this is `Max-Age=0`, or less. "If delta-seconds is less than or equal to zero", it is over (RFC 6265).
fn ends_at_once(attribute: &str) -> bool {
    attribute.split_once('=').is_some_and(|(name, seconds)| {
        let is_over = seconds.trim().parse().is_ok_and(|seconds: i64| seconds <= 0);
        name.trim().eq_ignore_ascii_case("max-age") && is_over
    })
}

/// A report of the exchange with this number.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) number: u64,
    pub(super) said: Said,
}

/// The way of the reports of one exchange to the owner of all.
#[derive(Clone)]
pub(super) struct Reports {
    pub(super) number: u64,
    pub(super) messages: Sender<Report>,
    pub(super) heads: Sender<Report>,
}

impl Reports {
    pub(super) async fn send(&self, said: Said) {
        // Room to read may come only from what waits for a head.
        let is_head =
            matches!(said, Said::Taken | Said::Refused(_) | Said::SessionGone { in_order: false });
        let reports = if is_head { &self.heads } else { &self.messages };
        // The owner may be gone.
        let _ = reports.send(Report { number: self.number, said }).await;
    }
}

#[derive(Debug)]
pub(super) enum Said {
    /// A message came, in a response with this session id.
    Message(Vec<u8>, Option<String>),
    /// The head came, and what waited for it goes on. A message that has no response here is over.
    Taken,
    /// It is over without the head that others wait for.
    Refused(String),
    /// The exchange is over, and so is its call.
    Over,
    /// It is over without the response.
    Lost(String),
    /// The server knows the session no longer. In order, it comes behind the messages that were read.
    SessionGone { in_order: bool },
}

/// A message of ours, charged until the server takes it.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) charge: Option<Charge>,
    /// Notified once nothing of it is here any more.
    pub(super) left: Option<Arc<Notify>>,
}

/// The body of a request, which hyper drops once it has left.
struct Leaving(Bytes, Arc<Notify>);

impl AsRef<[u8]> for Leaving {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.1.notify_one();
    }
}

/// The headers that a message has beside those of HTTP.
pub(super) type Headers = Vec<(Cow<'static, str>, String)>;

impl Wire {
    pub(super) fn new(target: Target, options: ClientOptions) -> Self {
        Self { target, options, links: Links::default(), cookies: Cookies::default() }
    }

    /// Sends a request, and waits for the head of its response.
    async fn send(
        &self,
        method: Method,
        headers: &Headers,
        body: Bytes,
        left: Option<&Arc<Notify>>,
    ) -> io::Result<(Response<Incoming>, Link)> {
        let mut body = Full::new(match left {
            Some(left) => Bytes::from_owner(Leaving(body, left.clone())),
            None => body,
        });
        for _ in 0..ATTEMPTS {
            let mut link = self.links.get(&self.target, &self.options).await?;
            let request = self.request(&method, headers, &link)?.body(body).map_err(other)?;
            match link.send(request).await.map_err(other)? {
                Ok(response) => {
                    if self.options.rules.shares_streams {
                        self.cookies.take(&response);
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
        request = if link.is_http2() {
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
        if let Some(cookies) = self.cookies.header() {
            request = request.header(COOKIE, cookies);
        }
        Ok(headers.iter().fold(request, |request, (name, value)| request.header(&**name, value)))
    }

    /// Posts a message whose response does not come in this exchange, if it has one.
    pub(super) async fn post(
        self: Arc<Self>,
        headers: Headers,
        message: Message,
        is_call: bool,
    ) -> Said {
        let (body, _charge) = (Bytes::from(message.bytes), message.charge);
        let send = self.send_until_taken(&headers, &body, is_call);
        let mut is_gone = false;
        let why = match timeout(self.options.post_time, send).await {
            Ok(Ok(response)) if response.status().is_success() => return Said::Taken,
            Ok(Ok(response)) => {
                is_gone = response.status() == StatusCode::NOT_FOUND && name_session(&headers);
                format!("the server responded with status {}", response.status().as_u16())
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => TOO_LONG.into(),
        };
        // A call that was not taken settles as lost.
        if !is_call {
            self.untaken(&body, &why);
        }
        if is_gone { Said::SessionGone { in_order: false } } else { Said::Refused(why) }
    }

    /// Posts a message, and again as long as a busy server names a time for that. A call is posted once, since the cancel
    /// that makes room may wait behind it.
    async fn send_until_taken(
        &self,
        headers: &Headers,
        body: &Bytes,
        is_call: bool,
    ) -> io::Result<Response<Incoming>> {
        loop {
            let (response, _link) = self.send(Method::POST, headers, body.clone(), None).await?;
            let pause = retry_after(&response).filter(|_| !is_call);
            match pause.filter(|pause| *pause < self.options.post_time) {
                Some(pause) => sleep(pause).await,
                None => return Ok(response),
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
            let delete = self.send(Method::DELETE, &headers, Bytes::new(), None);
            // A server that is gone, or takes no such request, ends it by itself.
            let _ = timeout(FAREWELL, delete).await;
        }
    }

    /// Posts a request, or asks for the stream of the session, and reports what comes. Returns how it ended.
    pub(super) async fn exchange(
        self: Arc<Self>,
        mut stream: ResponseStream,
        mut post: Option<(Headers, Message)>,
        session: Headers,
        reports: Reports,
    ) -> Said {
        // Other messages wait for the head of a stream that is shared, so it has a time to come.
        let is_shared = post.is_none() && stream.rules().shares_streams;
        let mut awaited = is_shared.then(Instant::now);
        let mut tells_head =
            is_shared || post.as_ref().is_some_and(|(_, message)| message.left.is_some());
        // A stream of ACP may lack its session, while the connection is there.
        let is_scoped = session.iter().any(|(name, _)| name == SCOPE);
        let has_session = name_session(&session) && !is_scoped;
        loop {
            let ask = self.ask(post.take(), &session, stream.last_event_id());
            let read = match self.in_time(awaited, ask).await {
                Ok((response, _link)) => {
                    let kind = value(&response, CONTENT_TYPE.as_str());
                    let step = stream.head(response.status().as_u16(), kind, has_session);
                    // Any other body is a refusal.
                    if stream.has_events() && mem::take(&mut tells_head) {
                        awaited = None;
                        reports.send(Said::Taken).await;
                    }
                    match step {
                        StreamStep::Read => {
                            let read = self.read(&mut stream, response, &reports);
                            self.in_time(awaited, read).await
                        }
                        step => Ok(step),
                    }
                }
                Err(why) => Err(why),
            };
            let read = read.map_err(|why| (stream.end(false).1, format!(": {why}")));
            let (step, why) = read.map_or_else(|lost| lost, |step| (step, String::new()));
            let how = || stream.loss() + &why;
            match step {
                StreamStep::Resume => sleep(stream.retry()).await,
                StreamStep::LoseSession => break Said::SessionGone { in_order: awaited.is_none() },
                StreamStep::Lose if awaited.is_some() => break Said::Refused(how()),
                StreamStep::Lose => break Said::Lost(how()),
                StreamStep::Nothing | StreamStep::Read => break Said::Over,
            }
        }
    }

    /// Posts a request, or asks for what a stream goes on with.
    async fn ask(
        &self,
        post: Option<(Headers, Message)>,
        session: &Headers,
        last_event_id: Option<&str>,
    ) -> Result<(Response<Incoming>, Link), String> {
        let (method, headers, message) = match post {
            Some((headers, message)) => (Method::POST, headers, message),
            None => {
                let last = last_event_id.map(|id| (LAST_EVENT_ID.into(), id.into()));
                let headers = session.iter().cloned().chain(last).collect();
                (Method::GET, headers, Message::default())
            }
        };
        let Message { bytes, charge: _charge, left } = message;
        let sent = self.send(method, &headers, bytes.into(), left.as_ref()).await;
        sent.map_err(|error| error.to_string())
    }

    /// Carries out a step, for which there is a time if others have awaited it since an instant.
    async fn in_time<T>(
        &self,
        awaited: Option<Instant>,
        step: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let post_time = self.options.post_time;
        let time = awaited.map_or(Duration::MAX, |since| post_time.saturating_sub(since.elapsed()));
        timeout(time, step).await.unwrap_or_else(|_| Err(TOO_LONG.into()))
    }

    /// Reads a body to its end, and returns the step that it asks for.
    async fn read(
        &self,
        stream: &mut ResponseStream,
        response: Response<Incoming>,
        reports: &Reports,
    ) -> Result<StreamStep, String> {
        let session = value(&response, stream.rules().session_header).map(ToString::to_string);
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
            let mut bytes = &*data;
            while let Some(message) =
                stream.receive(&mut bytes).map_err(|_| "it is longer than the limits of streams")?
            {
                reports.send(Said::Message(message, session.clone())).await;
            }
        }
        let (message, step) = stream.end(true);
        if let Some(message) = message {
            reports.send(Said::Message(message, session)).await;
        }
        Ok(step)
    }
}

/// Returns whether one of these headers names a session, or in ACP a connection.
fn name_session(headers: &Headers) -> bool {
    headers.iter().any(|(name, _)| SESSIONS.contains(&&**name))
}

/// Returns the time after which a server that is busy wants to be asked again.
fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let is_busy = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    let seconds = value(response, RETRY_AFTER.as_str()).filter(|_| is_busy)?.parse().ok()?;
    Some(Duration::from_secs(seconds).max(SHORTEST_PAUSE))
}

fn value<'a>(response: &'a Response<Incoming>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

fn other(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}
