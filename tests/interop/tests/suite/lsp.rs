//! vscode-jsonrpc as a client of `rescind serve`, and of clangd behind `rescind relay`.

use std::process::Command;

use rescind_interop::peers::{clangd, node, relay, serve};
use serde_json::Value;

/// Runs a client against a server, and returns its output.
fn run(client: &[String], server: &[String]) -> String {
    let output = Command::new(&client[0]).args(&client[1..]).args(server).output();
    let output = output.expect("node runs");
    let (checks, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "held:\n{checks}\n{problems}");
    checks.into_owned()
}

fn their_client(server: &[String]) {
    let Some(client) = node("lsp_client.mjs") else { return };
    let checks = run(&client, server);
    assert_eq!(checks.lines().last(), Some("shutdown"), "every check was made:\n{checks}");
}

fn editing_in_clangd(through: impl Fn(Vec<String>) -> Vec<String>) {
    let (Some(client), Some(clangd)) = (node("clangd_client.mjs"), clangd()) else { return };
    let printed = run(&client, &through(clangd));
    let counts: Value = serde_json::from_str(&printed).expect("the client prints JSON");
    println!("{counts}");
    // A cancel that comes too late is legal; thirty that do would not be cancelling.
    assert!(counts["cancelled"].as_u64() > Some(0), "{counts}");
}

#[test]
fn their_client_rescind_serve() {
    their_client(&serve("lsp"));
}

#[test]
fn their_client_our_relay_rescind_serve() {
    their_client(&relay("lsp", &serve("lsp")));
}

#[test]
fn their_client_clangd() {
    editing_in_clangd(|clangd| clangd);
}

#[test]
fn their_client_our_relay_clangd() {
    editing_in_clangd(|clangd| relay("lsp", &clangd));
}
