//! The requests that are made through a relay, and their results.

use serde_json::{Value, json};

use super::bench::Side;
use crate::family::Family::{self, *};

/// The kind of request that is made through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// One that the protocol has: a relay that knows its methods passes it on.
    Known,
    /// One that no protocol has: what knows methods has no opinion on it.
    Unknown,
}

impl Work {
    /// Those to try, the best first, of what this side asks in this protocol.
    pub(super) fn of(family: Family, caller: Side) -> &'static [Self] {
        match (family, caller) {
            // The newest revision has no requests of servers.
            (Mcp2026, Side::Far) => &[Self::Unknown],
            _ => &[Self::Known, Self::Unknown],
        }
    }

    /// The method and the params of a request that this side makes. Its tag tells it from all others, and is
    /// its progress token too.
    pub(super) fn request(self, family: Family, caller: Side, tag: u64) -> (&'static str, Value) {
        let acp = json!({ "sessionId": "conformance" });
        // Where a protocol allows members of one's own, so that they get through what reads the rest.
        let (method, mut params, place) = match (self, family, caller) {
            (Self::Known, Acp | AcpV2 | AcpDraft, Side::Near) => {
                let prompt = json!([{ "type": "text", "text": "work" }]);
                ("session/prompt", with(acp, "prompt", prompt), "_meta")
            }
            (Self::Known, Acp | AcpV2 | AcpDraft, Side::Far) => {
                ("fs/read_text_file", with(acp, "path", json!("/hé")), "_meta")
            }
            (Self::Known, Lsp, Side::Near) => {
                let position = json!({ "line": 0, "character": 0 });
                let document = json!({ "uri": "file:///conformance" });
                let params = json!({ "textDocument": document, "position": position });
                ("textDocument/hover", params, "")
            }
            (Self::Known, Lsp, Side::Far) => {
                ("workspace/configuration", json!({ "items": [{ "section": "hé" }] }), "")
            }
            (Self::Known, Dap, Side::Near) => ("evaluate", json!({ "expression": "hé" }), ""),
            (Self::Known, Dap, Side::Far) => {
                ("runInTerminal", json!({ "cwd": "/hé", "args": ["work"] }), "")
            }
            (Self::Known, McpUntil2025 | Mcp2026, Side::Near) => {
                ("tools/call", json!({ "name": "work" }), "arguments")
            }
            (Self::Known, McpUntil2025, Side::Far) => {
                let message =
                    json!({ "role": "user", "content": { "type": "text", "text": "work" } });
                let params = json!({ "messages": [message], "maxTokens": 1 });
                ("sampling/createMessage", params, "_meta")
            }
            _ => ("work", json!({}), ""),
        };
        params["_meta"] = family.meta().filter(|_| self == Self::Known).unwrap_or(json!({}));
        params["_meta"]["progressToken"] = json!(tag);
        let free = if place.is_empty() { &mut params } else { &mut params[place] };
        free["tag"] = json!(tag);
        free["text"] = json!("hé");
        (method, params)
    }

    /// Returns the answer to such a request. It holds the id that the request has on the far side.
    pub(super) fn result(self, family: Family, caller: Side, far: &Value) -> Value {
        let meta = json!({ "far": far });
        let content = json!({ "type": "text", "text": "é" });
        match (self, family, caller) {
            (Self::Known, Acp | AcpV2 | AcpDraft, Side::Near) => {
                json!({ "stopReason": "end_turn", "_meta": meta })
            }
            (Self::Known, Acp | AcpV2 | AcpDraft, Side::Far) => {
                json!({ "content": "é", "_meta": meta })
            }
            (Self::Known, Lsp, Side::Near) => json!({ "contents": "é", "far": far }),
            (Self::Known, Lsp, Side::Far) => json!(["é", far]),
            (Self::Known, Dap, Side::Near) => {
                json!({ "result": "é", "variablesReference": 0, "far": far })
            }
            (Self::Known, McpUntil2025 | Mcp2026, Side::Near) => {
                json!({ "content": [content], "_meta": meta })
            }
            (Self::Known, McpUntil2025, Side::Far) => {
                json!({ "role": "assistant", "model": "é", "content": content, "_meta": meta })
            }
            _ => json!({ "far": far, "text": "é" }),
        }
    }
}

fn with(mut params: Value, member: &str, value: Value) -> Value {
    params[member] = value;
    params
}
