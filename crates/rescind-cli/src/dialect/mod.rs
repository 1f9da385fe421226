//! The dialect that a command speaks: a preset by its name, or one that a file describes.

mod file;
pub mod list;
mod work;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Error};
use protocol_core::{CapabilityRule, Config, Dialect, Framing, Role};
use protocol_http::{Gate, Rules};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::address::Address;

/// The dialect to speak.
#[derive(Clone, Debug, Args)]
pub struct DialectArgs {
    /// The protocol to speak: jsonrpc, acp, lsp, mcp, abp, dap or erlmcp, or a revision of one;
    /// `rescind dialects` lists them [default: acp, or mcp-http at an http:// address]
    #[arg(long, value_name = "NAME", value_parser = NameParser, hide_possible_values = true)]
    dialect: Option<Spoken>,

    /// Speak the dialect that this JSON file describes: `{"base": NAME}`, and whatever differs from
    /// that one
    #[arg(long, value_name = "FILE", conflicts_with = "dialect", value_parser = file_parser())]
    dialect_file: Option<Spoken>,
}

impl DialectArgs {
    /// Returns the dialect to speak on standard streams.
    #[must_use]
    pub fn spoken(&self) -> Spoken {
        self.spoken_at(None)
    }

    /// Returns the dialect to speak at this address. An address of HTTP alone says that it is MCP.
    pub(crate) fn spoken_at(&self, address: Option<&Address>) -> Spoken {
        let named = self.dialect_file.as_ref().or(self.dialect.as_ref()).cloned();
        named.unwrap_or_else(|| match address {
            Some(address) if address.is_http => Spoken::preset(Dialect::MCP_HTTP),
            _ => Spoken::preset(Dialect::ACP_V1),
        })
    }
}

/// Parses the name of a preset.
///
/// There are many of them, so errors name their families only. Arguments hide the possible values in help.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameParser;

impl TypedValueParser for NameParser {
    type Value = Spoken;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Spoken, Error> {
        let unknown = || {
            let families = list::families().join(", ");
            format!("there are {families}, and revisions of them: see rescind dialects")
        };
        let preset =
            move |name: String| Dialect::named(&name).map(Spoken::preset).ok_or_else(unknown);
        StringValueParser::new().try_map(preset).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Dialect::PRESETS.iter().map(|dialect| PossibleValue::new(&*dialect.name))))
    }
}

/// Reads the dialect that a file describes.
pub(crate) fn file_parser() -> impl TypedValueParser<Value = Spoken> {
    PathBufValueParser::new()
        .try_map(|path| file::read(&path).map(|described| Spoken::made_from(described, Some(path))))
}

/// A dialect, and what of it is no rule of cancelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The rules of cancelling, and all else that the core has to know.
    pub dialect: Dialect,
    /// The name of the preset that it is, or that it was made from.
    base: Cow<'static, str>,
    file: Option<PathBuf>,
}

impl Spoken {
    pub(crate) fn preset(dialect: Dialect) -> Self {
        Self { base: dialect.name.clone(), dialect, file: None }
    }

    fn made_from(described: file::Described, file: Option<PathBuf>) -> Self {
        let file::Described { base, dialect } = described;
        Self { dialect, base, file }
    }

    /// Returns the family, which says what its peers expect to be told at opening.
    pub(crate) fn family(&self) -> Family {
        Family::of_preset(&self.base)
    }

    /// Whether the peers agree on a revision.
    pub(crate) fn is_negotiated(&self) -> bool {
        !self.dialect.revisions.is_empty()
    }

    /// Returns the dialect that is spoken once a request of this method was answered so; `None` if nothing changes.
    pub(crate) fn settled_by(&self, method: &str, result: &RawValue) -> Option<Self> {
        let dialect = self.dialect.settled_by(method, result)?;
        let preset = Dialect::named(&dialect.name);
        let base = preset.map_or_else(|| self.base.clone(), |preset| preset.name);
        Some(Self { dialect, base, file: self.file.clone() })
    }

    /// Returns the revisions that it has over HTTP: all of MCP, or one, or a version of ACP.
    ///
    /// # Errors
    ///
    /// Says which dialects have any.
    pub(crate) fn http_revisions(&self) -> Result<Vec<&'static Rules>, &'static str> {
        let name = &self.dialect.name;
        let is_spoken = |rules: &&Rules| *name == rules.dialect.name;
        let revisions: Vec<_> = match *name == Dialect::MCP_HTTP.name {
            true => Gate::default().revisions,
            false => Rules::PRESETS.iter().chain(Rules::ACP).filter(is_spoken).collect(),
        };
        let some = Some(revisions).filter(|revisions| !revisions.is_empty());
        some.ok_or("an http:// address is for --dialect mcp-http, a revision of it, acp or acp-v2")
    }

