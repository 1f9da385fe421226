//! Messages as they are written and read. Raw on purpose: a check writes what no careful client would.

use protocol_core::{CancelRule, Carrier, Dialect, Envelope, Framing, News, ResponseRule};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::document::DOCUMENT;
use crate::family::Family;
use crate::value::{Members, by_value, well_formed};

mod dap;
mod heard;
mod text;

pub(crate) use heard::{Asked, CREATE, Heard, Outcome};

/// Writes and reads the messages of a dialect.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) dialect: Dialect,
    /// The family whose members requests of ours carry.
    pub(crate) family: Family,
    /// Whether the end of a response stream is the cancel.
    closes_streams: bool,
    /// Whether it is that of a server.
    serves: bool,
}

/// The method of a notification that reaches no server. It closes the response stream of the request whose `id` is in its
/// params, and what carries messages over HTTP does that.
pub const LOSS: &str = "$/loss";

impl Wire {
    pub(crate) fn new(mut dialect: Dialect) -> Self {
        let closes_streams = dialect.cancel == CancelRule::ClosedStream;
        if closes_streams {
            // A server may be sent what is none there.
            dialect.cancel = Dialect::MCP_2026_07_28.cancel;
        }
        Self { family: Family::of(&dialect), dialect, closes_streams, serves: false }
    }

    /// Creates the wire of a server, whose requests carry no members of their own.
    pub(crate) fn to_client(dialect: Dialect) -> Self {
        Self { family: Family::JsonRpc, serves: true, ..Self::new(dialect) }
    }

    /// The same over a transport that carries bytes.
    pub(crate) fn framing(&self) -> Framing {
        match self.dialect.framing {
            Framing::Whole => Framing::Newline,
            framing => framing,
        }
    }

    /// The bytes of some messages.
    pub(crate) fn framed(&self, messages: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        for message in messages.iter().map(AsRef::as_ref) {
            if self.framing() == Framing::ContentLength {
                out.extend(format!("Content-Length: {}\r\n\r\n", message.len()).bytes());
            }
            out.extend(message);
            if self.framing() == Framing::Newline {
                out.push(b'\n');
            }
        }
        out
    }

    /// A request under this id, and its progress under this token.
    pub(crate) fn request(&self, id: &str, method: &str, params: &Value, progress: &str) -> String {
        let envelope = self.dialect.envelope;
        if envelope == Envelope::Abp && method != "initialize" {
            let payload = format!(
                r#"{{"capability":{},"params":{params},"options":{{"callId":{id},"progressToken":{}}}}}"#,
                json!(method),
                json!(progress)
            );
            return self.raw_request(id, "capabilities/call", payload);
        }
        let mut params = params.clone();
        let meta = self.meta(progress);
        if let (false, Some(members)) = (meta.is_empty(), params.as_object_mut()) {
            let given = members.entry("_meta").or_insert_with(|| json!({}));
            given.as_object_mut().into_iter().for_each(|given| given.extend(meta.clone()));
        }
        let has_token = self.family == Family::Lsp && method.starts_with(DOCUMENT);
        if let (true, Some(members)) = (has_token && !progress.is_empty(), params.as_object_mut()) {
            members.insert("workDoneToken".into(), json!(progress));
        }
        without_null(&self.raw_request(id, method, params))
    }

    /// Returns the members that a request of the Model Context Protocol carries in its `_meta`.
    fn meta(&self, progress: &str) -> Map<String, Value> {
        let mut meta = Map::new();
        if self.family.is_mcp() && !progress.is_empty() {
            meta.insert("progressToken".into(), json!(progress));
        }
        if let Some(Value::Object(own)) = self.family.meta() {
            meta.extend(own);
        }
        meta
    }

    /// Writes a notification in the envelope of the dialect.
    pub(crate) fn notification(&self, method: &str, params: &Value) -> String {
        without_null(&self.raw_notification(method, params, ""))
    }

    /// A cancel with these params; `own` is its own id where cancels are requests.
    pub(crate) fn cancel_with(&self, params: &str, own: &str) -> String {
        match &self.dialect.cancel {
            CancelRule::Request { method, .. } | CancelRule::Operation { method, .. } => {
                self.raw_request(own, method, params)
            }
            CancelRule::Notification { method, .. } => self.raw_notification(method, params, own),
            _ => String::new(),
        }
    }

