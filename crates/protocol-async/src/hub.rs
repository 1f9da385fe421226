//! What the handles of one connection share, for whoever drives it.
//!
//! A [`Hub`] stands between a transport and the handles. [`Driver`](crate::Driver) drives one with
//! a single future; a host with other means, such as a thread for each direction, does the same:
//!
//! 1. read bytes into an [`InputBuffer`] and call [`Hub::receive`]; at the end [`Hub::finish`];
//! 2. call [`Hub::poll_output`] and do what it says: write, or wait for the waker;
//! 3. call [`Hub::poll_timers`] and wait for the waker or the time.
//!
//! Where the transport keeps messages apart by itself, [`Hub::receive_message`] and
//! [`Hub::poll_messages`] take the places of the first and the second.

mod messages;

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::task::Waker;

use protocol_core::{
    CallId, CloseReason, Config, Connection, Event, InputBuffer, Params, Refusal, Reply,
    RequestHandle, RpcError, Shutdown, StreamConnection, Timestamp, code,
};
use serde_json::value::RawValue;

use crate::afterwards::{Afterwards, contain};
use crate::cancellation::Cancellation;
pub use crate::inbox::{Arrived, Inbox};
use crate::incoming::Incoming;
use crate::lease::{Lease, Taker};
use crate::outside::{self, Entropy};
use crate::peer::Peer;
use crate::responder::Answer;
use crate::sent::CallSlot;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::waiters::Waiters;
pub use messages::Messages;

/// What a connection is made from.
#[non_exhaustive]
pub struct Options {
    /// What the core is made from.
    pub config: Config,
    /// Bytes of arrivals that wait to be taken; 64 MiB. Above it notifications are counted and not
    /// kept ([`Arrival::Missed`](crate::Arrival::Missed)), and requests are answered with the
    /// dialect's overload code.
    pub inbox_bytes: usize,
    /// Sees every message.
    pub trace: Option<Trace>,
    /// What unforgeable tokens are made of; the operating system's.
    pub entropy: Entropy,
}

/// Sees every message, without framing. It runs while the connection is locked: it must not use
/// any handle of it, and should be quick.
pub type Trace = Box<dyn FnMut(Way, &[u8]) + Send>;

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From us to the peer.
    Sent,
    /// From the peer to us.
    Received,
}

impl Options {
    /// Every default.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, inbox_bytes: 64 << 20, trace: None, entropy: outside::entropy }
    }
}

impl From<Config> for Options {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.config)
            .field("inbox_bytes", &self.inbox_bytes)
            .finish_non_exhaustive()
    }
}

/// The transport's side of a connection.
#[derive(Debug)]
pub struct Hub {
    shared: Arc<Shared>,
}

/// What [`Hub::poll_output`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write the bytes that were added, then call [`Hub::written`].
    Write,
    /// Nothing until the waker is woken.
    Idle,
    /// Nothing ever again: close the writer.
    Over,
}

/// Messages are taken out of the outbox only up to this many bytes ahead of writing: what stays
/// there can be withdrawn.
const OUTPUT_BYTES: usize = 64 << 10;

