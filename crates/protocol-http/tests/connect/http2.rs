//! Streams that the host opens, and HTTP/2 on them.

use std::future::pending;
use std::net::Shutdown as Ended;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use protocol_core::{CancelOutcome, Cause};
use protocol_http::connect::{ClientOptions, Open, ServerStream, Target};
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::host::{Client, Host, Report, how};

const VERSIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The connections that were opened.
#[derive(Clone, Default)]
#[allow(clippy::disallowed_types, reason = "a test breaks connections off")]
struct Opened(Arc<Mutex<Vec<std::net::TcpStream>>>);

impl Opened {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn break_off(&self) {
        for stream in &*self.0.lock().unwrap() {
            let _ = stream.shutdown(Ended::Both);
        }
    }

    /// Returns options whose connections speak HTTP/2 from the first byte, and are counted.
    fn options(&self, url: &str) -> ClientOptions {
        let authority = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let opened = self.0.clone();
        let open: Open = Arc::new(move || {
            let (authority, opened) = (authority.clone(), opened.clone());
            Box::pin(async move {
                let stream = TcpStream::connect(authority).await?.into_std()?;
                opened.lock().unwrap().push(stream.try_clone()?);
                let stream = Box::new(TcpStream::from_std(stream)?);
                Ok(ServerStream { stream, is_http2: true })
            })
        });
        let mut options = ClientOptions::default();
        options.open = Some(open);
        options
    }
}

/// Makes a client that has opened in this revision.
async fn client(host: &mut Host, version: &'static str, options: ClientOptions) -> Client {
    let client = Client::new(&host.url, version, options);
    if client.open().await {
        assert_eq!(host.report().await, Report::Notified("notifications/initialized".into()));
    }
    client
}

#[tokio::test]
async fn a_reset_of_http2_cancels_its_request_alone_and_the_connection_goes_on() {
    for version in VERSIONS {
        let (mut host, opened) = (Host::start(ServerOptions::default()).await, Opened::default());
        let options = opened.options(&host.url);
        let client = client(&mut host, version, options).await;
        let (goes_on, cancelled) = (client.call("wait", json!({})), client.call("wait", json!({})));
        assert_eq!([host.report().await, host.report().await], [Report::Began, Report::Began]);
        assert_ne!(cancelled.cancel(), CancelOutcome::AlreadySettled);
        assert_eq!(host.report().await, Report::Cancelled(Cause::Peer), "{version}");
        host.gate.notify_one();
        assert_eq!(goes_on.await.unwrap(), "waited", "{version}");
        assert_eq!(opened.count(), 1, "{version}");
        client.end().await;
        assert_eq!(host.server.sessions(), 0, "{version}: DELETE has ended it");
    }
}

#[tokio::test]
async fn g08_exchanges_above_the_limit_of_a_connection_open_another() {
    let (mut host, opened) = (Host::start(ServerOptions::default()).await, Opened::default());
    let mut options = opened.options(&host.url);
    options.streams_per_connection = 2;
    let client = client(&mut host, "2026-07-28", options).await;
    let waiting = [(); 5].map(|()| client.call("wait", json!({})));
    for _ in &waiting {
        assert_eq!(host.report().await, Report::Began);
    }
    assert_eq!(opened.count(), 3);
    for call in waiting {
        host.gate.notify_one();
        assert_eq!(call.await.unwrap(), "waited");
    }
    client.end().await;
}

/// A server has 100 exchanges of one connection.
#[tokio::test]
async fn g08_exchanges_above_the_limit_of_the_server_open_another_connection() {
    let (mut host, opened) = (Host::start(ServerOptions::default()).await, Opened::default());
    let mut options = opened.options(&host.url);
    options.streams_per_connection = usize::MAX;
    let client = client(&mut host, "2026-07-28", options).await;
    // Its settings are there before its first response.
    assert_eq!(client.call("tools/call", json!({ "name": "a" })).await.unwrap(), "a");
    let waiting = [(); 101].map(|()| client.call("wait", json!({})));
    for _ in &waiting {
        assert_eq!(host.report().await, Report::Began);
    }
    assert_eq!(opened.count(), 2);
    client.end().await;
}

