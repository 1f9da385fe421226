//! The turns of the server where it is an agent.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Fault, Protocol, Server, works};

/// The pieces of a turn, and the time between two of them.
const PIECES: u32 = 10;
const EVERY: Duration = Duration::from_millis(60);

#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) tasks: works::Tasks,
}

#[derive(Default)]
struct State {
    sessions: usize,
    running: Vec<(String, String)>,
    /// Prompts that wait for the end of a turn.
    held: Vec<(String, String)>,
    stopped: HashSet<String>,
    /// The sessions that take no more prompts.
    held_for_good: HashSet<String>,
    /// The prompts that were answered before their turns end.
    answered: HashSet<String>,
    /// The sessions of which a turn was stopped.
    had_stops: HashSet<String>,
    asked: u64,
    /// The permissions that have responses, each with whether that says that the turn was cancelled.
    permitted: HashMap<String, bool>,
}

impl Turns {
    /// Waits until something holds or the time is over. Returns whether it held.
    fn wait(&self, until: Instant, holds: impl Fn(&State) -> bool) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(state, left, |state| !holds(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Lets the session of a request take no more prompts.
    pub(super) fn hold(&self, id: &str) {
        self.change(|state| {
            let sessions = state.running.iter().filter(|(_, of)| of == id);
            state.held_for_good.extend(sessions.map(|(session, _)| session.clone()));
        });
    }

    /// Returns whether a prompt runs, and notes that it is answered before its end.
    pub(super) fn runs(&self, id: &str, is_answered: bool) -> bool {
        self.change(|state| {
            let runs = state.running.iter().any(|(_, of)| of == id);
            if runs && is_answered {
                state.answered.insert(id.to_owned());
            }
            runs
        })
    }

    pub(super) fn is_held(&self, params: &Value) -> bool {
        let session = params["sessionId"].as_str().unwrap_or_default();
        self.change(|state| state.held_for_good.contains(session))
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
        let name = params.get("sessionId").or_else(|| params.get("token"));
        let session = name.and_then(Value::as_str).unwrap_or_default();
        let fault = self.fault;
        let ran = self.turns.change(|state| {
            let is_hit = |of: &str| fault == Fault::StopsAllSessions || of == session;
            let ran = state.running.iter().filter(|(of, _)| is_hit(of)).cloned().collect();
            let ran: Vec<(String, String)> = ran;
            for (of, _) in &ran {
                let is_first = state.had_stops.insert(of.clone());
                if fault == Fault::HonoursOneStop && !is_first {
                    return vec![];
                }
            }
            if fault == Fault::HonoursTheLastStop {
                state.stopped.clear();
            }
            state.stopped.extend(ran.iter().map(|(of, _)| of.clone()));
            if fault == Fault::KeepsStops {
                // A progress has another name each time.
                let name = if self.protocol == Protocol::Lsp { "any" } else { session };
                state.stopped.insert(name.to_owned());
            }
            ran
        });
        for (_, id) in self.turns.change(|state| std::mem::take(&mut state.held)) {
            let code = if fault == Fault::RefusesHeldPrompts { -32603 } else { -32800 };
            self.error(&id, code);
        }
        if fault == Fault::AnswersEachStop && self.protocol == Protocol::Lsp {
            self.report(session, "end");
        } else if fault == Fault::AnswersEachStop {
            for (_, id) in ran {
                self.answer(&id, &json!({ "result": { "stopReason": "cancelled" } }));
            }
        }
    }

    pub(super) fn permitted(&self, id: &str, response: &str) {
        let is_cancelled = response.contains("cancelled");
        self.turns.change(|state| state.permitted.insert(id.to_owned(), is_cancelled));
    }

    /// Begins a turn, and returns the id of the request that it will make. In version 2 a prompt waits for the turn that
    /// runs.
    pub(super) fn begin_turn(&self, id: &str, params: &Value) -> Option<String> {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        self.turns.change(|state| {
            let runs = state.running.iter().any(|(of, _)| *of == session);
            if runs && self.protocol == Protocol::V2 {
                state.held.push((session, id.to_owned()));
                return None;
            }
            if self.fault == Fault::LosesReplacedStops {
                state.stopped.remove(&session);
            }
            state.running.push((session, id.to_owned()));
            state.asked += 1;
            Some(format!("\"ask-{}\"", state.asked))
        })
    }

    /// Reports, asks for a permission, and reports the pieces until it is done or stopped.
    pub(super) fn turn(&self, id: &str, params: &Value, ask: &str) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let is_v2 = self.protocol == Protocol::V2;
        if is_v2 {
            self.answer(id, &json!({ "result": {} }));
            self.update(&session, &json!({ "state": "running" }));
        }
        if self.fault == Fault::FailsEarlyStops {
            let soon = Instant::now() + 4 * EVERY;
            if self.turns.wait(soon, |state| state.stopped.contains(&session)) {
                self.turns.change(|state| state.running.retain(|(_, of)| of != id));
                return self.error(id, -32603);
            }
        }
        if self.fault == Fault::LosesEarlyStops {
            thread::sleep(2 * EVERY);
            self.turns.change(|state| state.stopped.remove(&session));
        }
        if self.fault != Fault::AsksFirst {
            self.chunk(&session);
        }
        let options = json!([{ "optionId": "no", "kind": "reject_once" }]);
        let request = json!({ "sessionId": session, "options": options });
        self.say(format!(
            r#"{{"jsonrpc":"2.0","id":{ask},"method":"session/request_permission","params":{request}}}"#
        ));
        let far = Instant::now() + Duration::from_secs(1000);
        let ignores = self.fault == Fault::IgnoresStops;
        let is_hit = |state: &State| !ignores && state.stopped.contains(&session);
        let is_permitted = |state: &State| state.permitted.contains_key(ask);
        self.turns.wait(far, |state| is_permitted(state) || is_v2 && is_hit(state));
        let is_open = self.turns.change(|state| !is_permitted(state));
        if is_open && self.fault != Fault::ForgetsItsOwn {
            self.cancel_own(ask);
        }
        let asks_only = self.fault == Fault::AsksFirst;
        let mut is_stopped = asks_only && self.turns.change(|state| state.permitted[ask]);
        let mut is_late = false;
        for piece in 0..if asks_only { 0 } else { PIECES } {
            is_late = piece > PIECES / 2;
            let next = Instant::now() + EVERY;
            is_stopped = match self.fault {
                // It looks only between two pieces.
                Fault::HonoursTheLastStop | Fault::LosesReplacedStops => {
                    thread::sleep(EVERY);
                    self.turns.change(|state| is_hit(state))
                }
                _ => self.turns.wait(next, is_hit),
            };
            if is_stopped {
                break;
            }
            self.chunk(&session);
        }
        if is_stopped && self.fault == Fault::WaitsAfterStops {
            self.turns.wait(far, |_| false);
        }
        if is_stopped && self.fault == Fault::AnswersEachStop && !is_v2 {
            // The next stop has to find the turn, however fast this thread is.
            self.turns.wait(Instant::now() + Duration::from_secs(1), |_| false);
        }
        let held = self.turns.change(|state| {
            state.running.retain(|(_, of)| of != id);
            state.stopped.remove(&session);
            std::mem::take(&mut state.held)
        });
        held.iter().for_each(|(_, id)| self.answer(id, &json!({ "result": {} })));
        if self.turns.change(|state| state.answered.contains(id)) {
            return;
        }
        match (is_stopped, self.fault) {
            (_, fault) if is_v2 => {
                let reason = match is_stopped {
                    true if fault == Fault::StopsWithAnError => "error",
                    true => "cancelled",
                    false => "end_turn",
                };
                self.update(&session, &json!({ "state": "idle", "stopReason": reason }));
            }
            (true, Fault::AnswersEachStop) => {}
            (true, Fault::FailsLateStops) if is_late => self.error(id, -32603),
            (true, Fault::StopsWithAnError) => self.error(id, -32603),
            (true, _) => self.answer(id, &json!({ "result": { "stopReason": "cancelled" } })),
            (false, _) => self.answer(id, &json!({ "result": { "stopReason": "end_turn" } })),
        }
        if is_stopped && self.fault == Fault::ReportsAfterStops {
            self.chunk(&session);
        }
    }

    fn chunk(&self, session: &str) {
        self.update(session, &json!({ "sessionUpdate": "agent_message_chunk" }));
    }

    fn update(&self, session: &str, update: &Value) {
        let is_mute = self.fault == Fault::SaysNothingLater;
        if is_mute && self.turns.change(|state| state.had_stops.contains(session)) {
            return;
        }
        let params = json!({ "sessionId": session, "update": update });
        self.say(format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#));
    }
}

/// Progress of the server where it is one of LSP.
impl Server {
    pub(super) fn report(&self, token: &str, kind: &str) {
        let value = json!({ "kind": kind, "title": "count", "cancellable": true });
        let params = json!({ "token": token, "value": value });
        self.say(format!(r#"{{"jsonrpc":"2.0","method":"$/progress","params":{params}}}"#));
    }

    /// Counts, and reports that under the client's token or under one that is created.
    pub(super) fn count(self: &Arc<Self>, id: &str, params: &Value) {
        let (stop, cancelled) = channel();
        self.lock().at_work.insert(id.to_owned(), stop);
        let own = params["workDoneToken"].as_str().map(str::to_owned);
        let token = self.turns.change(|state| {
            state.asked += 1;
            let token = own.clone().unwrap_or_else(|| format!("p{}", state.asked));
            if self.fault == Fault::KeepsStops && state.stopped.remove("any") {
                state.stopped.insert(token.clone());
            }
            state.running.push((token.clone(), id.to_owned()));
            token
        });
        if own.is_none() {
            let params = json!({ "token": token });
            self.say(format!(
                r#"{{"jsonrpc":"2.0","id":"create-{token}","method":"window/workDoneProgress/create","params":{params}}}"#
            ));
        }
        let (server, id) = (self.clone(), id.to_owned());
        thread::spawn(move || server.counts(&id, &token, &cancelled));
    }

    fn counts(&self, id: &str, token: &str, cancelled: &Receiver<()>) {
        self.report(token, "begin");
        let mut is_stopped = false;
        let mut is_cancelled = false;
        for _ in 0..PIECES {
            is_cancelled = cancelled.recv_timeout(EVERY / 2) != Err(RecvTimeoutError::Timeout);
            is_stopped = self.fault != Fault::IgnoresStops
                && self.turns.change(|state| state.stopped.contains(token));
            if is_stopped || is_cancelled {
                break;
            }
            self.report(token, "report");
        }
        let is_hit = self.turns.change(|state| state.stopped.contains(token));
        if is_hit && self.fault == Fault::IgnoresStops {
            // Work that was begun before it ends before it, however fast this thread is.
            self.turns.wait(Instant::now() + EVERY, |_| false);
        }
        if is_stopped && self.fault == Fault::WaitsAfterStops {
            loop {
                thread::park();
            }
        }
        self.lock().at_work.remove(id);
        self.turns.change(|state| state.running.retain(|(_, of)| of != id));
        self.report(token, "end");
        if is_stopped && self.fault == Fault::ReportsAfterStops {
            self.report(token, "report");
        }
        match is_cancelled {
            true => self.error(id, -32800),
            false => self.answer(id, &json!({ "result": {} })),
        }
        if is_cancelled && self.fault == Fault::ProgressGoesOn {
            self.report(token, "report");
        }
    }
}
