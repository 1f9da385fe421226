//! Our library on tokio as a client of an MCP server with the tools `echo`, `sleep`, `count` and
//! `cancelled_once`. The last responds once one of the others has been cancelled.

use std::process::Command;
use std::time::Duration;

use protocol_async::{CallError, Peer, SentRequest};
use protocol_core::{Cause, Config, Dialect};
use protocol_router::Router;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// Longer than any test waits.
const LONG: u64 = 600_000;

/// The number of cancels of live requests that [`run`] sends.
pub const CANCELS: usize = 2 + 33;

/// Opens a spawned server of MCP 2025-11-25, and cancels.
///
/// # Panics
///
/// If a check does not hold within a minute.
pub async fn run(server: &[String]) {
    let mut spawned = Command::new(&server[0]);
    spawned.args(&server[1..]);
    let config = Config::client(Dialect::MCP_2025_11_25);
    let child = protocol_tokio::child(spawned, config);
    let child = child.expect("the server starts");
    let (arrived, mut progress) = unbounded_channel();
    tokio::spawn(async move {
        let router = Router::new().on_trouble(|_| ()).notification(
            "notifications/progress",
            async move |params: Value, _| {
                // Nobody listens any more once the checks are over.
                let _ = arrived.send(params);
                Ok(())
            },
        );
        router.serve(&child.incoming).await
    });
    let checks = async {
        open(&child.peer).await;
        echo(&child.peer).await;
        cancel_reaches_the_handler(&child.peer).await;
        cancel_during_progress(&child.peer, &mut progress).await;
        every_third_of_many(&child.peer).await;
        echo(&child.peer).await;
    };
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

/// Opens a session of MCP 2025-11-25.
///
/// # Panics
///
/// If the server speaks no such revision.
pub async fn open(peer: &Peer) {
    let version = "2025-11-25";
    let opening = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "interop", "version": "0" },
    });
    let opened: Value = peer.call("initialize", opening).await.expect("it can be opened");
    assert_eq!(opened["protocolVersion"], version);
    peer.try_notify("notifications/initialized", json!({})).expect("it can be told so");
}

fn tool(peer: &Peer, name: &str, arguments: Value) -> SentRequest<Value> {
    peer.call("tools/call", json!({ "name": name, "arguments": arguments }))
}

async fn echo(peer: &Peer) {
    let arguments = json!({ "text": "hé" });
    let result = tool(peer, "echo", arguments.clone()).await.expect("a result");
    let said = result["content"][0]["text"].as_str().expect("text");
    assert_eq!(serde_json::from_str::<Value>(said).expect("JSON in it"), arguments);
}

/// The call settles here, without an answer.
async fn is_cancelled(sent: SentRequest<Value>) {
    let outcome = sent.await;
    let Err(CallError::Cancelled { cause: Cause::Caller, error: None, .. }) = outcome else {
        panic!("{outcome:?}")
    };
}

async fn cancel_reaches_the_handler(peer: &Peer) {
    let sent = tool(peer, "sleep", json!({ "ms": LONG }));
    // By its answer the server has read what was sent before.
    echo(peer).await;
    sent.cancel();
    is_cancelled(sent).await;
    tool(peer, "cancelled_once", json!({})).await.expect("the handler was cancelled");
}

async fn cancel_during_progress(peer: &Peer, progress: &mut UnboundedReceiver<Value>) {
    let arguments = json!({ "to": LONG, "every_ms": 1 });
    let meta = json!({ "progressToken": "here" });
    let params = json!({ "name": "count", "arguments": arguments, "_meta": meta });
    let sent = peer.call("tools/call", params);
    let first = progress.recv().await.expect("progress");
    assert_eq!(first["progressToken"], "here");
    sent.cancel();
    is_cancelled(sent).await;
    // Long enough for many more, which a tap would see.
    tool(peer, "sleep", json!({ "ms": 50 })).await.expect("a result");
    echo(peer).await;
}

async fn every_third_of_many(peer: &Peer) {
    let mut sent = Vec::new();
    for index in 0..99 {
        let cancelled = index % 3 == 0;
        sent.push((
            cancelled,
            tool(peer, "sleep", json!({ "ms": if cancelled { LONG } else { 1 } })),
        ));
    }
    // They have left: what has not is withdrawn, and never cancelled on the wire.
    echo(peer).await;
    for (_, call) in sent.iter().filter(|(cancelled, _)| *cancelled) {
        call.cancel();
    }
    for (cancelled, call) in sent {
        if cancelled {
            is_cancelled(call).await;
        } else {
            call.await.expect("a result");
        }
    }
}
