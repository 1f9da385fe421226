//! The protocols that checks are written for: which clauses hold, and how a session is opened.

use protocol_core::{CancelRule, Dialect};
use serde_json::{Value, json};

use crate::worded::worded;

worded! {
    /// A protocol, as far as its clauses on cancelling differ from others'.
    #[non_exhaustive]
    pub enum Family {
        /// JSON-RPC 2.0 without a cancel on the wire.
        JsonRpc = "jsonrpc",
        /// Agent Client Protocol, version 1.
        Acp = "acp",
        /// Agent Client Protocol, version 2.
        AcpV2 = "acp-v2",
        /// The first draft of cancelling in the Agent Client Protocol.
        AcpDraft = "acp-draft",
        /// Language Server Protocol.
        Lsp = "lsp",
        /// Model Context Protocol in the revisions that have an `initialize`.
        McpUntil2025 = "mcp until 2025-11-25",
        /// Model Context Protocol 2026-07-28.
        Mcp2026 = "mcp-2026-07-28",
        /// The App-Browser Protocol (ABP).
        Abp = "abp",
        /// Debug Adapter Protocol, of an adapter that declares `supportsCancelRequest`.
        Dap = "dap",
        /// The same of one that does not: nothing may be cancelled there.
        DapPlain = "dap without cancel",
        /// The operations of erlmcp.
        Erlmcp = "erlmcp",
    }
}

impl Family {
    /// Returns the family of a preset, or of a dialect made from one, by its name; the closest if there is none.
    #[must_use]
    pub fn of(dialect: &Dialect) -> Self {
        let name = &*dialect.name;
        match name.split('-').next().unwrap_or_default() {
            "acp" if name == "acp-v2" => Self::AcpV2,
            "acp" if name == "acp-draft" => Self::AcpDraft,
            "acp" => Self::Acp,
            "lsp" => Self::Lsp,
            "mcp" if ["mcp", "mcp-http"].contains(&name) || name.contains(NEWEST_MCP) => {
                Self::Mcp2026
            }
            "mcp" => Self::McpUntil2025,
            "abp" => Self::Abp,
            "dap" if dialect.cancel == CancelRule::Local => Self::DapPlain,
            "dap" => Self::Dap,
            "erlmcp" => Self::Erlmcp,
            _ => Self::JsonRpc,
        }
    }

