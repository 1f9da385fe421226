//! The work of the demonstration methods that is stopped by a name of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use protocol_async::{Cancellation, Canceller, Notification, Peer, RpcError};
use protocol_blocking::{Failure, Request, block_on, block_on_for};
use protocol_core::{Cause, Refusal, code};
use serde_json::{Value, json};

use super::mcp::TASK;
use super::turn::{self, CHUNK_EVERY, CHUNKS, Session, Update};
use crate::lock::lock;

/// The number of turns that run at the same time, and of tasks that are remembered.
const WORKS: usize = 64;
/// The time between two looks at a task whose result is awaited.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The notification that stops a progress of LSP.
pub(super) const STOP_PROGRESS: &str = "window/workDoneProgress/cancel";
/// The request that creates one.
pub(super) const CREATE_PROGRESS: &str = "window/workDoneProgress/create";

/// The cancellers of what runs, by the name on the wire.
type Running = Arc<Mutex<BTreeMap<String, Canceller>>>;

/// The work of one connection.
#[derive(Debug, Default)]
pub(super) struct Works {
    running: Running,
    tasks: Mutex<BTreeMap<u64, Task>>,
    /// The peer of handlers on threads, to which a turn reports after its response.
    pub(super) peer: OnceLock<Peer>,
    /// Whether the client shows progress that a server creates.
    shows_progress: AtomicBool,
    last: AtomicU64,
}

/// A call of `sleep` that goes on as a task of MCP 2025-11-25. Its status is a matter of the clock.
#[derive(Debug)]
struct Task {
    ms: u64,
    created: SystemTime,
    begun: Instant,
    cancelled: Option<SystemTime>,
}

fn invalid(why: &str) -> Failure {
    RpcError::new(code::INVALID_PARAMS, why).into()
}

fn too_many() -> Failure {
    RpcError::new(code::INTERNAL_ERROR, "there is too much work already").into()
}

impl Works {
    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Learns from LSP's `initialize` what the client shows.
    pub(super) fn know_client(&self, initialize: &Request) {
        let asked: Value = initialize.params().unwrap_or_default();
        let shows = asked["capabilities"]["window"]["workDoneProgress"] == true;
        self.shows_progress.store(shows, Ordering::Relaxed);
    }

    /// Stops the work that a notification names.
    pub(super) fn stop(&self, told: &Notification) {
        let member = match told.method.as_str() {
            "session/cancel" => "sessionId",
            STOP_PROGRESS => "token",
            _ => return,
        };
        let params: Value = told.params().unwrap_or_default();
        if let Some(work) = lock(&self.running).get(&params[member].to_string()) {
            work.cancel(Cause::Stopped);
        }
    }

    // Turns of ACP, version 2

    /// Begins a turn, which goes on after the response. A prompt in a session whose turn runs contributes to that.
    pub(super) fn begin_turn(&self, peer: &Peer, prompt: &Request) -> Result<Value, Failure> {
        let (session, asked): (Session, Value) = (prompt.params()?, prompt.params()?);
        let message = format!("message-{}", self.next());
        let inserted = json!({ "sessionUpdate": "user_message", "messageId": message, "content": asked["prompt"] });
        let response = json!({ "messageId": message });
        let name = json!(session.session_id).to_string();
        let mut running = lock(&self.running);
        if running.contains_key(&name) {
            return Ok(response);
        }
        if running.len() >= WORKS {
            return Err(too_many());
        }
        let stop = Canceller::new();
        let (marker, peer, works) = (stop.marker(), peer.clone(), self.running.clone());
        let turn = move || run_turn(&peer, &session, &inserted, &marker, &works);
        thread::Builder::new().name("turn".into()).spawn(turn).map_err(|_| too_many())?;
        running.insert(name, stop);
        Ok(response)
    }

    // Progress of LSP

