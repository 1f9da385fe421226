//! Messages that are carried as they are, and response streams that a host closes.

use protocol_core::{Cause, WireId};
use protocol_http::connect::{Carried, ClientOptions, carry};
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::host::{Host, Report};

/// A host of messages, which reads what comes.
struct Carrying {
    there: mpsc::Sender<Carried>,
    here: mpsc::UnboundedReceiver<Value>,
    over: JoinHandle<()>,
}

impl Carrying {
    fn to(host: &Host) -> Self {
        let (there, inputs) = mpsc::channel(16);
        let (tell, here) = mpsc::unbounded_channel();
        let target = host.url.parse().unwrap();
        let receive = async move |message: Vec<u8>| {
            // The test may be over.
            let _ = tell.send(serde_json::from_slice(&message).unwrap());
        };
        let over = tokio::spawn(async move {
            carry(target, ClientOptions::default(), inputs, receive).await;
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

    async fn open_session(&self) {
        self.request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).await;
        let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.send(&opened).await;
    }
}

#[tokio::test]
async fn a_loss_closes_the_response_stream_of_its_request_and_no_other() {
    let mut host = Host::start(ServerOptions::default()).await;
    let mut carrying = Carrying::to(&host);
    for id in [7, 8] {
        carrying.request(id, "wait", json!({})).await;
        assert_eq!(host.report().await, Report::Began);
    }
    carrying.there.send(Carried::Loss(WireId::from_json("7").unwrap())).await.unwrap();
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    host.gate.notify_one();
    let response = carrying.here.recv().await.unwrap();
    assert_eq!((&response["id"], &response["result"]), (&json!(8), &json!("waited")));
}

#[tokio::test]
async fn messages_wait_for_the_session_and_are_taken_in_their_order() {
    let mut host = Host::start(ServerOptions::default()).await;
    let mut carrying = Carrying::to(&host);
    // All of them are there before the first is posted.
    carrying.open_session().await;
    carrying.request(1, "wait", json!({})).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    carrying.send(&cancel).await;
    carrying.request(1, "tools/call", json!({ "name": "a" })).await;
    assert_eq!(carrying.here.recv().await.unwrap()["id"], 0);
    assert_eq!(host.report().await, Report::Notified("notifications/initialized".into()));
    assert_eq!(host.report().await, Report::Began);
    assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
    let again = carrying.here.recv().await.unwrap();
    assert_eq!((&again["id"], &again["result"]), (&json!(1), &json!("a")), "ids are the host's");
    assert_eq!(host.server.sessions(), 1);
    drop(carrying.there);
    carrying.over.await.unwrap();
    assert_eq!(host.server.sessions(), 0, "DELETE has ended it");
}
