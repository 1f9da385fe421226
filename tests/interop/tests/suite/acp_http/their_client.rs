//! Their client and our server. Their client gives up once it has lost a stream.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::{ConnectionTo, SentRequest};
use agent_client_protocol::{
    Agent, Client, Error, Responder, Result, UntypedMessage, V1, on_receive_notification,
    on_receive_request,
};
use agent_client_protocol_http::HttpClient;
use protocol_async::Failure;
use protocol_core::Cause;
use protocol_http::Rules;
use protocol_http::server::{Server, ServerOptions};
use protocol_router::{Context, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::tap::{Seen, Tap};
use super::{cancelled, prompt, selected, update, word};

/// The session whose turn asks nothing, and ends when the test says so.
const PATIENT: &str = "/patient";
const ASKING: &str = "/asking";

/// The end of a turn: its session, and why it was cancelled.
type End = (String, Option<Cause>);

async fn talk(session: &str, cx: &Context, gate: &Notify) -> Result<Value, Failure> {
    for word in ["May", "I?"] {
        cx.notify("session/update", update(session, word)).await?;
    }
    if session == PATIENT {
        gate.notified().await;
    } else {
        let question = json!({ "sessionId": session });
        let response: Value = cx.call("session/request_permission", question).await?;
        assert_eq!(response, selected());
    }
    Ok(json!({ "stopReason": "end_turn" }))
}

/// Our agent, which names a session by its folder, and reports the end of each turn.
fn our_agent(ends: UnboundedSender<End>, gate: Arc<Notify>) -> Router {
    Router::new()
        .request("initialize", async |_: Value, _| Ok(json!({ "protocolVersion": 1 })))
        .request("session/new", async |new: Value, _| Ok(json!({ "sessionId": new["cwd"] })))
        .request("session/prompt", async move |prompt: Value, cx: Context| {
            let session = prompt["sessionId"].as_str().unwrap_or_default();
            let turn = talk(session, &cx, &gate);
            let result = cx.cancellation().run_until_cancelled(turn).await;
            let _ = ends.send((session.to_owned(), cx.cancellation().cause()));
            result
        })
}

/// A message that came to their client.
#[derive(Debug)]
enum Arrived {
    Word(String),
    Question(Responder<Value, V1>),
}

/// Their client, in front of our agent.
struct Theirs {
    cx: ConnectionTo<Agent>,
    arrived: UnboundedReceiver<Arrived>,
    ends: UnboundedReceiver<End>,
    gate: Arc<Notify>,
    tap: Tap,
    seen: Seen,
    /// Ends with the connection.
    client: JoinHandle<Result<()>>,
    _leave: oneshot::Sender<()>,
}

impl Theirs {
    async fn open() -> Self {
        let (gate, (ends, ended)) = (Arc::<Notify>::default(), unbounded_channel());
        let agent = our_agent(ends, gate.clone());
        let mut options = ServerOptions::default();
        options.path = "/acp".into();
        options.gate.revisions = vec![&Rules::ACP_V1];
        let server = Server::new(options, move |_peer, incoming| {
            let agent = agent.clone();
            async move { _ = agent.serve(&incoming).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        tokio::spawn(async move { server.serve(listener).await });
        let (tap, seen) = Tap::new(address);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(tap.clone().listen(listener));

        let http = HttpClient::builder(format!("http://{address}"))
            // A connection carries one exchange, as the tap wants it.
            .configure_http(|http| http.no_proxy().pool_max_idle_per_host(0))
            .build()
            .expect("it is an address");
        let ((arrives, arrived), (opened, opens)) = (unbounded_channel(), oneshot::channel());
        let (leave, left) = oneshot::channel::<()>();
        let updates = arrives.clone();
        let connection = Client
            .v1()
            .on_receive_notification(
                async move |update: UntypedMessage, _| {
                    // A cancel comes here too, beside its marker.
                    if update.method() == "session/update" {
                        let _ = updates.send(Arrived::Word(word(update.params())));
                    }
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |_: UntypedMessage, responder: Responder<Value, V1>, _| {
                    let _ = arrives.send(Arrived::Question(responder));
                    Ok(())
                },
                on_receive_request!(),
            )
            .connect_with(http, async move |cx| {
                let _ = opened.send(cx);
                let _ = left.await;
                Ok(())
            });
        let client = tokio::spawn(connection);
        let cx = opens.await.expect("it connects");
        let theirs = Self { cx, arrived, ends: ended, gate, tap, seen, client, _leave: leave };
        let opened = theirs.call("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(opened.block_task().await.expect("a response")["protocolVersion"], 1);
        for cwd in [ASKING, PATIENT] {
            let new = theirs.call("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
            assert_eq!(new.block_task().await.expect("a response")["sessionId"], cwd);
        }
        theirs
    }

    fn call(&self, method: &str, params: Value) -> SentRequest<Value> {
        self.cx.send_request(UntypedMessage::new(method, params).expect("it is JSON"))
    }

    /// Begins a turn, which has said its words when this returns.
    async fn begin(&mut self, session: &str) -> SentRequest<Value> {
        let turn = self.call("session/prompt", prompt(session));
        for expected in ["May", "I?"] {
            match self.arrived.recv().await {
                Some(Arrived::Word(word)) => assert_eq!(word, expected),
                other => panic!("{other:?}"),
            }
        }
        turn
    }

    /// Begins a turn that asks, and returns its question too.
    async fn ask(&mut self) -> (SentRequest<Value>, Responder<Value, V1>) {
        let turn = self.begin(ASKING).await;
        match self.arrived.recv().await {
            Some(Arrived::Question(responder)) => (turn, responder),
            other => panic!("{other:?}"),
        }
    }

    async fn ended(&mut self, session: &str, cause: Option<Cause>) {
        assert_eq!(self.ends.recv().await, Some((session.to_owned(), cause)));
    }
}

async fn outcome(turn: SentRequest<Value>) -> Result<Value, i32> {
    turn.block_task().await.map_err(|error: Error| error.code.into())
}

#[tokio::test]
async fn their_client_our_server() {
    timeout(Duration::from_secs(120), check_turns()).await.expect("the checks end");
}

async fn check_turns() {
    let mut client = Theirs::open().await;
    let (turn, question) = client.ask().await;
    question.respond(selected()).expect("the connection is open");
    assert_eq!(outcome(turn).await, Ok(json!({ "stopReason": "end_turn" })));
    client.ended(ASKING, None).await;

    let (turn, question) = client.ask().await;
    let stop = UntypedMessage::new("session/cancel", json!({ "sessionId": ASKING }));
    client.cx.send_notification(stop.expect("it is JSON")).expect("the connection is open");
    question.cancellation().cancelled().await;
    question.respond(cancelled()).expect("the connection is open");
    assert_eq!(outcome(turn).await, Ok(json!({ "stopReason": "cancelled" })));
    client.ended(ASKING, Some(Cause::Stopped)).await;

    let (turn, question) = client.ask().await;
    turn.cancel().expect("the connection is open");
    question.cancellation().cancelled().await;
    question.respond(cancelled()).expect("the connection is open");
    assert_eq!(outcome(turn).await, Err(-32800));
    client.ended(ASKING, Some(Cause::Peer)).await;
}

#[tokio::test]
async fn a_stream_that_their_client_loses_is_no_cancel_and_its_delete_is_one() {
    timeout(Duration::from_secs(120), check_loss()).await.expect("the checks end");
}

async fn check_loss() {
    let mut client = Theirs::open().await;
    let (_stays_open, _question) = client.ask().await;
    let _turn = client.begin(PATIENT).await;
    client.tap.lose_all();
    for _stream in ["the connection's", ASKING, PATIENT] {
        assert_eq!(client.seen.lost.recv().await, Some(()));
    }
    client.gate.notify_one();
    client.ended(PATIENT, None).await;

    client.tap.release.notify_one();
    client.ended(ASKING, Some(Cause::PeerGone)).await;
    let given_up = client.client.await.expect("it did not panic");
    given_up.expect_err("their client needs each stream");
}