    /// Returns the progress of a request: under the client's token, or under one that is yet to be created.
    pub(super) fn progress(&self, request: &Request) -> Option<Progress> {
        let params: Value = request.params().unwrap_or_default();
        let own = params.get("workDoneToken").cloned();
        let is_created = own.is_none();
        if is_created && !self.shows_progress.load(Ordering::Relaxed) {
            return None;
        }
        let token = own.unwrap_or_else(|| json!(format!("progress-{}", self.next())));
        let stop = Canceller::new();
        let marker = stop.marker();
        if is_created {
            lock(&self.running).insert(token.to_string(), stop);
        }
        Some(Progress { token, is_created, marker, running: self.running.clone() })
    }

    // Tasks of MCP 2025-11-25

    /// Answers a call that becomes a task, and what is asked of tasks.
    pub(super) fn of_task(&self, request: &Request) -> Result<Value, Failure> {
        let params: Value = request.params().unwrap_or_default();
        let mut tasks = lock(&self.tasks);
        if request.method == "tools/call" {
            if params["name"] != TASK {
                return Err(request.unknown_method());
            }
            let ms = params["arguments"]["ms"].as_u64().ok_or_else(|| invalid("no ms"))?;
            if tasks.len() >= WORKS {
                let ended = tasks.iter().find(|(_, task)| task.status() != "working");
                let ended = *ended.ok_or_else(too_many)?.0;
                tasks.remove(&ended);
            }
            let number = self.next();
            let (created, begun) = (SystemTime::now(), Instant::now());
            let task = Task { ms, created, begun, cancelled: None };
            let told = json!({ "task": task.told(number) });
            tasks.insert(number, task);
            return Ok(told);
        }
        let (number, task) = named(&mut tasks, &params)?;
        match (request.method.as_str(), task.status()) {
            ("tasks/cancel", "working") => task.cancelled = Some(SystemTime::now()),
            ("tasks/cancel", _) => return Err(invalid("the task has ended")),
            _ => {}
        }
        Ok(task.told(number))
    }

    /// Returns the milliseconds that a task has slept, or `None` while it does.
    pub(super) fn slept(&self, request: &Request) -> Result<Option<u64>, Failure> {
        let params: Value = request.params().unwrap_or_default();
        let mut tasks = lock(&self.tasks);
        let (_, task) = named(&mut tasks, &params)?;
        match task.status() {
            "working" => Ok(None),
            "completed" => Ok(Some(task.ms)),
            _ => Err(invalid("the task was cancelled")),
        }
    }
}

/// Returns the task that params name.
fn named<'t>(
    tasks: &'t mut BTreeMap<u64, Task>,
    params: &Value,
) -> Result<(u64, &'t mut Task), Failure> {
    let number = params["taskId"].as_str().and_then(|name| name.strip_prefix("task-"));
    let number = number.and_then(|number| number.parse().ok());
    let found = number.and_then(|number| Some((number, tasks.get_mut(&number)?)));
    found.ok_or_else(|| invalid("there is no such task"))
}

impl Task {
    fn status(&self) -> &'static str {
        match self.cancelled {
            Some(_) => "cancelled",
            None if self.begun.elapsed() < Duration::from_millis(self.ms) => "working",
            None => "completed",
        }
    }

    fn told(&self, number: u64) -> Value {
        let time = |at| humantime::format_rfc3339_millis(at).to_string();
        json!({
            "taskId": format!("task-{number}"), "status": self.status(), "ttl": null, "pollInterval": 100,
            "createdAt": time(self.created), "lastUpdatedAt": time(self.cancelled.unwrap_or(self.created)),
        })
    }
}

/// Streams the turn. Its last update says that the session is idle.
fn run_turn(
    peer: &Peer,
    session: &Session,
    inserted: &Value,
    stop: &Cancellation,
    running: &Running,
) {
    let update = |update: Value| json!({ "sessionId": session.session_id, "update": update });
    let tell = |params: &Value| block_on(peer.notify("session/update", params)).is_ok();
    tell(&update(inserted.clone()));
    tell(&update(json!({ "sessionUpdate": "state_update", "state": "running" })));
    let mut cancelled = stop.cancelled();
    let mut goes_on = |chunk| {
        let (_, chunk): Update = turn::chunk(session, chunk);
        tell(&chunk) && block_on_for(&mut cancelled, CHUNK_EVERY).is_none()
    };
    let reason = if (1..=CHUNKS).all(&mut goes_on) { "end_turn" } else { "cancelled" };
    let idle = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": reason });
    let idle = update(idle);
    // The next prompt begins a turn once this one is seen to be over.
    let mut works = lock(running);
    let told = peer.try_notify("session/update", &idle);
    works.remove(&json!(session.session_id).to_string());
    drop(works);
    if told == Err(Refusal::OutboxFull) {
        tell(&idle);
    }
}

