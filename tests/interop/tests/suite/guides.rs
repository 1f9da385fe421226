//! The programs of the README and of the guides, with real clients. `build.rs` takes them out of the pages.

use std::process::Command;
use std::time::Duration;

use rescind::{CallOptions, Config, Dialect};
use rescind_interop::peers::{CommandLine, line, node, python};
use serde_json::{Value, json};

use crate::tapped::Tapped;

/// The program that `build.rs` gives that name.
fn program(name: &str) -> CommandLine {
    line(&["env", &format!("PROGRAM={name}"), env!("CARGO_BIN_EXE_guide")])
}

/// Runs a client on a program, to its last check.
fn drive(client: Option<CommandLine>, argument: Option<&str>, program: &[String], last: &str) {
    let Some(client) = client else { return };
    let mut command = Command::new(&client[0]);
    let output = command.args(&client[1..]).args(argument).args(program).output();
    let output = output.expect("node runs");
    let (checks, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "held:\n{checks}\n{problems}");
    assert_eq!(checks.lines().last(), Some(last), "every check was made:\n{checks}\n{problems}");
    // A router reports there what it has no handler for.
    assert!(!problems.contains("nobody serves the notification"), "{problems}");
}

fn agent(name: &str, text: &str) {
    drive(node("acp_guide.mjs"), Some(text), &program(name), "ends_with_its_client");
}

fn language_server(name: &str, kind: &str) {
    drive(node("lsp_guide.mjs"), Some(kind), &program(name), "shutdown");
}

#[test]
fn the_acp_sdk_stops_the_agent_of_the_readme() {
    agent("readme", "");
}

#[test]
fn the_acp_sdk_stops_the_agent_of_the_guide() {
    agent("acp_agent", "You said something. May I?");
}

#[test]
fn the_acp_sdk_stops_the_typed_agent_of_the_guide() {
    agent("typed_acp_agent", "You said something. May I?");
}

#[test]
fn vscode_jsonrpc_cancels_a_search_of_the_language_server() {
    language_server("language_server", "plain");
}

#[test]
fn vscode_jsonrpc_cancels_a_search_with_progress() {
    language_server("language_server_with_progress", "progress");
}

/// The server must not ask such a client for a progress.
#[test]
fn vscode_jsonrpc_without_progress_cancels_a_search() {
    language_server("language_server_with_progress", "quiet");
}

#[test]
fn vscode_jsonrpc_cancels_a_search_on_one_thread() {
    language_server("one_thread", "diagnostics");
}

/// The tap sees that a cancelled call gets no response and no further progress.
#[test]
fn the_mcp_sdk_cancels_through_the_gateway_and_outlives_an_upstream() {
    let (Some(a), Some(b)) = (python("mcp_server.py"), node("mcp_server.mjs")) else { return };
    let upstreams = [format!("a={}", a.join(" ")), format!("b={} mortal", b.join(" "))];
    let tapped = Tapped::new(&[program("gateway"), upstreams.to_vec()].concat());
    drive(node("mcp_guide.mjs"), None, tapped.command(), "upstream_that_dies");
    tapped.assert_silent(2);
}

/// Asks a gateway for the tools of its upstreams, each of which responds with this.
async fn tools_of(upstreams: &[&str]) -> Vec<String> {
    let names = ["a", "b", "c", "d"].into_iter().zip(upstreams);
    let upstreams =
        names.map(|(name, list)| format!("{name}={} {list}", program("upstream").join(" ")));
    let gateway = [program("gateway"), upstreams.collect()].concat();
    let mut command = Command::new(&gateway[0]);
    command.args(&gateway[1..]);
    let config = Config::client(Dialect::MCP_2025_11_25);
    let gateway = rescind::tokio::child(command, config).expect("it is built");
    let options = CallOptions::default().timeout(Duration::from_secs(30));
    let listed = gateway.peer.call_with::<Value>("tools/list", json!({}), options).await;
    let tools = listed.expect("it outlives its upstreams")["tools"].take();
    let tools = tools.as_array().expect("tools are an array");
    tools.iter().map(|tool| tool["name"].as_str().expect("it has a name").to_owned()).collect()
}

#[tokio::test]
async fn an_upstream_that_lists_nonsense_does_not_spoil_the_list_of_the_gateway() {
    let lists = [r#"{"tools":["x",{"name":"sound"},{}]}"#, "[1]", r#"{"tools":[{"name":"b"}]}"#];
    assert_eq!(tools_of(&lists).await, ["a/sound", "c/b"]);
}

#[tokio::test]
async fn an_upstream_whose_list_never_ends_does_not_spoil_that_of_the_gateway() {
    let lists = [r#"{"tools":[{"name":"a"}],"nextCursor":"on"}"#, r#"{"tools":[{"name":"b"}]}"#];
    let tools = tools_of(&lists).await;
    assert_eq!((tools.len(), tools.last().map(String::as_str)), (101, Some("b/b")));
}
