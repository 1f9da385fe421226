//! The tokio agent of the examples, unchanged, by seeds and in every order.

use protocol_core::{Config, Dialect};
use protocol_testkit::simulate::{Bound, Script, Simulation, every_order, simulate};
use serde_json::json;

#[path = "../../../protocol-tokio/examples/acp_agent.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod acp_agent;

/// A client that may cancel a prompt at any moment.
fn world(simulation: Simulation) {
    simulation.tokio();
    let client = Script::new(Config::server(Dialect::ACP_V1))
        .opening("initialize", json!({ "protocolVersion": 1 }))
        .request("session/prompt", json!({ "sessionId": "s1" }))
        .cancels(1);
    simulation.serve(client, async |incoming| acp_agent::serve(&incoming).await);
}

/// All of them: `SIM_SEEDS=100000 cargo test --release -p rescind-testkit --test suite tokio_agent`.
#[test]
fn f51_the_tokio_agent_by_seeds() {
    simulate(0..100, world);
}

/// All 2,855 orders with `--release`.
#[test]
fn f51_the_tokio_agent_in_every_order() {
    let searched = every_order(Bound::steps(if cfg!(debug_assertions) { 16 } else { 40 }), world);
    assert!(searched.is_exhausted || cfg!(debug_assertions), "{searched:?}");
}
