//! Sessions: the stream of the client, resumption, and the end.

use std::time::Duration;

use protocol_core::Cause;
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{begin, send};
use crate::host::{Host, Report, request};
use crate::transports::modern;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_request_of_the_server_comes_in_the_stream_of_a_client_that_listens() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    let mut listening = session.get(None).await;
    assert_eq!(listening.status, 200);
    assert_eq!(listening.header("content-type"), Some("text/event-stream"));
    let mut response = session.post(&request(1, "ask", &json!({}))).await;
    let asked = json(&listening.event().await.unwrap());
    assert_eq!(asked["method"], "roots/list");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } });
    assert_eq!(session.post(&answer.to_string()).await.status, 202);
    let answered = json(&response.event().await.unwrap());
    assert_eq!(answered["result"], json!({ "roots": [] }));
}

#[tokio::test]
async fn a_request_of_the_server_comes_in_the_stream_of_a_request_if_nobody_listens() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    let mut response = session.post(&request(1, "ask", &json!({}))).await;
    let asked = json(&response.event().await.unwrap());
    assert_eq!(asked["method"], "roots/list");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": 7 });
    assert_eq!(session.post(&answer.to_string()).await.status, 202);
    assert_eq!(json(&response.event().await.unwrap())["result"], 7);
}

#[tokio::test]
async fn a_lost_stream_is_resumed_behind_its_last_event_without_a_gap() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let mut response = session.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    let id = response.last_event_id().await;
    response.lose().await;
    let mut resumed = session.get(Some(&id)).await;
    assert_eq!(resumed.status, 200);
    host.gate.notify_one();
    assert_eq!(json(&resumed.event().await.unwrap())["result"], "waited");
    assert_eq!(resumed.event().await, None, "the stream of the request, and no other");
}

#[tokio::test]
async fn a_response_that_found_no_stream_waits_for_the_client() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let mut response = session.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    let id = response.last_event_id().await;
    response.lose().await;
    host.gate.notify_one();
    assert_eq!(host.report().await, Report::Finished);
    let mut resumed = session.get(Some(&id)).await;
    assert_eq!(json(&resumed.event().await.unwrap())["result"], "waited");
    assert_eq!(resumed.event().await, None);
}

#[tokio::test]
async fn an_event_that_was_never_sent_is_no_place_to_resume() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    for id in ["99-1", "x"] {
        assert_eq!(session.get(Some(id)).await.status, 400, "{id}");
    }
}

#[tokio::test]
async fn delete_ends_the_session_its_requests_and_its_streams() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let mut listening = session.get(None).await;
    let mut response = session.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    assert_eq!(session.send("DELETE", &[], "").await.status, 204);
    assert_eq!(host.server.sessions(), 0);
    assert_eq!(session.send("DELETE", &[], "").await.status, 404);
    assert_eq!(session.post(&request(2, "echo", &json!({}))).await.status, 404);
    assert_eq!(session.get(None).await.status, 404);
    assert_eq!(host.report().await, Report::Cancelled(Cause::PeerGone));
    assert_eq!(host.report().await, Report::Over);
    assert_eq!(response.event().await, None);
    assert_eq!(listening.event().await, None);
}

#[tokio::test]
async fn sessions_know_nothing_of_each_other() {
    let mut host = Host::new(ServerOptions::default());
    let (one, two) = (host.open("2025-06-18").await, host.open("2025-06-18").await);
    assert_ne!(one.id, two.id);
    let mut waiting = one.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(two.post(cancel).await.status, 202);
    assert_eq!(two.send("DELETE", &[], "").await.status, 204);
    assert_eq!(host.report().await, Report::Over);
    host.gate.notify_one();
    assert_eq!(host.report().await, Report::Finished);
    assert_eq!(json(&waiting.event().await.unwrap())["result"], "waited");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_client_is_gone_ends_and_cancels_what_it_asked_for() {
    let mut options = ServerOptions::default();
    options.session.idle_time = Some(10 * SECOND);
    let mut host = Host::new(options);
    let session = host.open("2025-11-25").await;
    let response = session.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    // A client that has a stream is not gone, whatever it says.
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(host.server.sessions(), 1);
    response.lose().await;
    let lost = Instant::now();
    assert_eq!(host.report().await, Report::Cancelled(Cause::PeerGone));
    assert!(lost.elapsed() >= 9 * SECOND, "it may come back");
    assert_eq!(host.report().await, Report::Over);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drains_lets_requests_finish_and_leaves_nothing_behind() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let mut listening = session.get(None).await;
    let mut response = session.post(&request(1, "wait", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    let (server, start) = (host.server.clone(), Instant::now());
    let drained = tokio::spawn(async move { server.drain(HOUR, SECOND).await });
    tokio::time::sleep(SECOND).await;
    let refused = host.server.respond(modern("localhost", "echo")).await;
    assert_eq!(refused.status(), 503);
    host.gate.notify_one();
    assert_eq!(host.report().await, Report::Finished);
    assert_eq!(json(&response.event().await.unwrap())["result"], "waited");
    assert_eq!(listening.event().await, None);
    assert_eq!(host.report().await, Report::Over);
    // Both connections are open still, and idle.
    drained.await.unwrap();
    assert!(start.elapsed() < 10 * SECOND, "it ends once all is done");
    assert_eq!(host.server.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drains_cancels_what_does_not_finish() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let mut response = session.post(&request(1, "wait", &json!({}))).await;
    let (body, headers) = Host::modern("wait", json!({}));
    let mut modern = send(&host.server, "POST", &headers, &body).await;
    for _ in 0..2 {
        assert_eq!(host.report().await, Report::Began);
    }
    let server = host.server.clone();
    let drained = tokio::spawn(async move { server.drain(SECOND, 10 * SECOND).await });
    for response in [&mut response, &mut modern] {
        assert!(json(&response.event().await.unwrap())["error"].is_object());
        assert_eq!(response.event().await, None);
    }
    let mut reports = Vec::new();
    for _ in 0..4 {
        reports.push(host.report().await);
    }
    let cancelled = Report::Cancelled(Cause::Shutdown);
    assert_eq!(reports.iter().filter(|it| **it == cancelled).count(), 2);
    drop((response, modern));
    drained.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drains_drops_a_handler_that_never_ends() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let headers = [("mcp-session-id", &*session.id), ("accept", "application/json")];
    let sent = begin(&host.server, "POST", &headers, &request(1, "stubborn", &json!({}))).await;
    assert_eq!(host.report().await, Report::Began);
    host.server.drain(SECOND, SECOND).await;
    assert_eq!(host.report().await, Report::Dropped);
    assert_eq!(host.server.sessions(), 0);
    sent.await_end().await;
}
