//! Streams of events: progress, cancels, and streams that are lost.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use protocol_core::Cause;
use protocol_http::server::ServerOptions;
use protocol_http::{OnLoss, SessionOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::client::{begin, send};
use crate::host::{Host, Report, notification, request};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn with_on_loss(on_loss: OnLoss) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.session = SessionOptions { on_loss: Some(on_loss), ..SessionOptions::default() };
    options
}

#[tokio::test]
async fn progress_comes_in_the_stream_of_its_request_and_before_the_response() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let count = json!({ "to": 100, "_meta": { "progressToken": "a" } });
    let mut response = session.post(&request(1, "count", &count)).await;
    for number in 1..=100 {
        let progress = json(&response.event().await.unwrap());
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"], json!({ "progressToken": "a", "progress": number }));
    }
    assert_eq!(json(&response.event().await.unwrap())["result"], "counted");
    assert_eq!(response.event().await, None);
}

#[tokio::test]
async fn more_progress_than_a_client_reads_waits_and_none_is_lost() {
    let mut options = ServerOptions::default();
    options.response_bytes = 1_000;
    let host = Host::new(options);
    let session = host.open("2025-11-25").await;
    let count = json!({ "to": 10_000, "_meta": { "progressToken": "a" } });
    let mut response = session.post(&request(1, "count", &count)).await;
    for number in 1..=10_000 {
        let progress = json(&response.event().await.unwrap());
        assert_eq!(progress["params"]["progress"], number);
    }
    assert_eq!(json(&response.event().await.unwrap())["result"], "counted");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_loses_its_stream_and_frees_the_others() {
    let mut options = with_on_loss(OnLoss::CancelNow);
    options.response_bytes = 1_000;
    let patience = options.patience;
    let host = Host::new(options);
    let session = host.open("2025-11-25").await;
    let count = json!({ "to": 20_000, "_meta": { "progressToken": "a" } });
    let (begun, stuck) = (Instant::now(), session.post(&request(1, "count", &count)).await);
    let mut other = session.post(&request(2, "echo", &json!(["a"]))).await;
    assert_eq!(json(&other.event().await.unwrap())["result"], json!(["a"]));
    stuck.await_end().await;
    assert!(begun.elapsed() <= 2 * patience, "it has its connection for no longer");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_is_lost_on_the_connection_of_a_host_too() {
    let mut options = with_on_loss(OnLoss::CancelNow);
    options.response_bytes = 1_000;
    let host = Host::new(options);
    let session = host.open("2025-11-25").await;
    let count = json!({ "to": 20_000, "_meta": { "progressToken": "a" } });
    let stuck =
        hosted(&session.id, "application/json, text/event-stream", &request(1, "count", &count));
    let stuck = host.server.respond(stuck).await;
    assert_eq!(stuck.status(), 200);
    let mut other = session.post(&request(2, "echo", &json!(["a"]))).await;
    assert_eq!(json(&other.event().await.unwrap())["result"], json!(["a"]));
}

/// Returns a request as a host has it.
fn hosted(session: &str, accept: &str, body: &str) -> hyper::Request<Full<Bytes>> {
    hyper::Request::post("http://localhost/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", accept)
        .header("mcp-session-id", session)
        .header("mcp-protocol-version", "2025-11-25")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_finished_is_the_host_s_however_slow_the_client_is() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let (server, long) = (host.server.clone(), "x".repeat(1 << 20));
    let body = request(1, "wait", &json!({ "respond": long }));
    for accept in ["application/json", "application/json, text/event-stream"] {
        let asked = hosted(&session.id, accept, &body);
        let finished = async {
            assert_eq!(host.report().await, Report::Began);
            // A stream of events has begun by then.
            sleep(Duration::from_secs(1)).await;
            host.gate.notify_one();
            assert_eq!(host.report().await, Report::Finished);
        };
        let (response, ()) = tokio::join!(server.respond(asked), finished);
        assert_eq!(response.status(), 200);
        sleep(4 * ServerOptions::default().patience).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() > long.len());
    }
}

#[tokio::test]
async fn a_cancel_that_is_posted_stops_the_handler_and_ends_the_stream() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut host = Host::new(ServerOptions::default());
        let session = host.open(version).await;
        let mut response = session.post(&request(1, "wait", &json!({}))).await;
        assert_eq!(host.report().await, Report::Began);
        let cancel = notification("notifications/cancelled", &json!({ "requestId": 1 }));
        assert_eq!(session.post(&cancel).await.status, 202);
        assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
        assert_eq!(response.event().await, None, "it gets no response");
        let mut again = session.post(&request(1, "echo", &json!([1]))).await;
        assert!(again.event().await.is_some(), "the session goes on, and the id is free");
    }
}