impl Hub {
    /// A connection that has read nothing yet. `now` reads the clock that the core's times are of.
    pub fn new(
        options: impl Into<Options>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> (Self, Peer, Incoming) {
        let Options { mut config, inbox_bytes, trace, entropy } = options.into();
        if config.unix_time_at_zero.is_zero() {
            config.unix_time_at_zero = outside::unix_time_at_zero(now());
        }
        let state = State {
            stream: StreamConnection::new(config),
            inbox: Inbox::new(inbox_bytes),
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
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), now: Box::new(now) });
        let lease = Arc::new(Lease::new(shared.clone()));
        let taker = Arc::new(Taker::new(shared.clone()));
        (Self { shared }, Peer::new(lease.clone()), Incoming::new(lease, taker))
    }

    /// Takes every whole message in the input, and marks what they cancel (G3).
    pub fn receive(&self, input: &mut InputBuffer) {
        let mut after = Afterwards::default();
        let mut state = self.shared.lock();
        let now = (self.shared.now)();
        loop {
            let state = &mut *state;
            let (used, received) = state.stream.receive(input.unread(), now);
            if let Some(message) = received.message() {
                state.trace(Way::Received, message);
            }
            for event in received {
                state.dispatch(event, now, &mut after);
            }
            if used == 0 {
                break;
            }
            input.consume(used);
        }
        self.shared.settle(state, after);
    }

    /// The input has ended, with these bytes unread.
    pub fn finish(&self, input: &InputBuffer) {
        let mut after = Afterwards::default();
        let mut guard = self.shared.lock();
        let now = (self.shared.now)();
        let state = &mut *guard;
        let received = state.stream.finish(input.unread(), now);
        if let Some(message) = received.message() {
            state.trace(Way::Received, message);
        }
        for event in received {
            state.dispatch(event, now, &mut after);
        }
        self.shared.settle(guard, after);
    }

    /// Fires the timers that are due, and says when the next one is; the waker is woken when that
    /// changes. It never waits for writing: a deadline frees its caller however stuck the peer is
    /// (G5).
    pub fn poll_timers(&self, waker: &Waker) -> Option<Timestamp> {
        loop {
            let mut state = self.shared.lock();
            let now = (self.shared.now)();
            let due = state.due();
            if due.is_some_and(|due| due <= now) {
                state.handle_timeout(now);
                self.shared.settle(state, Afterwards::default());
                continue;
            }
            state.timers.armed = due;
            let replaced = set(&mut state.timers.waker, waker);
            drop(state);
            drop(replaced);
            return due;
        }
    }

    /// Adds what there is to write to `out`, which the caller has emptied. Any number of messages
    /// may be in it: one write for all.
    pub fn poll_output(&self, waker: &Waker, out: &mut Vec<u8>) -> Output {
        self.poll_taken(waker, |state| state.take_output(out, |_| {}))
    }

    /// What there is to write; `take` says whether that was anything.
    fn poll_taken(&self, waker: &Waker, take: impl FnOnce(&mut State) -> bool) -> Output {
        let mut state = self.shared.lock();
        if take(&mut state) {
            state.writing = Writing::Busy { since: (self.shared.now)() };
            // Taking messages out makes room for others.
            self.shared.settle(state, Afterwards::default());
            return Output::Write;
        }
        if state.is_over() {
            self.shared.settle(state, Afterwards::default());
            return Output::Over;
        }
        let replaced = set(&mut state.driver, waker);
        drop(state);
        drop(replaced);
        Output::Idle
    }

    /// What [`poll_output`](Self::poll_output) gave has been written, or never will be.
    pub fn written(&self) {
        let mut after = Afterwards::default();
        let mut state = self.shared.lock();
        state.writing = Writing::Idle;
        state.room.wake_all(&mut after.wakers);
        drop(state);
        after.run();
    }

    /// Whether nothing will ever be read, written or timed again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.lock().is_over()
    }

    /// Whether nothing comes in any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().core().machine().is_closed()
    }
}

/// Nobody drives the connection any more: everything in flight settles as lost.
impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.shutdown(Shutdown::Abandon);
    }
}

pub(crate) type Core = Connection<CallEntry, RequestEntry>;

/// What we keep with each call.
pub(crate) struct CallEntry {
    pub(crate) slot: Arc<CallSlot>,
    pub(crate) method: Box<str>,
    pub(crate) since: Timestamp,
}

/// What we keep with each request.
#[derive(Default)]
pub(crate) struct RequestEntry {
    pub(crate) marker: Cancellation,
    pub(crate) method: Box<str>,
    pub(crate) since: Timestamp,
}

