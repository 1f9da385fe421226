//! The requests that are made through a relay, and their results.

use serde_json::{Value, json};

use super::target::Side;
use crate::family::Family::{self, *};
use crate::family::put;

/// The kind of request that is made through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// One that the protocol has: a relay that knows its methods passes it on.
    Known,
    /// One that no protocol has: what knows methods has no opinion on it.
    Unknown,
}

impl Work {
    /// Returns the kinds to try, the best first, for this side of this protocol.
    pub(super) fn of(family: Family, caller: Side) -> &'static [Self] {
        match (family, caller) {
            // The newest revision has no requests of servers.
            (Mcp2026, Side::Far) => &[Self::Unknown],
            _ => &[Self::Known, Self::Unknown],
        }
    }

    /// Returns the method and the params of a request that this side makes. Its tag tells it from all others, and is
    /// its progress token too.
    pub(super) fn request(self, family: Family, caller: Side, tag: u64) -> (&'static str, Value) {
        let (method, mut params, place, _) = self.parts(family, caller);
        params["_meta"] = family.meta().filter(|_| self == Self::Known).unwrap_or(json!({}));
        params["_meta"]["progressToken"] = json!(tag);
        let free = if place.is_empty() { &mut params } else { &mut params[place] };
        free["tag"] = json!(tag);
        free["text"] = json!("hé");
        (method, params)
    }

    /// Returns the answer to such a request. It holds the id that the request has on the far side.
    pub(super) fn result(self, family: Family, caller: Side, far: &Value) -> Value {
        let (.., result) = self.parts(family, caller);
        put(&result, &[(FAR, far.clone())])
    }

    /// Returns a method, its params, the member of these that takes ours, and the result.
    ///
    /// Members of one's own get through what reads the rest, if the protocol allows them.
    fn parts(self, family: Family, caller: Side) -> (&'static str, Value, &'static str, Value) {
        let (text, meta) = (json!({ "type": "text", "text": "é" }), json!({ "far": FAR }));
        match (self, family, caller) {
            (Self::Known, Acp | AcpV2 | AcpDraft, Side::Near) => {
                let params = json!({ "sessionId": "conformance", "prompt": [text] });
                let result = json!({ "stopReason": "end_turn", "_meta": meta });
                ("session/prompt", params, "_meta", result)
            }
            (Self::Known, Acp | AcpV2 | AcpDraft, Side::Far) => {
                let params = json!({ "sessionId": "conformance", "path": "/hé" });
                let result = json!({ "content": "é", "_meta": meta });
                ("fs/read_text_file", params, "_meta", result)
            }
            (Self::Known, Lsp, Side::Near) => {
                let position = json!({ "line": 0, "character": 0 });
                let document = json!({ "uri": "file:///conformance" });
                let params = json!({ "textDocument": document, "position": position });
                ("textDocument/hover", params, "", json!({ "contents": "é", "far": FAR }))
            }
            (Self::Known, Lsp, Side::Far) => {
                let params = json!({ "items": [{ "section": "hé" }] });
                ("workspace/configuration", params, "", json!(["é", FAR]))
            }
            (Self::Known, Dap, Side::Near) => {
                let result = json!({ "result": "é", "variablesReference": 0, "far": FAR });
                ("evaluate", json!({ "expression": "hé" }), "", result)
            }
            (Self::Known, McpUntil2025 | Mcp2026, Side::Near) => {
                let result = json!({ "content": [text], "_meta": meta });
                ("tools/call", json!({ "name": "work" }), "arguments", result)
            }
            (Self::Known, McpUntil2025, Side::Far) => (
                "sampling/createMessage",
                json!({ "messages": [{ "role": "user", "content": text }], "maxTokens": 1 }),
                "_meta",
                json!({ "role": "assistant", "model": "é", "content": text, "_meta": { "far": FAR } }),
            ),
            (Self::Known, Dap, Side::Far) => {
                let params = json!({ "cwd": "/hé", "args": ["work"] });
                ("runInTerminal", params, "", json!({ "far": FAR, "text": "é" }))
            }
            _ => ("work", json!({}), "", json!({ "far": FAR, "text": "é" })),
        }
    }
}

/// The placeholder for the id that a request has on the far side.
const FAR: &str = "$FAR";
