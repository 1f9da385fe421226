//! The responses of the demonstration methods, whatever runs them.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use protocol_async::RpcError;
use protocol_blocking::{Answer, Failure, Notification, Request};
use protocol_core::{Violation, WireId};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::mcp;
use super::outcomes::Outcomes;
use super::turn::Update;
use super::works::{Progress, Works};
use crate::dialect::{Family, Spoken};
use crate::lock::lock;
use crate::own_name;
use crate::terminal::{Line, say};

/// Methods that take no time, in any protocol. A stop is handled before the next request begins.
const IMMEDIATE: [&str; 11] = [
    "echo",
    "fail",
    "initialize",
    "outcome",
    "ping",
    "server/discover",
    "session/cancel",
    "session/new",
    "tasks/cancel",
    "tasks/get",
    "tools/list",
];

/// The state that the methods of one connection share.
#[derive(Debug)]
pub(super) struct Methods {
    /// The revision that is spoken now. The exchange that opens the connection may settle it.
    spoken: Mutex<Spoken>,
    sessions: AtomicU64,
    shut_down: AtomicBool,
    outcomes: Outcomes,
    pub(super) works: Works,
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
struct Outcome {
    token: String,
}

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
}

impl Methods {
    pub(super) fn new(spoken: Spoken, outcomes: Outcomes) -> Self {
        Self {
            spoken: Mutex::new(spoken),
            sessions: AtomicU64::new(0),
            shut_down: AtomicBool::new(false),
            outcomes,
            works: Works::default(),
        }
    }

    /// The dialect that is spoken now.
    fn spoken(&self) -> Spoken {
        lock(&self.spoken).clone()
    }

    fn family(&self) -> Family {
        lock(&self.spoken).family()
    }

    /// Our answer may settle what is spoken from now on, that answer included.
    fn settle(&self, method: &str, answer: &Value) -> serde_json::Result<()> {
        let answer = to_raw_value(answer)?;
        let mut spoken = lock(&self.spoken);
        if let Some(settled) = spoken.settled_by(method, &answer) {
            *spoken = settled;
        }
        Ok(())
    }

