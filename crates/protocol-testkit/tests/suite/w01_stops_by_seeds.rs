//! Agents and servers whose work is stopped at any moment, by seeds.
//!
//! All of them: `SIM_SEEDS=200000 cargo test --release -p rescind-testkit --test suite w01_stops`.

use std::time::Duration;

use protocol_core::{Config, Dialect};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::simulate::{PeerAnswer, Script, Simulation, simulate};
use serde_json::{Value, json};

const SEEDS: std::ops::Range<u64> = 0..50;
/// The time that a piece of work takes.
const PIECE: Duration = Duration::from_secs(60);

/// Returns a client that begins work twice. It may stop and cancel each, and go away.
fn client(dialect: Dialect, method: &str, params: Value) -> Script {
    Script::new(Config::server(dialect))
        .request(method, params.clone())
        .request(method, params)
        .stops(2)
        .cancels(1)
        .hangs_up()
        .answers([
            PeerAnswer::Result(permission("selected")),
            PeerAnswer::Result(permission("cancelled")),
        ])
}

fn permission(outcome: &str) -> Value {
    json!({ "outcome": { "outcome": outcome } })
}

/// Serves two turns of one session. Each asks for a permission between two updates.
fn turns(simulation: Simulation, dialect: Dialect) {
    let prompt = async move |prompt: Value, cx: LocalContext| {
        let turn = async {
            let session = json!({ "sessionId": prompt["sessionId"] });
            cx.notify("session/update", session.clone()).await?;
            let permission: Value = cx.call("session/request_permission", session.clone()).await?;
            if permission["outcome"]["outcome"] == "cancelled" {
                return Ok(json!({ "stopReason": "cancelled" }));
            }
            simulation.sleep(PIECE).await;
            cx.notify("session/update", session).await?;
            Ok(json!({ "stopReason": "end_turn" }))
        };
        cx.cancellation().run_until_cancelled(turn).await
    };
    let params = json!({ "sessionId": "s1", "prompt": [] });
    simulation.serve(client(dialect, "session/prompt", params), async move |incoming| {
        LocalRouter::new().request("session/prompt", prompt).serve(&incoming).await
    });
}

/// Serves turns that go on after their responses, each until it says that it is idle.
fn turns_after_responses(simulation: Simulation) {
    let prompt = async move |prompt: Value, cx: LocalContext| {
        let (peer, session) = (cx.peer().clone(), prompt["sessionId"].clone());
        simulation.spawn("turn", async move {
            simulation.sleep(PIECE).await;
            let update = json!({ "sessionUpdate": "state_update", "state": "idle" });
            let idle = json!({ "sessionId": session, "update": update });
            // The client may be gone.
            let _ = peer.notify("session/update", idle).await;
        });
        Ok(json!({}))
    };
    let params = json!({ "sessionId": "s1", "prompt": [] });
    let client = client(Dialect::ACP_V2, "session/prompt", params);
    simulation.serve(client, async move |incoming| {
        LocalRouter::new().request("session/prompt", prompt).serve(&incoming).await
    });
}

/// Serves calls that become tasks, which the client cancels by name.
fn tasks(simulation: Simulation) {
    let call = async |_: Value, _: LocalContext| {
        Ok(json!({ "task": { "taskId": "task-1", "status": "working" } }))
    };
    let cancel = async |params: Value, _: LocalContext| {
        Ok(json!({ "taskId": params["taskId"], "status": "cancelled" }))
    };
    let params = json!({ "name": "sleep", "task": {} });
    let client = client(Dialect::MCP_2025_11_25, "tools/call", params);
    simulation.serve(client, async move |incoming| {
        let router = LocalRouter::new().request("tools/call", call);
        router.request("tasks/cancel", cancel).serve(&incoming).await
    });
}

/// Serves requests that report their progress under the client's token.
fn progress(simulation: Simulation) {
    let index = async move |params: Value, cx: LocalContext| {
        let report = async |kind| {
            let progress = json!({ "token": params["workDoneToken"], "value": { "kind": kind } });
            cx.notify("$/progress", progress).await
        };
        report("begin").await?;
        let ended = cx.cancellation().unless_cancelled(simulation.sleep(PIECE)).await;
        report("end").await?;
        Ok(ended?)
    };
    let params = json!({ "workDoneToken": "token-1" });
    simulation.serve(client(Dialect::LSP_3_17, "index", params), async move |incoming| {
        LocalRouter::new().request("index", index).serve(&incoming).await
    });
}

#[test]
fn w01_turns_by_seeds() {
    for dialect in [Dialect::ACP_V1, Dialect::ACP_DRAFT] {
        simulate(SEEDS, |simulation| turns(simulation, dialect.clone()));
    }
}

#[test]
fn w01_turns_that_go_on_after_their_responses_by_seeds() {
    simulate(SEEDS, turns_after_responses);
}

#[test]
fn w01_tasks_by_seeds() {
    simulate(SEEDS, tasks);
}

#[test]
fn w01_progress_by_seeds() {
    simulate(SEEDS, progress);
}
