//! An async handler of ours, and a peer that keeps the rules and breaks them.

use protocol_core::{CapabilityRule, Config, Dialect};
use protocol_router::{Context, Router};
use protocol_testkit::simulate::{self, Script, Simulation};
use serde_json::{Value, json};

/// The bytes choose the dialect, then everything that happens. This is the peer's messages, honest or hostile, the
/// network's effect on them, the order of tasks, and the passing of time. Anything that a handler or the library may
/// not do is a finding.
pub fn handler(data: &[u8]) {
    simulate::fuzz(data, world);
}

fn world(simulation: Simulation) {
    let dialect = simulation.one_of(Dialect::PRESETS);
    let is_declared = dialect.capability != CapabilityRule::NotNeeded;
    let is_opened = is_declared || dialect.session.is_some();
    let declared = json!({ "cancellation": { "request": true } });
    let mut script = Script::new(Config::server(dialect));
    if is_opened {
        script = script.opening("initialize", json!({ "clientCapabilities": &declared }));
    }
    let script = script
        .request("work", json!({ "of": 1 }))
        .notification("note", json!({}))
        .request("work", json!({ "of": 2 }))
        .anything()
        .hostile(8);
    let declared = json!({ "agentCapabilities": declared, "supportsCancelRequest": true });
    simulation.serve(script, async move |incoming| {
        let router = Router::new()
            .on_trouble(|_| {})
            .request("initialize", async move |_: Value, _| Ok(declared.clone()))
            .notification("note", async |_: Value, _| Ok(()))
            .request("work", async |_: Value, cx: Context| {
                Ok(cx.call::<Value>("confirm", json!({})).await?)
            });
        router.serve(&incoming).await
    });
}
