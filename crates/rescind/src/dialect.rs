//! The `--dialect` option.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use protocol_core::{CapabilityRule, Config, Dialect, Framing, Role};
use serde_json::{Value, json};

/// Parses the name of a dialect; `--help` and errors list every name.
pub fn parser() -> impl TypedValueParser<Value = Dialect> {
    let names = Dialect::PRESETS.map(|dialect| dialect.name);
    PossibleValuesParser::new(names)
        .map(|name| Dialect::named(&name).expect("the parser only lets presets through"))
}

/// What a dialect's peers expect to be told at opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Nothing.
    JsonRpc,
    /// `initialize` with this version.
    Acp { version: u32 },
    /// `initialize` and `initialized`.
    Lsp,
    /// This revision, by `initialize` or in the `_meta` of every request.
    Mcp { revision: &'static str },
    /// `initialize`, whose answer opens the session.
    Abp,
    /// As the newest MCP that has an `initialize`, which it extends.
    Erlmcp,
}

/// The revisions of MCP that open with `initialize`, the newest last.
pub(crate) const WITH_INITIALIZE: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The last of those.
pub(crate) const NEWEST_WITH_INITIALIZE: &str = WITH_INITIALIZE[WITH_INITIALIZE.len() - 1];
/// The revision of MCP that carries its opening in every request.
pub(crate) const WITHOUT_INITIALIZE: &str = "2026-07-28";

impl Family {
    pub(crate) fn of(dialect: Dialect) -> Self {
        let name = dialect.name.trim_end_matches("-http");
        match name.split_once('-').unwrap_or((name, "")) {
            ("acp", "v2") => Self::Acp { version: 2 },
            ("acp", _) => Self::Acp { version: 1 },
            ("lsp", _) => Self::Lsp,
            ("mcp", "") => Self::Mcp { revision: WITHOUT_INITIALIZE },
            ("mcp", revision) => Self::Mcp { revision },
            ("abp", _) => Self::Abp,
            ("erlmcp", _) => Self::Erlmcp,
            _ => Self::JsonRpc,
        }
    }
}

impl Family {
    /// The revision of MCP that `initialize` names.
    pub(crate) const fn revision(self) -> &'static str {
        match self {
            Self::Mcp { revision } => revision,
            _ => NEWEST_WITH_INITIALIZE,
        }
    }
}

/// The capabilities that either side declares.
pub(crate) fn capabilities(dialect: Dialect) -> Value {
    match dialect.capability {
        CapabilityRule::NotNeeded => json!({}),
        CapabilityRule::Declared { .. } => json!({ "cancellation": { "request": true } }),
    }
}

/// One side of a connection.
pub(crate) fn config(dialect: Dialect, role: Role) -> Config {
    let mut config = Config::client(dialect);
    config.role = role;
    config
}

/// One side of a connection on standard streams. What other transports frame by themselves goes
/// there one message a line.
pub(crate) fn on_stdio(mut dialect: Dialect, role: Role) -> Config {
    if dialect.framing == Framing::Whole {
        dialect.framing = Framing::Newline;
    }
    config(dialect, role)
}
