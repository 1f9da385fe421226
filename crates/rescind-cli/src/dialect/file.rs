//! A dialect that is described by a JSON file: the name of a preset, and whatever differs from it.
//! `docs/dialects.md` explains each member.

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;
use std::time::Duration;

use protocol_core::{
    BeforeStart, CancelRule, Cancellers, CapabilityRule, Cause, Dialect, Envelope, Framing, Grace,
    IdRule, MessageOrder, ProgressRule, ResponseRule, Uncancellable, WorkRule,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

use super::work::{List, Text, work_rules};
use crate::input::{self, reason};

/// Reads the dialect that a file describes.
pub(super) fn read(path: &Path) -> Result<Described, String> {
    let name = path.display();
    let text = input::text(path, input::DESCRIPTION).map_err(|error| format!("{name}: {error}"))?;
    described(&text).map_err(|problem| format!("{name}, {problem}"))
}

/// Reads the dialect that a text describes, which came from a file that may be gone.
pub(super) fn of_text(text: &str) -> Result<Described, String> {
    described(text).map_err(|problem| format!("the dialect, {problem}"))
}

fn described(text: &str) -> Result<Described, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut json);
    let described = read.map_err(|error| problem(error, text))?;
    json.end().map_err(|error| format!("line {}: {}", error.line(), reason(&error)))?;
    Ok(described)
}

/// Describes the error in a text that could not be read: its line, its member, and the reason.
fn problem(error: serde_path_to_error::Error<serde_json::Error>, text: &str) -> String {
    let path = error.path().clone();
    let mut error = error.into_inner();
    let mut line = error.line();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        line = line_of(&path, text).unwrap_or(line);
        // Of a number in place of a name the text's reader says no more than that it is none.
        if !error.is_data() {
            error = Described::deserialize(value).err().unwrap_or(error);
        }
    }
    match path.to_string().as_str() {
        "." => format!("line {line}: {}", reason(&error)),
        member => format!("line {line}, member {member}: {}", reason(&error)),
    }
}

/// The line of a member: an error knows only how far it had read when it was noticed.
fn line_of(path: &serde_path_to_error::Path, text: &str) -> Option<usize> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    for segment in path {
        value = match segment {
            Segment::Seq { index } => {
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                items.get(*index).copied()?
            }
            Segment::Map { key } | Segment::Enum { variant: key } => {
                let members: BTreeMap<String, &RawValue> =
                    serde_json::from_str(value.get()).ok()?;
                members.get(key).copied()?
            }
            Segment::Unknown => return None,
        };
    }
    let before = value.get().as_ptr() as usize - text.as_ptr() as usize;
    Some(1 + text[..before].matches('\n').count())
}

/// A dialect, and the name of the preset that it was made from.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Members")]
pub(super) struct Described {
    pub(super) base: Text,
    pub(super) dialect: Dialect,
}

/// Reads a preset by its name.
fn base<'de, D: Deserializer<'de>>(json: D) -> Result<Dialect, D::Error> {
    let name = String::deserialize(json)?;
    let names: Vec<_> = Dialect::PRESETS.iter().map(|preset| &*preset.name).collect();
    let unknown = || format!("unknown preset `{name}`, expected one of {}", names.join(", "));
    Dialect::named(&name).ok_or_else(|| D::Error::custom(unknown()))
}

/// Declares [`Members`], which says what a file may hold: each member, its type, and what reads that.
macro_rules! members {
    ($($member:ident: $type:ty = $read:literal;)*) => {
        $(mod $member {
            use super::*;

            #[derive(Debug, Deserialize)]
            #[serde(transparent)]
            pub(super) struct Member(#[serde(deserialize_with = $read)] pub(super) $type);
        })*

        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Members {
            #[serde(deserialize_with = "base")]
            base: Dialect,
            name: Option<Text>,
            revisions: Option<RevisionRuleDef>,
            $($member: Option<$member::Member>,)*
        }

        impl Members {
            /// Changes what is described but the name and the revisions.
            fn change(&self, dialect: &mut Dialect) {
                $(if let Some(member) = &self.$member {
                    dialect.$member = member.0.clone();
                })*
            }
        }
    };
}

members! {
    framing: Framing = "FramingDef::deserialize";
    envelope: Envelope = "EnvelopeDef::deserialize";
    ids: IdRule = "IdRuleDef::deserialize";
    cancel: CancelRule = "read_as::<_, CancelRuleDef, _>";
    response: ResponseRule = "ResponseRuleDef::deserialize";
    cancelled_message: Text = "Text::deserialize";
    grace: Grace = "GraceDef::deserialize";
    partial_results: bool = "read_as::<_, PartialResultsDef, _>";
    batches: Option<List<Text>> = "read_as::<_, BatchRuleDef, _>";
    progress: List<ProgressRule> = "progress_rules";
    work: List<WorkRule> = "work_rules";
    overload_code: i64 = "i64::deserialize";
    uncancellable: Uncancellable = "UncancellableDef::deserialize";
    cancellers: Cancellers = "CancellersDef::deserialize";
    capability: CapabilityRule = "CapabilityRuleDef::deserialize";
    session: Option<Text> = "read_as::<_, SessionRuleDef, _>";
    before_start: BeforeStart = "BeforeStartDef::deserialize";
    order: MessageOrder = "MessageOrderDef::deserialize";
    closed_stream: Option<Cause> = "read_as::<_, ClosedStreamDef, _>";
}

/// Reads a value as the file spells it.
fn read_as<'de, D: Deserializer<'de>, S: Deserialize<'de> + Into<T>, T>(
    json: D,
) -> Result<T, D::Error> {
    S::deserialize(json).map(S::into)
}