    /// Whether LSP's `shutdown` has been asked for.
    pub(super) fn was_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::Relaxed)
    }

    /// Answers what takes no time: it is worth its answer even to a peer that has hung up writing,
    /// as at the end of a pipe.
    pub(super) fn answer_at_once(&self, request: &Request) -> Answer {
        match (self.family(), request.method.as_str()) {
            (_, "echo") => Ok(request.params.clone().unwrap_or(to_raw_value(&())?)),
            (_, "fail") => {
                let Fail { code, message } = request.params()?;
                Err(RpcError::new(code, message).into())
            }
            (_, "outcome") => {
                let Outcome { token } = request.params()?;
                json(&json!({ "outcome": self.outcomes.of(&token) }))
            }
            (Family::Acp { version: 2 }, "initialize") => json(&json!({
                "protocolVersion": 2, "capabilities": {}, "info": own_name(), "authMethods": [],
            })),
            (Family::Acp { version }, "initialize") => json(&json!({
                "protocolVersion": version,
                "agentCapabilities": self.spoken().capabilities(),
                "agentInfo": own_name(), "authMethods": [],
            })),
            (Family::Acp { .. }, "session/new") => {
                let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
                json(&json!({ "sessionId": format!("session-{number}") }))
            }
            (Family::Lsp, "initialize") => {
                self.works.know_client(request);
                json(&json!({ "capabilities": {}, "serverInfo": own_name() }))
            }
            (Family::Lsp, "shutdown") => {
                self.shut_down.store(true, Ordering::Relaxed);
                json(&())
            }
            (Family::Mcp { revision }, "tools/call" | "tasks/get" | "tasks/cancel")
                if mcp::has_tasks(revision) =>
            {
                json(&self.works.of_task(request)?)
            }
            (Family::Mcp { .. }, _) => {
                let answer = mcp::answer(&self.spoken(), request)?;
                self.settle(&request.method, &answer)?;
                mcp::complete(self.family().revision(), answer)
            }
            (Family::Erlmcp, _) => json(&mcp::answer(&self.spoken(), request)?),
            (Family::Dap, "initialize") => json(&json!({ "supportsCancelRequest": true })),
            (Family::Abp, "initialize") => {
                json(&json!({ "app": own_name(), "capabilities": mcp::tool_names() }))
            }
            _ => Err(request.unknown_method()),
        }
    }

    /// Returns the work that a request asks for: itself, or the tool that it calls.
    pub(super) fn work<'a>(&self, request: &'a Request) -> Result<Cow<'a, Request>, Failure> {
        match (self.family(), request.method.as_str()) {
            (Family::Mcp { revision }, "tools/call") if mcp::is_task(revision, request) => {
                Ok(Cow::Borrowed(request))
            }
            (Family::Mcp { .. }, "tools/call") | (Family::Erlmcp, "tool/call") => {
                mcp::called(request).map(Cow::Owned)
            }
            _ => Ok(Cow::Borrowed(request)),
        }
    }

    /// The answer to a request, made of what its work came to.
    pub(super) fn answer(&self, request: &Request, answer: Answer) -> Answer {
        self.outcomes.keep(request, &answer);
        match (self.family(), request.method.as_str()) {
            (Family::Mcp { revision }, "tools/call") if !mcp::is_task(revision, request) => {
                mcp::tool_answer(revision, answer)
            }
            _ => answer,
        }
    }

    /// Whether a request is ACP's prompt.
    pub(super) fn is_prompt(&self, request: &Request) -> bool {
        matches!(self.family(), Family::Acp { .. }) && request.method == "session/prompt"
    }

    /// Returns the result of a task's call, or `None` while it goes on.
    pub(super) fn task_result(&self, request: &Request) -> Result<Option<Answer>, Failure> {
        let Family::Mcp { revision } = self.family() else { return Err(request.unknown_method()) };
        if !mcp::has_tasks(revision) {
            return Err(request.unknown_method());
        }
        let slept = self.works.slept(request)?;
        Ok(slept.map(|ms| mcp::task_answer(request, Sleep { ms }.slept())))
    }

    /// Whether a request is a prompt whose turn goes on after the response.
    pub(super) fn begins_turn(&self, request: &Request) -> bool {
        self.is_prompted_at_once() && self.is_prompt(request)
    }

    fn is_prompted_at_once(&self) -> bool {
        self.family() == Family::Acp { version: 2 }
    }

    /// Returns the methods that take no time.
    pub(super) fn immediate(&self) -> impl Iterator<Item = &'static str> {
        let prompt = self.is_prompted_at_once().then_some("session/prompt");
        IMMEDIATE.into_iter().chain(prompt)
    }

    /// Returns the progress that LSP has of a request.
    pub(super) fn progress_of(&self, request: &Request) -> Option<Progress> {
        (self.family() == Family::Lsp).then(|| self.works.progress(request))?
    }

    /// Whether a notification ends the connection.
    pub(super) fn is_exit(&self, notification: &Notification) -> bool {
        self.family() == Family::Lsp && notification.method == "exit"
    }

    /// Returns the response to a count that has come so far.
    pub(super) fn count_ended(&self, count: &Count, counted: u64) -> Answer {
        let dialect = &self.spoken().dialect;
        // An operation's partial result is kept by whoever keeps the operations.
        if counted >= count.to || dialect.partial_results || dialect.has_operations() {
            json(&json!({ "counted": counted, "of": count.to }))
        } else {
            Err(Failure::Cancelled)
        }
    }

    /// Returns progress as LSP or the dialect writes it, under the token of the request. MCP has none without a token.
    pub(super) fn progress(
        &self,
        request: &Request,
        of_lsp: Option<&Progress>,
        count: u64,
        to: u64,
    ) -> Option<Update> {
        if let Some(progress) = of_lsp {
            return Some(progress.report(count, to));
        }
        let value = json!({ "count": count, "to": to });
        let dialect = self.spoken().dialect;
        let Some(rule) = dialect.progress.first() else {
            return Some(("progress".into(), value));
        };
        let params: serde_json::Value = request.params().unwrap_or_default();
        let options = request.options.as_deref().map_or("null", RawValue::get);
        let options: serde_json::Value = serde_json::from_str(options).unwrap_or_default();
        let token = rule
            .tokens_of_call
            .iter()
            .find_map(|path| path.iter().try_fold(&params, |value, member| value.get(&**member)))
            .or_else(|| options.get(&*rule.token));
        let params = match token {
            _ if matches!(self.family(), Family::Mcp { .. } | Family::Abp) => {
                json!({ &*rule.token: token?, "progress": count, "total": to })
            }
            Some(token) => json!({ &*rule.token: token, "value": value }),
            None => json!({ "value": value }),
        };
        Some((rule.method.clone(), params))
    }
}

pub(super) fn report(violation: Violation, id: Option<&WireId>) {
    say(Line::new().text("rescind serve: ").about(id).text(violation));
}

fn json(value: &impl Serialize) -> Answer {
    Ok(to_raw_value(value)?)
}
