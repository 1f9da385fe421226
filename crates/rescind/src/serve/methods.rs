//! What the demonstration methods say, whatever runs them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol_blocking::{Answer, Failure, Notification, Request};
use protocol_core::{Dialect, PartialResults, RpcError, Violation, WireId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::note;

/// Pieces that a prompt is answered in.
pub(super) const CHUNKS: u32 = 50;
/// Time between two of them.
pub(super) const CHUNK_EVERY: Duration = Duration::from_millis(200);

/// What the methods of one connection share.
#[derive(Debug)]
pub(super) struct Methods {
    dialect: Dialect,
    sessions: AtomicU64,
    /// The ACP sessions that are being prompted, and whether `session/cancel` stopped that. One that
    /// comes when nothing is prompted is stale, and must not stop the next prompt.
    prompts: Mutex<BTreeMap<String, Prompt>>,
    shut_down: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prompt {
    Running,
    Stopped,
}

#[derive(Deserialize)]
pub(super) struct Sleep {
    ms: u64,
}

#[derive(Deserialize)]
pub(super) struct Count {
    pub(super) to: u64,
    every_ms: u64,
}

#[derive(Deserialize)]
struct Fail {
    code: i64,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    pub(super) session_id: String,
}

/// A notification to send.
pub(super) type Update = (&'static str, serde_json::Value);

impl Sleep {
    pub(super) const fn duration(&self) -> Duration {
        Duration::from_millis(self.ms)
    }

    pub(super) fn slept(&self) -> Answer {
        json(&json!({ "slept_ms": self.ms }))
    }
}

impl Count {
    pub(super) const fn every(&self) -> Duration {
        Duration::from_millis(self.every_ms)
    }

    pub(super) fn counted(&self, counted: u64) -> Answer {
        json(&json!({ "counted": counted, "of": self.to }))
    }
}

impl Methods {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            sessions: AtomicU64::new(0),
            prompts: Mutex::default(),
            shut_down: AtomicBool::new(false),
        }
    }

    /// Whether LSP's `shutdown` has been asked for.
    pub(super) fn was_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::Relaxed)
    }

    /// Answers what takes no time: it is worth its answer even to a peer that has hung up writing,
    /// as at the end of a pipe.
    pub(super) fn answer_at_once(&self, request: &Request) -> Answer {
        match (self.dialect.name, request.method.as_str()) {
            (_, "echo") => Ok(request.params.clone().unwrap_or(to_raw_value(&())?)),
            (_, "fail") => {
                let Fail { code, message } = request.params()?;
                Err(RpcError::new(code, message).into())
            }
            ("acp", "initialize") => json(&json!({
                "protocolVersion": 1,
                "agentCapabilities": {},
                "agentInfo": { "name": "rescind", "version": env!("CARGO_PKG_VERSION") },
                "authMethods": [],
            })),
            ("acp", "session/new") => {
                let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
                json(&json!({ "sessionId": format!("session-{number}") }))
            }
            ("lsp", "initialize") => json(&json!({
                "capabilities": {},
                "serverInfo": { "name": "rescind", "version": env!("CARGO_PKG_VERSION") },
            })),
            ("lsp", "shutdown") => {
                self.shut_down.store(true, Ordering::Relaxed);
                json(&())
            }
            _ => Err(request.unknown_method()),
        }
    }

    /// Whether a request is ACP's prompt.
    pub(super) fn is_prompt(&self, request: &Request) -> bool {
        self.dialect.name == "acp" && request.method == "session/prompt"
    }

    /// Whether a notification ends the connection.
    pub(super) fn is_exit(&self, notification: &Notification) -> bool {
        self.dialect.name == "lsp" && notification.method == "exit"
    }

    /// What a cancelled count answers.
    pub(super) fn count_cancelled(&self, count: &Count, counted: u64) -> Answer {
        match self.dialect.partial_results {
            PartialResults::Allowed => count.counted(counted),
            PartialResults::Refused => Err(Failure::Cancelled),
        }
    }

    /// Progress as the dialect writes it, under the token that the request named.
    pub(super) fn progress(&self, request: &Request, count: u64, to: u64) -> Update {
        let value = json!({ "count": count, "to": to });
        let Some(rule) = self.dialect.progress.first() else {
            return ("progress", value);
        };
        let params: serde_json::Value = request.params().unwrap_or_default();
        let token = rule.tokens_of_call.iter().find_map(|member| params.get(member));
        let params = match token {
            Some(token) => json!({ rule.token: token, "value": value }),
            None => json!({ "value": value }),
        };
        (rule.method, params)
    }

    pub(super) fn prompt_begins(&self, session: &Session) {
        self.prompts().insert(session.session_id.clone(), Prompt::Running);
    }

    pub(super) fn prompt_ends(&self, session: &Session) {
        self.prompts().remove(&session.session_id);
    }

    /// One piece of the answer to a prompt.
    pub(super) fn chunk(session: &Session, chunk: u32) -> Update {
        let update = json!({
            "sessionId": session.session_id,
            "update": {
                "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": format!("{chunk} of {CHUNKS}\n") },
            },
        });
        ("session/update", update)
    }

    pub(super) fn prompt_is_stopped(&self, session: &Session) -> bool {
        self.prompts().get(&session.session_id) == Some(&Prompt::Stopped)
    }

    /// How a prompt ended.
    pub(super) fn stop_reason(reason: &str) -> Answer {
        json(&json!({ "stopReason": reason }))
    }

    /// Takes ACP's `session/cancel`, and ignores the rest.
    pub(super) fn notified(&self, notification: &Notification) {
        if (self.dialect.name, notification.method.as_str()) != ("acp", "session/cancel") {
            return;
        }
        let params = notification.params.as_deref().map_or("null", RawValue::get);
        if let Ok(Session { session_id }) = serde_json::from_str(params) {
            if let Some(prompt) = self.prompts().get_mut(&session_id) {
                *prompt = Prompt::Stopped;
            }
        }
    }

    fn prompts(&self) -> MutexGuard<'_, BTreeMap<String, Prompt>> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn report(violation: Violation, id: Option<&WireId>) {
    match id {
        Some(id) => note(format_args!("rescind serve: id {id}: {violation}")),
        None => note(format_args!("rescind serve: {violation}")),
    }
}

fn json(value: &impl Serialize) -> Answer {
    Ok(to_raw_value(value)?)
}
