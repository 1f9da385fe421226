//! Sessions and connections draw on one account of memory, and others may draw on it too.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{StreamExt, once};
use http_body_util::{Full, StreamBody};
use hyper::body::{Body as _, Bytes, Frame};
use hyper::{Request, StatusCode};
use protocol_async::hub::{Charge, Holder};
use protocol_async::{Account, AccountLimits, Arrival, Options};
use protocol_core::{Cause, Config};
use protocol_http::server::{Server, ServerOptions};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::client::{begin, begin_raw};
use crate::host::{Host, Report, notification, request};

const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// A pool of 8 MiB, and other members of it. They are so many that a share is 230 KiB at most.
struct Pool {
    account: Account,
    others: Vec<Charge>,
}

impl Pool {
    fn new() -> Self {
        let account = Account::new(AccountLimits::of(8 * MIB));
        let others = (0..30).map(|_| Holder::new(&account).charge()).collect();
        Self { account, others }
    }

    fn host(&self) -> Host {
        self.host_with(ServerOptions::default())
    }

    fn host_with(&self, mut options: ServerOptions) -> Host {
        options.account = self.account.clone();
        Host::new(options)
    }

    /// Has the first others hold this much together.
    fn take(&mut self, members: usize, bytes: usize) {
        self.others[..members].iter_mut().for_each(|other| other.set(bytes / members));
    }

    /// Has six of the others hold this much together, all of which have read since, so that the host has not read for longest.
    fn read_all(&mut self, bytes: usize) {
        self.take(6, bytes + MIB / 4);
        self.take(6, bytes);
    }

