//! ACP over HTTP: our client and the server of the crate `agent-client-protocol-http`.
//!
//! There are turns with updates and a permission, both cancels, and DELETE. A stream of a session is lost and comes again.

use std::future::pending;
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
use protocol_http::connect::{ClientOptions, ServerStream, connect};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, copy, duplex, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

fn selected() -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": "yes" } })
}

fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

fn prompt() -> Value {
    json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": "Go" }] })
}

async fn talk(cx: ConnectionTo<Client>) -> Result<Value> {
    for word in ["May", "I?"] {
        let update = json!({ "content": { "text": word } });
        let params = json!({ "sessionId": "s1", "update": update });
        cx.send_notification(UntypedMessage::new("session/update", params)?)?;
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

/// The connections of our client, among them those that carry the stream of a session.
#[derive(Clone)]
struct Tap {
    address: String,
    /// Ends the streams. A message that is being posted is not touched.
    lose: Arc<Notify>,
    /// Is told of each such stream once the head of its response came.
    heard: UnboundedSender<()>,
}

impl Tap {
    async fn open(self) -> std::io::Result<ServerStream> {
        let server = TcpStream::connect(&self.address).await?;
        let (near, far) = duplex(64 << 10);
        tokio::spawn(self.clone().pass(far, server));
        Ok(ServerStream::http1(near))
    }

    async fn pass(self, client: DuplexStream, server: TcpStream) {
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (split(client), server.into_split());
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if from_client.read_buf(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let text = String::from_utf8_lossy(&head).to_lowercase();
        let is_stream = text.starts_with("get");
        let is_of_session = is_stream && text.contains("acp-session-id");
        let lost = async {
            match is_stream {
                true => self.lose.notified().await,
                false => pending().await,
            }
        };
        let up = async {
            to_server.write_all(&head).await?;
            copy(&mut from_client, &mut to_server).await
        };
        let down = async {
            let mut first = Vec::new();
            from_server.read_buf(&mut first).await?;
            to_client.write_all(&first).await?;
            if is_of_session && first.starts_with(b"HTTP/1.1 200") {
                let _ = self.heard.send(());
            }
            copy(&mut from_server, &mut to_client).await
        };
        // The end of either is the end of both.
        tokio::select! { _ = up => {}, _ = down => {}, () = lost => {} }
    }

    /// Breaks every stream, the connection's own too.
    fn lose_all(&self) {
        self.lose.notify_waiters();
    }
}

struct Ours {
    peer: Peer,
    incoming: Incoming,
}

impl Ours {
    /// Begins a turn, and returns its call and the request for a permission in it.
    async fn begin(&self) -> (SentRequest<Value>, protocol_async::Responder<Value>) {
        let turn = self.peer.call_with("session/prompt", prompt(), CallOptions::default());
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
                    let word = &params["update"]["content"]["text"];
                    words.push(word.as_str().expect("it is text").to_owned());
                }
                _ => {}
            }
        }
    }
}

async fn our_client()
-> (Ours, Tap, UnboundedReceiver<()>, tokio::task::JoinHandle<std::io::Result<()>>, Arc<()>) {
    let alive = Arc::new(());
    let agents = alive.clone();
    let router = AcpHttpServer::new(move || their_agent(agents.clone())).into_router();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let target = format!("http://{address}/acp").parse().expect("it is an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (heard, hears) = unbounded_channel();
    let tap = Tap { address, lose: Arc::default(), heard };
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
    (Ours { peer, incoming }, tap, hears, driver, alive)
}

#[tokio::test]
async fn our_client_their_server() {
    timeout(Duration::from_secs(120), check_our_client()).await.expect("the checks end");
}

async fn check_our_client() {
    let (client, tap, mut heard, driver, alive) = our_client().await;
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

    assert_eq!(heard.recv().await, Some(()));
    let (turn, permission) = client.begin().await;
    tap.lose_all();
    assert_eq!(heard.recv().await, Some(()), "the stream came again");
    permission.respond(selected());
    assert_eq!(turn.await.expect("a response")["stopReason"], "end_turn");

    client.peer.shutdown(Shutdown::CancelAll);
    driver.await.expect("it did not panic").expect("the connection held");
    // `alive` and the factory of agents are left.
    while Arc::strong_count(&alive) > 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
