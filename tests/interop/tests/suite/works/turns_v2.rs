//! Turns of ACP, version 2, which go on after the response to their prompt until the agent is idle.

use std::process::Command;
use std::time::Duration;

use protocol_async::{CallError, Incoming, Peer, SentRequest};
use protocol_core::{CancelOutcome, Cause, Config, Dialect, code};
use protocol_router::{Context, Router};
use rescind_interop::peers::{CommandLine, line, node, relay};
use rescind_interop::turns;
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex, split};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::{script, sdk_v2};

const CLIENT: Config = Config::client(Dialect::ACP_V2);

/// Small enough that a burst fills it.
const PIPE: usize = 4096;

/// The news of a session that come to our client.
#[derive(Debug, PartialEq)]
enum News {
    Running,
    Asked,
    /// The question was cancelled.
    Withdrawn(Option<Cause>),
    /// The agent says the response to its question.
    Said(Value),
    Idle(Value),
}

/// Our client, in front of an agent of theirs.
struct Ours {
    peer: Peer,
    session: Value,
    news: UnboundedReceiver<News>,
    /// Grants what the open question asks for.
    grant: UnboundedSender<()>,
}

impl Ours {
    async fn open(peer: Peer, incoming: Incoming) -> Self {
        let ((tell, news), (grant, granted)) = (unbounded_channel(), unbounded_channel());
        let (asks, granted) = (tell.clone(), std::sync::Arc::new(Mutex::new(granted)));
        // Nobody listens any more once the checks are over.
        let router = Router::new()
            .notification("session/update", async move |told: Value, _| {
                let update = &told["update"];
                let _ = tell.send(match (&update["sessionUpdate"], &update["state"]) {
                    (kind, _) if kind == "agent_message_chunk" => {
                        let text = update["content"]["text"].as_str().unwrap_or_default();
                        News::Said(serde_json::from_str(text).unwrap_or_default())
                    }
                    (_, state) if state == "running" => News::Running,
                    (_, state) if state == "idle" => News::Idle(update["stopReason"].clone()),
                    _ => panic!("{told}"),
                });
                Ok(())
            })
            .request("session/request_permission", async move |_: Value, cx: Context| {
                let _ = asks.send(News::Asked);
                let grants = async { granted.lock().await.recv().await };
                let answer = cx.cancellation().unless_cancelled(grants).await;
                if answer.is_err() {
                    let _ = asks.send(News::Withdrawn(cx.cancellation().cause()));
                }
                answer?;
                Ok(json!({ "outcome": { "outcome": "selected", "optionId": "yes" } }))
            });
        tokio::spawn(async move { router.serve(&incoming).await });
        let info = json!({ "name": "interop", "version": "0" });
        let opening = json!({ "protocolVersion": 2, "info": info, "capabilities": {} });
        let opened: Value = peer.call("initialize", opening).await.expect("it opens");
        assert_eq!(opened["protocolVersion"], 2);
        let new = json!({ "cwd": "/", "mcpServers": [] });
        let opened: Value = peer.call("session/new", new).await.expect("a session");
        Self { peer, session: opened["sessionId"].clone(), news, grant }
    }

    fn prompt(&self) -> SentRequest<Value> {
        let text = json!([{ "type": "text", "text": "Go." }]);
        self.peer.call("session/prompt", json!({ "sessionId": self.session, "prompt": text }))
    }

    /// Sends a prompt that is held behind the turn that works.
    async fn hold(&self) -> SentRequest<Value> {
        let held = self.prompt();
        // By its response the agent has read what was sent before.
        self.peer.call::<Value>("_none", json!({})).await.expect_err("there is no such method");
        held
    }

    async fn hears(&mut self, expected: impl IntoIterator<Item = News>) {
        for expected in expected {
            assert_eq!(self.news.recv().await, Some(expected));
        }
    }

    /// Waits until a prompt is accepted and its turn has come to its question.
    async fn asked(&mut self, prompt: SentRequest<Value>) {
        assert_eq!(prompt.await.expect("it is accepted")["messageId"], "m1");
        self.hears([News::Running, News::Asked]).await;
    }

    async fn end(&mut self, by: Option<News>, said: Value, reason: &str) {
        self.hears(by.into_iter().chain([News::Said(said), News::Idle(reason.into())])).await;
    }

    async fn grants(&mut self) {
        self.grant.send(()).expect("the client runs");
        let selected = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
        self.end(None, selected, "end_turn").await;
    }