    /// Waits until the account holds what the test wants.
    async fn until(&self, is_so: impl Fn(usize) -> bool) {
        while !is_so(self.account.used()) {
            yield_now().await;
        }
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn text(bytes: usize) -> Value {
    json!({ "text": "x".repeat(bytes) })
}

#[tokio::test]
async fn f99_a_session_that_holds_more_than_its_share_of_the_memory_gets_no_requests() {
    let mut pool = Pool::new();
    let mut host = pool.host();
    let session = host.open("2025-11-25").await;
    let other = host.open("2025-11-25").await;
    let waiting = session.post(&request(1, "wait", &text(MIB))).await;
    assert_eq!(host.report().await, Report::Began);
    pool.take(30, 9 * MIB / 2);
    let mut refused = session.post(&request(2, "echo", &json!({}))).await;
    let refusal = json(&refused.event().await.unwrap());
    assert!(refusal["error"]["code"].is_i64(), "{refusal}");
    let mut echoed = other.post(&request(1, "echo", &json!({ "n": 1 }))).await;
    assert_eq!(json(&echoed.event().await.unwrap())["result"], json!({ "n": 1 }));
    drop(waiting);
}

#[tokio::test]
async fn a_session_that_is_ended_for_its_memory_waits_for_no_client() {
    let mut pool = Pool::new();
    let mut options = ServerOptions::default();
    options.response_bytes = 1_000;
    let mut host = pool.host_with(options);
    let session = host.open("2025-11-25").await;
    let count = json!({ "to": 2_000, "_meta": { "progressToken": "a" } });
    let _stuck = session.post(&request(1, "count", &count)).await;
    let _waiting = session.post(&request(2, "wait", &text(MIB))).await;
    assert_eq!(host.report().await, Report::Began);
    pool.read_all(5 * MIB);
    pool.take(5, 6 * MIB);
    while host.server.sessions() > 0 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_holds_too_much_is_not_read_cancels_included() {
    let mut pool = Pool::new();
    let mut host = pool.host();
    let session = host.open("2025-11-25").await;
    let other = host.open("2025-11-25").await;
    let _waiting = session.post(&request(1, "wait", &text(MIB))).await;
    assert_eq!(host.report().await, Report::Began);
    pool.take(1, 11 * MIB / 2);
    let cancel = notification("notifications/cancelled", &json!({ "requestId": 1 }));
    let id = ("mcp-session-id", &*session.id);
    let sent = begin(&host.server, "POST", &[id], &cancel).await;
    let mut echoed = other.post(&request(1, "echo", &json!([1]))).await;
    assert_eq!(json(&echoed.event().await.unwrap())["result"], json!([1]), "others are read");
    let refused = sent.head().await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(host.reports.try_recv().is_err(), "it was not read");

    let sent = begin(&host.server, "POST", &[id], &cancel).await;
    sleep(SECOND).await;
    assert!(host.reports.try_recv().is_err(), "it is not read");
    pool.take(1, 0);
    assert_eq!(sent.head().await.status, 202);
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_holds_too_much_is_not_read_until_others_hold_less() {
    let mut pool = Pool::new();
    let host = pool.host();
    let session = host.open("2025-11-25").await;
    let body = request(1, "echo", &text(2 * MIB));
    let (first, rest) = body.split_at(MIB);
    let length = body.len().to_string();
    let head = [("mcp-session-id", &*session.id), ("content-length", &length)];
    let mut sent = begin_raw(&host.server, &head, first).await;
    pool.until(|used| used >= 2 * (MIB - (64 << 10))).await;
    pool.take(1, 9 * MIB / 2);
    tokio::select! {
        () = sent.more(rest) => panic!("it was read"),
        // No more can happen.
        () = sleep(SECOND) => {}
    }
    let used = pool.account.used();
    assert!(used < 27 * MIB / 4, "{used} bytes, of which another one holds two thirds");
    pool.take(1, 0);
    let held = used - 9 * MIB / 2;
    pool.until(|used| used > held + (64 << 10)).await;
    sent.lose().await;
    pool.until(|used| used < 64 << 10).await;
}

#[tokio::test]
async fn a_body_is_charged_until_its_session_has_it() {
    let pool = Pool::new();
    let mut host = pool.host();
    let session = host.open("2025-11-25").await;
    let _waiting = session.post(&request(1, "wait", &text(MIB))).await;
    assert_eq!(host.report().await, Report::Began);
    let used = pool.account.used();
    assert!((MIB..MIB + (64 << 10)).contains(&used), "{used} bytes: it counts once, as a request");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_ended_when_memory_runs_out() {
    let mut pool = Pool::new();
    let mut host = pool.host();
    let (body, headers) = Host::modern("echo", text(MIB));
    let stuck = begin(&host.server, "POST", &headers, &body).await;
    // Its session is over, and the response waits in its connection.
    assert_eq!(host.report().await, Report::Over);
    pool.until(|used| (3 * MIB / 4..5 * MIB / 4).contains(&used)).await;
    pool.read_all(27 * MIB / 5);
    pool.take(5, 6 * MIB);
    stuck.await_end().await;
    pool.until(|used| used < 7 * MIB).await;
}

#[tokio::test]
async fn a_page_whose_request_is_ended_when_memory_runs_out_may_read_that() {
    let mut pool = Pool::new();
    let host = pool.host();
    let part = Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; MIB / 2])));
    let body = StreamBody::new(once(ready(part)).chain(pending().into_stream()));
    let asked = Request::post("http://localhost/mcp").header("origin", "http://localhost:3000");
    let asked = asked.header("content-type", "application/json").body(body).unwrap();
    let response = tokio::spawn(async move { host.server.respond(asked).await });
    pool.until(|used| (3 * MIB / 4..5 * MIB / 4).contains(&used)).await;
    pool.read_all(27 * MIB / 5);
    pool.take(5, 6 * MIB);
    let response = response.await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["access-control-allow-origin"], "http://localhost:3000");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_a_finished_response_is_ended() {
    let mut options = ServerOptions::default();
    // A finished response is watched however little of it waits.
    options.response_bytes = 2 * MIB;
    let mut host = Host::new(options);
    let (body, headers) = Host::modern("echo", text(MIB));
    let stuck = begin(&host.server, "POST", &headers, &body).await;
    assert_eq!(host.report().await, Report::Over);
    stuck.await_end().await;
}

/// The time between two reads of a slow client.
fn pause(options: &ServerOptions) -> Duration {
    options.patience * 9 / 10
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_has_all_of_a_finished_response() {
    let options = ServerOptions::default();
    let pause = pause(&options);
    let mut host = Host::new(options);
    let (body, headers) = Host::modern("echo", text(MIB));
    let slow = begin(&host.server, "POST", &headers, &body).await;
    assert_eq!(host.report().await, Report::Over);
    slow.read_slowly(MIB, pause).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_keeps_a_stream_that_goes_on() {
    let mut options = ServerOptions::default();
    options.response_bytes = 1_000;
    options.endpoint = Arc::new(|dialect| {
        let mut endpoint = Options::socket(Config::server(dialect));
        endpoint.config.limits.unsent_bytes = MIB / 4;
        endpoint
    });
    let pause = pause(&options);
    let host = Host::new(options);
    let mut count = json!({ "to": 10, "text": "x".repeat(MIB / 8) });
    count["_meta"]["progressToken"] = json!("a");
    let (body, headers) = Host::modern("count", count);
    let slow = begin(&host.server, "POST", &headers, &body).await;
    slow.read_slowly(MIB / 2, pause).await;
}

#[tokio::test]
async fn kept_events_are_charged_and_are_the_first_to_go() {
    let mut pool = Pool::new();
    let host = pool.host();
    let session = host.open("2025-11-25").await;
    let count = json!({ "to": 4_000, "_meta": { "progressToken": "a" } });
    let mut response = session.post(&request(1, "count", &count)).await;
    let first = response.last_event_id().await;
    while response.event().await.is_some() {}
    pool.until(|used| used > 400 << 10).await;
    let taken = 11 * MIB / 2;
    pool.take(30, taken);
    pool.until(|used| used < taken + (64 << 10)).await;
    assert_eq!(session.get(Some(&first)).await.status, 400, "its events are gone");
    let mut echoed = session.post(&request(2, "echo", &json!([1]))).await;
    assert_eq!(json(&echoed.event().await.unwrap())["result"], json!([1]), "it is not limited");
}

fn post(session: &str, body: String) -> Request<Full<Bytes>> {
    let head = Request::post("http://localhost/mcp").header("content-type", "application/json");
    let head = if session.is_empty() { head } else { head.header("mcp-session-id", session) };
    head.body(Full::new(body.into())).unwrap()
}

/// A client that posts a batch in its session the moment that a response goes on.
struct Impatient {
    server: Server,
    session: String,
    status: Mutex<Option<Status>>,
}

type Status = Pin<Box<dyn Future<Output = StatusCode> + Send>>;

impl Wake for Impatient {
    fn wake(self: Arc<Self>) {
        let server = self.server.clone();
        let batch = format!("[{}]", notification("notifications/initialized", &json!({})));
        let batch = post(&self.session, batch);
        let mut status: Status = Box::pin(async move { server.respond(batch).await.status() });
        if let Poll::Ready(known) = status.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            status = Box::pin(ready(known));
        }
        *self.status.lock().unwrap() = Some(status);
    }
}

#[tokio::test]
async fn a_revision_is_settled_before_its_response_leaves_even_where_kept_events_have_to_go() {
    let mut pool = Pool::new();
    let mut options = ServerOptions::default();
    options.account = pool.account.clone();
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let server = Server::new(options, move |_peer, incoming| {
        let gate = opened.clone();
        async move {
            let Ok(Arrival::Request(_, responder)) = incoming.receive().await else { return };
            gate.notified().await;
            responder.cast::<Value>().respond(json!({ "protocolVersion": "2025-11-25" }));
            pending::<()>().await;
        }
    });
    let mut opening = server.respond(post("", request(0, "initialize", &json!({})))).await;
    let session = opening.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    // The handler does not take it, so the session holds it.
    let held = server.respond(post(&session, notification("held", &text(MIB)))).await;
    assert_eq!(held.status(), 202);
    let client = Arc::new(Impatient { server, session, status: Mutex::default() });
    let waker = client.clone().into();
    let mut context = Context::from_waker(&waker);
    while Pin::new(opening.body_mut()).poll_frame(&mut context).is_ready() {}
    pool.take(30, 9 * MIB / 2);
    gate.notify_one();
    let status = loop {
        yield_now().await;
        if let Some(status) = client.status.lock().unwrap().take() {
            break status;
        }
    };
    pool.take(30, 0);
    assert_eq!(status.await, 400, "the revision that was settled has no batches");
}
