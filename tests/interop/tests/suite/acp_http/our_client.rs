//! Our client and their server. A stream of a session is lost and comes again.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, Responder, Result, UntypedMessage, V1, on_receive_request,
};
use agent_client_protocol_http::AcpHttpServer;
use protocol_async::{Arrival, CallError, Incoming, Peer, SentRequest};
use protocol_core::{CallOptions, Config, Dialect, Shutdown};
use protocol_http::Rules;
use protocol_http::connect::{ClientOptions, connect};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::tap::{Seen, Tap};
use super::{cancelled, prompt, selected, update, word};

async fn talk(cx: ConnectionTo<Client>) -> Result<Value> {
    for word in ["May", "I?"] {
        cx.send_notification(UntypedMessage::new("session/update", update("s1", word))?)?;
    }
    let ask = UntypedMessage::new("session/request_permission", json!({ "sessionId": "s1" }))?;
    let answer: Value = cx.send_request(ask).block_task().await?;
    let is_selected = answer["outcome"]["outcome"] == "selected";
    Ok(json!({ "stopReason": if is_selected { "end_turn" } else { "cancelled" } }))
}

/// Their agent, which drops `alive` with its connection.
fn their_agent(alive: Arc<()>) -> impl ConnectTo<Client> {
    Agent.v1().on_receive_request(
        async move |request: UntypedMessage, responder: Responder<Value, V1>, cx| {
            let _alive = &alive;
            match request.method() {
                "initialize" => responder.respond(json!({ "protocolVersion": 1 })),
                "session/new" => responder.respond(json!({ "sessionId": "s1" })),
                "session/prompt" => {
                    let (marker, client) = (responder.cancellation(), cx.clone());
                    cx.spawn(async move {
                        responder
                            .respond_with_result(marker.run_until_cancelled(talk(client)).await)
                    })
                }
                _ => responder.respond_with_error(Error::method_not_found()),
            }
        },
        on_receive_request!(),
    )
}

struct Ours {
    peer: Peer,
    incoming: Incoming,
}

impl Ours {
    /// Begins a turn, and returns its call and the request for a permission in it.
    async fn begin(&self) -> (SentRequest<Value>, protocol_async::Responder<Value>) {
        let turn = self.peer.call_with("session/prompt", prompt("s1"), CallOptions::default());
        let mut words = Vec::new();
        loop {
            match self.incoming.receive().await.expect("the connection is open") {
                Arrival::Request(request, responder) => {
                    assert_eq!(&*request.method, "session/request_permission");
                    assert_eq!(words, ["May", "I?"]);
                    return (turn, responder.cast());
                }
                Arrival::Notification(update) => {
                    let params = update.params.as_deref().map_or("", |it| it.get());
                    let params: Value = serde_json::from_str(params).expect("it is JSON");
                    words.push(word(&params));
                }
                _ => {}
            }
        }
    }
}

async fn our_client() -> (Ours, Tap, Seen, tokio::task::JoinHandle<std::io::Result<()>>, Arc<()>) {
    let alive = Arc::new(());
    let agents = alive.clone();
    let router = AcpHttpServer::new(move || their_agent(agents.clone())).into_router();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let target = format!("http://{address}/acp").parse().expect("it is an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (tap, seen) = Tap::new(address);
    let mut options = ClientOptions::default();
    options.rules = &Rules::ACP_V1;
    // As long as it takes the server to notice the loss.
    options.stream.resumes = u32::MAX;
    options.stream.retry = Duration::from_millis(100);
    let opened = tap.clone();
    options.open = Some(Arc::new(move || Box::pin(opened.clone().open())));
    let (peer, incoming, driver) = connect(target, Config::client(Dialect::ACP_V1), options);
    let driver = tokio::spawn(driver);
    let opened: Value =
        peer.call("initialize", json!({ "protocolVersion": 1 })).await.expect("a response");
    assert_eq!(opened["protocolVersion"], 1);
    let new: Value = peer
        .call("session/new", json!({ "cwd": "/", "mcpServers": [] }))
        .await
        .expect("a response");
    assert_eq!(new["sessionId"], "s1");
    (Ours { peer, incoming }, tap, seen, driver, alive)
}

#[tokio::test]
async fn our_client_their_server() {
    timeout(Duration::from_secs(120), check_our_client()).await.expect("the checks end");
}

async fn check_our_client() {
    let (client, tap, mut seen, driver, alive) = our_client().await;
    let (turn, permission) = client.begin().await;
    permission.respond(selected());
    assert_eq!(turn.await.expect("a response")["stopReason"], "end_turn");

    let (turn, permission) = client.begin().await;
    turn.stop();
    permission.cancellation().cancelled().await;
    permission.respond(cancelled());
    assert_eq!(turn.await.expect("a response")["stopReason"], "cancelled");

    let (turn, permission) = client.begin().await;
    turn.cancel();
    permission.cancellation().cancelled().await;
    drop(permission);
    assert!(matches!(turn.await, Err(CallError::Cancelled { .. })));

    assert_eq!(seen.heard.recv().await, Some(()));
    let (turn, permission) = client.begin().await;
    tap.lose_all();
    assert_eq!(seen.heard.recv().await, Some(()), "the stream came again");
    permission.respond(selected());
    assert_eq!(turn.await.expect("a response")["stopReason"], "end_turn");

    tap.release.notify_one();
    client.peer.shutdown(Shutdown::CancelAll);
    driver.await.expect("it did not panic").expect("the connection held");
    // `alive` and the factory of agents are left.
    while Arc::strong_count(&alive) > 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
