//! Clients whose account lets them read nothing for a while.

use std::sync::Arc;

use protocol_async::{Account, AccountLimits, Grant, Options, Verdict};
use protocol_core::{Config, Dialect};
use protocol_http::connect::{ClientOptions, connect};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::broken::{Asked, Script};
use crate::host::{Client, how};

/// A client with an account that is too small, and the grants that it has.
struct Paused {
    script: Script,
    client: Client,
    grants: mpsc::UnboundedReceiver<Grant>,
    /// Only a connection that has more than its share is limited, so there are two.
    _other: Box<dyn Send>,
}

impl Paused {
    async fn new(version: &'static str, options: ClientOptions) -> Self {
        let script = Script::new().await;
        let account = Account::new(AccountLimits::of(1 << 20));
        let (told, grants) = mpsc::unbounded_channel();
        let connected = |observer| {
            let dialect = match version {
                "2026-07-28" => Dialect::MCP_2026_07_28_HTTP,
                _ => Dialect::MCP_HTTP,
            };
            let mut endpoint = Options::new(Config::client(dialect));
            (endpoint.account, endpoint.observer) = (Some(account.clone()), observer);
            connect(script.url.parse().unwrap(), endpoint, options.clone())
        };
        let other = Box::new(connected(None));
        let (peer, incoming, driver) = connected(Some(Box::new(move |verdict: &Verdict| {
            if let Verdict::Granted { grant } = verdict {
                told.send(*grant).unwrap();
            }
        })));
        let client = Client { peer, incoming, driver: tokio::spawn(driver), version };
        Self { script, client, grants, _other: other }
    }

    /// Sends so much on a stream that the client reads no more.
    async fn fill(&mut self, stream: &mut Asked) {
        let long = json!({ "jsonrpc": "2.0", "method": "m", "params": ["x".repeat(64 << 10)] });
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let events = format!("{head}{}", format!("data: {long}\n\n").repeat(13));
        stream.stream.write_all(events.as_bytes()).await.unwrap();
        self.is_paused().await;
    }

    async fn is_paused(&mut self) {
        while self.grants.recv().await.unwrap() != Grant::NoReading {}
    }
}

#[tokio::test]
async fn a_client_that_has_no_room_to_read_still_posts() {
    let mut it = Paused::new("2026-07-28", ClientOptions::default()).await;
    let _call = it.client.call("a", json!({}));
    let mut asked = it.script.asked().await;
    it.fill(&mut asked).await;
    for method in ["b", "c"] {
        it.client.peer.try_notify(method, json!({})).unwrap();
        let posted = it.script.asked().await;
        assert_eq!(posted.body["method"], method);
        posted.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn calls_that_were_refused_are_charged_no_more_so_that_their_loss_is_read() {
    let mut it = Paused::new("2026-07-28", ClientOptions::default()).await;
    let (mut calls, mut posted) = (Vec::new(), Vec::new());
    for _ in 0..16 {
        calls.push(it.client.call("a", json!({ "text": "x".repeat(50 << 10) })));
        posted.push(it.script.asked().await);
    }
    it.is_paused().await;
    for asked in posted {
        asked.says("500 Broken\r\ncontent-length: 0\r\n\r\n").await;
    }
    for call in calls {
        assert!(how(call.await).contains("status 500"));
    }
}

#[tokio::test]
async fn a_session_that_is_gone_ends_even_if_the_call_that_found_so_is_cancelled() {
    let (told, mut untaken) = mpsc::unbounded_channel();
    let mut options = ClientOptions::default();
    options.trouble = Some(Arc::new(move |message, _| {
        let Some(message) = message else { return };
        let message: Value = serde_json::from_slice(message).unwrap();
        told.send(message["method"].clone()).unwrap();
    }));
    let mut it = Paused::new("2025-06-18", options).await;
    let mut listening = it.script.open(&it.client).await;
    let (call, other) = (it.client.call("a", json!({})), it.client.call("b", json!({})));
    let (one, two) = (it.script.asked().await, it.script.asked().await);
    let (asked, _other) = if one.body["method"] == "a" { (one, two) } else { (two, one) };
    it.fill(&mut listening).await;
    asked.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    // Nothing is posted once the client knows.
    loop {
        it.client.peer.try_notify("n", json!({})).unwrap();
        tokio::select! {
            method = untaken.recv() => break assert_eq!(method.unwrap(), "n"),
            posted = it.script.asked() => posted.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await,
        }
    }
    call.cancel();
    call.await.unwrap_err();
    while it.client.incoming.receive().await.is_ok() {}
    assert!(how(other.await).contains("has ended the session"));
    it.client.driver.await.unwrap().unwrap_err();
}
