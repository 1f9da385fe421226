//! Our library as a server of MCP 2025-11-25 whose tool `sleep` is a task. In [`extended`] it is one of the extension of
//! 2026-07-28. The tool `stopped_once` responds once a task was stopped.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol_async::{Canceller, Failure, RpcError};
use protocol_core::{Cause, code};
use protocol_router::{Context, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The status of a task.
type Status = &'static str;

const WORKING: Status = "working";
const CANCELLED: Status = "cancelled";
const COMPLETED: Status = "completed";

/// A task, which outlives its request. The canceller stops it.
struct Task {
    stop: Canceller,
    status: watch::Sender<Status>,
    ms: u64,
}

/// The tasks of a connection by their names.
#[derive(Default)]
pub struct Tasks(Mutex<BTreeMap<String, Task>>);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a task.
    fn begin(&self, ms: u64) -> String {
        let mut tasks = self.lock();
        let name = format!("t{}", tasks.len());
        let (stop, status) = (Canceller::new(), watch::Sender::new(WORKING));
        tasks.insert(name.clone(), Task { stop, status, ms });
        name
    }

    /// Does something with the task that params name.
    fn with<T>(&self, params: &Value, then: impl FnOnce(&str, &Task) -> T) -> Result<T, Failure> {
        let name = params["taskId"].as_str().unwrap_or_default();
        let unknown = || invalid("there is no such task");
        self.lock().get(name).map(|task| then(name, task)).ok_or_else(unknown)
    }
}

/// The server: `server().serve(&protocol_tokio::stdio(config).incoming).await`.
pub fn server() -> Router<Tasks> {
    Router::with_state(Tasks::default())
        .on_trouble(|_| ())
        .request("initialize", async |asked: Value, _| {
            let call = json!({ "tools": { "call": {} } });
            Ok(json!({
                "protocolVersion": asked["protocolVersion"],
                "capabilities": { "tools": {}, "tasks": { "cancel": {}, "requests": call } },
                "serverInfo": { "name": "rescind", "version": "0" },
            }))
        })
        .notification("notifications/initialized", async |_: Value, _| Ok(()))
        .request("tools/list", async |_: Value, _| {
            let schema = json!({ "type": "object" });
            let execution = json!({ "taskSupport": "required" });
            Ok(json!({ "tools": [
                { "name": "sleep", "inputSchema": schema, "execution": execution },
                { "name": "stopped_once", "inputSchema": schema },
            ] }))
        })
        .request("tools/call", call_tool)
        .request("tasks/get", async |asked: Value, cx: Context<Tasks>| {
            cx.state().with(&asked, described)
        })
        .request("tasks/result", result)
        .request("tasks/cancel", cancel)
}

/// The server of the extension (SEP-2663).
pub fn extended() -> Router<Tasks> {
    Router::with_state(Tasks::default())
        .on_trouble(|_| ())
        .request("server/discover", async |_: Value, _| {
            let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
            let server = json!({ "name": "rescind", "version": "0" });
            Ok(json!({
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {}, "extensions": extensions },
                "_meta": { "io.modelcontextprotocol/serverInfo": server },
            }))
        })
        .request("tools/call", async |asked: Value, cx: Context<Tasks>| {
            if asked["name"] == "stopped_once" {
                return stopped_once(&cx);
            }
            let task = begin(&asked, &cx)?;
            cx.state().with(&task, |name, task| extension(name, task, "task"))
        })
        .request("tasks/get", async |asked: Value, cx: Context<Tasks>| {
            cx.state().with(&asked, |name, task| extension(name, task, "complete"))
        })
        .request("tasks/cancel", async |asked: Value, cx: Context<Tasks>| {
            cx.state().with(&asked, |_, task| task.stop.cancel(Cause::Stopped))?;
            Ok(json!({ "resultType": "complete" }))
        })
}

fn extension(name: &str, task: &Task, kind: &str) -> Value {
    let mut described = described(name, task);
    described["resultType"] = json!(kind);
    described["ttlMs"] = described["ttl"].take();
    if described["status"] == COMPLETED {
        described["result"] = said(json!({ "slept_ms": task.ms }));
    }
    described
}

fn stopped_once(cx: &Context<Tasks>) -> Result<Value, Failure> {
    let tasks = cx.state().lock();
    let was_stopped = tasks.values().any(|task| *task.status.borrow() == CANCELLED);
    was_stopped.then(|| said(json!({}))).ok_or_else(|| invalid("no task was stopped"))
}

async fn call_tool(asked: Value, cx: Context<Tasks>) -> Result<Value, Failure> {
    if asked["name"] == "stopped_once" {
        return stopped_once(&cx);
    }
    if asked["task"].is_null() {
        return Err(invalid("it has to be a task"));
    }
    let task = begin(&asked, &cx)?;
    Ok(json!({ "task": cx.state().with(&task, described)? }))
}

/// Begins a task, and returns its name.
fn begin(asked: &Value, cx: &Context<Tasks>) -> Result<Value, Failure> {
    let name = cx.state().begin(asked["arguments"]["ms"].as_u64().unwrap_or(0));
    let task = json!({ "taskId": name });
    let named = task.clone();
    cx.spawn_with(async move |cx: Context<Tasks>| {
        let (stop, ms) = cx.state().with(&named, |_, task| (task.stop.marker(), task.ms))?;
        let sleep = tokio::time::sleep(Duration::from_millis(ms));
        let end = if stop.unless_cancelled(sleep).await.is_ok() { COMPLETED } else { CANCELLED };
        cx.state().with(&named, |_, task| task.status.send_replace(end))?;
        Ok(())
    });
    Ok(task)
}

/// "Receivers MUST reject cancellation of terminal status tasks with -32602 (Invalid params)" (tasks, task cancellation).
async fn cancel(asked: Value, cx: Context<Tasks>) -> Result<Value, Failure> {
    let (mut status, stop) =
        cx.state().with(&asked, |_, task| (task.status.subscribe(), task.stop.clone()))?;
    if *status.borrow() != WORKING {
        return Err(invalid("it has ended"));
    }
    stop.cancel(Cause::Stopped);
    until_ended(&mut status).await;
    cx.state().with(&asked, described)
}

/// Responds once the task has ended.
async fn result(asked: Value, cx: Context<Tasks>) -> Result<Value, Failure> {
    let (mut status, ms) = cx.state().with(&asked, |_, task| (task.status.subscribe(), task.ms))?;
    if until_ended(&mut status).await != COMPLETED {
        return Err(invalid("it was stopped"));
    }
    let mut result = said(json!({ "slept_ms": ms }));
    result["_meta"] =
        json!({ "io.modelcontextprotocol/related-task": { "taskId": asked["taskId"] } });
    Ok(result)
}

async fn until_ended(status: &mut watch::Receiver<Status>) -> Status {
    let ended = status.wait_for(|status| *status != WORKING).await;
    ended.map_or(CANCELLED, |status| *status)
}

fn described(name: &str, task: &Task) -> Value {
    // No test asks for the time.
    let time = "2026-01-01T00:00:00Z";
    let (status, ttl, interval) = (*task.status.borrow(), Value::Null, 10);
    json!({
        "taskId": name, "status": status, "ttl": ttl, "pollInterval": interval,
        "createdAt": time, "lastUpdatedAt": time,
    })
}

fn said(value: Value) -> Value {
    let content = json!([{ "type": "text", "text": value.to_string() }]);
    json!({ "resultType": "complete", "content": content })
}

fn invalid(message: &str) -> Failure {
    RpcError::new(code::INVALID_PARAMS, message).into()
}