    /// Returns the place in a report that tells the state of work, and the words there for work that runs and for work
    /// that has ended. Without it, any report says that the work runs, and a response ends it.
    pub(crate) const fn states(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::AcpV2 => Some(("/params/update/state", "running", "idle")),
            Self::Lsp => Some(("/params/value/kind", "begin", "end")),
            _ => None,
        }
    }

    /// Returns whether the end of work tells whether it was stopped.
    pub(crate) const fn marks_stops(self) -> bool {
        !matches!(self, Self::Lsp)
    }

    /// Whether it is a revision of the Model Context Protocol.
    pub(crate) const fn is_mcp(self) -> bool {
        matches!(self, Self::McpUntil2025 | Self::Mcp2026)
    }

    /// Returns the members that every request carries in its `_meta`.
    pub(crate) fn meta(self) -> Option<Value> {
        (self == Self::Mcp2026).then(|| {
            json!({
                "io.modelcontextprotocol/protocolVersion": NEWEST_MCP,
                "io.modelcontextprotocol/clientInfo": program(),
                "io.modelcontextprotocol/clientCapabilities": {},
            })
        })
    }

    /// The messages that open a session, in order.
    pub(crate) fn opening(self, dialect: &Dialect) -> Vec<Opening> {
        let client = program();
        let name = dialect.name.trim_end_matches("-http");
        let revision = name.strip_prefix("mcp-").unwrap_or("2025-11-25");
        match self {
            Self::JsonRpc => vec![],
            Self::AcpV2 => vec![Opening::request(
                "initialize",
                json!({ "protocolVersion": 2, "capabilities": {}, "info": client }),
            )],
            Self::Acp | Self::AcpDraft => {
                let capabilities = match self {
                    Self::AcpDraft => json!({ "cancellation": { "request": true } }),
                    _ => json!({}),
                };
                vec![Opening::request(
                    "initialize",
                    json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": client }),
                )]
            }
            Self::Lsp => vec![
                Opening::request(
                    "initialize",
                    json!({ "processId": null, "clientInfo": client, "rootUri": null, "capabilities": {} }),
                ),
                Opening::notification("initialized", json!({})),
            ],
            Self::Mcp2026 => vec![Opening::request("server/discover", json!({}))],
            Self::McpUntil2025 | Self::Erlmcp => vec![
                Opening::request(
                    "initialize",
                    json!({ "protocolVersion": revision, "capabilities": { "elicitation": {} }, "clientInfo": client }),
                ),
                Opening::notification("notifications/initialized", json!({})),
            ],
            Self::Abp => vec![Opening::request("initialize", json!({ "agent": client }))],
            Self::Dap | Self::DapPlain => vec![Opening::request(
                "initialize",
                json!({ "adapterID": "rescind", "clientID": "rescind", "clientName": client["name"], "supportsProgressReporting": true }),
            )],
        }
    }

    /// The result of a server of the request that opens a session in this revision. It may declare that it can be cancelled.
    pub(crate) fn welcome(self, method: &str, revision: Value, declares: bool) -> Value {
        let server = program();
        match self {
            _ if method == "server/discover" => json!({
                "supportedVersions": [NEWEST_MCP],
                "capabilities": { "tools": {} },
                "ttlMs": 0,
                "cacheScope": "public",
                "_meta": { "io.modelcontextprotocol/serverInfo": server },
            }),
            Self::McpUntil2025 | Self::Mcp2026 | Self::Erlmcp => {
                let revision = if revision.is_string() { revision } else { json!("2025-11-25") };
                json!({ "protocolVersion": revision, "capabilities": { "tools": {} }, "serverInfo": server })
            }
            Self::Lsp => json!({
                "capabilities": {
                    "textDocumentSync": 1,
                    "hoverProvider": true,
                    "documentSymbolProvider": true,
                    "completionProvider": {},
                },
                "serverInfo": server,
            }),
            Self::Abp => json!({ "success": true, "app": server }),
            Self::Dap => json!({ "supportsCancelRequest": declares }),
            _ => {
                let capabilities = match declares {
                    true => json!({ "cancellation": { "request": true } }),
                    false => json!({}),
                };
                json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": server, "authMethods": [] })
            }
        }
    }

    /// Requests that a server should answer at once, whatever it is for; the first that it does answer is
    /// used.
    pub(crate) fn quick(self) -> Vec<Request> {
        let unknown = Request::new("conformance/unknown", json!({}));
        match self {
            Self::McpUntil2025 => {
                vec![Request::new("ping", json!({})), Request::new("tools/list", json!({}))]
            }
            Self::Mcp2026 => vec![Request::new("tools/list", json!({})), unknown],
            Self::Erlmcp => vec![Request::new("tools/list", json!({})), unknown],
            // Some adapters end when they are told a command that they don't know.
            Self::Dap | Self::DapPlain => vec![Request::new("threads", json!({})), unknown],
            _ => vec![unknown],
        }
    }

    /// Returns requests that may take a server its time, where nothing that it says of itself names one.
    ///
    /// `sleep` is what `rescind serve` calls it; a server that knows no such method refuses it at once. An agent is asked
    /// for a turn, in a session of its own.
    pub(crate) fn slow(self) -> Vec<Request> {
        let sleep = Request::new("sleep", json!({ "ms": "$MS" }));
        let text = "Count slowly from 1 to 30, one number a line.";
        let prompt = json!({ "sessionId": SESSION, "prompt": [{ "type": "text", "text": text }] });
        match self {
            Self::Acp | Self::AcpV2 | Self::AcpDraft => {
                vec![sleep, Request::new("session/prompt", prompt)]
            }
            Self::McpUntil2025 | Self::Mcp2026 => vec![],
            _ => vec![sleep],
        }
    }
}

/// The revision of MCP that carries its opening in every request.
pub(crate) const NEWEST_MCP: &str = "2026-07-28";

