//! Messages that are carried as they are, and response streams that a host closes.

use std::task::Context;

use protocol_core::{Cause, WireId};
use protocol_http::connect::{Carried, ClientOptions, carry};
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::broken::Script;
use crate::host::{Host, Report};

const INITIALIZED: &str = "notifications/initialized";

/// A host of messages, which reads what comes.
struct Carrying {
    there: mpsc::Sender<Carried>,
    here: mpsc::UnboundedReceiver<Value>,
    over: JoinHandle<()>,
}

impl Carrying {
    /// Opens a session with the id `s1`.
    async fn in_session_of(script: &Script) -> Self {
        let mut carrying = Self::to(&script.url);
        carrying.open_session().await;
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        script.asked().await.json("200 OK\r\nmcp-session-id: s1", &json!(0), &result).await;
        assert_eq!(carrying.here.recv().await.unwrap()["id"], 0);
        carrying
    }

    fn to(url: &str) -> Self {
        let (there, mut inputs) = mpsc::channel(16);
        let (tell, here) = mpsc::unbounded_channel();
        let target = url.parse().unwrap();
        let receive = async move |message: Vec<u8>| {
            // The test may be over.
            let _ = tell.send(serde_json::from_slice(&message).unwrap());
        };
        let over = tokio::spawn(async move {
            let next = |cx: &mut Context<'_>| inputs.poll_recv(cx);
            carry(target, ClientOptions::default(), next, receive).await;
        });
        Self { there, here, over }
    }

    async fn request(&self, id: u64, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    async fn send(&self, message: &Value) {
        self.there.send(Carried::Message(message.to_string().into())).await.unwrap();
    }

    async fn lose(&self, id: u64) {
        let id = WireId::from_json(&id.to_string()).unwrap();
        self.there.send(Carried::Loss(id)).await.unwrap();
    }

    async fn open_session(&self) {
        self.request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": INITIALIZED })).await;
    }
}

#[tokio::test]
async fn a_loss_closes_the_response_stream_of_its_request_and_no_other() {
    let mut host = Host::start(ServerOptions::default()).await;
    let mut carrying = Carrying::to(&host.url);
    for id in [7, 8] {
        carrying.request(id, "wait", json!({})).await;
        assert_eq!(host.report().await, Report::Began);
    }
    carrying.lose(7).await;
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    host.gate.notify_one();
    let response = carrying.here.recv().await.unwrap();
    assert_eq!((&response["id"], &response["result"]), (&json!(8), &json!("waited")));
}

#[tokio::test]
async fn messages_wait_for_the_session_and_are_taken_in_their_order() {
    let mut host = Host::start(ServerOptions::default()).await;
    let mut carrying = Carrying::to(&host.url);
    // All of them are there before the first is posted.
    carrying.open_session().await;
    carrying.request(1, "wait", json!({})).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    carrying.send(&cancel).await;
    carrying.request(1, "tools/call", json!({ "name": "a" })).await;
    assert_eq!(carrying.here.recv().await.unwrap()["id"], 0);
    assert_eq!(host.report().await, Report::Notified(INITIALIZED.into()));
    assert_eq!(host.report().await, Report::Began);
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    let again = carrying.here.recv().await.unwrap();
    assert_eq!((&again["id"], &again["result"]), (&json!(1), &json!("a")), "ids are the host's");
    assert_eq!(host.server.sessions(), 1);
    drop(carrying.there);
    carrying.over.await.unwrap();
    assert_eq!(host.server.sessions(), 0, "DELETE has ended it");
}

#[tokio::test]
async fn a_cancel_overtakes_a_response_that_is_no_stream() {
    let script = Script::new().await;
    let mut carrying = Carrying::in_session_of(&script).await;
    script.asked().await.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    let listening = script.asked().await;
    assert!(listening.head.starts_with("GET"), "{}", listening.head);
    // All of them are there before the first is posted.
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    for id in [1, 2] {
        carrying.request(id, "wait", json!({})).await;
    }
    carrying.send(&cancel).await;
    let (first, second, cancelled) =
        (script.asked().await, script.asked().await, script.asked().await);
    assert_eq!((&first.body["id"], &second.body["id"]), (&json!(1), &json!(2)));
    assert_eq!(cancelled.body, cancel);
    cancelled.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    second.json("200 OK", &json!(2), &json!("waited")).await;
    assert_eq!(carrying.here.recv().await.unwrap()["id"], 2);
    first.json("200 OK", &json!(1), &json!("cancelled")).await;
    assert_eq!(carrying.here.recv().await.unwrap()["id"], 1);
}

#[tokio::test]
async fn a_response_stream_is_closed_once_its_request_has_left() {
    let script = Script::new().await;
    let carrying = Carrying::to(&script.url);
    for id in 1..8 {
        carrying.request(id, "wait", json!({})).await;
        carrying.lose(id).await;
        let asked = script.asked().await;
        assert_eq!(asked.body["id"], id);
        asked.closed().await;
    }
}

#[tokio::test]
async fn a_session_that_is_said_to_be_open_again_keeps_its_one_stream() {
    let script = Script::new().await;
    let mut carrying = Carrying::in_session_of(&script).await;
    script.asked().await.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    let mut listening = script.asked().await;
    assert!(listening.head.starts_with("GET"), "{}", listening.head);
    for method in [INITIALIZED, "m"] {
        carrying.send(&json!({ "jsonrpc": "2.0", "method": method })).await;
        let asked = script.asked().await;
        assert_eq!(asked.body["method"], method, "{}", asked.head);
        asked.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    }
    let update = json!({ "jsonrpc": "2.0", "method": "update" });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    listening.stream.write_all(format!("{head}data: {update}\n\n").as_bytes()).await.unwrap();
    assert_eq!(carrying.here.recv().await.unwrap(), update);
}

#[tokio::test]
async fn a_response_that_was_read_comes_before_the_end_of_the_session() {
    let script = Script::new().await;
    let mut carrying = Carrying::in_session_of(&script).await;
    script.asked().await.says("202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    // A server without a stream of its own may say so with this status.
    script.asked().await.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    for id in [1, 2] {
        carrying.request(id, "wait", json!({})).await;
    }
    let (mut first, second) = (script.asked().await, script.asked().await);
    let update = json!({ "jsonrpc": "2.0", "method": "m" });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let begun = format!("{head}data: {update}\n\n");
    first.stream.write_all(begun.as_bytes()).await.unwrap();
    assert_eq!(carrying.here.recv().await.unwrap(), update);
    // The client finds both at once.
    let response = json!({ "jsonrpc": "2.0", "id": first.body["id"], "result": "waited" });
    let event = format!("data: {response}\n\n");
    first.stream.write_all(event.as_bytes()).await.unwrap();
    second.says("404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(carrying.here.recv().await, Some(response));
    assert_eq!(carrying.here.recv().await, None);
}