    /// Whether a cancelled request is answered.
    pub(crate) fn answers_cancelled(&self) -> bool {
        self.dialect.response == ResponseRule::Required
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
        match self.closes_streams {
            true => self.loss(id),
            false => self.cancel_with(&format!(r#"{{"{}":{id}}}"#, self.cancel_member()), own),
        }
    }

    /// The same with members that the server does not know.
    pub(crate) fn cancel_with_more(&self, id: &str, own: &str) -> String {
        let params = format!(
            r#"{{"conformanceUnknown":[{{"a":null}}],"{}":{id},"_meta":{{"a":1}},"reason":"conformance"}}"#,
            self.cancel_member()
        );
        self.cancel_with(&params, own)
    }

    /// The cancel of a progress in the Debug Adapter Protocol.
    pub(crate) fn cancel_progress(&self, progress: &Value, own: &str) -> String {
        self.cancel_with(&json!({ "progressId": progress }).to_string(), own)
    }

    /// Returns the loss of the response stream of this request.
    pub(crate) fn loss(&self, id: &str) -> String {
        self.raw_notification(LOSS, format!(r#"{{"id":{id}}}"#), "")
    }

    /// Returns the stop of work with this name. `own` is its own id where stops are requests.
    pub(crate) fn stop(&self, name: &Value, own: &str) -> String {
        let mut signs = self.dialect.work.iter().flat_map(|rule| rule.signs.iter());
        let Some(stop) = signs.find(|sign| sign.news == News::Stop) else { return String::new() };
        let params = stop.name.iter().fold(name.clone(), |name, member| json!({ &**member: name }));
        match stop.carrier {
            Carrier::Request => self.request(own, &stop.method, &params, ""),
            _ => self.notification(&stop.method, &params),
        }
    }

    /// Returns our answer to a request of the server's. `own` is the number of the answer, if the protocol has
    /// one.
    pub(crate) fn answer(&self, asked: &Asked, own: &str) -> String {
        let refused = |why| Wire::error(-32601, why);
        let answer = match asked.method.as_str() {
            _ if self.dialect.envelope != Envelope::JsonRpc => refused("not supported"),
            "workspace/configuration" => {
                let items = asked.params["items"].as_array().into_iter().flatten();
                json!({ "result": items.map(|_| Value::Null).collect::<Value>() })
            }
            "elicitation/create" => json!({ "result": { "action": "cancel" } }),
            "ping" => json!({ "result": {} }),
            "workspace/workspaceFolders" => json!({ "result": null }),
            _ if asked.is_housekeeping() => json!({ "result": null }),
            "session/request_permission" => json!({ "result": rejected(&asked.params) }),
            _ => refused("Method not found"),
        };
        self.respond(&asked.id, &asked.method, &answer, own)
    }

    /// Returns whether an answer has the members that its protocol wants of a response.
    pub(crate) fn is_response(&self, answer: &[u8]) -> bool {
        let Some(answer) = Members::of(answer) else { return false };
        let answer = answer.values(&["jsonrpc", "result", "error", "success", "command"]);
        match self.dialect.envelope {
            Envelope::JsonRpc => answer["jsonrpc"] == "2.0" && well_formed(&answer),
            Envelope::Dap => answer["success"].is_boolean() && answer["command"].is_string(),
            Envelope::Abp => true,
        }
    }

    /// Returns a line before a message that is none of its headers, where messages have headers.
    pub(crate) fn stray_line(&self, head: &[u8]) -> Option<String> {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.lines().filter(|_| self.framing() == Framing::ContentLength);
        let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_name = |name: &str| name.contains('-') && name.trim().bytes().all(is_in_name);
        let is_header = |line: &&str| {
            line.trim().is_empty() || line.split_once(':').is_some_and(|(name, _)| is_name(name))
        };
        lines.find(|line| !is_header(line)).map(String::from)
    }

    /// Returns the messages of a batch, where the dialect has batches, or else the message.
    pub(crate) fn members(&self, message: Vec<u8>) -> Vec<Vec<u8>> {
        let batch: Option<Vec<&RawValue>> =
            self.dialect.batches.as_ref().and_then(|_| serde_json::from_slice(&message).ok());
        match batch {
            Some(members) => members.iter().map(|member| member.get().into()).collect(),
            None => vec![message],
        }
    }

    /// Reads a message.
    pub(crate) fn read(&self, message: &[u8]) -> Heard {
        let Some(message) = Members::of(message) else { return Heard::Other };
        let (token, value) = (message.token("id"), |name| message.value(name).unwrap_or_default());
        match self.dialect.envelope {
            Envelope::Dap => return dap::read(&message),
            Envelope::Abp => {
                let kind = message.text("type").unwrap_or_default();
                return self.read_abp(&kind, value("payload"), token);
            }
            Envelope::JsonRpc => {}
        }
        match (message.text("method"), token) {
            (Some(method), Some(token)) => {
                Heard::Request(Asked::new(token, method, value("params")))
            }
            (Some(method), None) if self.dialect.cancel.has_method(&method) => {
                let named = message.within("params", self.cancel_member());
                Heard::Cancel { id: named.unwrap_or_default(), asked: None }
            }
            (Some(method), None) => {
                let rule = self.dialect.progress.iter().find(|rule| rule.method == method);
                Heard::progress(rule.and_then(|rule| value("params").get(&*rule.token).cloned()))
            }
            (None, token) => {
                let id = token.map_or_else(|| "(none)".into(), by_value);
                let (error, result) = (message.value("error"), message.value("result"));
                if error.is_none() && result.is_none() {
                    // It may be a line of a log.
                    return Heard::Other;
                }
                let given = |member: Option<Value>| member.filter(|member| !member.is_null());
                let outcome = match (given(error), given(result)) {
                    (Some(_), Some(_)) => Outcome::Both,
                    (Some(error), None) => Outcome::error(&error["code"]),
                    (None, result) => Outcome::Result(result.unwrap_or_default()),
                };
                Heard::Answer { id, outcome }
            }
        }
    }

    fn read_abp(&self, kind: &str, payload: Value, token: Option<&str>) -> Heard {
        let id_in =
            |value: &Value| value.get("callId").filter(|id| !id.is_null()).map(Value::to_string);
        let called = id_in(&payload);
        let id = called.as_deref().or(token).map(by_value).unwrap_or_default();
        match (kind, token) {
            ("capabilities/cancel-result", _) => {
                Heard::Acknowledged { id, cancelled: payload["cancelled"] == true }
            }
            ("capabilities/progress", _) => Heard::progress(payload.get("progressToken").cloned()),
            ("capabilities/cancel", _) => {
                let asked = token.map(|token| Asked::new(token, kind, payload));
                Heard::Cancel { id, asked }
            }
            ("capabilities/call", _) => {
                let call = id_in(&payload["options"]).or(called);
                let method = payload["capability"].as_str().unwrap_or_default();
                let token = call.as_deref().or(token).unwrap_or_default();
                Heard::Request(Asked::new(token, method, payload["params"].clone()))
            }
            _ if kind.ends_with("-result") || kind == "error" => {
                let outcome = match (payload["cancelled"] == true, payload["success"] == false) {
                    (true, _) => Outcome::Cancelled,
                    (_, true) => Outcome::Error { code: 0 },
                    _ => Outcome::Result(payload),
                };
                Heard::Answer { id, outcome }
            }
            (kind, Some(token)) if self.serves && !kind.ends_with("/progress") => {
                Heard::Request(Asked::new(token, kind, payload))
            }
            _ => Heard::Other,
        }
    }
}

/// Params that are null stand for none.
fn without_null(message: &str) -> String {
    message.replacen(r#","params":null"#, "", 1)
}

/// The response to an agent that wants to do something: it may not.
fn rejected(params: &Value) -> Value {
    let mut options = params["options"].as_array().into_iter().flatten();
    let rejects = |kind: &Value| kind.as_str().is_some_and(|kind| kind.starts_with("reject"));
    let outcome = match options.find(|option| rejects(&option["kind"])) {
        Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
        None => json!({ "outcome": "cancelled" }),
    };
    json!({ "outcome": outcome })
}

#[cfg(test)]
mod tests;