/// Everything behind one lock.
pub(crate) struct Shared {
    state: Mutex<State>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

pub(crate) struct State {
    pub(crate) stream: StreamConnection<CallEntry, RequestEntry>,
    pub(crate) inbox: Inbox,
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
    writing: Writing,
    /// Who waits for room in the outbox, or for everything to be written.
    pub(crate) room: Waiters,
    /// Whether a send was refused, and there has been no room for it since.
    pub(crate) is_full: bool,
    /// Nothing more is written, and nobody waits for what isn't.
    is_abandoned: bool,
    /// Whoever writes.
    driver: Option<Waker>,
    timers: Timers,
    trace: Option<Trace>,
    entropy: Entropy,
}

/// Whoever keeps the timers.
#[derive(Default)]
struct Timers {
    waker: Option<Waker>,
    /// The time that it was told to wait for.
    armed: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Idle,
    Busy { since: Timestamp },
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Commands the core, and passes on what that makes happen.
    pub(crate) fn command<R>(&self, command: impl FnOnce(&mut Core, Timestamp) -> R) -> R {
        let mut state = self.lock();
        let now = (self.now)();
        let done = command(state.stream.connection_mut(), now);
        self.settle(state, Afterwards::default());
        done
    }

    /// Calls the peer; the outcome goes to `slot`.
    pub(crate) fn call(
        &self,
        method: &str,
        params: Option<&RawValue>,
        slot: Arc<CallSlot>,
        options: protocol_core::CallOptions,
    ) -> Result<CallId, Refusal> {
        self.send(|core, now| {
            let entry = CallEntry { slot, method: method.into(), since: now };
            core.call(method, Params::from(params), entry, options, now)
                .map_err(|error| error.reason)
        })
    }

    /// Commands the core to send something, and remembers if there was no room for it.
    pub(crate) fn send<R>(
        &self,
        command: impl FnOnce(&mut Core, Timestamp) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let mut state = self.lock();
        let now = (self.now)();
        let sent = command(state.stream.connection_mut(), now);
        // The core promises `Ready` now, and keeps it as soon as there is room.
        state.is_full |= matches!(sent, Err(Refusal::OutboxFull));
        self.settle(state, Afterwards::default());
        sent
    }

    /// Shuts the connection down.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let mut state = self.lock();
        let now = (self.now)();
        match how {
            Shutdown::Abandon => state.abandon(now),
            _ => state.stream.connection_mut().shutdown(how, now),
        }
        self.settle(state, Afterwards::default());
    }

    /// Answers a request. An answer that has no room yet waits for it, and is never lost.
    pub(crate) fn respond(&self, request: RequestHandle, answer: Answer) {
        let mut state = self.lock();
        state.deferred.push_back((request, answer));
        self.settle(state, Afterwards::default());
    }

    /// To be called after every command and input: passes events on, releases the lock, and wakes
    /// whoever waits.
    pub(crate) fn settle(&self, mut guard: MutexGuard<'_, State>, mut after: Afterwards) {
        let state = &mut *guard;
        let now = (self.now)();
        state.respond_deferred(&mut after);
        loop {
            while let Some(event) = state.stream.connection_mut().poll_event() {
                state.dispatch(event, now, &mut after);
            }
            // Staging makes room, which is an event.
            if !(state.is_corked() && state.stage_transmit()) {
                break;
            }
        }
        if !state.room.is_empty() && state.is_flushed() {
            state.room.wake_all(&mut after.wakers);
        }
        if state.has_output() || state.is_over() {
            after.wakers.extend(state.driver.take());
        }
        if state.due() != state.timers.armed || state.is_over() {
            after.wakers.extend(state.timers.waker.take());
        }
        drop(guard);
        after.run();
    }
}

impl State {
    pub(crate) fn core(&self) -> &Core {
        self.stream.connection()
    }

