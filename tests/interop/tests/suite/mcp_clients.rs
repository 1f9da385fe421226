//! Released MCP clients against `rescind serve`, by their own openings: cancel by `AbortSignal`, by
//! handle, by giving up and by time-out. A tap sees that the cancelled requests get no answer and no
//! progress, in both directions.

use std::process::{Command, Stdio};

use rescind_interop::mcp::sdk;
use rescind_interop::peers::{CommandLine, node, python, relay, serve};

use crate::tapped::Tapped;

/// The check that is left out if the server may not cancel its requests to the client.
const WITHOUT_NESTED: &str = "cancel_cascades_back";

/// Runs a client that is a script, to its last check.
fn script(client: Option<CommandLine>, arguments: &[&str], server: &[String], without: &str) {
    let Some(client) = client else { return };
    let tapped = Tapped::new(server);
    let output = Command::new(&client[0])
        .args(&client[1..])
        .args(arguments)
        .args(tapped.command())
        .env("WITHOUT", without)
        .output()
        .expect("the client runs");
    let (checks, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "held:\n{checks}\n{problems}");
    let last = checks.lines().last();
    assert_eq!(last, Some("still_alive"), "every check was made:\n{checks}\n{problems}");
    // Three by hand, one by time-out, and a third of many.
    tapped.assert_silent(4 + 33);
}

fn typescript(major: &str, revision: &str, server: &[String]) {
    script(node("mcp_client.mjs"), &[major, revision], server, "");
}

fn typescript_without_nested(major: &str, revision: &str, server: &[String]) {
    script(node("mcp_client.mjs"), &[major, revision], server, WITHOUT_NESTED);
}

fn on_python(mode: &str, revision: &str, server: &[String]) {
    script(python("mcp_client.py"), &[mode, revision], server, "");
}

async fn rust(revision: &str, server: &[String]) {
    let tapped = Tapped::new(server);
    let mut spawn = tokio::process::Command::new(&tapped.command()[0]);
    spawn.args(&tapped.command()[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn.kill_on_drop(true).spawn().expect("the tap starts");
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
    sdk::run((stdout, stdin), sdk::discovers(), revision).await;
    child.wait().await.expect("it ends when its input does");
    tapped.assert_silent(sdk::CANCELS);
}

#[test]
fn typescript_1_speaks_the_revision_of_the_server() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        typescript("1", revision, &serve(&format!("mcp-{revision}")));
    }
}

/// On `single` one request is worked on at a time, and nothing is answered meanwhile.
#[test]
fn typescript_1_on_every_runtime_that_answers_out_of_order() {
    for runtime in ["blocking", "tokio", "smol"] {
        println!("serve --runtime {runtime}");
        let mut server = serve("mcp-2025-11-25");
        server.extend(["--runtime".into(), runtime.into()]);
        typescript("1", "2025-11-25", &server);
    }
}

/// It asks for 2025-11-25, and our newest takes it. By its own rules a server cancels nothing.
#[test]
fn typescript_1_newest_server() {
    typescript_without_nested("1", "2025-11-25", &serve("mcp"));
}

#[test]
fn typescript_1_our_relay() {
    typescript("1", "2025-11-25", &relay("mcp-2025-11-25", &serve("mcp-2025-11-25")));
}

#[test]
fn typescript_2_discovers() {
    typescript_without_nested("2", "2026-07-28", &serve("mcp"));
}

/// Its `server/discover` is refused.
#[test]
fn typescript_2_falls_back() {
    typescript("2", "2025-11-25", &serve("mcp-2025-11-25"));
}

#[test]
fn typescript_2_our_relay() {
    typescript_without_nested("2", "2026-07-28", &relay("mcp", &serve("mcp")));
}

#[test]
fn python_discovers() {
    on_python("auto", "2026-07-28", &serve("mcp"));
}

/// Its `server/discover` is refused.
#[test]
fn python_falls_back() {
    on_python("auto", "2025-06-18", &serve("mcp-2025-06-18"));
}

#[test]
fn python_our_relay() {
    on_python("legacy", "2025-11-25", &relay("mcp-2025-11-25", &serve("mcp-2025-11-25")));
}

#[tokio::test]
async fn rust_discovers() {
    rust("2026-07-28", &serve("mcp")).await;
}

/// Its `server/discover` is refused.
#[tokio::test]
async fn rust_falls_back() {
    for revision in ["2025-06-18", "2025-11-25"] {
        rust(revision, &serve(&format!("mcp-{revision}"))).await;
    }
}

#[tokio::test]
async fn rust_two_hops() {
    let hops = relay("mcp-2025-11-25", &relay("mcp-2025-11-25", &serve("mcp-2025-11-25")));
    rust("2025-11-25", &hops).await;
}