    async fn is_stopped(&mut self, cause: Cause) {
        let said = json!({ "outcome": { "outcome": "cancelled" } });
        self.end(Some(News::Withdrawn(Some(cause))), said, "cancelled").await;
    }
}

async fn is_withdrawn(prompt: SentRequest<Value>) {
    let outcome = prompt.await;
    let Err(CallError::Cancelled { error: Some(error), .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.code, code::REQUEST_CANCELLED);
}

async fn check(mut client: Ours) {
    let prompt = client.prompt();
    let turn = prompt.cancellation_handle();
    client.asked(prompt).await;
    client.grants().await;
    assert_eq!(turn.stop(), CancelOutcome::AlreadySettled, "the turn is over");

    let prompt = client.prompt();
    let turn = prompt.cancellation_handle();
    client.asked(prompt).await;
    assert_eq!(turn.stop(), CancelOutcome::Sent);
    assert_eq!(turn.stop(), CancelOutcome::AlreadySent);
    client.is_stopped(Cause::Stopped).await;
    assert_eq!(turn.stop(), CancelOutcome::AlreadySettled);

    // A stop is for a prompt that is held, too.
    let prompt = client.prompt();
    let turn = prompt.cancellation_handle();
    client.asked(prompt).await;
    let held = client.hold().await;
    assert_eq!(turn.stop(), CancelOutcome::Sent);
    is_withdrawn(held).await;
    client.is_stopped(Cause::Stopped).await;

    // A cancel withdraws a prompt that is held, and nothing else.
    let prompt = client.prompt();
    client.asked(prompt).await;
    let held = client.hold().await;
    held.cancel();
    is_withdrawn(held).await;
    client.grants().await;

    // The end of a turn is not that of the prompt that was held.
    let prompt = client.prompt();
    client.asked(prompt).await;
    let held = client.hold().await;
    let turn = held.cancellation_handle();
    client.grants().await;
    client.asked(held).await;
    assert_eq!(turn.stop(), CancelOutcome::Sent);
    client.is_stopped(Cause::Stopped).await;

    // The agent cancels its question for a reason of its own.
    let prompt = client.prompt();
    client.asked(prompt).await;
    let closed = client.peer.call::<Value>("session/close", json!({ "sessionId": client.session }));
    client.is_stopped(Cause::Peer).await;
    closed.await.expect("a response");
}

async fn our_client(peer: Peer, incoming: Incoming) {
    let checks = async { check(Ours::open(peer, incoming).await).await };
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

async fn our_client_of(command: CommandLine) {
    let mut spawned = Command::new(&command[0]);
    spawned.args(&command[1..]);
    let child = protocol_tokio::child(spawned, CLIENT).expect("the agent starts");
    our_client(child.peer, child.incoming).await;
}

fn typescript_agent() -> Option<CommandLine> {
    node("acp_v2_agent.mjs")
}

#[tokio::test]
async fn our_client_typescript_agent() {
    let Some(agent) = typescript_agent() else { return };
    our_client_of(agent).await;
}

#[tokio::test]
async fn our_client_our_relay_typescript_agent() {
    let Some(agent) = typescript_agent() else { return };
    our_client_of(relay("acp-v2", &agent)).await;
}

#[tokio::test]
async fn our_client_rust_agent() {
    let (near, far) = duplex(PIPE);
    tokio::spawn(sdk_v2::agent(far));
    let (reader, writer) = split(near);
    let connection = protocol_tokio::spawn(reader, writer, CLIENT);
    our_client(connection.peer, connection.incoming).await;
}

async fn our_agent(stream: DuplexStream) {
    let (reader, writer) = split(stream);
    let connection = protocol_tokio::spawn(reader, writer, Config::server(Dialect::ACP_V2));
    turns::agent().serve(&connection.incoming).await;
}

#[tokio::test]
async fn rust_client_our_agent() {
    let (near, far) = duplex(PIPE);
    tokio::spawn(our_agent(far));
    let checks = timeout(Duration::from_secs(60), sdk_v2::client(near)).await;
    checks.expect("the checks end").expect("the connection holds");
}

fn own_agent() -> CommandLine {
    line(&[env!("CARGO_BIN_EXE_turns_agent")])
}

#[test]
fn typescript_client_our_agent() {
    script(node("acp_v2_client.mjs"), &own_agent(), "a_later_turn_is_not_hit");
}

#[test]
fn typescript_client_our_relay_our_agent() {
    script(node("acp_v2_client.mjs"), &relay("acp-v2", &own_agent()), "a_later_turn_is_not_hit");
}
