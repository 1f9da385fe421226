//! The tools of a server of MCP, and what it does over HTTP.

use serde_json::{Value, json};

use super::Server;

impl Server {
    /// Takes the end of the response stream of a request.
    pub(super) fn lose(&self, id: &Value) {
        if self.has_streams {
            self.cancel(Some(json!({ "requestId": id })));
        }
    }

    /// Keeps how the work under a token ended.
    pub(super) fn keep_outcome(&self, token: Option<&str>, is_cancelled: bool) {
        let outcome = if is_cancelled { "cancelled" } else { "finished" };
        self.lock().outcomes.extend(token.map(|token| (token.to_owned(), outcome)));
    }

    /// Answers how the work under a token ended.
    pub(super) fn outcome(&self, id: &str, arguments: &Value) {
        let token = arguments["token"].as_str().unwrap_or_default();
        let outcome = self.lock().outcomes.get(token).copied();
        self.answer(id, &json!({ "result": { "outcome": outcome } }));
    }
}

pub(super) fn tools() -> Value {
    json!({ "tools": [{
        "name": "slow",
        "annotations": { "readOnlyHint": true },
        "execution": { "taskSupport": "optional" },
        "inputSchema": { "type": "object", "properties": { "ms": { "type": "integer" } }, "required": ["ms"] },
    }] })
}
