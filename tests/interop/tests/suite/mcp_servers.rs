//! Released MCP servers: our client on tokio cancels, and a tap sees that they are silent; `rescind
//! call` cancels, settles by itself, and says so.

use std::process::Command;

use rescind_interop::mcp::own;
use rescind_interop::peers::{CommandLine, line, node, python, relay, rescind};

use crate::tapped::Tapped;

fn rust() -> Option<CommandLine> {
    Some(line(&[env!("CARGO_BIN_EXE_rmcp_server")]))
}

async fn our_client(server: Option<CommandLine>, through: impl Fn(&[String]) -> CommandLine) {
    let Some(server) = server else { return };
    let tapped = Tapped::new(&through(&server));
    own::run(tapped.command()).await;
    tapped.assert_silent(own::CANCELS);
}

#[tokio::test]
async fn our_client_rust_server() {
    our_client(rust(), <[_]>::to_vec).await;
}

#[tokio::test]
async fn our_client_our_relay_rust_server() {
    our_client(rust(), |server| relay("mcp-2025-11-25", server)).await;
}

#[tokio::test]
async fn our_client_typescript_server() {
    our_client(node("mcp_server.mjs"), <[_]>::to_vec).await;
}

#[tokio::test]
async fn our_client_python_server() {
    our_client(python("mcp_server.py"), <[_]>::to_vec).await;
}

#[tokio::test]
async fn our_client_our_relay_python_server() {
    our_client(python("mcp_server.py"), |server| relay("mcp-2025-11-25", server)).await;
}

/// Runs `rescind call` of a tool that reports progress, and cancels it meanwhile. Returns its
/// output on standard error.
fn call_cancelled(dialect: &str, tool: &str, server: &[String]) -> String {
    let output = Command::new(rescind())
        .args(["call", "--dialect", dialect, "--cancel-after", "1s", "tools/call", tool, "--"])
        .args(server)
        .output()
        .expect("rescind runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("notifications/progress"), "{said}");
    assert!(said.contains("settled here, without an answer"), "{said}");
    assert!(said.contains("cancelled tools/call after "), "{said}");
    said
}

const COUNT: &str =
    r#"{"name":"count","arguments":{"to":6000,"every_ms":100},"_meta":{"progressToken":"t"}}"#;

/// These speak the newest revision, and the older ones when they are asked to.
fn call_count(server: Option<CommandLine>) {
    let Some(server) = server else { return };
    for dialect in ["mcp", "mcp-2025-06-18"] {
        let said = call_cancelled(dialect, COUNT, &server);
        assert!(!said.contains("opening again"), "{dialect}: {said}");
    }
}

#[test]
fn call_rust_server() {
    call_count(rust());
}

#[test]
fn call_python_server() {
    call_count(python("mcp_server.py"));
}

#[test]
fn call_typescript_server_falls_back() {
    let Some(server) = node("mcp_server.mjs") else { return };
    let said = call_cancelled("mcp", COUNT, &server);
    assert!(!said.contains("opening again"), "F66: it is started once: {said}");
}

#[test]
fn call_server_everything() {
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let Some(server) = node(package) else { return };
    let tool = r#"{
        "name": "trigger-long-running-operation",
        "arguments": { "duration": 600, "steps": 6000 },
        "_meta": { "progressToken": "t" }
    }"#;
    let said = call_cancelled("mcp", tool, &server);
    assert!(!said.contains("opening again"), "F66: it is started once: {said}");
    call_cancelled("mcp-2025-06-18", tool, &server);
}
