//! Messages before the call, and after it.

use std::path::Path;
use std::time::Duration;

use protocol_async::{CallError, RpcError};
use protocol_blocking::block_on_for;
use protocol_blocking::threaded::{Peer, Wait};
use protocol_core::{CallOptions, Refusal, code};
use protocol_json::{Members, path};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::attempt::Attempt;
use crate::dialect::{Family, NEWEST_WITH_INITIALIZE, Spoken, WITHOUT_INITIALIZE};
use crate::{input, own_name};

/// Messages to send before the call, in order.
#[derive(Debug, Default)]
pub(super) struct Opening {
    steps: Vec<Step>,
    /// The dialect that the answers are held against; a file's are not.
    spoken: Option<Spoken>,
    /// Whether the call needs a session that is not there yet: ACP's, which `session/new` opens and the
    /// call's params name.
    needs_session: bool,
    /// The members for the `_meta` of the call's params.
    meta: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Step {
    id: Option<serde_json::Value>,
    method: String,
    params: Option<Box<RawValue>>,
}

/// The result of an opening.
#[derive(Debug)]
pub(super) enum Performed {
    /// The call can be sent.
    Opened(Opened),
    /// The server speaks this dialect instead of ours, or has to be tried in it.
    Speaks(Box<Spoken>),
}

/// The rest that is to be sent together with the call.
#[derive(Debug)]
pub(super) struct Opened {
    notifications: Vec<Step>,
    /// The params of the call.
    pub(super) params: Option<Box<RawValue>>,
}

impl Opening {
    /// The dialect's own opening, for a call of this method.
    pub(super) fn of(spoken: &Spoken, method: &str, params: Option<&RawValue>) -> Self {
        let family = spoken.family();
        let meta = (family == Family::Mcp { revision: WITHOUT_INITIALIZE }).then(|| {
            json!({
                "io.modelcontextprotocol/protocolVersion": WITHOUT_INITIALIZE,
                "io.modelcontextprotocol/clientInfo": own_name(),
                "io.modelcontextprotocol/clientCapabilities": {},
            })
        });
        let step = |id, method: &str, params| {
            let params = to_raw_value(&params).ok();
            Step { id, method: method.into(), params }
        };
        let mut steps = vec![];
        // The call may open the session itself.
        if let Some((first, params, then)) = exchange(spoken, meta.as_ref())
            && ![first, "initialize"].contains(&method)
        {
            steps.push(step(Some(json!(0)), first, params));
            steps.extend(then.map(|method| step(None, method, json!({}))));
        }
        let needs_session = matches!(family, Family::Acp { .. })
            && method.starts_with("session/")
            && !["session/new", "session/load", "session/list"].contains(&method)
            && params.is_none_or(|params| path(params, &["sessionId"]).is_none());
        // The methods of the demonstration are none of the protocol's, and take what they get.
        let meta = meta.filter(|_| method.contains('/') || method == "ping");
        Self { steps, spoken: Some(spoken.clone()), needs_session, meta }
    }

    /// The messages in a file, one JSON a line.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = input::text(path, input::DESCRIPTION)
            .map_err(|error| format!("--open {name}: {error}"))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let steps = lines.map(|(number, line)| {
            serde_json::from_str(line)
                .map_err(|error| format!("--open {name}, line {}: {error}", number + 1))
        });
        Ok(Self { steps: steps.collect::<Result<_, _>>()?, ..Self::default() })
    }

    /// The same, and these notifications after it.
    pub(super) fn and_notify(mut self, notifications: &[(&str, Box<RawValue>)]) -> Self {
        self.steps.extend(notifications.iter().map(|(method, params)| Step {
            id: None,
            method: (*method).into(),
            params: Some(params.clone()),
        }));
        self
    }

