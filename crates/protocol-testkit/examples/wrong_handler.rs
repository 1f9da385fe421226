//! A handler with a bug that every second one has: it asks the user, and what it asks goes on when the
//! request is cancelled. The search finds it in six steps:
//!
//! ```sh
//! cargo run -p rescind-testkit --example wrong_handler
//! ```

use protocol_core::{Config, Dialect};
use protocol_router::Router;
use protocol_testkit::simulate::{Bound, Failure, Script, Searched, Simulation, try_every_order};
use serde_json::{Value, json};

/// A request that may be cancelled at any moment.
pub(crate) fn world(simulation: Simulation) {
    let peer = Script::new(Config::server(Dialect::LSP_3_17))
        .request("rename", json!({ "to": "new_name" }))
        .cancels(1);
    simulation.serve(peer, async |incoming| {
        let router = Router::new().request("rename", async |_: Value, cx| {
            // The bug: `cx.call` makes it on behalf of the request, `cx.peer().call` does not.
            let answer = cx.peer().call::<Value>("window/showMessageRequest", json!({})).await?;
            Ok(answer)
        });
        router.serve(&incoming).await
    });
}

/// Runs it in every order.
pub(crate) fn search() -> Result<Searched, Failure> {
    try_every_order(Bound::steps(40), world)
}

fn main() {
    match search() {
        Ok(Searched { schedules, .. }) => println!("nothing is wrong in {schedules} schedules"),
        Err(failure) => println!("{failure}"),
    }
}
