//! The protocols that checks are written for: which clauses hold, and how a session is opened.

use protocol_core::{CancelRule, Dialect};
use serde_json::{Value, json};

/// A protocol, as far as its clauses on cancelling differ from others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// JSON-RPC 2.0 without a cancel on the wire.
    JsonRpc,
    /// Agent Client Protocol, version 1.
    Acp,
    /// Agent Client Protocol, version 2.
    AcpV2,
    /// The first draft of cancelling in the Agent Client Protocol.
    AcpDraft,
    /// Language Server Protocol.
    Lsp,
    /// Model Context Protocol in the revisions that have an `initialize`.
    McpUntil2025,
    /// Model Context Protocol 2026-07-28.
    Mcp2026,
    /// The App-Browser Protocol (ABP).
    Abp,
    /// Debug Adapter Protocol, of an adapter that declares `supportsCancelRequest`.
    Dap,
    /// The same of one that does not: nothing may be cancelled there.
    DapPlain,
    /// The operations of erlmcp.
    Erlmcp,
}

impl Family {
    /// Every one, in the order of the columns in docs/conformance.md.
    pub const ALL: [Self; 11] = [
        Self::JsonRpc,
        Self::Acp,
        Self::AcpV2,
        Self::AcpDraft,
        Self::Lsp,
        Self::McpUntil2025,
        Self::Mcp2026,
        Self::Abp,
        Self::Dap,
        Self::DapPlain,
        Self::Erlmcp,
    ];

    /// That of a preset, or of a dialect made from one, by its name; the closest if there is none.
    #[must_use]
    pub fn of(dialect: &Dialect) -> Self {
        let name = &*dialect.name;
        match name.split('-').next().unwrap_or_default() {
            "acp" if name == "acp-v2" => Self::AcpV2,
            "acp" if name == "acp-draft" => Self::AcpDraft,
            "acp" => Self::Acp,
            "lsp" => Self::Lsp,
            "mcp" if name == "mcp" || name.contains(NEWEST_MCP) => Self::Mcp2026,
            "mcp" => Self::McpUntil2025,
            "abp" => Self::Abp,
            "dap" if dialect.cancel == CancelRule::Local => Self::DapPlain,
            "dap" => Self::Dap,
            "erlmcp" => Self::Erlmcp,
            _ => Self::JsonRpc,
        }
    }

    /// The name of its column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "jsonrpc",
            Self::Acp => "acp",
            Self::AcpV2 => "acp-v2",
            Self::AcpDraft => "acp-draft",
            Self::Lsp => "lsp",
            Self::McpUntil2025 => "mcp until 2025-11-25",
            Self::Mcp2026 => "mcp-2026-07-28",
            Self::Abp => "abp",
            Self::Dap => "dap",
            Self::DapPlain => "dap without cancel",
            Self::Erlmcp => "erlmcp",
        }
    }

    /// Whether it is a revision of the Model Context Protocol.
    pub(crate) const fn is_mcp(self) -> bool {
        matches!(self, Self::McpUntil2025 | Self::Mcp2026)
    }

    /// What every request carries in its `_meta`.
    pub(crate) fn meta(self) -> Option<Value> {
        (self == Self::Mcp2026).then(|| {
            json!({
                "io.modelcontextprotocol/protocolVersion": NEWEST_MCP,
                "io.modelcontextprotocol/clientInfo": client(),
                "io.modelcontextprotocol/clientCapabilities": {},
            })
        })
    }

    /// The messages that open a session, in order.
    pub(crate) fn opening(self, dialect: &Dialect) -> Vec<Opening> {
        let client = client();
        let revision = dialect.name.strip_prefix("mcp-").unwrap_or("2025-11-25");
        match self {
            Self::JsonRpc => vec![],
            Self::Acp | Self::AcpV2 | Self::AcpDraft => {
                let capabilities = match self {
                    Self::AcpDraft => json!({ "cancellation": { "request": true } }),
                    _ => json!({}),
                };
                let version = if self == Self::AcpV2 { 2 } else { 1 };
                vec![Opening::request(
                    "initialize",
                    json!({ "protocolVersion": version, "clientCapabilities": capabilities, "clientInfo": client }),
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
                    json!({ "protocolVersion": revision, "capabilities": { "elicitation": {}, "sampling": {} }, "clientInfo": client }),
                ),
                Opening::notification("notifications/initialized", json!({})),
            ],
            Self::Abp => vec![Opening::request("initialize", json!({ "agent": client }))],
            Self::Dap | Self::DapPlain => vec![Opening::request(
                "initialize",
                json!({ "adapterID": "rescind", "clientID": "rescind", "clientName": client["name"] }),
            )],
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
}

/// The revision of MCP that carries its opening in every request.
pub(crate) const NEWEST_MCP: &str = "2026-07-28";

fn client() -> Value {
    json!({ "name": "rescind conform", "version": env!("CARGO_PKG_VERSION") })
}

/// A request to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The name of its method.
    pub method: String,
    /// Its params, in which placeholders may stand for times.
    pub params: Value,
}

impl Request {
    /// A request. In its params the text `"$MS"` stands for a number of milliseconds, and `"$S"` for one of
    /// seconds: how long it is to take.
    #[must_use]
    pub fn new(method: impl Into<String>, params: Value) -> Self {
        Self { method: method.into(), params }
    }

    /// The params with the numbers that they ask for.
    pub(crate) fn lasting(&self, ms: u64) -> Value {
        fn put(value: &mut Value, ms: u64) {
            match value {
                Value::String(text) if text == "$MS" => *value = json!(ms),
                Value::String(text) if text == "$TENTH_MS" => *value = json!(ms / 10),
                Value::String(text) if text == "$S" => *value = json!(ms.div_ceil(1000)),
                Value::Array(items) => items.iter_mut().for_each(|item| put(item, ms)),
                Value::Object(members) => members.values_mut().for_each(|item| put(item, ms)),
                _ => {}
            }
        }
        let mut params = self.params.clone();
        put(&mut params, ms);
        params
    }
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
