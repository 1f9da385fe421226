//! Tasks of MCP 2025-11-25, which go on after the response to their request.

use std::process::Command;
use std::time::Duration;

use protocol_async::{CancellationHandle, Peer};
use protocol_core::{CancelOutcome, Config, Dialect};
use protocol_router::Router;
use rescind_interop::mcp::own::open;
use rescind_interop::peers::{CommandLine, line, node, python_1, relay};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::script;

/// Longer than any test waits.
const LONG: u64 = 600_000;

const LAST: &str = "a_later_task_is_not_hit";

fn own_server() -> CommandLine {
    line(&[env!("CARGO_BIN_EXE_tasks_server")])
}

/// Creates a task. Returns its name, and the handle of its call, which has settled.
async fn begin(peer: &Peer, ms: u64) -> (Value, CancellationHandle) {
    let arguments = json!({ "ms": ms });
    let params = json!({ "name": "sleep", "arguments": arguments, "task": { "ttl": LONG } });
    let sent = peer.call::<Value>("tools/call", params);
    let handle = sent.cancellation_handle();
    let created = sent.await.expect("a task");
    (json!({ "taskId": created["task"]["taskId"] }), handle)
}

/// Asks until the task has ended, and returns its last status.
async fn last_status(peer: &Peer, task: &Value) -> Value {
    loop {
        let described: Value = peer.call("tasks/get", task).await.expect("a description");
        if described["status"] != "working" {
            return described["status"].clone();
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the number of tasks that the server works at.
async fn working(peer: &Peer) -> Value {
    let asked = json!({ "name": "working", "arguments": {} });
    let result: Value = peer.call("tools/call", asked).await.expect("a result");
    let said = result["content"][0]["text"].as_str().expect("text");
    serde_json::from_str::<Value>(said).expect("JSON in it")["working"].clone()
}

async fn a_task_that_ends_by_itself_is_not_stopped(peer: &Peer) {
    let (task, handle) = begin(peer, 1).await;
    let result: Value = peer.call("tasks/result", &task).await.expect("a result");
    assert_eq!(
        result["content"][0]["text"].as_str().map(|text| text.contains("slept_ms")),
        Some(true)
    );
    assert_eq!(last_status(peer, &task).await, "completed");
    assert_eq!(handle.stop(), CancelOutcome::AlreadySettled);
}

async fn a_task_is_stopped_by_the_handle_of_its_call(peer: &Peer) {
    let (other, of_other) = begin(peer, LONG).await;
    let (task, handle) = begin(peer, LONG).await;
    assert_eq!(handle.stop(), CancelOutcome::Sent);
    assert_eq!(handle.stop(), CancelOutcome::AlreadySent);
    assert_eq!(last_status(peer, &task).await, "cancelled");
    assert_eq!(handle.stop(), CancelOutcome::AlreadySettled);

    let goes_on: Value = peer.call("tasks/get", &other).await.expect("a description");
    assert_eq!(goes_on["status"], "working");
    assert_eq!(of_other.stop(), CancelOutcome::Sent);
    assert_eq!(last_status(peer, &other).await, "cancelled");
}

/// Our client on tokio in front of a server of theirs.
async fn our_client(server: Option<CommandLine>, through: impl Fn(CommandLine) -> CommandLine) {
    let Some(server) = server else { return };
    let command = through(server);
    let mut spawned = Command::new(&command[0]);
    spawned.args(&command[1..]);
    let child = protocol_tokio::child(spawned, Config::client(Dialect::MCP_2025_11_25));
    let child = child.expect("the server starts");
    tokio::spawn(async move {
        Router::new().on_trouble(|_| ()).serve(&child.incoming).await;
    });
    let checks = async {
        open(&child.peer).await;
        a_task_that_ends_by_itself_is_not_stopped(&child.peer).await;
        a_task_is_stopped_by_the_handle_of_its_call(&child.peer).await;
        // Neither SDK tells the tool. The matrix in docs/interop.md says so.
        assert_eq!(working(&child.peer).await, 2);
    };
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

#[tokio::test]
async fn our_client_typescript_server() {
    our_client(node("mcp_tasks_server.mjs"), |server| server).await;
}

#[tokio::test]
async fn our_client_our_relay_typescript_server() {
    our_client(node("mcp_tasks_server.mjs"), |server| relay("mcp-2025-11-25", &server)).await;
}

#[tokio::test]
async fn our_client_python_server() {
    our_client(python_1("mcp_tasks_server.py"), |server| server).await;
}

#[tokio::test]
async fn our_client_our_relay_python_server() {
    our_client(python_1("mcp_tasks_server.py"), |server| relay("mcp-2025-11-25", &server)).await;
}

#[test]
fn typescript_client_our_server() {
    script(node("mcp_tasks_client.mjs"), &own_server(), LAST);
}

#[test]
fn typescript_client_our_relay_our_server() {
    script(node("mcp_tasks_client.mjs"), &relay("mcp-2025-11-25", &own_server()), LAST);
}

#[test]
fn python_client_our_server() {
    script(python_1("mcp_tasks_client.py"), &own_server(), LAST);
}

#[test]
fn python_client_our_relay_our_server() {
    script(python_1("mcp_tasks_client.py"), &relay("mcp-2025-11-25", &own_server()), LAST);
}
