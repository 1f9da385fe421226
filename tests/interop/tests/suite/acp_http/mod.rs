//! ACP over HTTP, with the crate `agent-client-protocol-http` in both roles.
//!
//! There are turns with updates and a permission, both cancels, and DELETE. Streams are lost.

mod our_client;
mod tap;
mod their_client;

use serde_json::{Value, json};

fn selected() -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": "yes" } })
}

fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

fn prompt(session: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Go" }] })
}

/// Returns one of the updates of a turn.
fn update(session: &str, word: &str) -> Value {
    json!({ "sessionId": session, "update": { "content": { "text": word } } })
}

/// Returns the word of an update.
fn word(update: &Value) -> String {
    update["update"]["content"]["text"].as_str().expect("it is text").to_owned()
}
