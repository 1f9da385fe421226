//! Turns of an ACP SDK's agent, which ask for permission. `guides.rs` has its client, with agents of ours.

use std::process::Command;
use std::time::Duration;

use protocol_core::{CancelOutcome, Config, Dialect};
use protocol_router::{Context, Router};
use rescind_interop::peers::{CommandLine, node, relay};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

/// Two turns are stopped while their questions are open, which the stop ends too.
async fn stops_turns(through: impl Fn(CommandLine) -> CommandLine) {
    let Some(agent) = node("acp_turns.mjs") else { return };
    let command = through(agent);
    let mut spawned = Command::new(&command[0]);
    spawned.args(&command[1..]);
    let child = protocol_tokio::child(spawned, Config::client(Dialect::ACP_V1));
    let child = child.expect("the agent starts");
    let (ask, mut asked) = unbounded_channel();
    tokio::spawn(async move {
        let router = Router::new().request(
            "session/request_permission",
            async move |_: Value, cx: Context| {
                // Nobody listens any more once the checks are over.
                let _ = ask.send(());
                cx.cancellation().cancelled().await;
                cx.cancellation().checkpoint()?;
                Ok(Value::Null)
            },
        );
        router.serve(&child.incoming).await;
    });
    let peer = child.peer;
    let checks = async {
        let client = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        peer.call::<Value>("initialize", client).await.expect("it opens");
        let place = json!({ "cwd": "/", "mcpServers": [] });
        let opened: Value = peer.call("session/new", place).await.expect("a session");
        let prompt = json!({ "sessionId": opened["sessionId"], "prompt": [] });
        for _ in 0..2 {
            let sent = peer.call::<Value>("session/prompt", &prompt);
            asked.recv().await.expect("a question");
            let turn = sent.cancellation_handle();
            assert_eq!(turn.stop(), CancelOutcome::Sent);
            let response = sent.await.expect("the result of a stopped turn");
            assert_eq!(response["stopReason"], "cancelled");
            assert_eq!(turn.stop(), CancelOutcome::AlreadySettled);
        }
    };
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

#[tokio::test]
async fn our_client_stops_turns_of_the_typescript_sdk() {
    stops_turns(|agent| agent).await;
}

#[tokio::test]
async fn our_client_stops_turns_of_the_typescript_sdk_behind_our_relay() {
    stops_turns(|agent| relay("acp", &agent)).await;
}
