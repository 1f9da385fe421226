//! Everything behind a connection's lock.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::task::Waker;

use protocol_core::{
    CallId, CloseReason, Connection, Event, Outcome, Params, Refusal, Reply, RequestHandle,
    RpcError, Shutdown, StreamConnection, Timestamp, code,
};
use serde_json::value::RawValue;

use super::{Messages, OUTPUT_BYTES, Options, Trace, Way};
use crate::afterwards::{Afterward, Afterwards, contain};
use crate::cancellation::Cancellation;
use crate::failure::Answer;
use crate::inbox::Inbox;
use crate::method::MethodName;
use crate::operations::{self, SharedOperations};
use crate::outcomes::{Outcomes, Slot};
use crate::outside::Entropy;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::waiters::Waiters;

pub(crate) type Core = Connection<CallEntry, RequestEntry>;

/// What we keep with each call.
pub(crate) struct CallEntry {
    /// Where its outcome goes.
    slot: Slot,
    pub(crate) method: MethodName,
    pub(crate) since: Timestamp,
}

/// What we keep with each request.
#[derive(Default)]
pub(crate) struct RequestEntry {
    /// Invariant: there once the request has arrived, which is before anything is told of it.
    pub(crate) marker: Option<Cancellation>,
    pub(crate) method: MethodName,
    pub(crate) since: Timestamp,
}

/// Everything behind one lock.
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

pub(crate) struct State {
    pub(crate) stream: StreamConnection<CallEntry, RequestEntry>,
    pub(crate) inbox: Inbox,
    /// What becomes of our calls.
    pub(crate) outcomes: Outcomes,
    /// Markers for the next requests: most are never set, so most can be used again.
    spare: Vec<Cancellation>,
    /// Room for what many messages at once make happen.
    pub(super) after: Afterwards,
    /// Why the connection closed, once it has.
    pub(crate) closed: Option<CloseReason>,
    /// Whether there is anyone to take what arrives.
    pub(crate) is_served: bool,
    /// Who waits for an arrival or the end.
    pub(crate) arrived: Waiters,
    /// Answers that wait for room in the outbox, at most one for each request.
    deferred: VecDeque<(RequestHandle, Answer)>,
    /// Messages that left the outbox while there was a cork.
    staged: Messages,
    /// While there are corks, messages are staged at once and nothing is written.
    pub(crate) corks: usize,
    pub(super) writing: Writing,
    /// Who waits for room in the outbox, or for everything to be written.
    pub(crate) room: Waiters,
    /// Whether a send was refused, and there has been no room for it since.
    pub(crate) is_full: bool,
    /// Nothing more is written, and nobody waits for what isn't.
    is_abandoned: bool,
    /// Whoever writes.
    pub(super) driver: Option<Waker>,
    pub(super) timers: Timers,
    trace: Option<Trace>,
    entropy: Entropy,
    operations: Option<SharedOperations>,
    /// The latest time that was read.
    pub(super) now: Timestamp,
}

/// Whoever keeps the timers.
#[derive(Default)]
pub(super) struct Timers {
    pub(super) waker: Option<Waker>,
    /// The time that it was told to wait for.
    pub(super) armed: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Idle,
    Busy {
        /// When it was seen that nothing else keeps the connection alive.
        settled: Option<Timestamp>,
    },
}