    /// Sends everything up to the last request, and awaits the requests' answers. An answer that
    /// is an error ends it, and so does one that asks for another dialect.
    pub(super) fn perform(
        self,
        attempt: &Attempt<'_>,
        peer: &Peer,
    ) -> Result<Performed, CallError> {
        let last_request = self.steps.iter().rposition(|step| step.id.is_some());
        let mut steps = self.steps;
        let notifications = steps.split_off(last_request.map_or(0, |at| at + 1));
        for step in steps {
            let params = step.params.as_deref();
            if step.id.is_some() {
                let answer = attempt.ask(peer, &step.method, params, self.spoken.is_some());
                let ours = self.spoken.as_ref().filter(|_| !attempt.is_over());
                if let Some(other) = other_dialect(peer, ours, &answer)? {
                    return Ok(Performed::Speaks(Box::new(other)));
                }
                answer?;
            } else {
                peer.try_notify_raw(&step.method, params)?;
            }
        }
        let params = attempt.args.params.as_deref();
        let params = match self.meta {
            _ if self.needs_session => in_new_session(attempt, peer, params)?,
            Some(serde_json::Value::Object(wanted)) => with_meta(wanted, params),
            _ => params.map(ToOwned::to_owned),
        };
        Ok(Performed::Opened(Opened { notifications, params }))
    }
}

/// Returns the request that opens a dialect, its params, and the notification that follows its response.
fn exchange(
    spoken: &Spoken,
    meta: Option<&serde_json::Value>,
) -> Option<(&'static str, serde_json::Value, Option<&'static str>)> {
    let client = own_name();
    let (params, then) = match spoken.family() {
        Family::JsonRpc => return None,
        Family::Mcp { revision: WITHOUT_INITIALIZE } => {
            return Some(("server/discover", json!({ "_meta": meta }), None));
        }
        family @ (Family::Mcp { .. } | Family::Erlmcp) => {
            let version = family.revision();
            let params =
                json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
            (params, Some("notifications/initialized"))
        }
        Family::Acp { version: 2 } => {
            (json!({ "protocolVersion": 2, "capabilities": {}, "info": client }), None)
        }
        Family::Acp { version } => {
            let capabilities = spoken.capabilities();
            let params = json!({
                "protocolVersion": version, "clientCapabilities": capabilities, "clientInfo": client,
            });
            (params, None)
        }
        Family::Lsp => {
            let id = std::process::id();
            let params = json!({
                "processId": id, "clientInfo": client, "rootUri": null, "capabilities": {},
            });
            (params, Some("initialized"))
        }
        Family::Abp => (json!({ "agent": client }), None),
        Family::Dap => {
            let name = "rescind";
            (json!({ "clientID": name, "clientName": name, "adapterID": name }), None)
        }
    };
    Some(("initialize", params, then))
}

/// The dialect to speak with a server that has answered our opening so, if that is not ours.
///
/// MCP's newest revision opens with `server/discover`. Older servers refuse that, each in its own
/// way, or end, or answer everything but that; then `initialize` finds out what they speak, which is what it answers.
fn other_dialect(
    peer: &Peer,
    ours: Option<&Spoken>,
    answer: &Result<Box<RawValue>, CallError>,
) -> Result<Option<Spoken>, CallError> {
    let Some((ours, Family::Mcp { revision })) = ours.map(|ours| (ours, ours.family())) else {
        return Ok(None);
    };
    let said: serde_json::Value = match answer {
        Ok(answer) => serde_json::from_str(answer.get()).unwrap_or_default(),
        Err(_) => json!(null),
    };
    let theirs = match (revision, answer) {
        (WITHOUT_INITIALIZE, Ok(_)) if supports(&said, revision) => revision,
        (
            WITHOUT_INITIALIZE,
            Ok(_) | Err(CallError::Error(_) | CallError::ConnectionLost { .. }),
        ) => NEWEST_WITH_INITIALIZE,
        (_, Ok(_)) => said["protocolVersion"].as_str().unwrap_or(revision),
        (_, Err(_)) => revision,
    };
    if theirs == revision {
        return Ok(None);
    }
    match ours.in_revision(theirs) {
        // The connection has already switched to the agreed revision.
        Some(_) if revision != WITHOUT_INITIALIZE && !peer.dialect().revisions.is_empty() => {
            Ok(None)
        }
        Some(other) => Ok(Some(other)),
        None => Err(CallError::Error(RpcError::new(
            code::INTERNAL_ERROR,
            format!("the server speaks MCP {theirs}, which we don't"),
        ))),
    }
}

