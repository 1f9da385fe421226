//! Messages as they are written and read. Raw on purpose: a check writes what no careful client would.

use protocol_core::{CancelRule, Dialect, Envelope, Framing};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::family::Family;

pub(crate) mod dap;

/// What a server has said, as far as checks ask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    /// An answer to a request of ours, under this id, as the token that was written.
    Answer { id: String, outcome: Outcome },
    /// ABP: whether a cancel found something to cancel.
    Acknowledged { id: String, cancelled: bool },
    /// Progress, under this token.
    Progress { token: String },
    /// A request of its own.
    Request { id: String, method: String },
    /// A cancel of a request of its own.
    Cancel { id: String },
    /// Any other notification, or what is no message.
    Other,
}

/// How a request of ours was answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Result(Value),
    Error {
        code: i64,
    },
    /// ABP and DAP, where it has no code.
    Cancelled,
}

impl Outcome {
    /// Whether it says that the request was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Error { code: -32800 | -32802 })
    }
}

/// Writes and reads the messages of a dialect.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) dialect: Dialect,
    pub(crate) family: Family,
}

#[derive(Deserialize)]
struct Envelopes<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    params: Option<&'m RawValue>,
    #[serde(borrow)]
    payload: Option<&'m RawValue>,
    error: Option<Value>,
    result: Option<Value>,
}

