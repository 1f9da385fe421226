//! The response to one HTTP request.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf, BufMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ORIGIN,
    RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use protocol_async::hub::Charge;
use protocol_core::Timestamp;
use subtle::ConstantTimeEq;
use tokio::time::{sleep, timeout};

use super::driver::{Driver, Seat, Shared};
use super::link::{Body, Link, allowed};
use crate::endpoint::lock;
use crate::gate::{EVENTS, JSON, LAST_EVENT_ID, RequestHead, SCOPE, VERSION};
use crate::post::{Posted, Refused, call_of};
use crate::refusal::Refusal;
use crate::rules::Rules;
use crate::session::StreamId;

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A body that is too long is read on for so many bytes.
const LONG: usize = 64 << 20;

/// The time until a wrong secret is refused (F110). A client that gives up sooner does not wait for it.
const GUESS: Duration = Duration::from_secs(1);

/// The number of the next response.
static STREAMS: AtomicU64 = AtomicU64::new(0);

impl Shared {
    /// Responds to a request, whatever its path, until `refused` refuses it. `link` is its connection.
    pub(super) async fn respond(
        self: &Arc<Self>,
        request: Request<impl http_body::Body<Data: Buf>>,
        link: Arc<Link>,
        refused: impl Future<Output = Refusal>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let head = head(&parts);
        let response = tokio::select! {
            biased;
            refusal = refused => Err((refusal, None)),
            response = self.try_respond(&parts, &head, body, link) => response,
        };
        let mut response = response.unwrap_or_else(|it| self.refuse(it, head.get(VERSION)));
        let page = parts.headers.get(ORIGIN).filter(|_| self.options.gate.admit(&head).is_ok());
        let Some(page) = page else { return response };
        // A browser asks first whether a page may send its request (CORS). That question carries no secret.
        if head.method == "OPTIONS" {
            let methods = (ACCESS_CONTROL_ALLOW_METHODS, self.options.gate.methods());
            // The asterisk does not cover the header of the secret.
            let headers = (ACCESS_CONTROL_ALLOW_HEADERS, "*, authorization");
            response = self::response(204, &[methods, headers], Body::whole(""));
        }
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.insert(VARY, HeaderValue::from_static("origin"));
        response
    }

    async fn try_respond(
        self: &Arc<Self>,
        parts: &Parts,
        head: &RequestHead<'_>,
        body: impl http_body::Body<Data: Buf>,
        link: Arc<Link>,
    ) -> Result<Response<Body>, Refused> {
        let bare = |refusal| (refusal, None);
        let seat = self.seat(head);
        let assumed = seat.as_ref().map(|seat| *lock(&seat.rules));
        let judged = self.options.gate.judge(head, assumed);
        // Every refusal waits, because one that came at once would tell that the secret is right.
        let is_known = self.is_known(parts).await;
        let rules = match judged {
            // The version is one of the request, so its response has the id.
            Err(refusal @ (Refusal::VERSION | Refusal::MISMATCH)) if is_known => {
                let body = self.read(body, seat.as_deref(), &link).await;
                let call = body.ok().and_then(|(body, _)| call_of(&body));
                let id = call.and_then(|(id, is_request)| is_request.then_some(id));
                return Err((refusal, id));
            }
            judged => judged.map_err(bare)?,
        };
        if !is_known {
            return Err(bare(Refusal::UNAUTHORIZED));
        }
        if rules.has_sessions && head.get(rules.session_header).is_some() && seat.is_none() {
            return Err(bare(Refusal::UNKNOWN_SESSION));
        }
        if head.method == "POST" {
            let (body, charge) = self.read(body, seat.as_deref(), &link).await.map_err(bare)?;
            let posted = Posted::read(body, head, rules)?;
            let id = posted.ids().next().cloned();
            let response = self.post(seat, (posted, charge), rules, link).await;
            // An id that is too long is not repeated.
            return response.map_err(|it| (it, id.filter(|_| it != Refusal::MESSAGE)));
        }
        let seat = seat.ok_or_else(|| bare(Refusal::NO_SESSION))?;
        let is_get = head.method == "GET";
        let [scope, last] = [SCOPE, LAST_EVENT_ID].map(|it| head.get(it).map(str::to_owned));
        let asked = move |it: &mut Driver, stream, now| {
            if is_get {
                return it.session.get(stream, scope.as_deref(), last.as_deref(), now);
            }
            it.delete(now);
            it.close(stream, Some(rules.delete_status));
            Ok(())
        };
        ask(&seat, link, asked).await.map_err(bare)
    }

    /// Finds the session that a head names, by the header of its own rules.
    fn seat(&self, head: &RequestHead<'_>) -> Option<Arc<Seat>> {
        let is_named = |seat: &Seat, id| head.get(lock(&seat.rules).session_header) == Some(id);
        let offered = self.options.gate.revisions.iter();
        let mut ids = offered.filter_map(|rules| head.get(rules.session_header));
        let seats = lock(&self.seats);
        ids.find_map(|id| seats.get(id).filter(|seat| is_named(seat, id)).cloned())
    }