/// Whether the answer to `server/discover` lists the revision.
fn supports(discovered: &serde_json::Value, revision: &str) -> bool {
    let versions = discovered["supportedVersions"].as_array();
    versions.is_some_and(|versions| versions.iter().any(|version| version == revision))
}

/// Returns the params with these members in their `_meta`, unless it has them. The rest stays as the caller wrote it.
fn with_meta(
    wanted: serde_json::Map<String, serde_json::Value>,
    params: Option<&RawValue>,
) -> Option<Box<RawValue>> {
    let text = params.map_or("{}", RawValue::get);
    let Some(members) = Members::of(text, &["_meta"]) else {
        return params.map(ToOwned::to_owned);
    };
    let given = members.token(0);
    let mut meta = given.unwrap_or("{}").to_owned();
    for (name, value) in wanted {
        if Members::of(&meta, &[&*name]).is_some_and(|it| it.token(0).is_none()) {
            meta = with(&meta, &name, &value.to_string());
        }
    }
    let text = match given {
        None => with(text, "_meta", &meta),
        Some(given) => {
            let at = given.as_ptr().addr() - text.as_ptr().addr();
            [&text[..at], &meta, &text[at + given.len()..]].concat()
        }
    };
    RawValue::from_string(text).ok()
}

/// Opens an ACP session and names it in the params.
fn in_new_session(
    attempt: &Attempt<'_>,
    peer: &Peer,
    params: Option<&RawValue>,
) -> Result<Option<Box<RawValue>>, CallError> {
    let directory = std::env::current_dir().unwrap_or_default();
    let new = json!({ "cwd": directory.to_string_lossy(), "mcpServers": [] });
    let new = to_raw_value(&new).ok();
    let opened = attempt.ask(peer, "session/new", new.as_deref(), false)?;
    let text = params.map_or("{}", RawValue::get);
    let session = path(&opened, &["sessionId"]).filter(|_| text.starts_with('{'));
    let named = session.map(|session| with(text, "sessionId", session.get()));
    Ok(named.and_then(|text| RawValue::from_string(text).ok()).or(params.map(ToOwned::to_owned)))
}

/// Adds a member to the end of an object. Its name needs no escapes. Nothing is parsed, so no number is changed.
fn with(object: &str, name: &str, value: &str) -> String {
    let members = object.strip_suffix('}').unwrap_or(object).trim_end();
    let comma = if members == "{" { "" } else { "," };
    format!("{members}{comma}\"{name}\":{value}}}")
}

impl Opened {
    /// Sends the notifications that go with the call.
    pub(super) fn notify(&self, peer: &Peer) -> Result<(), Refusal> {
        self.notifications
            .iter()
            .try_for_each(|step| peer.try_notify_raw(&step.method, step.params.as_deref()))
    }
}

/// Says goodbye as the dialect asks for, without waiting long.
pub(super) fn close(spoken: &Spoken, peer: &Peer) {
    const PATIENCE: Duration = Duration::from_millis(500);
    if spoken.family() == Family::Lsp {
        let options = CallOptions::default().timeout(PATIENCE);
        // A server that does not answer is killed anyway.
        let _: Result<serde_json::Value, _> = peer.call_with("shutdown", (), options).wait();
        let _ = peer.try_notify("exit", ());
    }
    block_on_for(&mut peer.flushed(), PATIENCE);
}
