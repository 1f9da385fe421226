//! The record of each call, as its caller and its handlers saw it, and the rules that it has to
//! keep.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use protocol_async::CallError;
use protocol_core::{CallOptions, CancelOutcome, Cause, Grace, Timestamp};
use protocol_testkit::simulate::Simulation;

/// The time of work that is to outlast everything else.
pub(crate) const NEVER: Duration = Duration::from_secs(20 * 60);
/// Messages, with their stalls and in narrow pipes, take less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// The things that a world may do to its calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Harshness {
    /// The line is cut, or one side ends the connection, while calls are in flight.
    pub(crate) is_interrupted: bool,
    /// Limits are so low that some calls are refused.
    pub(crate) is_tight: bool,
    /// There is a relay between the peers.
    pub(crate) is_relayed: bool,
    /// Every cancel comes through to the last handler: no dialect keeps one side from cancelling.
    pub(crate) cancels_pass: bool,
}

struct Call {
    method: &'static str,
    options: CallOptions,
    /// The call whose handler made it.
    parent: Option<usize>,
    since: Timestamp,
    /// By when it has settled.
    due: Timestamp,
    /// Its caller cancelled or dropped it.
    is_given_up: bool,
    /// Nobody is told of its outcome.
    is_let_go: bool,
    outcomes: Vec<(Timestamp, Result<usize, CallError>)>,
    /// Handlers that got it.
    served: usize,
    is_answered: bool,
    /// The cause that its handler got.
    cancelled: Option<Cause>,
}

/// Every call of a world, by its number, which is in its params and in its result.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) harshness: Harshness,
    calls: Arc<Mutex<Vec<Call>>>,
    problems: Arc<Mutex<Vec<String>>>,
}

/// Work of these methods is done within this time unless it is cancelled.
fn longest(method: &str) -> Duration {
    match method {
        "never" => NEVER,
        "nested" | "passed" => NEVER + PATIENCE,
        _ => Duration::ZERO,
    }
}

impl History {
    pub(crate) fn new(harshness: Harshness) -> Self {
        Self { harshness, calls: Arc::default(), problems: Arc::default() }
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap()
    }

    pub(crate) fn problem(&self, problem: impl Into<String>) {
        self.problems.lock().unwrap().push(problem.into());
    }

    /// A call is about to be made; gives its number.
    pub(crate) fn begin(
        &self,
        method: &'static str,
        options: CallOptions,
        parent: Option<usize>,
    ) -> usize {
        // Progress starts the idle time anew.
        let idle = options.idle_timeout.filter(|_| !matches!(method, "progress"));
        let timers = [options.timeout, options.hard_cap, idle].into_iter().flatten();
        let due = timers.fold(longest(method) + PATIENCE, Duration::min);
        let mut calls = self.calls();
        Simulation.note(format!("call {} is made: {method}", calls.len()));
        calls.push(Call {
            method,
            options,
            parent,
            since: Simulation.now(),
            due: Simulation.now() + due,
            is_given_up: false,
            is_let_go: false,
            outcomes: Vec::new(),
            served: 0,
            is_answered: false,
            cancelled: None,
        });
        calls.len() - 1
    }

    /// Its caller cancelled it: it settles soon, after the grace of its dialect at the latest unless it
    /// has its own.
    pub(crate) fn give_up(&self, number: usize, outcome: CancelOutcome, grace: Grace) {
        let call = &mut self.calls()[number];
        call.is_given_up = true;
        let is_passed_on = self.harshness.is_relayed || matches!(call.method, "nested" | "passed");
        let wait = match (outcome, call.options.grace.unwrap_or(grace)) {
            (CancelOutcome::Refused(_), _) => return,
            (CancelOutcome::Sent | CancelOutcome::AlreadySent, Grace::Settle(grace)) => grace,
            (CancelOutcome::Sent | CancelOutcome::AlreadySent, Grace::Await) => {
                if is_passed_on && !self.harshness.cancels_pass {
                    return;
                }
                PATIENCE
            }
            _ => Duration::ZERO,
        };
        call.due = call.due.min(Simulation.now() + wait);
    }

    /// Nobody will be told of its outcome.
    pub(crate) fn let_go(&self, number: usize, is_given_up: bool) {
        let call = &mut self.calls()[number];
        call.is_let_go = true;
        call.is_given_up |= is_given_up;
    }

    pub(crate) fn settle(&self, number: usize, outcome: Result<usize, CallError>) {
        Simulation.note(format!("call {number} settles: {outcome:?}"));
        self.calls()[number].outcomes.push((Simulation.now(), outcome));
    }

    pub(crate) fn serve(&self, number: usize) {
        self.calls()[number].served += 1;
    }

