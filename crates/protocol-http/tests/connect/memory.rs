//! The memory that a client holds for its server: messages that wait to be posted, and streams.

use std::sync::Arc;
use std::time::Duration;

use protocol_async::{Account, AccountLimits, Options};
use protocol_core::{Config, Dialect, Refusal};
use protocol_http::connect::{ClientOptions, connect};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::broken::Script;
use crate::host::Client;

/// Makes a client of MCP 2026-07-28 that draws on an account.
fn client(script: &Script, account: &Account, options: ClientOptions) -> Client {
    let mut endpoint = Options::new(Config::client(Dialect::MCP_2026_07_28_HTTP));
    endpoint.config.limits.unsent_bytes = 256 << 10;
    endpoint.account = Some(account.clone());
    let (peer, incoming, driver) = connect(script.url.parse().unwrap(), endpoint, options);
    Client { peer, incoming, driver: tokio::spawn(driver), version: "2026-07-28" }
}

#[tokio::test]
async fn messages_that_wait_to_be_posted_are_charged_until_the_server_takes_them() {
    let account = Account::new(AccountLimits::of(64 << 20));
    let script = Script::new().await;
    let client = client(&script, &account, ClientOptions::default());
    let long = json!({ "text": "x".repeat(100 << 10) });
    for _ in 0..20 {
        client.peer.notify("m", &long).await.unwrap();
        client.peer.flushed().await;
    }
    // The endpoint has given them to the client.
    let used = account.used();
    assert!(used > 19 * (100 << 10), "{used}");
    for _ in 0..20 {
        script.asked().await.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    }
    let call = client.call("a", long);
    let asked = script.asked().await;
    let used = account.used();
    assert!((100 << 10..200 << 10).contains(&used), "{used}: the call is on its way");
    let id = asked.body["id"].clone();
    asked.json("200 OK", &id, &json!(1)).await;
    assert_eq!(call.await.unwrap(), 1);
    assert!(account.used() < 32 << 10, "{}", account.used());
    client.end().await;
    assert_eq!(account.used(), 0);
}

#[tokio::test]
async fn headers_that_repeat_an_argument_are_charged_too() {
    let account = Account::new(AccountLimits::of(64 << 20));
    let script = Script::new().await;
    let client = client(&script, &account, ClientOptions::default());
    let list = client.call("tools/list", json!({}));
    let asked = script.asked().await;
    let text = json!({ "type": "string", "x-mcp-header": "Text" });
    let tool = json!({ "name": "t", "inputSchema": { "properties": { "text": text } } });
    let id = asked.body["id"].clone();
    asked.json("200 OK", &id, &json!({ "tools": [tool] })).await;
    list.await.unwrap();
    let long = json!({ "text": "x".repeat(20 << 10) });
    let call = client.call("tools/call", json!({ "name": "t", "arguments": long }));
    let asked = script.asked().await;
    let used = account.used();
    assert!(used > 3 * (20 << 10), "{used}: the body, the header and its copy");
    let id = asked.body["id"].clone();
    asked.json("200 OK", &id, &json!(1)).await;
    call.await.unwrap();
    client.end().await;
    assert_eq!(account.used(), 0);
}

#[tokio::test]
async fn no_more_bytes_wait_to_be_posted_than_the_options_say() {
    let account = Account::new(AccountLimits::of(64 << 20));
    let script = Script::new().await;
    let mut options = ClientOptions::default();
    (options.waiting, options.waiting_bytes) = (1_000, 512 << 10);
    let client = client(&script, &account, options);
    let long = json!({ "text": "x".repeat(50 << 10) });
    let mut sent = 0;
    let refusal = loop {
        match client.peer.try_notify("m", &long) {
            Ok(()) => sent += 50 << 10,
            Err(refusal) => break refusal,
        }
        assert!(sent < 10 << 20, "the endpoint is never full");
        // The client has its turn.
        for _ in 0..10 {
            yield_now().await;
        }
    };
    assert!(matches!(refusal, Refusal::OutboxFull), "{refusal:?}");
    // The messages that wait, those that the endpoint holds, and a turn's worth on the way.
    assert!((768 << 10..1 << 20).contains(&sent), "{sent}");
}

#[tokio::test]
async fn a_stream_of_the_session_that_ends_in_silence_is_always_asked_for_again() {
    let mut options = ClientOptions::default();
    options.stream.retry = Duration::from_millis(1);
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", options);
    let mut listening = script.open(&client).await;
    for closed in 1..8 {
        listening.events(": nothing\n\n").await;
        let again = timeout(Duration::from_secs(10), script.asked()).await;
        listening = again.unwrap_or_else(|_| panic!("{closed} streams that ended were too many"));
        assert!(listening.head.starts_with("GET /mcp"), "{}", listening.head);
    }
}

#[tokio::test]
async fn a_stream_of_the_session_that_fails_too_often_is_reported_with_the_reason() {
    let (told, mut reasons) = mpsc::unbounded_channel();
    let mut options = ClientOptions::default();
    options.stream.retry = Duration::from_millis(1);
    options.trouble = Some(Arc::new(move |_, why| told.send(why.to_owned()).unwrap()));
    let script = Script::new().await;
    let client = Client::new(&script.url, "2025-11-25", options);
    script.open(&client).await.events(": nothing\n\n").await;
    for _ in 0..5 {
        let listening = script.asked().await;
        assert!(listening.head.starts_with("GET /mcp"), "{}", listening.head);
    }
    let why = reasons.recv().await.unwrap();
    assert!(why.contains("stream.resumes"), "{why}");
    let call = client.call("a", json!({}));
    let asked = script.asked().await;
    let id = asked.body["id"].clone();
    asked.json("200 OK", &id, &json!(1)).await;
    assert_eq!(call.await.unwrap(), 1, "the session goes on without it");
}

#[tokio::test]
async fn streams_that_stay_open_behind_their_response_are_closed_beginning_with_the_oldest() {
    let mut options = ClientOptions::default();
    (options.streams, options.settled_streams) = (2, 1);
    let script = Script::new().await;
    let client = Client::new(&script.url, "2026-07-28", options);
    let mut open = Vec::new();
    for number in 0..4 {
        let call = client.call("a", json!({}));
        let mut asked = script.asked().await;
        let response = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": number });
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let stream = format!("{head}data: {response}\n\n");
        asked.stream.write_all(stream.as_bytes()).await.unwrap();
        assert_eq!(call.await.unwrap(), number);
        open.push(asked);
    }
    let _last = open.pop();
    for asked in open {
        asked.closed().await;
    }
}

#[tokio::test]
async fn the_stream_whose_response_came_first_is_closed_first() {
    let mut options = ClientOptions::default();
    options.settled_streams = 1;
    let script = Script::new().await;
    let client = Client::new(&script.url, "2026-07-28", options);
    let mut open = Vec::new();
    for _ in 0..2 {
        let call = client.call("a", json!({}));
        open.push((script.asked().await, call));
    }
    let mut settled = Vec::new();
    for (mut asked, call) in open.into_iter().rev() {
        let response = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": 1 });
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let stream = format!("{head}data: {response}\n\n");
        asked.stream.write_all(stream.as_bytes()).await.unwrap();
        assert_eq!(call.await.unwrap(), 1);
        settled.push(asked);
    }
    let (Some(last), Some(first)) = (settled.pop(), settled.pop()) else { unreachable!() };
    tokio::select! {
        () = first.closed() => {}
        () = last.closed() => panic!("it came last"),
    }
}
