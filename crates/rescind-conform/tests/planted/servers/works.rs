//! The tasks of the server where it is one of MCP.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Fault, Server};

#[derive(Default)]
pub(super) struct Tasks(Mutex<State>);

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    /// Whether a stop waits for the next task.
    stale: bool,
}

#[derive(Clone, Copy)]
struct Task {
    end: Instant,
    is_cancelled: bool,
}

impl Task {
    fn status(self, fault: Fault) -> &'static str {
        match (self.is_cancelled, self.end <= Instant::now()) {
            (true, true) if fault == Fault::ReportsAfterStops => "completed",
            (true, _) => "cancelled",
            (false, true) => "completed",
            (false, false) => "working",
        }
    }
}

impl Server {
    fn with_tasks<T>(&self, does: impl FnOnce(&mut State) -> T) -> T {
        does(&mut self.turns.tasks.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a call that becomes a task, or a question about one.
    pub(super) fn of_task(self: &Arc<Self>, id: &str, method: &str, params: &Value) {
        let fault = self.fault;
        if method == "tools/call" {
            let time = Duration::from_millis(params["arguments"]["ms"].as_u64().unwrap_or(0));
            let number = self.with_tasks(|state| {
                let is_cancelled = std::mem::take(&mut state.stale);
                state.tasks.push(Task { end: Instant::now() + time, is_cancelled });
                state.tasks.len() - 1
            });
            let task = json!({ "taskId": number.to_string(), "status": "working" });
            return self.answer(id, &json!({ "result": { "task": task } }));
        }
        let number: Option<usize> = params["taskId"].as_str().and_then(|it| it.parse().ok());
        if method == "tasks/cancel" && fault == Fault::KeepsStops {
            let works = |state: &State| number.is_some_and(|it| !state.tasks[it].is_cancelled);
            self.with_tasks(|state| state.stale = !works(state));
        }
        let Some(number) = number else { return self.error(id, -32602) };
        let status = self.with_tasks(|state| state.tasks[number].status(fault));
        match method {
            "tasks/result" => {
                let (server, id) = (self.clone(), id.to_owned());
                thread::spawn(move || server.task_result(&id, number));
            }
            "tasks/cancel" if status != "working" && fault != Fault::AnswersEachStop => {
                self.error(id, -32602);
            }
            _ => {
                let status = self.with_tasks(|state| {
                    for (at, task) in state.tasks.iter_mut().enumerate() {
                        let is_hit = at == number || fault == Fault::StopsAllSessions;
                        let cancels = method == "tasks/cancel" && fault != Fault::IgnoresStops;
                        task.is_cancelled |= is_hit && cancels;
                    }
                    state.tasks[number].status(fault)
                });
                let task = json!({ "taskId": number.to_string(), "status": status });
                self.answer(id, &json!({ "result": task }));
            }
        }
    }

    fn task_result(&self, id: &str, number: usize) {
        loop {
            match self.with_tasks(|state| state.tasks[number].status(self.fault)) {
                "completed" => return self.answer(id, &json!({ "result": { "content": [] } })),
                "cancelled" if self.fault != Fault::WaitsAfterStops => {
                    return self.error(id, -32603);
                }
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}