/// The progress of a request, as LSP reports it.
#[derive(Debug)]
pub(super) struct Progress {
    token: Value,
    /// Whether the client has to be asked to create it.
    pub(super) is_created: bool,
    marker: Cancellation,
    running: Running,
}

impl Progress {
    pub(super) fn is_stopped(&self) -> bool {
        self.marker.is_cancelled()
    }

    /// Returns the params that create it.
    pub(super) fn created(&self) -> Value {
        json!({ "token": self.token })
    }

    pub(super) fn begin(&self) -> Update {
        self.update(json!({ "kind": "begin", "title": "count", "cancellable": self.is_created }))
    }

    pub(super) fn report(&self, count: u64, to: u64) -> Update {
        self.update(json!({ "kind": "report", "count": count, "to": to }))
    }

    pub(super) fn end(&self) -> Update {
        self.update(json!({ "kind": "end" }))
    }

    fn update(&self, value: Value) -> Update {
        ("$/progress".into(), json!({ "token": self.token, "value": value }))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_created {
            lock(&self.running).remove(&self.token.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol_core::{Config, Dialect};
    use serde_json::value::to_raw_value;

    use super::*;

    fn request(method: &str, params: &Value) -> Request {
        let params = Some(to_raw_value(params).expect("it is JSON"));
        Request { method: method.into(), params, options: None }
    }

    fn begin(works: &Works, ms: u64) -> Result<Value, Failure> {
        let params = json!({ "name": TASK, "arguments": { "ms": ms }, "task": {} });
        Ok(works.of_task(&request("tools/call", &params))?["task"].clone())
    }

    #[test]
    fn a_task_that_has_ended_is_not_cancelled_again() {
        let works = Works::default();
        let (long, short) = (begin(&works, 3_600_000).unwrap(), begin(&works, 0).unwrap());
        let cancel = |task: &Value| works.of_task(&request("tasks/cancel", task));
        assert_eq!(long["status"], "working");
        assert_eq!(cancel(&long).unwrap()["status"], "cancelled");
        for task in [&long, &short, &json!({ "taskId": "task-99" })] {
            assert!(cancel(task).is_err(), "{task}");
        }
        let status = |task| works.of_task(&request("tasks/get", task)).unwrap()["status"].clone();
        assert_eq!((status(&long), status(&short)), (json!("cancelled"), json!("completed")));
        assert_eq!(works.slept(&request("tasks/result", &short)).unwrap(), Some(0));
        assert!(works.slept(&request("tasks/result", &long)).is_err());
    }

    #[test]
    fn g08_no_more_tasks_and_turns_go_on_than_there_is_room_for() {
        let works = Works::default();
        let first = begin(&works, 3_600_000).unwrap();
        (1..WORKS).for_each(|_| drop(begin(&works, 3_600_000).unwrap()));
        assert!(begin(&works, 0).is_err());
        works.of_task(&request("tasks/cancel", &first)).unwrap();
        assert!(begin(&works, 0).is_ok(), "an ended one is forgotten");

        let config = Config::server(Dialect::ACP_V2);
        let (peer, _incoming, _driver) =
            protocol_smol::connect(smol::io::empty(), smol::io::sink(), config);
        let prompt = |number| {
            let prompt = json!({ "sessionId": format!("s{number}"), "prompt": [] });
            works.begin_turn(&peer, &request("session/prompt", &prompt))
        };
        let running = |number| (format!("\"s{number}\""), Canceller::new());
        lock(&works.running).extend((0..WORKS).map(running));
        assert!(prompt(WORKS).is_err());
        assert!(prompt(0).is_ok(), "it contributes to the turn that runs");
    }
}