    fn dispatch(&mut self, event: Event<'_, CallEntry>, now: Timestamp, after: &mut Afterwards) {
        if let Event::Request { request, method, params, .. } = &event {
            let request = *request;
            if let Some(entry) = self.stream.connection_mut().request_data_mut(request) {
                entry.method = (&**method).into();
                entry.since = now;
            }
            if !self.is_served {
                return self.refuse(request);
            }
            if !self.inbox.has_room_for(method, *params) {
                let code = self.core().config().dialect.overload_code;
                let message = "The request was refused: too much waits to be served";
                let error = RpcError::new(code, message);
                return self.deferred.push_back((request, Err(error.into())));
            }
            let core = self.stream.connection_mut();
            if let Err(error) = outside::begin_operation(core, request, method, self.entropy) {
                return self.deferred.push_back((request, Err(error.into())));
            }
        }
        let event = match self.inbox.take(event) {
            Ok(()) if self.is_served => return self.arrived.wake_all(&mut after.wakers),
            Ok(()) => return self.inbox.clear(),
            Err(event) => event,
        };
        match event {
            Event::Cancelled { request, cause, .. } => {
                if let Some(entry) = self.stream.connection_mut().request_data_mut(request) {
                    after.told.push(entry.marker.raise(cause));
                }
            }
            Event::Settled { outcome, data, .. } => {
                after.settled.push((data.slot, outcome.into_result()));
            }
            Event::Ready => {
                self.is_full = false;
                self.respond_deferred(after);
                self.room.wake_all(&mut after.wakers);
            }
            Event::Closed { reason } => {
                self.closed = Some(reason);
                self.is_full = false;
                self.arrived.wake_all(&mut after.wakers);
                self.room.wake_all(&mut after.wakers);
            }
            _ => {}
        }
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
        let core = self.stream.connection_mut();
        while let Some((request, answer)) = self.deferred.front() {
            let reply = match answer {
                Ok(result) => Reply::Result(result),
                Err(failure) => failure.as_reply(),
            };
            match core.respond(*request, reply) {
                Ok(entry) => after.answered.push(entry),
                Err(Refusal::AlreadyAnswered) => {}
                Err(Refusal::OutboxFull) => return,
                Err(_) => {
                    let message = "the answer is too large (limits.unsent_bytes)";
                    let code = code::INTERNAL_ERROR;
                    match core.respond(*request, Reply::Error { code, message, data: None }) {
                        Ok(entry) => after.answered.push(entry),
                        Err(Refusal::OutboxFull) => return,
                        Err(_) => {}
                    }
                }
            }
            self.deferred.pop_front();
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
    fn take_output(&mut self, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) -> bool {
        if self.is_corked() {
            return false;
        }
        self.staged.append_to(out, &mut ended);
        while out.len() < OUTPUT_BYTES && self.take_transmit(out) {
            ended(out.len());
        }
        !out.is_empty()
    }

    fn trace(&mut self, way: Way, message: &[u8]) {
        if let Some(trace) = &mut self.trace {
            contain(|| trace(way, message));
        }
    }

    /// A cork holds no more back than the outbox would.
    fn is_corked(&self) -> bool {
        self.corks > 0 && self.staged.len() < self.core().config().limits.unsent_bytes
    }

    /// When the next timer is due.
    fn due(&self) -> Option<Timestamp> {
        let timer = self.core().poll_timeout().map(|(due, _)| due);
        [timer, self.patience()].into_iter().flatten().min()
    }

    /// Until when a peer that reads no more is waited for: once nothing is in flight, only unwritten
    /// bytes keep the connection alive, and they must not for ever.
    fn patience(&self) -> Option<Timestamp> {
        let Writing::Busy { since } = self.writing else { return None };
        let grace = self.core().config().abandoned_grace;
        (self.is_settled() && !self.is_abandoned).then_some(since + grace)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
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
    fn is_over(&self) -> bool {
        self.is_abandoned || self.is_settled() && self.is_flushed()
    }
}

/// Keeps a waker, without cloning the one that is there already. Gives another one back, to be
/// dropped when the lock is released.
fn set(place: &mut Option<Waker>, waker: &Waker) -> Option<Waker> {
    match place {
        Some(other) if other.will_wake(waker) => None,
        _ => place.replace(waker.clone()),
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
