//! Our library as an agent of ACP, version 2, whose turns ask for permission.

use std::sync::Arc;

use protocol_async::{CallError, Failure, Peer};
use protocol_core::Cause;
use protocol_router::{Context, Router};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The agent: `agent().serve(&protocol_tokio::stdio(config).incoming).await`.
///
/// It has one session. A prompt that comes while it works is held until it is idle.
pub fn agent() -> Router<Arc<Mutex<()>>> {
    Router::with_state(Arc::default())
        .on_trouble(|_| ())
        .request("initialize", async |_: Value, _| Ok(opened()))
        .request("session/new", async |_: Value, _| Ok(json!({ "sessionId": "s1" })))
        .request("session/prompt", async |prompt: Value, cx: Context<Arc<Mutex<()>>>| {
            let foreground = cx.state().clone();
            let turn = cx.cancellation().unless_cancelled(foreground.lock_owned()).await?;
            let peer = cx.peer().clone();
            cx.spawn(async move {
                work(&peer, &prompt["sessionId"]).await?;
                drop(turn);
                Ok(())
            });
            Ok(json!({ "messageId": "m1" }))
        })
        // The core has stopped the turn before this is read.
        .notification("session/cancel", async |_: Value, _| Ok(()))
}

/// Returns the result of `initialize`.
#[must_use]
pub fn opened() -> Value {
    json!({
        "protocolVersion": 2,
        "info": { "name": "interop", "version": "0" },
        "capabilities": { "session": {} },
    })
}

/// Returns the question of a turn.
#[must_use]
pub fn question(session: &Value) -> Value {
    let yes = json!({ "optionId": "yes", "name": "Yes", "kind": "allow_once" });
    json!({ "sessionId": session, "title": "May I?", "options": [yes] })
}

/// Returns an update about the state of a session.
#[must_use]
pub fn state(session: &Value, mut state: Value) -> Value {
    state["sessionUpdate"] = json!("state_update");
    json!({ "sessionId": session, "update": state })
}

async fn work(peer: &Peer, session: &Value) -> Result<(), Failure> {
    peer.notify("session/update", state(session, json!({ "state": "running" }))).await?;
    let response = peer.call::<Value>("session/request_permission", question(session)).await;
    let reason = match response {
        Ok(response) if response["outcome"]["optionId"] == "yes" => "end_turn",
        Ok(_) | Err(CallError::Cancelled { cause: Cause::Stopped, .. }) => "cancelled",
        Err(error) => return Err(error.into()),
    };
    let idle = json!({ "state": "idle", "stopReason": reason });
    Ok(peer.notify("session/update", state(session, idle)).await?)
}
