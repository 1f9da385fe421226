//! `rescind view` of what a simulation recorded.

use std::fs;
use std::path::Path;

use protocol_core::{Config, Dialect};
use protocol_router::Router;
use protocol_testkit::simulate::{Bound, Failure, Script, Simulation, try_every_order};
use serde_json::{Value, json};

use crate::support::rescind;

/// Returns the failure of a handler whose own call is not cancelled with its request.
fn failure(dialect: Dialect) -> Failure {
    let world = |simulation: Simulation| {
        let script =
            Script::new(Config::server(dialect.clone())).request("work", json!({})).cancels(1);
        simulation.serve(script, async move |incoming| {
            let router =
                Router::new().on_trouble(|_| {}).request("work", async move |_: Value, cx| {
                    simulation.note("asks");
                    Ok(cx.peer().call::<Value>("confirm", json!({})).await?)
                });
            router.serve(&incoming).await
        });
    };
    try_every_order(Bound::steps(40), world).unwrap_err()
}

#[test]
fn f51_the_recording_of_a_failure_can_be_viewed() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulated.jsonl");
    for dialect in [Dialect::ACP_V1, Dialect::LSP_3_17, Dialect::MCP_2025_11_25] {
        let recording = failure(dialect).recording();
        assert!(recording.contains(r#""verdict":"noted","why":"asks""#), "{recording}");
        assert!(recording.contains(r#""why":"orphaned call: call 1 was made"#), "{recording}");
        fs::write(&path, recording).unwrap();
        let said = rescind(["view", "--json", path.to_str().unwrap()]);
        assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{said:?}");
        let rows: Vec<Value> =
            said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told =
            |row: &Value| ["hop", "dir", "method"].map(|it| row[it].as_str().map(String::from));
        let row = |dir: &str, method: &str| ["peer", dir, method].map(|it| Some(it.to_owned()));
        assert_eq!(told(&rows[0]), row("received", "work"), "{rows:?}");
        assert_eq!(told(&rows[1]), row("sent", "confirm"), "{rows:?}");
        assert!(rows[0]["cancelled"].is_number() || rows[0]["cancelled"].is_string(), "{rows:?}");
        assert_eq!(rows[2]["summary"]["requests"], 2, "{rows:?}");
    }
}