impl TryFrom<Members> for Described {
    type Error = &'static str;

    fn try_from(members: Members) -> Result<Self, &'static str> {
        let mut dialect = members.base.clone();
        members.change(&mut dialect);
        // The rules of the file hold in each revision of the base.
        if !dialect.revisions.is_empty() {
            let revisions = dialect.revisions.to_mut();
            revisions.iter_mut().for_each(|(_, revision)| members.change(revision));
        }
        if let Some(rule) = members.revisions {
            (dialect.exchanges, dialect.revisions) = rule.into();
        }
        if let Some(name) = members.name {
            dialect.name = name;
        }
        check(&dialect)?;
        Ok(Self { base: members.base.name, dialect })
    }
}

/// Refuses what no envelope has a place for.
fn check(dialect: &Dialect) -> Result<(), &'static str> {
    // A revision keeps the envelope.
    let revisions = dialect.revisions.iter().map(|(_, revision)| revision);
    let has_no_place = iter::once(dialect)
        .chain(revisions)
        .any(|it| matches!(it.cancel, CancelRule::Notification { .. }) || it.has_operations());
    match dialect.envelope {
        Envelope::Abp | Envelope::Dap if has_no_place => Err(
            "the envelopes `abp` and `dap` only have a place for a cancel that is a request and names an id",
        ),
        Envelope::Abp | Envelope::Dap | Envelope::JsonRpc => Ok(()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum RevisionRuleDef {
    Fixed,
    Negotiated { exchanges: Vec<ExchangeDef>, revisions: Vec<RevisionDef> },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExchangeDef {
    method: Text,
    member: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevisionDef {
    version: Text,
    dialect: Described,
}

impl From<RevisionRuleDef> for (List<(Text, Text)>, List<(Text, Dialect)>) {
    fn from(rule: RevisionRuleDef) -> Self {
        let RevisionRuleDef::Negotiated { exchanges, revisions } = rule else {
            return Self::default();
        };
        let exchanges = exchanges.into_iter().map(|it| (it.method, it.member));
        let revisions = revisions.into_iter().map(|it| (it.version, it.dialect.dialect));
        (exchanges.collect(), revisions.collect())
    }
}

#[derive(Deserialize)]
#[serde(remote = "Framing", rename_all = "snake_case")]
enum FramingDef {
    Newline,
    ContentLength,
    Whole,
}

#[derive(Deserialize)]
#[serde(remote = "Envelope", rename_all = "snake_case")]
enum EnvelopeDef {
    JsonRpc,
    Abp,
    Dap,
}

#[derive(Deserialize)]
#[serde(remote = "IdRule", rename_all = "snake_case")]
enum IdRuleDef {
    NumberOrString,
    IntegerOrString,
    IntegerStringOrNull,
    Int32OrString,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum CancelRuleDef {
    Local,
    Notification { method: Text, id: Text, reason: Option<Text> },
    Request { method: Text, target: CancelTargetDef, reason: Option<Text> },
    ClosedStream,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum CancelTargetDef {
    Id { member: Text },
    Operation { started_by: List<Text>, token: Text, notification: Text },
}

impl From<CancelRuleDef> for CancelRule {
    fn from(rule: CancelRuleDef) -> Self {
        match rule {
            CancelRuleDef::Local => Self::Local,
            CancelRuleDef::Notification { method, id, reason } => {
                Self::Notification { method, id, reason }
            }
            CancelRuleDef::Request { method, target, reason } => match target {
                CancelTargetDef::Id { member: id } => Self::Request { method, id, reason },
                CancelTargetDef::Operation { started_by, token, notification } => {
                    Self::Operation { method, token, started_by, notification, reason }
                }
            },
            CancelRuleDef::ClosedStream => Self::ClosedStream,
        }
    }
}

#[derive(Deserialize)]
#[serde(remote = "ResponseRule", rename_all = "snake_case")]
enum ResponseRuleDef {
    Required,
    Silent,
    SilentWithProgress,
}

#[derive(Deserialize)]
#[serde(remote = "Grace", rename_all = "snake_case")]
enum GraceDef {
    Await,
    #[serde(rename = "settle_ms", deserialize_with = "milliseconds")]
    Settle(Duration),
}

fn milliseconds<'de, D: Deserializer<'de>>(json: D) -> Result<Duration, D::Error> {
    u64::deserialize(json).map(Duration::from_millis)
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartialResultsDef {
    Allowed,
    Refused,
}

impl From<PartialResultsDef> for bool {
    fn from(rule: PartialResultsDef) -> Self {
        matches!(rule, PartialResultsDef::Allowed)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BatchRuleDef {
    Accepted { except: List<Text> },
    Refused,
}

impl From<BatchRuleDef> for Option<List<Text>> {
    fn from(rule: BatchRuleDef) -> Self {
        match rule {
            BatchRuleDef::Accepted { except } => Some(except),
            BatchRuleDef::Refused => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(remote = "ProgressRule", deny_unknown_fields)]
struct ProgressRuleDef {
    method: Text,
    token: Text,
    tokens_of_call: List<List<Text>>,
}

fn progress_rules<'de, D: Deserializer<'de>>(json: D) -> Result<List<ProgressRule>, D::Error> {
    #[derive(Deserialize)]
    struct Rule(#[serde(with = "ProgressRuleDef")] ProgressRule);

    let rules = Vec::<Rule>::deserialize(json)?;
    Ok(rules.into_iter().map(|Rule(rule)| rule).collect())
}

#[derive(Deserialize)]
#[serde(remote = "Uncancellable", deny_unknown_fields)]
struct UncancellableDef {
    methods: List<Text>,
    params: List<Text>,
}

#[derive(Deserialize)]
#[serde(remote = "Cancellers", rename_all = "snake_case", deny_unknown_fields)]
enum CancellersDef {
    Both,
    Client { server_may_end: List<Text> },
}

#[derive(Deserialize)]
#[serde(remote = "CapabilityRule", rename_all = "snake_case", deny_unknown_fields)]
enum CapabilityRuleDef {
    NotNeeded,
    Declared {
        exchange: Text,
        client: List<Text>,
        server: List<Text>,
        #[serde(default)]
        later: Option<(Text, List<Text>)>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SessionRuleDef {
    NotNeeded,
    Opened { by: Text },
}

impl From<SessionRuleDef> for Option<Text> {
    fn from(rule: SessionRuleDef) -> Self {
        match rule {
            SessionRuleDef::NotNeeded => None,
            SessionRuleDef::Opened { by } => Some(by),
        }
    }
}

#[derive(Deserialize)]
#[serde(remote = "BeforeStart", rename_all = "snake_case")]
enum BeforeStartDef {
    Delivered,
    Skipped,
}

#[derive(Deserialize)]
#[serde(remote = "MessageOrder", rename_all = "snake_case")]
enum MessageOrderDef {
    Kept,
    MayChange,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClosedStreamDef {
    PeerGone,
    Cancel,
    NoCancel,
}

impl From<ClosedStreamDef> for Option<Cause> {
    fn from(rule: ClosedStreamDef) -> Self {
        match rule {
            ClosedStreamDef::PeerGone => Some(Cause::PeerGone),
            ClosedStreamDef::Cancel => Some(Cause::Peer),
            ClosedStreamDef::NoCancel => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that says what the preset `acp` says.
    const ACP: &str = r#"{
        "base": "jsonrpc", "name": "acp", "ids": "integer_string_or_null", "grace": "await", "batches": "refused",
        "cancel": {"notification": {"method": "$/cancel_request", "id": "requestId"}}, "overload_code": -32800,
        "progress": [{"method": "session/update", "token": "sessionId", "tokens_of_call": [["sessionId"]]}],
        "work": [{
            "kind": "turn",
            "begins": [{"request": {"method": "session/prompt", "name": ["sessionId"], "stopped": {"path": ["stopReason"], "text": "cancelled"}}}],
            "stops": {"notification": {"method": "session/cancel", "name": "sessionId"}},
            "within": [{"method": "session/request_permission", "name": ["sessionId"], "sender": "waits", "stopped": {"path": ["outcome", "outcome"], "text": "cancelled"}}]
        }]
    }"#;

    const ACP_V2: &str = r#"{
        "base": "acp", "name": "acp-v2", "ids": "integer_or_string",
        "work": [{
            "kind": "turn",
            "begins": [{"request": {"method": "session/prompt", "name": ["sessionId"]}}],
            "stops": {"notification": {"method": "session/cancel", "name": "sessionId"}},
            "within": [{"method": "session/request_permission", "name": ["sessionId"], "sender": "cancels", "stopped": {"path": ["outcome", "outcome"], "text": "cancelled"}}],
            "ends": [{"notification": {"method": "session/update", "name": ["sessionId"], "if": {"path": ["update", "state"], "is": ["idle"]}, "stopped": {"path": ["update", "stopReason"], "text": "cancelled"}}}]
        }]
    }"#;

    const LSP: &str = r#"{
        "base": "jsonrpc", "name": "lsp", "framing": "content_length", "ids": "int32_or_string", "grace": "await",
        "cancel": {"notification": {"method": "$/cancelRequest", "id": "id"}}, "batches": "refused", "overload_code": -32803,
        "progress": [{"method": "$/progress", "token": "token", "tokens_of_call": [["workDoneToken"], ["partialResultToken"]]}],
        "work": [{
            "kind": "progress",
            "begins": [{"notification": {"method": "$/progress", "name": ["token"], "if": {"path": ["value", "kind"], "is": ["begin"]}}}],
            "stops": {"notification": {"method": "window/workDoneProgress/cancel", "name": "token"}},
            "ends": [{"notification": {"method": "$/progress", "name": ["token"], "if": {"path": ["value", "kind"], "is": ["end"]}}}]
        }]
    }"#;

    const MCP: &str = r#"{
        "base": "mcp-2025-06-18", "name": "mcp-2025-11-25", "uncancellable": {"methods": ["initialize"], "params": ["task"]},
        "work": [{
            "kind": "task",
            "begins": [{"result": {"name": ["task", "taskId"]}}],
            "stops": {"request": {"method": "tasks/cancel", "name": "taskId"}},
            "asks": [{"method": "tasks/get", "name": ["taskId"]}, {"if": {"path": ["task"]}}],
            "ends": [
                {"result": {"name": ["taskId"], "if": {"path": ["status"], "is": ["completed", "failed", "cancelled"]}, "stopped": {"path": ["status"], "text": "cancelled"}}},
                {"notification": {"method": "notifications/tasks/status", "name": ["taskId"], "if": {"path": ["status"], "is": ["completed", "failed", "cancelled"]}, "stopped": {"path": ["status"], "text": "cancelled"}}}
            ]
        }]
    }"#;

    const MCP_EXTENSION: &str = r#"{
        "base": "mcp-2024-11-05", "name": "mcp-2026-07-28", "uncancellable": {"methods": [], "params": []},
        "response": "silent_with_progress", "cancellers": {"client": {"server_may_end": ["subscriptions/listen"]}},
        "work": [{
            "kind": "task",
            "begins": [{"result": {"name": ["taskId"], "if": {"path": ["resultType"], "is": ["task"]}}}],
            "stops": {"request": {"method": "tasks/cancel", "name": "taskId", "if": {"path": ["_meta"]}}},
            "asks": [
                {"method": "tasks/get", "name": ["taskId"]},
                {"method": "tools/call", "if": {"path": ["_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", "io.modelcontextprotocol/tasks"]}}
            ],
            "ends": [
                {"result": {"name": ["taskId"], "if": {"path": ["status"], "is": ["completed", "failed", "cancelled"]}, "stopped": {"path": ["status"], "text": "cancelled"}}},
                {"notification": {"method": "notifications/tasks", "name": ["taskId"], "if": {"path": ["status"], "is": ["completed", "failed", "cancelled"]}, "stopped": {"path": ["status"], "text": "cancelled"}}}
            ]
        }]
    }"#;

    #[test]
    fn a_file_that_says_what_a_preset_says_makes_the_same_dialect() {
        let files = [
            (ACP, Dialect::ACP_V1),
            (ACP_V2, Dialect::ACP_V2),
            (LSP, Dialect::LSP_3_17),
            (MCP, Dialect::MCP_2025_11_25),
            (MCP_EXTENSION, Dialect::MCP_2026_07_28),
        ];
        for (text, preset) in files {
            assert_eq!(described(text).unwrap().dialect, preset);
        }
    }
}
