//! The turns of the server where it is an agent.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Fault, Server};

/// The pieces of a turn, and the time between two of them.
const PIECES: u32 = 10;
const EVERY: Duration = Duration::from_millis(60);

#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    sessions: usize,
    running: Vec<(String, String)>,
    stopped: HashSet<String>,
    asked: u64,
    permitted: HashSet<String>,
}

impl Turns {
    /// Waits until something holds or the time is over. Returns whether it held.
    fn wait(&self, until: Instant, holds: impl Fn(&State) -> bool) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(state, left, |state| !holds(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        changed
    }
}

impl Server {
    pub(super) fn open_session(&self, id: &str) {
        let number = self.turns.change(|state| {
            state.sessions += 1;
            state.sessions
        });
        self.answer(id, &json!({ "result": { "sessionId": format!("s{number}") } }));
    }

    pub(super) fn stop(&self, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        let fault = self.fault;
        let ran = self.turns.change(|state| {
            let is_hit = |of: &str| fault == Fault::StopsAllSessions || of == session;
            let ran = state.running.iter().filter(|(of, _)| is_hit(of)).cloned().collect();
            let ran: Vec<(String, String)> = ran;
            state.stopped.extend(ran.iter().map(|(of, _)| of.clone()));
            if fault == Fault::KeepsStops {
                state.stopped.insert(session.to_owned());
            }
            ran
        });
        if fault == Fault::AnswersEachStop {
            for (_, id) in ran {
                self.answer(&id, &json!({ "result": { "stopReason": "cancelled" } }));
            }
        }
    }

    pub(super) fn permitted(&self, id: &str) {
        self.turns.change(|state| state.permitted.insert(id.to_owned()));
    }

    /// Reports, asks for a permission, and reports the pieces until it is done or stopped.
    pub(super) fn turn(&self, id: &str, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let ask = self.turns.change(|state| {
            if self.fault != Fault::KeepsStops {
                state.stopped.remove(&session);
            }
            state.running.push((session.clone(), id.to_owned()));
            state.asked += 1;
            format!("\"ask-{}\"", state.asked)
        });
        self.update(&session);
        let request = json!({ "sessionId": session, "options": [] });
        self.say(format!(
            r#"{{"jsonrpc":"2.0","id":{ask},"method":"session/request_permission","params":{request}}}"#
        ));
        let far = Instant::now() + Duration::from_secs(1000);
        self.turns.wait(far, |state| state.permitted.contains(&ask));
        let mut is_stopped = false;
        for _ in 0..PIECES {
            let next = Instant::now() + EVERY;
            let ignores = self.fault == Fault::IgnoresStops;
            is_stopped =
                self.turns.wait(next, |state| !ignores && state.stopped.contains(&session));
            if is_stopped {
                break;
            }
            self.update(&session);
        }
        if is_stopped && self.fault == Fault::WaitsAfterStops {
            self.turns.wait(far, |_| false);
        }
        if is_stopped && self.fault == Fault::AnswersEachStop {
            // The next stop has to find the turn, however fast this thread is.
            self.turns.wait(Instant::now() + Duration::from_secs(1), |_| false);
        }
        self.turns.change(|state| {
            state.running.retain(|(_, of)| of != id);
            state.stopped.remove(&session);
        });
        match (is_stopped, self.fault) {
            (true, Fault::AnswersEachStop) => {}
            (true, Fault::StopsWithAnError) => self.error(id, -32603),
            (true, _) => self.answer(id, &json!({ "result": { "stopReason": "cancelled" } })),
            (false, _) => self.answer(id, &json!({ "result": { "stopReason": "end_turn" } })),
        }
        if is_stopped && self.fault == Fault::ReportsAfterStops {
            self.update(&session);
        }
    }

    fn update(&self, session: &str) {
        let params = json!({ "sessionId": session, "update": {} });
        self.say(format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#));
    }
}