#[tokio::test]
async fn a_shared_connection_that_breaks_off_loses_its_calls_and_is_followed_by_another() {
    let (mut host, opened) = (Host::start(ServerOptions::default()).await, Opened::default());
    let options = opened.options(&host.url);
    let client = client(&mut host, "2026-07-28", options).await;
    let lost = client.call("wait", json!({}));
    assert_eq!(host.report().await, Report::Began);
    opened.break_off();
    how(lost.await);
    let name = json!({ "name": "a" });
    assert_eq!(client.call("tools/call", name).await.unwrap(), "a");
    assert_eq!(opened.count(), 2);
    client.end().await;
}

/// Responds as a server with one session, which takes `late` 30 ms after it came.
async fn respond(
    request: Request<Incoming>,
    tell: UnboundedSender<String>,
) -> hyper::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or("GET").to_owned();
    if method == "late" {
        tell.send("it comes".into()).unwrap();
        sleep(Duration::from_millis(30)).await;
    }
    tell.send(method.clone()).unwrap();
    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    let result = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
    let (status, body) = match &*method {
        "initialize" => (200, result),
        "late" => pending().await,
        "GET" => (405, String::new()),
        _ => (202, String::new()),
    };
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Full::new(body.into())).unwrap())
}

#[tokio::test(start_paused = true)]
async fn g04_a_cancel_does_not_overtake_its_request_on_another_connection() {
    let (tell, mut told) = unbounded_channel();
    let open: Open = Arc::new(move || {
        let (near, far) = duplex(64 << 10);
        let tell = tell.clone();
        // It goes on without its client.
        let service = service_fn(move |request| {
            tokio::spawn(respond(request, tell.clone())).map(Result::unwrap)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(far), service));
        let stream = ServerStream { stream: Box::new(near), is_http2: false };
        Box::pin(async { Ok(stream) })
    });
    let mut options = ClientOptions::default();
    options.open = Some(open);
    let client = Client::new("http://localhost/mcp", "2025-11-25", options);
    client.open().await;
    for method in ["initialize", "notifications/initialized", "GET"] {
        assert_eq!(told.recv().await.unwrap(), method);
    }
    for is_early in [true, false] {
        let call = client.call("late", json!({}));
        assert_eq!(told.recv().await.unwrap(), "it comes");
        if !is_early {
            assert_eq!(told.recv().await.unwrap(), "late");
            sleep(Duration::from_millis(30)).await;
        }
        let cancelled = Instant::now();
        assert_eq!(call.cancel(), CancelOutcome::Sent);
        if is_early {
            assert_eq!(told.recv().await.unwrap(), "late");
        }
        assert_eq!(told.recv().await.unwrap(), "notifications/cancelled");
        assert_eq!(cancelled.elapsed().is_zero(), !is_early, "later ones do not wait");
    }
}

/// A peer that speaks no more than the first words of HTTP/2.
async fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    });
    url
}

#[tokio::test]
async fn g08_a_connection_that_is_dead_without_a_word_is_noticed_by_its_pings() {
    let (url, opened) = (silent().await, Opened::default());
    let mut options = opened.options(&url);
    options.ping_interval = Duration::from_millis(50);
    let client = Client::new(&url, "2026-07-28", options);
    how(client.call("wait", json!({})).await);
}

