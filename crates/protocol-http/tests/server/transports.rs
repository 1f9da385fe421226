//! Real sockets, several threads, and HTTP/2.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use protocol_core::Cause;
use protocol_http::server::ServerOptions;
use protocol_http::{Decoder, Rules, SseEvent};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use crate::host::{Host, Report, request};

type Sender = http2::SendRequest<Full<Bytes>>;

/// Opens a connection of HTTP/2. The server may send 64 KiB of a stream that is not read.
async fn connect(host: &Host) -> Sender {
    let (near, far) = duplex(64 << 10);
    let server = host.server.clone();
    tokio::spawn(async move { server.serve_connection(far).await });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 << 10);
    let (sender, connection) = builder.handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn modern(host: &str, method: &str) -> Request<Full<Bytes>> {
    let (body, headers) = Host::modern(method, json!({}));
    let mut request = Request::post(format!("http://{host}/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(Full::new(body.into())).unwrap()
}

#[tokio::test]
async fn a_reset_stream_of_http_2_cancels_its_request_and_no_other_of_its_connection() {
    let mut host = Host::new(ServerOptions::default());
    let mut sender = connect(&host).await;
    let one = sender.send_request(modern("localhost", "wait")).await.unwrap();
    let two = sender.send_request(modern("localhost", "wait")).await.unwrap();
    assert!(one.status() == 200 && two.status() == 200);
    for _ in 0..2 {
        assert_eq!(host.report().await, Report::Began);
    }
    drop(one);
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    assert_eq!(host.report().await, Report::Over);
    host.gate.notify_one();
    assert_eq!(host.report().await, Report::Finished);
    let body = two.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains(r#""result":"waited""#));
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http_2_stays_as_long_as_it_is_used() {
    const LONG: Duration = Duration::from_secs(300);
    let mut host = Host::new(ServerOptions::default());
    let mut sender = connect(&host).await;
    let waiting = sender.send_request(modern("localhost", "wait")).await.unwrap();
    assert_eq!(host.report().await, Report::Began);
    tokio::time::sleep(LONG).await;
    host.gate.notify_one();
    let body = waiting.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("waited"));
    for _ in 0..10 {
        tokio::time::sleep(LONG / 10 - Duration::from_secs(1)).await;
        let echo = sender.send_request(modern("localhost", "echo")).await.unwrap();
        echo.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn the_host_of_http_2_is_judged_too() {
    let host = Host::new(ServerOptions::default());
    let mut sender = connect(&host).await;
    let refused = sender.send_request(modern("evil.example", "echo")).await.unwrap();
    assert_eq!(refused.status(), 403);
    let admitted = sender.send_request(modern("localhost:1", "echo")).await.unwrap();
    assert_eq!(admitted.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_closes_cancels_and_the_listener_ends_with_the_server() {
    let mut host = Host::new(ServerOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = host.server.clone();
    let serving = tokio::spawn(async move { server.serve(listener).await });
    let (body, headers) = Host::modern("wait", json!({}));
    let headers: String = headers.iter().map(|(name, it)| format!("{name}: {it}\r\n")).collect();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for is_reset in [false, true] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(host.report().await, Report::Began);
        let mut head = [0; 15];
        socket.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        if is_reset {
            socket.set_zero_linger().unwrap();
        }
        drop(socket);
        assert_eq!(host.report().await, Report::Cancelled(Cause::Peer), "{is_reset}");
        assert_eq!(host.report().await, Report::Over);
    }
    host.server.drain(Duration::from_secs(60), Duration::ZERO).await;
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unknown_method_has_its_status_on_several_threads_too() {
    let host = Host::new(ServerOptions::default());
    for _ in 0..500 {
        let (body, headers) = Host::modern("nothing", json!({}));
        let response = crate::client::send(&host.server, "POST", &headers, &body).await;
        assert_eq!(response.status, 404);
    }
}

/// Sends a request of ACP, and returns its response once its status is right.
async fn of_acp(
    sender: &mut Sender,
    verb: &str,
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<Incoming> {
    let mut request = Request::builder().method(verb).uri("http://localhost/mcp");
    for (name, value) in [("content-type", "application/json")].iter().chain(headers) {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), status);
    response
}

/// Reads events until one has this text, or the stream is broken off. Returns the id of the last one.
async fn read_until(response: &mut Response<Incoming>, text: &str) -> Result<String, String> {
    let mut decoder = Decoder::new(4 << 20);
    while let Some(Ok(frame)) = response.frame().await {
        let data = frame.into_data().unwrap();
        let mut bytes = &*data;
        while let Some(event) = decoder.receive(&mut bytes).unwrap() {
            if matches!(event, SseEvent::Message(data) if data.contains(text)) {
                return Ok(decoder.last_event_id().into());
            }
        }
    }
    Err(decoder.last_event_id().into())
}

/// A connection of ACP over HTTP/2, with a stream that is read and another one that is not.
struct Stuck {
    sender: Sender,
    id: String,
    heard: Response<Incoming>,
    stuck: Response<Incoming>,
    begun: Instant,
    patience: Duration,
}

impl Stuck {
    async fn new(store_bytes: usize) -> Self {
        let mut options = ServerOptions::default();
        options.gate.revisions = vec![&Rules::ACP_V1];
        (options.response_bytes, options.session.store_bytes) = (1_000, store_bytes);
        let patience = options.patience;
        let mut sender = connect(&Host::new(options)).await;
        let initialize = request(0, "initialize", &json!({ "protocolVersion": 1 }));
        let opened = of_acp(&mut sender, "POST", 200, &[], &initialize).await;
        let id = opened.headers()["acp-connection-id"].to_str().unwrap().to_owned();
        let two = [("acp-connection-id", &*id), ("acp-session-id", "two")];
        let heard = of_acp(&mut sender, "GET", 200, &two[..1], "").await;
        let stuck = of_acp(&mut sender, "GET", 200, &two, "").await;
        let count = request(1, "count", &json!({ "to": 3_000, "sessionId": "two" }));
        of_acp(&mut sender, "POST", 202, &two, &count).await;
        Self { sender, id, heard, stuck, begun: Instant::now(), patience }
    }

    /// Makes a request of the connection, whose response comes on the stream that is read.
    async fn echo(&mut self, id: u32) {
        let own = [("acp-connection-id", &*self.id)];
        let body = request(id, "echo", &json!({}));
        of_acp(&mut self.sender, "POST", 202, &own, &body).await;
        read_until(&mut self.heard, &format!(r#""id":{id}"#)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_is_lost_alone_and_the_others_of_its_connection_go_on() {
    let mut it = Stuck::new(1 << 20).await;
    it.echo(2).await;
    assert!(it.begun.elapsed() < it.patience, "it does not wait for the other one");
    sleep(2 * it.patience).await;
    it.echo(3).await;

    let last = read_until(&mut it.stuck, "counted").await.expect_err("it was broken off");
    let id = ("acp-connection-id", &*it.id);
    let resumed = [id, ("acp-session-id", "two"), ("last-event-id", &last)];
    let mut resumed = of_acp(&mut it.sender, "GET", 200, &resumed, "").await;
    read_until(&mut resumed, "counted").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_holds_too_much_holds_up_others_only_until_it_is_lost() {
    let mut it = Stuck::new(10_000).await;
    it.echo(2).await;
    let waited = it.begun.elapsed();
    assert!((it.patience..=2 * it.patience).contains(&waited), "{waited:?}");
}
