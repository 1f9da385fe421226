//! An ACP agent: it answers a prompt with updates, one after another, until it is cancelled.
//!
//! `cargo run -p rescind-tokio --example acp_agent`, and then lines of JSON on standard input; or
//! see `acp_client.rs`.

use std::time::Duration;

use protocol_async::Incoming;
use protocol_core::{CloseReason, Config, Dialect};
use protocol_router::Router;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection = protocol_tokio::stdio(Config::server(Dialect::ACP_V1));
    // Until the client hangs up; what was answered is written then.
    serve(&connection.incoming).await;
    drop((connection.peer, connection.incoming));
    Ok(connection.driver.await??)
}

/// Serves until the client hangs up.
pub(crate) async fn serve(incoming: &Incoming) -> CloseReason {
    let router = Router::new()
        .request("initialize", async |_: Value, _| Ok(json!({ "protocolVersion": 1 })))
        .request("session/new", async |_: Value, _| Ok(json!({ "sessionId": "s1" })))
        .request("session/prompt", async |prompt: Value, cx| {
            let session = &prompt["sessionId"];
            let talk = async {
                for word in ["So", "you", "want", "to", "know", "everything"] {
                    let content = json!({ "type": "text", "text": word });
                    let update =
                        json!({ "sessionUpdate": "agent_message_chunk", "content": content });
                    let update = json!({ "sessionId": session, "update": update });
                    // A client that reads slowly is waited for, and hears all of it.
                    cx.notify("session/update", update).await?;
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                Ok(json!({ "stopReason": "end_turn" }))
            };
            // When the client stops the turn with `session/cancel`, the talk is dropped where it stands, and the
            // response is the stop reason `cancelled`. A `$/cancel_request` gets error -32800 instead.
            cx.cancellation().run_until_cancelled(talk).await
        });
    router.serve(incoming).await
}