#[tokio::test]
async fn tls_is_the_host_s_and_without_it_nothing_leaves() {
    let target: Target = "https://[::1]/mcp".parse().unwrap();
    let uri = target.uri();
    assert_eq!(
        (uri.scheme_str(), uri.host(), uri.port_u16()),
        (Some("https"), Some("[::1]"), None)
    );
    let client = Client::new("https://127.0.0.1:9/mcp", "2026-07-28", ClientOptions::default());
    let said = how(client.call("wait", json!({})).await);
    assert!(said.contains("ClientOptions::open"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn g08_a_stream_that_does_not_open_has_its_time() {
    let tries = Arc::new(AtomicUsize::new(0));
    let tried = tries.clone();
    let open: Open = Arc::new(move || {
        tried.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    });
    let mut options = ClientOptions::default();
    (options.open, options.connect_time) = (Some(open), Duration::from_millis(50));
    let client = Client::new("http://127.0.0.1:9/mcp", "2026-07-28", options);
    let calls = [client.call("wait", json!({})), client.call("wait", json!({}))];
    for call in calls {
        assert!(how(call.await).contains("timed out"));
    }
    assert_eq!(tries.load(Ordering::Relaxed), 1, "who waits for an attempt shares its failure");
}

#[tokio::test]
async fn an_attempt_that_fails_leaves_the_shared_connection_to_the_next() {
    const TURNS: usize = 1_000;
    let (mut host, opened) = (Host::start(ServerOptions::default()).await, Opened::default());
    let mut options = opened.options(&host.url);
    let (inner, count) = (options.open.take().unwrap(), opened.clone());
    let open: Open = Arc::new(move || match count.count() {
        0 => inner(),
        _ => Box::pin(async { Err(std::io::Error::other("no more")) }),
    });
    (options.open, options.streams_per_connection) = (Some(open), 1);
    let client = client(&mut host, "2026-07-28", options).await;
    let name = json!({ "name": "a" });
    let waiting = client.call("wait", json!({}));
    assert_eq!(host.report().await, Report::Began);
    assert!(how(client.call("tools/call", name.clone()).await).contains("no more"));
    host.gate.notify_one();
    assert_eq!(waiting.await.unwrap(), "waited");
    // It has room once its stream has ended, which takes a few turns.
    for _ in 0..TURNS {
        if client.call("tools/call", name.clone()).await.is_ok() {
            return client.end().await;
        }
    }
    panic!("an attempt that failed has taken the place of the connection");
}

/// An attempt ends with its call, and one who waited for it makes the next.
#[tokio::test]
async fn g08_the_wait_for_another_s_attempt_costs_no_time_to_open() {
    const MOST: Duration = Duration::from_secs(100);
    let (host, opened) = (Host::start(ServerOptions::default()).await, Opened::default());
    let mut options = opened.options(&host.url);
    let (inner, (tried, mut tries)) = (options.open.take().unwrap(), unbounded_channel());
    let may_open = Arc::new(Notify::new());
    let permits = may_open.clone();
    let open: Open = Arc::new(move || {
        let (inner, permits) = (inner.clone(), permits.clone());
        tried.send(()).unwrap();
        Box::pin(async move {
            permits.notified().await;
            inner().await
        })
    });
    (options.open, options.connect_time) = (Some(open), MOST);
    let client = Client::new(&host.url, "2026-07-28", options);
    let pass = async |time| {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    };
    let [first, second, last] = [(); 3].map(|()| client.call("tools/call", json!({ "name": "a" })));
    for cancelled in [first, second] {
        tries.recv().await.unwrap();
        pass(MOST * 3 / 4).await;
        cancelled.cancel();
    }
    tries.recv().await.unwrap();
    pass(MOST * 3 / 4).await;
    may_open.notify_one();
    assert_eq!(last.await.unwrap(), "a");
    client.end().await;
}

#[tokio::test]
async fn a_connection_that_nobody_shares_any_more_ends_with_its_last_exchange() {
    let mut host = Host::start(ServerOptions::default()).await;
    let (tell, mut opened) = unbounded_channel();
    let (server, tries) = (host.server.clone(), AtomicUsize::new(0));
    let open: Open = Arc::new(move || {
        let (near, far) = duplex(64 << 10);
        let server = server.clone();
        tell.send(tokio::spawn(async move { server.serve_connection(far).await })).unwrap();
        let is_first = tries.fetch_add(1, Ordering::Relaxed) == 0;
        let stream = ServerStream { stream: Box::new(near), is_http2: is_first };
        Box::pin(std::future::ready(Ok(stream)))
    });
    let mut options = ClientOptions::default();
    (options.open, options.streams_per_connection) = (Some(open), 1);
    let client = client(&mut host, "2026-07-28", options).await;
    let waiting = client.call("wait", json!({}));
    assert_eq!(host.report().await, Report::Began);
    // There is room no more, and the server speaks another version meanwhile.
    assert_eq!(client.call("tools/call", json!({ "name": "a" })).await.unwrap(), "a");
    host.gate.notify_one();
    assert_eq!(waiting.await.unwrap(), "waited");
    let first = opened.recv().await.unwrap();
    assert!(timeout(Duration::from_secs(10), first).await.is_ok(), "it is held open");
    client.end().await;
}
