//! The messages of our server: the usual answers that a client may expect, and the answer to the held request.

use protocol_core::{CancelRule, Envelope, code};
use serde_json::{Value, json};

use crate::family::{Family, NEWEST_MCP, name_in};
use crate::options::ClientOptions;
use crate::wire::{Asked, Wire};

impl Asked {
    /// Whether it is the cancel of something else, in the protocols whose cancels are requests.
    pub(crate) fn is_cancel(&self, wire: &Wire) -> bool {
        let rule = &wire.dialect.cancel;
        matches!(rule, CancelRule::Request { .. } | CancelRule::Operation { .. })
            && rule.has_method(&self.method)
    }

    /// Returns the name that the client gives, and whether its own work can be cancelled.
    pub(crate) fn client(&self) -> (String, bool) {
        if let Some(name) = self.params["clientName"].as_str() {
            return (name.into(), true);
        }
        let members = ["clientInfo", "info", "agent"];
        let name = name_in(&self.params, &members, "io.modelcontextprotocol/clientInfo");
        let declares = self.params["clientCapabilities"]["cancellation"]["request"] == true;
        (name, declares)
    }
}

/// The result of a request that is answered at once, whatever is tested; `None` for one that may be held.
pub(crate) fn prompt(options: &ClientOptions, asked: &Asked, declares: bool) -> Option<Value> {
    let prompt = told(options, asked).or_else(|| common(asked));
    match &options.hold {
        Some(hold) if *hold == asked.method => None,
        _ if asked.opens() => Some(opened(options, asked, declares)),
        Some(_) => Some(prompt.unwrap_or_else(|| result(options, asked))),
        None => prompt,
    }
}

/// The result that the options have for a request.
fn told(options: &ClientOptions, asked: &Asked) -> Option<Value> {
    let told = options.answers.iter().find(|(method, _)| *method == asked.method);
    told.map(|(_, result)| result.clone())
}

/// Answers the requests that any server gets besides its real work.
pub(crate) fn common(asked: &Asked) -> Option<Value> {
    Some(match asked.method.as_str() {
        "ping" | "authenticate" | "session/load" | "logging/setLevel" => json!({}),
        "shutdown" => Value::Null,
        "session/new" => json!({ "sessionId": "conformance" }),
        "tools/list" => json!({ "tools": [{
            "name": "slow",
            "description": "Takes its time",
            "annotations": { "readOnlyHint": true },
            "inputSchema": { "type": "object", "properties": {} },
        }], "ttlMs": 0, "cacheScope": "public" }),
        "launch" | "attach" | "configurationDone" | "disconnect" => json!({}),
        "prompts/list" => json!({ "prompts": [] }),
        "resources/list" => json!({ "resources": [] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        _ => return None,
    })
}

/// The result that opens the session.
fn opened(options: &ClientOptions, asked: &Asked, declares: bool) -> Value {
    let family = Family::of(&options.dialect);
    let own = options.dialect.name.strip_prefix("mcp-").filter(|own| *own != NEWEST_MCP);
    let declares = declares && matches!(family, Family::AcpDraft | Family::Dap);
    let revision = own.map_or(asked.params["protocolVersion"].clone(), Value::from);
    family.welcome(&asked.method, revision, declares)
}

/// The result of the held request, when it gets one.
pub(crate) fn result(options: &ClientOptions, asked: &Asked) -> Value {
    let usual = || match (Family::of(&options.dialect), asked.method.as_str()) {
        (_, "tools/call") => json!({ "resultType": "complete", "content": [] }),
        (_, "session/prompt") => json!({ "stopReason": "end_turn" }),
        (Family::Lsp, _) => Value::Null,
        _ => json!({}),
    };
    told(options, asked).unwrap_or_else(usual)
}

/// An answer with a result; `own` is its number, where it has one.
pub(crate) fn answer(wire: &Wire, asked: &Asked, result: &Value, own: &str) -> String {
    match wire.dialect.envelope {
        Envelope::Abp if asked.opens() => {
            wire.raw_request(&asked.token, "initialize-result", result)
        }
        _ => respond(wire, asked, &json!({ "result": result }), own),
    }
}

fn respond(wire: &Wire, asked: &Asked, answer: &Value, own: &str) -> String {
    wire.respond(&asked.token, &asked.method, answer, own)
}

/// An answer with an error.
pub(crate) fn error(wire: &Wire, asked: &Asked, code: i64, own: &str) -> String {
    respond(wire, asked, &Wire::error(code, "it is only a test"), own)
}

/// The answer to a cancelled request, where the protocol wants one.
pub(crate) fn cancelled(wire: &Wire, asked: &Asked, own: &str) -> Option<String> {
    wire.answers_cancelled().then(|| error(wire, asked, code::REQUEST_CANCELLED, own))
}

/// The response to a cancel that is a request.
pub(crate) fn acknowledgement(wire: &Wire, asked: &Asked, own: &str) -> String {
    match wire.dialect.envelope {
        Envelope::JsonRpc => error(wire, asked, -32001, own),
        Envelope::Abp => {
            let named = &asked.params[wire.cancel_member()];
            let payload = format!(r#"{{"callId":{named},"cancelled":true}}"#);
            wire.raw_request(&asked.token, "capabilities/cancel-result", payload)
        }
        Envelope::Dap => answer(wire, asked, &json!({}), own),
    }
}
