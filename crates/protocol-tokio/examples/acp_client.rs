//! An ACP client: it spawns an agent, prompts it, and stops the turn after the third update.
//!
//! `cargo run -p rescind-tokio --example acp_client -- AGENT [ARGUMENT...]`, where the agent may be
//! `target/debug/examples/acp_agent`.

use std::process::Command;

use protocol_async::{Arrival, CallError, Incoming, Peer};
use protocol_core::{Config, Dialect};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut agent = Command::new(arguments.next().ok_or("name an agent to run")?);
    agent.args(arguments);
    let agent = protocol_tokio::child(agent, Config::client(Dialect::ACP_V1))?;
    match prompt(&agent.peer, &agent.incoming).await {
        Ok(answer) => println!("answered: {answer}"),
        Err(error) => println!("not answered: {error}"),
    }
    // Without handles the agent's input is closed, and it ends.
    drop((agent.peer, agent.incoming));
    println!("{}", agent.process.exit().await?);
    Ok(())
}

/// Prompts, prints what comes, and stops the turn after the third update.
pub(crate) async fn prompt(peer: &Peer, incoming: &Incoming) -> Result<Value, CallError> {
    peer.call::<Value>("initialize", json!({ "protocolVersion": 1 })).await?;
    let session: Value = peer.call("session/new", json!({ "cwd": "/", "mcpServers": [] })).await?;
    let text = [json!({ "type": "text", "text": "Tell me everything." })];
    let sent = peer.call::<Value>(
        "session/prompt",
        json!({ "sessionId": session["sessionId"], "prompt": text }),
    );
    let handle = sent.cancellation_handle();
    let updates = async {
        let mut seen = 0;
        while let Ok(arrival) = incoming.receive().await {
            // A request of the agent's is answered when it is dropped: with an error.
            let Arrival::Notification(update) = arrival else { continue };
            println!("{}", update.params.as_deref().map_or("null", |params| params.get()));
            seen += 1;
            if seen == 3 {
                handle.stop();
            }
        }
    };
    // The agent answers also what is cancelled.
    tokio::select! {
        // An agent that dies settles the call and ends the updates at once.
        biased;
        answer = sent => answer,
        () = updates => unreachable!("the call settles before the last arrival is taken"),
    }
}
