//! A server whose handler has a bug that every second server has: it answers a cancelled request at
//! once, and its work, which nobody stopped, answers again. The search finds it in seven steps:
//!
//! ```sh
//! cargo run -p protocol-testkit --example wrong_handler
//! REPLAY="client call Work 1; client drain 1; …" cargo run -p protocol-testkit --example wrong_handler
//! ```

use std::collections::BTreeSet;

use protocol_core::{Cause, Config, Dialect, Role};
use protocol_testkit::explore::{Handler, Handling, Report, Scenario, replay, search};
use protocol_testkit::{Answering, Asked, Operation};
use serde_json::{Value, json};

/// A server that keeps the ids of what it works on, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wrong {
    running: BTreeSet<u64>,
}

impl Handler for Wrong {
    fn receive(&mut self, message: &[u8], out: &mut Vec<Vec<u8>>) {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        if message["method"] == "$/cancelRequest" {
            let id = &message["params"]["id"];
            let error = json!({"code": -32800, "message": "Request cancelled"});
            if self.running.contains(&id.as_u64().unwrap_or_default()) {
                // The bug: the work goes on.
                out.push(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into());
            }
        } else if let Some(id) = message["id"].as_u64() {
            self.running.insert(id);
        }
    }

    fn work(&self) -> Vec<String> {
        self.running.iter().map(|id| format!("finishes {id}")).collect()
    }

    fn go_on(&mut self, work: usize, out: &mut Vec<Vec<u8>>) {
        let Some(id) = self.running.iter().copied().nth(work) else { return };
        self.running.remove(&id);
        out.push(json!({"jsonrpc": "2.0", "id": id, "result": "done"}).to_string().into());
    }
}

/// A call that may be cancelled at any moment.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "one call, one cancel",
    budget: &[
        (Operation::Call { at: Role::Client, asked: Asked::work(1) }, 1),
        (Operation::Cancel { at: Role::Client, call: 0, cause: Cause::Caller }, 1),
    ],
    answers: &[Answering::Result],
    timers: false,
};

/// Where the search begins.
pub(crate) fn start() -> Handling<Wrong> {
    Handling::new(Config::client(Dialect::LSP_3_17), SCENARIO, Wrong::default())
}

/// Visits every ordering.
pub(crate) fn explore() -> Report {
    search(&start(), 100_000)
}

fn main() {
    if let Ok(line) = std::env::var("REPLAY") {
        match replay(&start(), &line) {
            Ok(chart) => println!("{chart}nothing is wrong there"),
            Err(failure) => println!("{failure}"),
        }
        return;
    }
    let Report { states, transitions, failure, .. } = explore();
    println!("{states} states, {transitions} transitions");
    match failure {
        Some(failure) => println!("{failure}"),
        None => println!("nothing is wrong"),
    }
}
