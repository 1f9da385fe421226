//! The ACP TypeScript SDK in both roles, with us as the other side, and with our relay in between:
//! nested requests are cancelled back over every hop.

use std::process::Command;

use rescind_interop::lifecycle;
use rescind_interop::own::OwnClient;
use rescind_interop::peers::{CommandLine, node, relay, serve};

fn their_client(agent: &[String]) {
    let Some(client) = node("acp_client.mjs") else { return };
    let output = Command::new(&client[0]).args(&client[1..]).args(agent).output();
    let output = output.expect("node runs");
    let (checks, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "held:\n{checks}\n{problems}");
    let last = checks.lines().last();
    assert_eq!(last, Some("still_alive"), "every check was made:\n{checks}\n{problems}");
}

async fn our_client(through: impl Fn(CommandLine) -> CommandLine) {
    let Some(agent) = node("acp_agent.mjs") else { return };
    let (client, mut nested) = OwnClient::spawn(&through(agent));
    lifecycle::run(&client, &mut nested).await;
}

#[test]
fn their_client_rescind_serve() {
    their_client(&serve("acp"));
}

#[test]
fn their_client_our_relay_rescind_serve() {
    their_client(&relay("acp", &serve("acp")));
}

#[test]
fn their_client_our_relay_their_agent() {
    if let Some(agent) = node("acp_agent.mjs") {
        their_client(&relay("acp", &agent));
    }
}

#[test]
fn their_client_three_hops_their_agent() {
    if let Some(agent) = node("acp_agent.mjs") {
        their_client(&relay("acp", &relay("acp", &relay("acp", &agent))));
    }
}

#[tokio::test]
async fn our_client_their_agent() {
    our_client(|agent| agent).await;
}

#[tokio::test]
async fn our_client_our_relay_their_agent() {
    our_client(|agent| relay("acp", &agent)).await;
}