    /// The dialect of a server on standard streams behind an HTTP address.
    pub(crate) fn behind_http(&self) -> Dialect {
        let name = self.dialect.name.trim_end_matches("-http");
        Dialect::named(name).unwrap_or_else(|| self.dialect.clone())
    }

    /// The same in this revision of MCP, if we speak that.
    pub(crate) fn in_revision(&self, version: &str) -> Option<Self> {
        let transport = if self.base.ends_with("-http") { "-http" } else { "" };
        let preset = Dialect::named(&format!("mcp-{version}{transport}"))?;
        let own = self.dialect.revisions.iter().find(|(name, _)| name == version);
        let base = preset.name.clone();
        let dialect = own.map_or(preset, |(_, revision)| revision.clone());
        Some(Self { dialect, base, file: self.file.clone() })
    }

    /// The arguments that make another of our commands speak it.
    pub(crate) fn arguments(&self) -> [OsString; 2] {
        match &self.file {
            Some(file) => ["--dialect-file".into(), file.into()],
            None => ["--dialect".into(), (&*self.dialect.name).into()],
        }
    }

    /// Returns [`arguments`](Self::arguments) as text.
    pub(crate) fn words(&self) -> Vec<String> {
        self.arguments().map(|word| word.to_string_lossy().into_owned()).to_vec()
    }

    /// The capabilities that either side declares.
    pub(crate) fn capabilities(&self) -> Value {
        match self.dialect.capability {
            CapabilityRule::Declared { .. } => json!({ "cancellation": { "request": true } }),
            _ => json!({}),
        }
    }

    /// One side of a connection.
    pub(crate) fn config(&self, role: Role) -> Config {
        let dialect = self.dialect.clone();
        match role {
            Role::Client => Config::client(dialect),
            Role::Server => Config::server(dialect),
        }
    }

    /// One side of a connection on standard streams. What other transports frame by themselves goes
    /// there one message a line.
    pub(crate) fn on_stdio(&self, role: Role) -> Config {
        let mut config = self.config(role);
        if config.dialect.framing == Framing::Whole {
            config.dialect.framing = Framing::Newline;
        }
        config
    }
}

/// A dialect as a recording names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Described {
    /// The name of a preset.
    Named(String),
    /// The content of a file.
    File(Value),
}

impl Spoken {
    /// Describes it, so that it can be spoken again somewhere else.
    pub(crate) fn described(&self) -> Result<Described, String> {
        let Some(path) = &self.file else {
            return Ok(Described::Named(self.dialect.name.clone().into_owned()));
        };
        let text = fs::read_to_string(path);
        let value = text.and_then(|text| Ok(serde_json::from_str(&text)?));
        value.map(Described::File).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The dialect that was described so.
    pub(crate) fn of(described: &Described) -> Result<Self, String> {
        match described {
            Described::Named(name) => {
                let unknown = || format!("there is no dialect {name} here");
                Dialect::named(name).map(Self::preset).ok_or_else(unknown)
            }
            Described::File(text) => {
                file::of_text(&text.to_string()).map(|described| Self::made_from(described, None))
            }
        }
    }
}

/// The group of dialects whose peers expect to be told the same at opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// They expect nothing: JSON-RPC alone has no opening.
    JsonRpc,
    /// `initialize` with this version.
    Acp { version: u32 },
    /// `initialize` and `initialized`.
    Lsp,
    /// This revision, by `initialize` or in the `_meta` of every request.
    Mcp { revision: &'static str },
    /// `initialize`, whose answer opens the session.
    Abp,
    /// The same, and its answer says what the adapter can do.
    Dap,
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
    fn of_preset(name: &str) -> Self {
        let name = name.trim_end_matches("-http");
        match name.split_once('-').unwrap_or((name, "")) {
            ("acp", "v2") => Self::Acp { version: 2 },
            ("acp", _) => Self::Acp { version: 1 },
            ("lsp", _) => Self::Lsp,
            ("mcp", revision) => {
                let older = WITH_INITIALIZE.into_iter().find(|older| *older == revision);
                Self::Mcp { revision: older.unwrap_or(WITHOUT_INITIALIZE) }
            }
            ("abp", _) => Self::Abp,
            ("dap", _) => Self::Dap,
            ("erlmcp", _) => Self::Erlmcp,
            _ => Self::JsonRpc,
        }
    }

    /// The revision of MCP that `initialize` names.
    pub(crate) const fn revision(self) -> &'static str {
        match self {
            Self::Mcp { revision } => revision,
            _ => NEWEST_WITH_INITIALIZE,
        }
    }
}
