//! A proxy between an ACP client and an agent that it spawns. It passes everything on in both
//! directions, with answers and cancels, and rewrites one method.
//!
//! `cargo run -p rescind-tokio --example proxy -- AGENT [ARGUMENT...]`

use std::process::Command;

use protocol_async::{Arrival, Incoming, Peer};
use protocol_core::{Config, Dialect};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut agent = Command::new(arguments.next().ok_or("name an agent to run")?);
    agent.args(arguments);
    let client_side = Config::client(Dialect::ACP_V1);
    let agent = protocol_tokio::child(agent, client_side)?;
    let client = protocol_tokio::stdio(Config::server(Dialect::ACP_V1));
    run((client.peer, client.incoming), (agent.peer, agent.incoming)).await;
    let status = agent.process.exit().await?;
    // The client may hold our input open, on which a thread of the runtime hangs.
    std::process::exit(status.code().unwrap_or(1));
}

/// Joins the two connections until one of them ends.
pub(crate) async fn run(client: (Peer, Incoming), agent: (Peer, Incoming)) {
    tokio::select! {
        () = forward(&client.1, &agent.0) => {}
        () = forward(&agent.1, &client.0) => {}
    }
}

async fn forward(from: &Incoming, to: &Peer) {
    while let Ok(mut arrival) = from.receive().await {
        if let Arrival::Request(request, _) = &mut arrival {
            // An older client's name for it.
            if request.method == "prompt" {
                request.method = "session/prompt".into();
            }
        }
        // A request takes its responder along, and with it the way back and the cancels. A
        // notification that finds the outbox full comes back, and waits for room.
        while let Err(refused) = to.send_proxied(arrival) {
            to.ready().await;
            arrival = Arrival::Notification(refused.data);
            if refused.reason != protocol_core::Refusal::OutboxFull {
                return;
            }
        }
    }
}