    pub(crate) fn answer(&self, number: usize) {
        self.calls()[number].is_answered = true;
    }

    /// Notes that its handler learned of the cancel.
    pub(crate) fn cancelled(&self, number: usize, cause: Cause) {
        Simulation.note(format!("call {number} is cancelled for its handler: {cause}"));
        let call = &mut self.calls()[number];
        // In a tight world its answer may wait for room, and is not given yet.
        if call.is_answered && !self.harshness.is_tight {
            self.problem(format!("G2: {} {number} was cancelled after its answer", call.method));
        }
        call.cancelled = Some(cause);
    }

    /// Excuses a refusal of a connection's own that found no room. Its call waits until the
    /// connection ends, and so do all that wait for that call. Such a world is not judged further.
    pub(crate) fn drop_answer() {
        Simulation.excuse();
    }

    /// Everything that must not have been.
    pub(crate) fn problems(&self) -> Vec<String> {
        let calls = self.calls();
        let judged = calls.iter().enumerate().flat_map(|(number, call)| {
            let problems = [
                self.judge_settling(call),
                self.judge_outcome(number, call),
                self.judge_serving(&calls, call),
            ];
            let about = move |problem| format!("{problem}: {} {number}", call.method);
            problems.into_iter().flatten().map(about)
        });
        self.problems.lock().unwrap().iter().cloned().chain(judged).collect()
    }

    fn judge_settling(&self, call: &Call) -> Option<String> {
        match (call.is_let_go, &call.outcomes[..]) {
            (true, []) => None,
            // The handler that waited for it was dropped.
            (false, []) if call.parent.is_some() && self.harshness.is_interrupted => None,
            (false, [(at, _)]) if *at <= call.due => None,
            (false, [(at, outcome)]) => {
                Some(format!("G5: settled {:?} too late, {outcome:?}", at.since(call.due)))
            }
            (_, outcomes) => Some(format!("G1: settled {} times", outcomes.len())),
        }
    }

    fn judge_outcome(&self, number: usize, call: &Call) -> Option<String> {
        let Harshness { is_interrupted, is_tight, .. } = self.harshness;
        let (at, outcome) = call.outcomes.first()?;
        let CallOptions { timeout, idle_timeout, hard_cap, .. } = call.options;
        let timer_for = |cause| match cause {
            Cause::Deadline => timeout,
            Cause::IdleTimeout => idle_timeout,
            Cause::HardCap => hard_cap,
            _ => None,
        };
        let is_due = match (call.method, outcome) {
            ("fails" | "lost", Ok(_)) => false,
            ("passed", Ok(_)) => true,
            (_, Ok(result)) => *result == number,
            ("nested" | "passed", Err(CallError::Error(_))) => true,
            ("fails", Err(CallError::Error(error))) if error.message == number.to_string() => true,
            ("lost", Err(CallError::Error(error))) if error.message.contains("no response") => true,
            (_, Err(CallError::Error(_))) => is_interrupted || is_tight,
            (_, Err(CallError::Cancelled { cause: Cause::Caller, .. })) => call.is_given_up,
            (_, Err(CallError::Cancelled { cause: Cause::Parent, .. })) => call.parent.is_some(),
            (_, Err(CallError::TimedOut { cause })) => {
                timer_for(*cause).is_some_and(|timer| at.since(call.since) >= timer)
            }
            (_, Err(CallError::Refused(_))) => is_interrupted || is_tight || call.parent.is_some(),
            (_, Err(CallError::Cancelled { .. } | CallError::ConnectionLost { .. })) => {
                is_interrupted
            }
            _ => false,
        };
        (!is_due).then(|| format!("G1: settled as {outcome:?}"))
    }

    fn judge_serving(&self, calls: &[Call], call: &Call) -> Option<String> {
        let Harshness { is_interrupted, cancels_pass, .. } = self.harshness;
        let CallOptions { timeout, idle_timeout, hard_cap, .. } = call.options;
        let is_timed = timeout.or(idle_timeout).or(hard_cap).is_some();
        let parent = call.parent.and_then(|parent| calls[parent].cancelled);
        let is_cancelled = call.is_given_up || parent.is_some();
        let is_due = match call.cancelled {
            // Nothing else ends this work while its caller is there.
            None => {
                let must_be_told = is_cancelled && cancels_pass && call.method == "never";
                !must_be_told || call.served == 0 || is_interrupted
            }
            Some(Cause::Peer) => is_cancelled || is_timed || is_interrupted,
            Some(_) => is_interrupted,
        };
        if call.served > 1 {
            return Some(format!("G2: served {} times", call.served));
        }
        (!is_due).then(|| format!("G3: its handler was told {:?}", call.cancelled))
    }
}
