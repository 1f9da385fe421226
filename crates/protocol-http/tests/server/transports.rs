//! Real sockets, several threads, and HTTP/2.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use protocol_core::Cause;
use protocol_http::server::ServerOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use crate::host::{Host, Report};

type Sender = http2::SendRequest<Full<Bytes>>;

/// Opens a connection of HTTP/2.
async fn connect(host: &Host) -> Sender {
    let (near, far) = duplex(64 << 10);
    let server = host.server.clone();
    tokio::spawn(async move { server.serve_connection(far).await });
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
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
