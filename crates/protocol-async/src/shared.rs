//! What the handles of one connection share, and how it is used: under a lock that is held for one
//! command or one read, and with all that is told to others left until it is released.

use std::fmt;
use std::mem;
use std::task::{Poll, Waker};

use protocol_core::{CallId, Refusal, RequestHandle, Shutdown, Timestamp};

use crate::afterwards::Afterwards;
use crate::at_work::Place;
use crate::method::MethodName;
use crate::outcome::{HandOver, Interest, RawOutcome};
use crate::spans;
use crate::state::{Core, Given, State};
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

    /// Does something under the lock, and passes on what that makes happen.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State, &mut Afterwards) -> R) -> R {
        let mut after = Afterwards::default();
        let mut state = self.lock();
        let done = work(&mut state, &mut after);
        self.settle(state, &mut after);
        done
    }

    /// As [`with`](Self::with), at a time that is read under the lock, so that it does not run backwards.
    pub(crate) fn at<R>(&self, work: impl FnOnce(&mut State, &mut Afterwards) -> R) -> R {
        self.with(|state, after| {
            state.now = self.now();
            work(state, after)
        })
    }

    /// Commands the core.
    pub(crate) fn command<R>(&self, command: impl FnOnce(&mut Core, Timestamp) -> R) -> R {
        self.at(|state, _| command(state.stream.connection_mut(), state.now))
    }

    /// Takes the outcome of a call, or waits for it.
    pub(crate) fn poll_outcome(&self, call: CallId, waker: &Waker) -> Poll<RawOutcome> {
        let mut state = self.lock();
        let interest = match state.outcome(call) {
            Ok(outcome) => return Poll::Ready(outcome),
            Err(interest) => interest,
        };
        if !matches!(interest, Interest::Task(waiting) if waiting.will_wake(waker)) {
            let before = mem::replace(interest, Interest::Task(waker.clone()));
            // Dropping another task's waker may drop that task.
            drop(state);
            drop(before);
        }
        Poll::Pending
    }

    /// Hands the outcome of a call over once it is there, or gives both back if it is there already.
    pub(crate) fn hand_over(
        &self,
        call: CallId,
        then: HandOver,
    ) -> Result<(), (HandOver, RawOutcome)> {
        let mut state = self.lock();
        let before = match state.outcome(call) {
            Ok(outcome) => return Err((then, outcome)),
            Err(interest) => mem::replace(interest, Interest::Handed(then)),
        };
        drop(state);
        drop(before);
        Ok(())
    }

    /// Sends something, and remembers if there was no room for it.
    pub(crate) fn send<R>(
        &self,
        command: impl FnOnce(&mut State, Timestamp) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        self.at(|state, after| {
            if state.is_mute() {
                return Err(Refusal::Closed);
            }
            let sent = command(state, state.now);
            after.show(spans::refused(sent.as_ref().err(), state.is_full));
            // The core promises `Ready` now, and keeps it as soon as there is room.
            state.is_full |= matches!(sent, Err(Refusal::OutboxFull));
            sent
        })
    }

    /// Shuts the connection down.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        self.at(|state, _| match how {
            Shutdown::Abandon => state.abandon(state.now),
            _ => state.stream.connection_mut().shutdown(how, state.now),
        });
    }

    /// Takes note that whoever served an unanswered request is gone; gives the request's method.
    pub(crate) fn worker_gone(&self, request: RequestHandle) -> MethodName {
        self.with(|state, after| {
            state.worker_gone(request, after);
            let entry = state.stream.connection_mut().request_data_mut(request);
            let name = entry.and_then(|entry| entry.method);
            name.map_or_else(MethodName::default, |name| state.names.get(name).into())
        })
    }

    /// Answers a request, which gives its place among those at work back. An answer that has no room yet
    /// waits for it, and is never lost.
    pub(crate) fn respond(&self, request: RequestHandle, place: Option<Place>, given: Given<'_>) {
        self.with(|state, after| {
            place.into_iter().for_each(|place| state.at_work.leave(place));
            // The time is only for those who are told how long it took.
            if spans::is_watched() {
                state.now = self.now();
            }
            state.give(request, given, after);
        });
    }

    /// To be called after every command and input: passes events on, releases the lock, and wakes
    /// whoever waits.
    pub(crate) fn settle(&self, mut guard: MutexGuard<'_, State>, after: &mut Afterwards) {
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
        drop(guard);
        after.run();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