#[tokio::test]
async fn a_cancel_that_is_posted_ends_a_client_that_waits_for_one_body() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    let id = ("mcp-session-id", &*session.id);
    let headers = [id, ("accept", "application/json")];
    let sent = begin(&host.server, "POST", &headers, &request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    let cancel = notification("notifications/cancelled", &json!({ "requestId": 1 }));
    assert_eq!(session.post(&cancel).await.status, 202);
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    let response = sent.head().await;
    assert_eq!(response.status, 202);
    assert_eq!(response.body().await, "");
}

#[tokio::test]
async fn a_closed_stream_is_the_cancel_in_2026_07_28() {
    let mut host = Host::new(ServerOptions::default());
    let (body, headers) = Host::modern("wait", json!({}));
    let response = send(&host.server, "POST", &headers, &body).await;
    assert_eq!(host.report().await, Report::Began);
    response.lose().await;
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    assert_eq!(host.report().await, Report::Over);
}

#[tokio::test]
async fn a_client_that_goes_before_it_has_a_head_cancels_in_2026_07_28() {
    let mut host = Host::new(ServerOptions::default());
    let (body, mut headers) = Host::modern("wait", json!({}));
    headers.push(("accept", "application/json"));
    let sent = begin(&host.server, "POST", &headers, &body).await;
    assert_eq!(host.report().await, Report::Began);
    sent.lose().await;
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
}

#[tokio::test]
async fn a_closed_stream_is_no_cancel_before_2026_07_28() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut host = Host::new(ServerOptions::default());
        let session = host.open(version).await;
        let response = session.post(&request(1, "wait", &json!({}))).await;
        assert_eq!(host.report().await, Report::Began);
        response.lose().await;
        // It is taken behind the loss.
        let mut other = session.post(&request(2, "echo", &json!([1]))).await;
        assert!(other.event().await.is_some());
        host.gate.notify_one();
        assert_eq!(host.report().await, Report::Finished, "{version}");
    }
}

#[tokio::test]
async fn a_host_may_have_lost_streams_cancel_and_the_cause_says_that_they_were_lost() {
    let mut host = Host::new(with_on_loss(OnLoss::CancelNow));
    let session = host.open("2025-11-25").await;
    let response = session.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    response.lose().await;
    assert_eq!(host.report().await, Report::Cancelled(Cause::PeerGone));
}

#[tokio::test]
async fn a_host_may_have_lost_streams_go_on_in_2026_07_28() {
    let mut host = Host::new(with_on_loss(OnLoss::GoOn));
    let (body, headers) = Host::modern("wait", json!({}));
    let response = send(&host.server, "POST", &headers, &body).await;
    assert_eq!(host.report().await, Report::Began);
    response.lose().await;
    host.gate.notify_one();
    assert_eq!(host.report().await, Report::Finished);
    assert_eq!(host.report().await, Report::Over);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_has_a_comment_each_second() {
    let mut host = Host::new(ServerOptions::default());
    let (body, headers) = Host::modern("wait", json!({}));
    let mut response = send(&host.server, "POST", &headers, &body).await;
    assert_eq!(host.report().await, Report::Began);
    let start = tokio::time::Instant::now();
    for _ in 0..5 {
        response.comment().await;
    }
    // The first one comes with the head.
    assert_eq!(start.elapsed().as_secs(), 4);
    host.gate.notify_one();
    assert_eq!(json(&response.event().await.unwrap())["result"], "waited");
}