impl Shared {
    pub(super) fn new(state: State, clock: Box<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
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
    ) -> Result<(CallId, Slot), Refusal> {
        self.send(|state, now| {
            let slot = state.outcomes.expect_one();
            let entry = CallEntry { slot, method: method.into(), since: now };
            let core = state.stream.connection_mut();
            match core.call(method, Params::from(params), entry, options, now) {
                Ok(call) => Ok((call, slot)),
                Err(error) => {
                    state.outcomes.forget(slot);
                    Err(error.reason)
                }
            }
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
        let sent = command(&mut state, now);
        // The core promises `Ready` now, and keeps it as soon as there is room.
        state.is_full |= matches!(sent, Err(Refusal::OutboxFull));
        self.settle(state, &mut Afterwards::default());
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
        if let Ok(result) = &answer {
            return self.respond_with_result(request, result);
        }
        let mut state = self.lock();
        state.deferred.push_back((request, answer));
        self.settle(state, &mut Afterwards::default());
    }

    /// As [`respond`](Self::respond), with a result that is copied only if it has to wait.
    pub(crate) fn respond_with_result(&self, request: RequestHandle, result: &RawValue) {
        let mut state = self.lock();
        let mut after = Afterwards::default();
        // Not ahead of others that wait for room.
        let now = if state.deferred.is_empty() {
            state.respond_now(request, Reply::Result(result), &mut after)
        } else {
            Err(Refusal::OutboxFull)
        };
        match now {
            Ok(entry) => keep(&mut state.spare, entry, &mut after),
            Err(Refusal::AlreadyAnswered) => {}
            // Says what to do about the others.
            Err(_) => state.deferred.push_back((request, Ok(result.to_owned()))),
        }
        self.settle(state, &mut after);
    }

    /// To be called after every command and input: passes events on, releases the lock, and wakes
    /// whoever waits. Says whether nothing comes in any more.
    pub(crate) fn settle(&self, mut guard: MutexGuard<'_, State>, after: &mut Afterwards) -> bool {
        let state = &mut *guard;
        state.respond_deferred(after);
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

impl State {
    pub(super) fn new(options: Options) -> Self {
        let Options { config, inbox_bytes, trace, entropy, operations } = options;
        Self {
            stream: StreamConnection::new(config),
            inbox: Inbox::new(inbox_bytes),
            outcomes: Outcomes::default(),
            spare: Vec::new(),
            after: Afterwards::default(),
            closed: None,
            is_served: true,
            arrived: Waiters::default(),
            deferred: VecDeque::new(),
            staged: Messages::default(),
            corks: 0,
            writing: Writing::Idle,
            room: Waiters::default(),
            is_full: false,
            is_abandoned: false,
            driver: None,
            timers: Timers::default(),
            trace,
            entropy,
            operations,
            now: Timestamp::ZERO,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        self.stream.connection()
    }

    /// Passes on what the core has yet to tell.
    #[inline]
    pub(super) fn dispatch_queued(&mut self, after: &mut Afterwards) {
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.dispatch(event, after);
        }
    }

    /// Passes on what has happened. What is usual is taken apart where it was given: an event is large,
    /// and each move of it takes time.
    #[inline(always)]
    pub(super) fn dispatch(&mut self, event: Event<'_, CallEntry>, after: &mut Afterwards) {
        match event {
            Event::Settled { outcome: Outcome::Result(result), data, .. } => {
                self.outcomes.settle(data.slot, Ok(result.into_owned()), after);
            }
            Event::Request { request, method, params, options, .. } => {
                self.take_request(request, &method, params, options, after);
            }
            event => self.dispatch_unusual(event, after),
        }
    }

    #[inline(never)]
    fn dispatch_unusual(&mut self, event: Event<'_, CallEntry>, after: &mut Afterwards) {
        match event {
            Event::Settled { outcome, data, .. } => {
                let outcome = outcome.into_result().map_err(Box::new);
                self.outcomes.settle(data.slot, outcome, after);
            }
            Event::Cancelled { request, cause, .. } => {
                operations::cancelled(self.core(), self.operations.as_ref(), request, cause);
                let entry = self.stream.connection_mut().request_data_mut(request);
                if let Some(marker) = entry.and_then(|entry| entry.marker.as_ref()) {
                    after.push(Afterward::Tell(marker.raise(cause)));
                }
            }
            Event::Ready => {
                self.is_full = false;
                self.respond_deferred(after);
                self.room.wake_all(after);
            }
            Event::Closed { reason } => {
                self.closed = Some(reason);
                self.is_full = false;
                self.arrived.wake_all(after);
                self.room.wake_all(after);
            }
            event => match self.inbox.take(event) {
                Ok(()) if self.is_served => self.arrived.wake_all(after),
                Ok(()) => self.inbox.clear(),
                // Nobody here asks what else there is.
                Err(_) => {}
            },
        }
    }

    /// Takes a request into the inbox.
    fn take_request(
        &mut self,
        request: RequestHandle,
        name: &str,
        params: Option<Cow<'_, RawValue>>,
        options: Option<Cow<'_, RawValue>>,
        after: &mut Afterwards,
    ) {
        let method = MethodName::from(name);
        if let Some(entry) = self.stream.connection_mut().request_data_mut(request) {
            entry.method = method.clone();
            entry.since = self.now;
            entry.marker = Some(self.spare.pop().unwrap_or_default());
        }
        if !self.is_served {
            return self.refuse(request);
        }
        if !self.inbox.has_room_for(name, params.as_deref()) {
            let code = self.core().config().dialect.overload_code;
            let message = "The request was refused: too much waits to be served";
            let error = RpcError::new(code, message);
            return self.deferred.push_back((request, Err(error.into())));
        }
        let core = self.stream.connection_mut();
        let operations = self.operations.as_ref();
        if let Err(error) = operations::begin(core, operations, request, name, self.entropy) {
            return self.deferred.push_back((request, Err(error.into())));
        }
        self.inbox.take_request(request, method, params, options);
        self.arrived.wake_all(after);
    }

    /// Answers a request that nobody will take.
    pub(crate) fn refuse(&mut self, request: RequestHandle) {
        let error = RpcError::new(code::METHOD_NOT_FOUND, "nobody serves requests here");
        self.deferred.push_back((request, Err(error.into())));
    }

    /// Gives everything in flight up, and what is not written too.
    fn abandon(&mut self, now: Timestamp) {
        self.stream.connection_mut().shutdown(Shutdown::Abandon, now);
        self.staged.clear();
        self.is_abandoned = true;
    }

    /// Sends the answers that have room now, in the order they were given.
    fn respond_deferred(&mut self, after: &mut Afterwards) {
        while let Some((request, answer)) = self.deferred.pop_front() {
            let reply = match &answer {
                Ok(result) => Reply::Result(result),
                Err(failure) => failure.as_reply(),
            };
            let mut answered = self.respond_now(request, reply, after);
            if !matches!(answered, Ok(_) | Err(Refusal::AlreadyAnswered | Refusal::OutboxFull)) {
                let message = "the answer is too large (limits.unsent_bytes)";
                let code = code::INTERNAL_ERROR;
                let reply = Reply::Error { code, message, data: None };
                answered = self.respond_now(request, reply, after);
            }
            match answered {
                Ok(entry) => keep(&mut self.spare, entry, after),
                Err(Refusal::OutboxFull) => {
                    self.deferred.push_front((request, answer));
                    return;
                }
                Err(_) => {}
            }
        }
    }

    /// Answers a request, if there is room for that, and ends the operation that it started.
    fn respond_now(
        &mut self,
        request: RequestHandle,
        reply: Reply<'_>,
        after: &mut Afterwards,
    ) -> Result<RequestEntry, Refusal> {
        let core = self.stream.connection_mut();
        let (entry, clean_up) =
            operations::respond(core, self.operations.as_ref(), request, reply)?;
        if let Some(clean_up) = clean_up {
            after.push(Afterward::CleanUp(clean_up));
        }
        Ok(entry)
    }

    /// Whoever served a request has dropped it without an answer.
    fn worker_gone(&mut self, request: RequestHandle, after: &mut Afterwards) {
        let operations = self.operations.as_ref();
        if let Some(clean_up) = operations::worker_gone(self.core(), operations, request) {
            after.push(Afterward::CleanUp(clean_up));
        }
    }

    /// Moves one message from the outbox to those that leave with the cork.
    fn stage_transmit(&mut self) -> bool {
        let mut staged = mem::take(&mut self.staged);
        let moved = staged.push(|bytes| self.take_transmit(bytes));
        self.staged = staged;
        moved
    }

    fn take_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(transmit) = self.stream.poll_transmit(out) else { return false };
        self.trace(Way::Sent, transmit.message(out));
        true
    }

    /// Adds what may be written now, and tells `ended` where each message ends; says whether that
    /// is anything.
    pub(super) fn take_output(&mut self, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) -> bool {
        if self.is_corked() {
            return false;
        }
        self.staged.append_to(out, &mut ended);
        while out.len() < OUTPUT_BYTES && self.take_transmit(out) {
            ended(out.len());
        }
        !out.is_empty()
    }

    pub(super) fn trace(&mut self, way: Way, message: &[u8]) {
        if let Some(trace) = &mut self.trace {
            contain(|| trace(way, message));
        }
    }

    /// A cork holds no more back than the outbox would.
    fn is_corked(&self) -> bool {
        self.corks > 0 && self.staged.len() < self.core().config().limits.unsent_bytes
    }

    /// When the next timer is due.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let timer = self.core().poll_timeout().map(|(due, _)| due);
        [timer, self.patience()].into_iter().flatten().min()
    }

    /// Until when a peer that reads no more is waited for: once nothing is in flight, only unwritten
    /// bytes keep the connection alive, and they must not for ever.
    fn patience(&self) -> Option<Timestamp> {
        let Writing::Busy { settled } = self.writing else { return None };
        let grace = self.core().config().abandoned_grace;
        settled.filter(|_| !self.is_abandoned).map(|settled| settled + grace)
    }

    /// Whether only unwritten bytes keep the connection alive, and nobody has looked at the clock yet.
    pub(super) fn lacks_patience(&self) -> bool {
        self.writing == Writing::Busy { settled: None } && self.is_settled() && !self.is_abandoned
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.patience().is_some_and(|until| until <= now) {
            self.abandon(now);
        }
        self.stream.connection_mut().handle_timeout(now);
    }

    /// Whether there is anything to write now.
    fn has_output(&self) -> bool {
        self.writing == Writing::Idle
            && !self.is_corked()
            && (!self.staged.is_empty() || self.core().next_transmit_len().is_some())
    }

    /// Whether every message has been written, or never will be.
    pub(crate) fn is_flushed(&self) -> bool {
        let is_written = self.writing == Writing::Idle
            && self.staged.is_empty()
            && self.deferred.is_empty()
            && self.core().next_transmit_len().is_none();
        is_written || self.is_abandoned
    }

    /// Nothing comes in any more, and everything that did is answered.
    fn is_settled(&self) -> bool {
        let machine = self.core().machine();
        machine.is_closed() && machine.requests_in_flight() == 0
    }

    /// There is nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        self.is_abandoned || self.is_settled() && self.is_flushed()
    }
}

/// What is left of an answered request: mostly a marker that another can have.
fn keep(spare: &mut Vec<Cancellation>, mut entry: RequestEntry, after: &mut Afterwards) {
    /// More than those are given back.
    const KEPT: usize = 1024;

    let Some(mut marker) = entry.marker.take() else { return };
    if spare.len() < KEPT && marker.is_unused() {
        spare.push(marker);
    } else {
        after.push(Afterward::Drop(marker));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