    async fn post(
        self: &Arc<Self>,
        seat: Option<Arc<Seat>>,
        (posted, charge): (Posted, Charge),
        rules: &'static Rules,
        link: Arc<Link>,
    ) -> Result<Response<Body>, Refusal> {
        let is_new = seat.is_none();
        let seat = match seat {
            Some(seat) => seat,
            None if rules.has_sessions && !posted.opens_session() => {
                return Err(Refusal::NO_SESSION);
            }
            None => Driver::open(self, rules)?,
        };
        let post = move |it: &mut Driver, stream, now| {
            let _charge = charge;
            it.post(stream, posted, now)
        };
        let mut response = ask(&seat, link, post).await?;
        let id = seat.id.as_deref().filter(|_| is_new);
        let id = id.and_then(|id| HeaderValue::from_str(id).ok());
        let name = HeaderName::from_static(rules.session_header);
        response.headers_mut().extend(id.map(|id| (name, id)));
        Ok(response)
    }

    /// Reads a body, as far as the account lets its connection and its session read.
    async fn read(
        &self,
        body: impl http_body::Body<Data: Buf>,
        seat: Option<&Seat>,
        link: &Link,
    ) -> Result<(Vec<u8>, Charge), Refusal> {
        let (mut body, mut passed, mut is_long) = (pin!(body), 0_usize, false);
        let (mut bytes, mut charge, mut is_paused) = (Vec::new(), link.holder.charge(), false);
        let read = async {
            loop {
                is_paused = true;
                allowed(&link.may_read).await;
                if let Some(seat) = seat {
                    allowed(&seat.may_read).await;
                }
                is_paused = false;
                let Some(frame) = body.frame().await else { return true };
                let Ok(frame) = frame else { return false };
                let Ok(data) = frame.into_data() else { continue };
                passed += data.remaining();
                is_long = passed > self.options.body_bytes;
                // The rest is read as well. A client that could not write it would not look for the status.
                if passed.saturating_sub(LONG) > self.options.body_bytes {
                    return true;
                }
                match is_long {
                    true => bytes = Vec::new(),
                    false => bytes.put(data),
                }
                // It may be copied once, when it is whole.
                charge.set(2 * bytes.len());
            }
        };
        match timeout(self.options.receive_time, read).await {
            _ if is_long => Err(Refusal::BODY_TOO_LONG),
            Ok(true) => Ok((bytes, charge)),
            // The client broke it off.
            Ok(false) => Err(Refusal::PARSE),
            Err(_) => Err(if is_paused { Refusal::BUSY } else { Refusal::BODY_TOO_SLOW }),
        }
    }

    /// Returns whether the client shows the secret, if there is one. A guess takes its time.
    async fn is_known(&self, parts: &Parts) -> bool {
        let Some(token) = &self.options.token else { return true };
        let shown = parts.headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let shown = shown.and_then(|shown| shown.split_once(' '));
        let is_known = shown.is_some_and(|(scheme, shown)| {
            let is_same = shown.trim().as_bytes().ct_eq(token.as_bytes());
            scheme.eq_ignore_ascii_case("bearer") && is_same.into()
        });
        if !is_known && parts.headers.contains_key(AUTHORIZATION) {
            sleep(GUESS).await;
        }
        is_known
    }

    /// Makes the response to a request that is refused. The version is the one that it asked for.
    fn refuse(&self, (refusal, id): Refused, asked: Option<&str>) -> Response<Body> {
        let offered = self.options.gate.revisions.iter();
        let versions: Vec<&str> = offered.map(|rules| rules.version).collect();
        let body = Body::whole(refusal.body(id.as_ref(), &versions, asked));
        let more = match refusal {
            Refusal::METHOD => Some((ALLOW, self.options.gate.methods())),
            Refusal::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            Refusal::BUSY => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        let headers: Vec<_> = more.into_iter().chain([(CONTENT_TYPE, JSON)]).collect();
        response(refusal.status(), &headers, body)
    }
}

/// Gives a session a request with a stream of its own, and waits for the head of the response.
async fn ask(
    seat: &Arc<Seat>,
    link: Arc<Link>,
    ask: impl FnOnce(&mut Driver, StreamId, Timestamp) -> Result<(), Refusal> + Send + 'static,
) -> Result<Response<Body>, Refusal> {
    let stream = StreamId(STREAMS.fetch_add(1, Relaxed));
    let owner = seat.clone();
    let lost = move || owner.tell(move |driver, now| driver.lost(stream, now));
    let (pipe, head, body) = link.pipe(lost);
    // A session that is over drops the pipe, too.
    seat.tell(move |it, now| {
        it.streams.insert(stream, pipe);
        let Err(refusal) = ask(it, stream, now) else { return };
        it.streams.remove(&stream).into_iter().for_each(|mut pipe| pipe.begin(Err(refusal)));
        if it.work.is_some() {
            // Its handler never got a message.
            it.session.end(now);
        }
    });
    let over = if seat.id.is_some() { Refusal::UNKNOWN_SESSION } else { Refusal::BUSY };
    Ok(match head.await.unwrap_or(Err(over))? {
        None => {
            let caching = (CACHE_CONTROL, "no-cache, no-transform");
            response(200, &[(CONTENT_TYPE, EVENTS), caching, (BUFFERING, "no")], body)
        }
        Some(status) => {
            let kind = (!body.is_end_stream()).then_some((CONTENT_TYPE, JSON));
            response(status, kind.as_slice(), body)
        }
    })
}

/// Reads the parts of a head that decide something. HTTP/2 has the host in its address.
fn head(parts: &Parts) -> RequestHead<'_> {
    let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let authority =
        parts.uri.authority().filter(|_| !parts.headers.contains_key(http::header::HOST));
    let authority = authority.map(|authority| ("host", authority.as_str().as_bytes()));
    RequestHead::new(parts.method.as_str(), headers.chain(authority))
}

fn response(status: u16, headers: &[(HeaderName, &'static str)], body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