/// The name and the version that we give, as a client and as a server.
fn program() -> Value {
    json!({ "name": "rescind conform", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the name and the version that a peer gives of itself in one of these members, or in this one of `_meta`.
pub(crate) fn name_in(said: &Value, members: &[&str], of_meta: &str) -> String {
    let own = members.iter().find_map(|member| said.get(member));
    let own = own.or_else(|| said["_meta"].get(of_meta));
    let part = |name| own.and_then(|own| own[name].as_str()).unwrap_or_default();
    format!("{} {}", part("name"), part("version")).trim().to_owned()
}

/// A request to make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The name of its method.
    pub method: String,
    /// Its params, in which placeholders may stand for times.
    pub params: Value,
}

impl Request {
    /// Creates a request. In its params `$MS` and `$S` stand for the milliseconds or seconds that it is to take.
    ///
    /// A text that is nothing else becomes a number. Within a text the digits take its place.
    #[must_use]
    pub fn new(method: impl Into<String>, params: Value) -> Self {
        Self { method: method.into(), params }
    }

    /// Returns the params with the times that they ask for.
    pub(crate) fn lasting(&self, ms: u64) -> Value {
        let seconds = ms.div_ceil(1000);
        let text = |number: u64| json!(number.to_string());
        put(
            &self.params,
            &[
                ("$MS", json!(ms)),
                ("$S", json!(seconds)),
                ("$TENTH_MS", json!(ms / 10)),
                ("$MS_TEXT", text(ms)),
                ("$S_TEXT", text(seconds)),
            ],
        )
    }

    /// Returns the same request with times that are texts, for a server that takes no numbers there. Returns `None` if
    /// no text is a time and nothing else.
    pub(crate) fn with_texts(&self) -> Option<Self> {
        let params = each_text(&self.params, &|text| match text {
            "$MS" | "$S" => json!(format!("{text}_TEXT")),
            other => json!(other),
        });
        (params != self.params).then(|| Self { params, ..self.clone() })
    }

    /// Returns whether the params name a session of the Agent Client Protocol, which has to be opened before.
    pub(crate) fn is_in_session(&self) -> bool {
        put(&self.params, &[(SESSION, Value::Null)]) != self.params
    }
}

/// The placeholder for the id of a session.
pub(crate) const SESSION: &str = "$SESSION";

/// Returns a value with these in place of texts that are a placeholder, and of placeholders within a text.
pub(crate) fn put(value: &Value, values: &[(&str, Value)]) -> Value {
    each_text(value, &|text| match values.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => value.clone(),
        None => json!(put_within(text, values)),
    })
}

fn each_text(value: &Value, becomes: &dyn Fn(&str) -> Value) -> Value {
    match value {
        Value::String(text) => becomes(text),
        Value::Array(items) => items.iter().map(|item| each_text(item, becomes)).collect(),
        Value::Object(members) => {
            let each = |(name, value): (&String, &Value)| (name.clone(), each_text(value, becomes));
            Value::Object(members.iter().map(each).collect())
        }
        other => other.clone(),
    }
}

/// A placeholder is as long as it can be: `$S` is none in `$SIZE`.
fn put_within(text: &str, values: &[(&str, Value)]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = 1 + rest[at + 1..].find(|c| !is_name(c)).unwrap_or(rest.len() - at - 1);
        let name = &rest[at..at + len];
        out.push_str(&rest[..at]);
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, Value::String(value))) => out.push_str(value),
            Some((_, value)) => out.push_str(&value.to_string()),
            None => out.push_str(name),
        }
        rest = &rest[at + len..];
    }
    out + rest
}

/// A message that opens a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// Its method and params.
    pub message: Request,
    /// Whether it is a request, and so is awaited.
    pub is_request: bool,
}

impl Opening {
    /// Creates an opening message that is a request.
    #[must_use]
    pub fn request(method: impl Into<String>, params: Value) -> Self {
        Self { message: Request::new(method, params), is_request: true }
    }

    /// Creates an opening message that is a notification.
    #[must_use]
    pub fn notification(method: impl Into<String>, params: Value) -> Self {
        Self { message: Request::new(method, params), is_request: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting(params: Value) -> Value {
        Request::new("work", params).lasting(1500)
    }

    #[test]
    fn f120_a_time_is_a_number_alone_and_digits_within_a_text() {
        assert_eq!(lasting(json!({ "ms": "$MS", "s": ["$S"] })), json!({ "ms": 1500, "s": [2] }));
        let prompt = json!([{ "text": "sleep $MS ms, $S s: $SIZE, $" }]);
        assert_eq!(lasting(prompt), json!([{ "text": "sleep 1500 ms, 2 s: $SIZE, $" }]));
    }

    #[test]
    fn f120_a_time_is_a_text_for_a_server_that_takes_no_number() {
        let texts =
            Request::new("work", json!({ "s": "$S" })).with_texts().map(|it| it.lasting(1500));
        assert_eq!(texts, Some(json!({ "s": "2" })));
        assert_eq!(Request::new("work", json!({ "text": "for $S s" })).with_texts(), None);
    }

    #[test]
    fn a_turn_is_in_a_session_of_its_own() {
        let [sleep, turn] = &Family::Acp.slow()[..] else { panic!("there are two") };
        assert_eq!((sleep.is_in_session(), turn.is_in_session()), (false, true));
        assert_eq!(put(&turn.params, &[(SESSION, json!("s"))])["sessionId"], "s");
    }
}