impl Wire {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { family: Family::of(&dialect), dialect }
    }

    /// The same over a transport that carries bytes.
    pub(crate) fn framing(&self) -> Framing {
        match self.dialect.framing {
            Framing::Whole => Framing::Newline,
            framing => framing,
        }
    }

    /// The bytes of some messages.
    pub(crate) fn framed(&self, messages: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        for message in messages {
            if self.framing() == Framing::ContentLength {
                out.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes(),
                );
            }
            out.extend_from_slice(message.as_bytes());
            if self.framing() == Framing::Newline {
                out.push(b'\n');
            }
        }
        out
    }

    /// A request under this id, and its progress under this token.
    pub(crate) fn request(&self, id: &str, method: &str, params: &Value, progress: &str) -> String {
        let mut params = params.clone();
        if self.dialect.envelope == Envelope::Abp {
            return match method {
                "initialize" => {
                    format!(r#"{{"type":"initialize","id":{id},"timestamp":0,"payload":{params}}}"#)
                }
                _ => format!(
                    r#"{{"type":"capabilities/call","id":{id},"timestamp":0,"payload":{{"capability":{},"params":{params},"options":{{"callId":{id},"progressToken":{}}}}}}}"#,
                    json!(method),
                    json!(progress)
                ),
            };
        }
        if self.dialect.envelope == Envelope::Dap {
            return dap::request(id, method, &params.to_string());
        }
        if let (true, Some(members)) = (self.family.is_mcp(), params.as_object_mut()) {
            let meta = members.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                if !progress.is_empty() {
                    meta.insert("progressToken".into(), json!(progress));
                }
                for (name, value) in
                    self.family.meta().iter().flat_map(|all| all.as_object().into_iter().flatten())
                {
                    meta.insert(name.clone(), value.clone());
                }
            }
            if members["_meta"].as_object().is_some_and(serde_json::Map::is_empty) {
                members.remove("_meta");
            }
        }
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, json!(method))
    }

    /// Writes a notification in the envelope of the dialect.
    pub(crate) fn notification(&self, method: &str, params: &Value) -> String {
        if self.dialect.envelope == Envelope::Abp {
            return format!(
                r#"{{"type":{},"id":"n","timestamp":0,"payload":{params}}}"#,
                json!(method)
            );
        }
        format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, json!(method))
    }

    /// A cancel with these params; `own` is its own id where cancels are requests.
    pub(crate) fn cancel_with(&self, params: &str, own: &str) -> String {
        match &self.dialect.cancel {
            CancelRule::Request { method, .. } if self.dialect.envelope == Envelope::Dap => {
                dap::request(own, method, params)
            }
            CancelRule::Request { method, .. } => {
                format!(
                    r#"{{"type":{},"id":{own},"timestamp":0,"payload":{params}}}"#,
                    json!(method)
                )
            }
            CancelRule::Operation { method, .. } => {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{own},"method":{},"params":{params}}}"#,
                    json!(method)
                )
            }
            CancelRule::Notification { method, .. } => {
                format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, json!(method))
            }
            _ => String::new(),
        }
    }

    /// Whether a cancel is a notification, and so is not answered.
    pub(crate) fn cancels_by_notification(&self) -> bool {
        matches!(self.dialect.cancel, CancelRule::Notification { .. })
    }

    /// The member that names what is cancelled.
    pub(crate) fn cancel_member(&self) -> &str {
        match &self.dialect.cancel {
            CancelRule::Notification { id, .. } | CancelRule::Request { id, .. } => id,
            CancelRule::Operation { token, .. } => token,
            _ => "id",
        }
    }

    /// A cancel of this id.
    pub(crate) fn cancel(&self, id: &str, own: &str) -> String {
        self.cancel_with(&format!(r#"{{"{}":{id}}}"#, self.cancel_member()), own)
    }

    /// The same with members that the server does not know.
    pub(crate) fn cancel_with_more(&self, id: &str, own: &str) -> String {
        let params = format!(
            r#"{{"conformanceUnknown":[{{"a":null}}],"{}":{id},"_meta":{{"a":1}}}}"#,
            self.cancel_member()
        );
        self.cancel_with(&params, own)
    }

    /// What we answer a request of the server's; `own` is the number of the answer, where it has one.
    pub(crate) fn answer(&self, id: &str, method: &str, own: &str) -> String {
        if self.dialect.envelope == Envelope::Dap {
            return dap::refusal(id, method, own);
        }
        let result = match method {
            "workspace/configuration" => "[null]",
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create" => "null",
            "workspace/workspaceFolders" | "roots/list" => "null",
            "elicitation/create" => r#"{"action":"cancel"}"#,
            "ping" => "{}",
            _ => {
                return format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
                );
            }
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    }

    /// What a message says.
    pub(crate) fn read(&self, message: &[u8]) -> Heard {
        if self.dialect.envelope == Envelope::Dap {
            return dap::read(message);
        }
        let Ok(envelope) = serde_json::from_slice::<Envelopes<'_>>(message) else {
            return Heard::Other;
        };
        let id = envelope.id.map(|id| id.get().to_owned());
        if self.dialect.envelope == Envelope::Abp {
            return read_abp(envelope.kind.as_deref().unwrap_or_default(), envelope.payload, id);
        }
        let params =
            || envelope.params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        match (envelope.method, id) {
            (Some(method), Some(id)) => Heard::Request { id, method },
            (Some(method), None) if self.dialect.cancel.has_method(&method) => {
                let named = params().and_then(|params| params.get(self.cancel_member()).cloned());
                Heard::Cancel { id: named.map_or_else(String::new, |id| id.to_string()) }
            }
            (Some(method), None) => {
                let rule = self.dialect.progress.iter().find(|rule| rule.method == method);
                let token = rule.and_then(|rule| params()?.get(&*rule.token).cloned());
                match token {
                    Some(Value::String(token)) => Heard::Progress { token },
                    _ => Heard::Other,
                }
            }
            (None, id) => {
                let id = id.unwrap_or_else(|| "(none)".into());
                match (envelope.error, envelope.result) {
                    (Some(error), _) => Heard::Answer {
                        id,
                        outcome: Outcome::Error { code: error["code"].as_i64().unwrap_or(0) },
                    },
                    (None, result) => {
                        Heard::Answer { id, outcome: Outcome::Result(result.unwrap_or_default()) }
                    }
                }
            }
        }
    }
}

fn read_abp(kind: &str, payload: Option<&RawValue>, id: Option<String>) -> Heard {
    let payload: Value =
        payload.and_then(|it| serde_json::from_str(it.get()).ok()).unwrap_or_default();
    let named =
        || payload.get("callId").map(Value::to_string).or_else(|| id.clone()).unwrap_or_default();
    match kind {
        "capabilities/cancel-result" => {
            Heard::Acknowledged { id: named(), cancelled: payload["cancelled"] == true }
        }
        "capabilities/progress" => match payload.get("progressToken") {
            Some(Value::String(token)) => Heard::Progress { token: token.clone() },
            _ => Heard::Other,
        },
        "capabilities/cancel" => Heard::Cancel { id: named() },
        "capabilities/call" => Heard::Request { id: named(), method: String::new() },
        _ if kind.ends_with("-result") || kind == "error" => {
            let outcome = match (payload["cancelled"] == true, payload["success"] == false) {
                (true, _) => Outcome::Cancelled,
                (_, true) => Outcome::Error { code: 0 },
                _ => Outcome::Result(payload.clone()),
            };
            Heard::Answer { id: named(), outcome }
        }
        _ => Heard::Other,
    }
}

#[cfg(test)]
mod tests;
