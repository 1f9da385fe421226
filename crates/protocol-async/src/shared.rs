//! What the handles of one connection share, and how it is used: under a lock that is held for one
//! command or one read, and with all that is told to others left until it is released.

use std::fmt;

use protocol_core::{CallId, Refusal, RequestHandle, Shutdown, Timestamp};
use serde_json::value::RawValue;

use crate::afterwards::Afterwards;
use crate::failure::Answer;
use crate::method::MethodName;
use crate::outcome::OutcomeCell;
use crate::spans::{self, CallSpan};
use crate::state::{CallEntry, Core, State};
use crate::sync::{Mutex, MutexGuard, lock};

/// The state behind its lock, and the clock.
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Shared {
    pub(crate) fn new(state: State, clock: Box<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { state: Mutex::new(state), clock }
    }

    /// Reads the clock.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Commands the core, and passes on what that makes happen.
    pub(crate) fn command<R>(&self, command: impl FnOnce(&mut Core, Timestamp) -> R) -> R {
        let mut state = self.lock();
        state.now = self.now();
        let now = state.now;
        let done = command(state.stream.connection_mut(), now);
        self.settle(state, &mut Afterwards::default());
        done
    }

    /// Calls the peer; says where the outcome goes.
    pub(crate) fn call(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: protocol_core::CallOptions,
        span: CallSpan,
    ) -> Result<(CallId, OutcomeCell), Refusal> {
        self.send(|state, now| {
            let cell = OutcomeCell::default();
            let entry = CallEntry { cell: cell.clone(), method: method.into(), since: now };
            let core = state.stream.connection_mut();
            let called = core.call(method, params, entry, options, now);
            let call = called.map_err(|error| error.reason)?;
            state.spans.call_begins(call, span, now);
            Ok((call, cell))
        })
    }

    /// Sends something, and remembers if there was no room for it.
    pub(crate) fn send<R>(
        &self,
        command: impl FnOnce(&mut State, Timestamp) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let mut state = self.lock();
        state.now = self.now();
        let now = state.now;
        if state.is_mute() {
            return Err(Refusal::Closed);
        }
        let sent = command(&mut state, now);
        let mut after = Afterwards::default();
        after.show(spans::refused(sent.as_ref().err(), state.is_full));
        // The core promises `Ready` now, and keeps it as soon as there is room.
        state.is_full |= matches!(sent, Err(Refusal::OutboxFull));
        self.settle(state, &mut after);
        sent
    }

    /// Shuts the connection down.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let mut state = self.lock();
        let now = self.now();
        match how {
            Shutdown::Abandon => state.abandon(now),
            _ => state.stream.connection_mut().shutdown(how, now),
        }
        self.settle(state, &mut Afterwards::default());
    }

    /// Takes note that whoever served an unanswered request is gone; gives the request's method.
    pub(crate) fn worker_gone(&self, request: RequestHandle) -> MethodName {
        let mut after = Afterwards::default();
        let mut state = self.lock();
        state.worker_gone(request, &mut after);
        let entry = state.stream.connection_mut().request_data_mut(request);
        let method = entry.map_or_else(MethodName::default, |entry| entry.method.clone());
        drop(state);
        after.run();
        method
    }

    /// Answers a request. An answer that has no room yet waits for it, and is never lost.
    pub(crate) fn respond(&self, request: RequestHandle, answer: Answer) {
        let mut state = self.lock();
        let mut after = Afterwards::default();
        state.give(request, answer, &mut after);
        self.settle(state, &mut after);
    }

    /// As [`respond`](Self::respond), with a result that is copied only if it has to wait.
    pub(crate) fn respond_with_result(&self, request: RequestHandle, result: &RawValue) {
        let mut state = self.lock();
        let mut after = Afterwards::default();
        state.give_result(request, result, &mut after);
        self.settle(state, &mut after);
    }

    /// To be called after every command and input: passes events on, releases the lock, and wakes
    /// whoever waits. Says whether nothing comes in any more.
    pub(crate) fn settle(&self, mut guard: MutexGuard<'_, State>, after: &mut Afterwards) -> bool {
        let state = &mut *guard;
        loop {
            state.dispatch_queued(after);
            // Staging makes room, which is an event.
            if !(state.is_corked() && state.stage_transmit()) {
                break;
            }
        }
        if !state.room.is_empty() && state.is_flushed() {
            state.room.wake_all(after);
        }
        // Mostly it is awake already.
        if state.driver.is_some() && (state.has_output() || state.is_over()) {
            after.wake(state.driver.take());
        }
        if state.due() != state.timers.armed || state.lacks_patience() || state.is_over() {
            after.wake(state.timers.waker.take());
        }
        let is_closed = state.core().machine().is_closed();
        drop(guard);
        after.run();
        is_closed
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
