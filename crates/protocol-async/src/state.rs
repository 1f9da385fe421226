//! Everything behind a connection's lock.

mod answers;
mod beat;

use std::borrow::Cow;
use std::io;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use protocol_core::{
    CallId, CallOptions, CloseReason, Connection, Event, Outcome, Refusal, RequestHandle, Response,
    SendError, Shutdown, StreamConnection, Timestamp, code,
};
use serde_json::value::RawValue;

use crate::afterwards::{Afterward, Afterwards};
use crate::answer::CallError;
use crate::at_work::AtWork;
use crate::budget::{Buckets, Cheap, OverBudget};
use crate::cancellation::Cancellation;
use crate::closed::Closed;
use crate::contain::contain;
use crate::inbox::Inbox;
use crate::method::MethodName;
use crate::names::{NameKey, Names};
use crate::noise::{Noise, is_noise};
use crate::operations::{self, SharedOperations};
use crate::options::{Options, Trace, Way};
use crate::outcome::{Interest, Outcomes, RawOutcome};
use crate::outgoing::Messages;
use crate::outside::Entropy;
use crate::spans::{self, Spans};
use crate::sync::Arc;
use crate::verdict::{Observer, Verdict};
use crate::waiters::Waiters;
pub(crate) use answers::{Given, WaitingAnswers};
use beat::Heart;

/// How long a peer's last words are waited for once it reads no more, where nobody can tell that there
/// are none: they are here already, and only to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) type Core = Connection<CallEntry, RequestEntry>;

/// What we keep with each call.
pub(crate) struct CallEntry {
    pub(crate) interest: Interest,
    pub(crate) method: NameKey,
    pub(crate) since: Timestamp,
}

/// What we keep with each request.
#[derive(Default)]
pub(crate) struct RequestEntry {
    /// Invariant: there once the request has arrived, which is before anything is told of it.
    pub(crate) marker: Option<Cancellation>,
    /// Invariant: there as long as the marker is.
    pub(crate) method: Option<NameKey>,
    pub(crate) since: Timestamp,
}

pub(crate) struct State {
    pub(crate) stream: StreamConnection<CallEntry, RequestEntry>,
    pub(crate) inbox: Inbox,
    outcomes: Outcomes,
    pub(crate) names: Names,
    /// Requests that were taken out of the inbox and are not answered.
    pub(crate) at_work: AtWork,
    /// Markers for the next requests: most are never set, so most can be used again.
    spare: Vec<Cancellation>,
    buckets: Buckets,
    /// Why the connection closed, once it has.
    pub(crate) closed: Option<CloseReason>,
    /// What ended the input, or else what writing failed with.
    pub(crate) error: Option<Arc<io::Error>>,
    /// Once writing has failed: until when the last words of the peer are waited for.
    muted: Option<Timestamp>,
    /// Who waits for an arrival or the end.
    pub(crate) arrived: Waiters,
    /// Who waits for room in the outbox, or for everything to be written.
    pub(crate) room: Waiters,
    /// Who waits for the end.
    pub(crate) ended: Waiters,
    /// Whether there is anyone to take what arrives.
    pub(crate) is_served: bool,
    /// Answers that wait for room in the outbox. Invariant: while there are any, the core has promised
    /// to tell when there is.
    answers: WaitingAnswers,
    /// Messages that left the outbox while there was a cork.
    staged: Messages,
    /// While there are corks, messages are staged at once and nothing is written.
    pub(crate) corks: usize,
    pub(crate) writing: Writing,
    /// Whether a send was refused, and there has been no room for it since.
    pub(crate) is_full: bool,
    /// Messages are taken out of the outbox only up to this many bytes ahead of writing: what stays
    /// there can be withdrawn.
    pipe_bytes: usize,
    /// How long a peer that does not read is waited for in the end.
    patience: Duration,
    /// Nothing more is written, and nobody waits for what isn't.
    is_abandoned: bool,
    /// The task that writes, which is woken when there is something to write.
    pub(crate) driver: Option<Waker>,
    pub(crate) timers: Timers,
    pub(crate) spans: Spans,
    /// The keep-alive, if there is one.
    heart: Option<Box<Heart>>,
    trace: Option<Trace>,
    observer: Option<Observer>,
    noise: Option<Noise>,
    entropy: Entropy,
    operations: Option<SharedOperations>,
    /// The latest time that was read.
    pub(crate) now: Timestamp,
}

/// Whoever keeps the timers.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) waker: Option<Waker>,
    /// The time that it was told to wait for.
    pub(crate) armed: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Idle,
    Busy {
        /// When it was seen that nothing else keeps the connection alive.
        settled: Option<Timestamp>,
    },
}

impl State {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            stream: StreamConnection::new(options.config),
            inbox: Inbox::new(options.inbox_bytes),
            outcomes: Outcomes::new(options.result_bytes),
            names: Names::default(),
            at_work: AtWork::new(options.work_requests, options.work_bytes),
            spare: Vec::new(),
            buckets: Buckets::new(options.budgets),
            closed: None,
            error: None,
            muted: None,
            arrived: Waiters::default(),
            room: Waiters::default(),
            ended: Waiters::default(),
            is_served: true,
            answers: WaitingAnswers::new(options.answer_bytes),
            pipe_bytes: options.pipe_bytes.max(1),
            patience: options.patience,
            staged: Messages::default(),
            corks: 0,
            writing: Writing::Idle,
            is_full: false,
            is_abandoned: false,
            driver: None,
            timers: Timers::default(),
            spans: Spans::default(),
            heart: options.keep_alive.map(Heart::new),
            trace: options.trace,
            observer: options.observer,
            noise: options.noise,
            entropy: options.entropy,
            operations: options.operations,
            now: Timestamp::ZERO,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        self.stream.connection()
    }

    /// Passes on what the core has yet to tell.
    #[inline]
    pub(crate) fn dispatch_queued(&mut self, after: &mut Afterwards) {
        while let event @ Some(_) = self.stream.connection_mut().poll_event() {
            self.dispatch(event, after);
        }
    }

    /// Passes on what has happened; if that is nothing, a message has made nothing happen. (An event is
    /// large: it is passed on as it came, and taken apart only here, so that it is never moved.)
    fn dispatch(&mut self, event: Option<Event<'_, CallEntry>>, after: &mut Afterwards) {
        if let Some(event) = &event {
            self.observe(event);
            after.show(self.spans.see(event, self.now));
        }
        self.charge(event.as_ref(), after);
        match event {
            None => {}
            Some(Event::Settled { call, outcome, data }) => {
                let outcome = self.owned(outcome);
                self.names.let_go(data.method);
                match data.interest {
                    Interest::Handed(then) => {
                        return after.push(Afterward::HandOver(then, outcome));
                    }
                    Interest::Task(waker) => after.push(Afterward::Wake(waker)),
                }
                self.outcomes.insert(call, outcome);
            }
            Some(Event::Request { request, method, params, options, .. }) => {
                self.take_request(request, &method, params, options, after);
            }
            Some(Event::Cancelled { request, cause, .. }) => {
                operations::cancelled(self.core(), self.operations.as_ref(), request, cause);
                let entry = self.stream.connection_mut().request_data_mut(request);
                if let Some(marker) = entry.and_then(|entry| entry.marker.as_ref()) {
                    after.push(Afterward::Tell(marker.raise(cause)));
                }
            }
            Some(Event::Ready) => {
                self.is_full = false;
                self.answer_waiting(after);
                self.beat_again();
                self.room.wake_all(after);
            }
            Some(Event::Closed { reason }) => {
                self.closed = Some(reason);
                self.is_full = false;
                for line in [&mut self.arrived, &mut self.room, &mut self.ended] {
                    line.wake_all(after);
                }
            }
            // Nobody here asks what else there is.
            Some(event) if self.is_served => {
                let is_taken = self.inbox.take(event).is_ok();
                if is_taken {
                    self.arrived.wake_all(after);
                }
            }
            Some(_) => {}
        }
    }

    fn owned(&self, outcome: Outcome<'_>) -> RawOutcome {
        let mut outcome = CallError::check(outcome);
        if let Err(CallError::ConnectionLost { how, .. }) = &mut outcome {
            *how = self.error.as_ref().map(|error| error.to_string().into());
        }
        outcome.map_err(Box::new)
    }

    /// Takes the outcome of a call, which can be done once; where it is still to come, gives who is told.
    pub(crate) fn outcome(&mut self, call: CallId) -> Result<RawOutcome, &mut Interest> {
        if let Some(outcome) = self.outcomes.take(call) {
            return Ok(outcome);
        }
        let entry = self.stream.connection_mut().call_data_mut(call);
        Err(&mut entry.expect("an outcome is kept until it is taken").interest)
    }

    /// Calls the peer.
    pub(crate) fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        interest: Interest,
        options: CallOptions,
    ) -> Result<CallId, Refusal> {
        let entry = CallEntry { interest, method: self.names.keep(method), since: self.now };
        let core = self.stream.connection_mut();
        core.call(method, params, entry, options, self.now).map_err(|SendError { reason, data }| {
            self.names.let_go(data.method);
            reason
        })
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
            entry.method = Some(self.names.keep(name));
            entry.since = self.now;
            entry.marker = Some(self.spare.pop().unwrap_or_default());
        }
        if !self.is_served {
            return self.refuse_unserved(request, after);
        }
        if !self.inbox.has_room_for(name, params.as_deref(), options.as_deref()) {
            let refused = self.overloaded("The request was refused: too much waits to be served");
            return self.give(request, refused, after);
        }
        if self.answers.is_full() {
            return self.give(request, self.too_much_waits(), after);
        }
        let core = self.stream.connection_mut();
        let operations = self.operations.as_ref();
        if let Err(error) = operations::begin(core, operations, request, name, self.entropy) {
            return self.give(request, Given::Failure(error.into()), after);
        }
        self.inbox.take_request(request, method, params, options);
        self.arrived.wake_all(after);
    }

    /// Answers a request that nobody will take.
    pub(crate) fn refuse_unserved(&mut self, request: RequestHandle, after: &mut Afterwards) {
        let message = "nobody serves requests here";
        self.give(request, Given::Refusal { code: code::METHOD_NOT_FOUND, message }, after);
    }

    fn overloaded(&self, message: &'static str) -> Given<'static> {
        Given::Refusal { code: self.core().config().dialect.overload_code, message }
    }

    fn too_much_waits(&self) -> Given<'static> {
        self.overloaded("The request was refused: too many answers wait to be read")
    }

    pub(crate) fn too_many_at_work(&self) -> Given<'static> {
        self.overloaded("The request was refused: too many are being served")
    }

    /// Gives everything in flight up, and what is not written too.
    pub(crate) fn abandon(&mut self, now: Timestamp) {
        self.stream.connection_mut().shutdown(Shutdown::Abandon, now);
        self.staged.clear();
        self.is_abandoned = true;
    }

    /// Nothing is written any more.
    pub(crate) fn mute(&mut self, now: Timestamp) {
        self.muted.get_or_insert(now + LAST_WORDS);
    }

    pub(crate) const fn is_mute(&self) -> bool {
        self.muted.is_some()
    }

    /// How the connection ended, once it has.
    pub(crate) fn how_closed(&self) -> Option<Closed> {
        self.closed.map(|reason| Closed { reason, error: self.error.clone() })
    }

    /// Answers a request, at once or when there is room for that, and after those that wait already.
    pub(crate) fn give(
        &mut self,
        request: RequestHandle,
        given: Given<'_>,
        after: &mut Afterwards,
    ) {
        if !self.answers.is_empty() || !self.answer(request, given.as_reply(), after) {
            let otherwise = self.too_much_waits();
            self.answers.push(request, given, otherwise);
        }
    }

    /// Sends the answers that have room now, in the order they were given.
    fn answer_waiting(&mut self, after: &mut Afterwards) {
        while let Some((request, given)) = self.answers.pop() {
            if !self.answer(request, given.as_reply(), after) {
                return self.answers.put_back(request, given);
            }
            self.answers.made_room();
        }
    }

    /// Answers a request; `false` if there is no room yet. Whether there is, is known before anything is
    /// written.
    fn answer(
        &mut self,
        request: RequestHandle,
        reply: Response<'_>,
        after: &mut Afterwards,
    ) -> bool {
        let mut answered = self.respond(request, reply, after);
        if matches!(answered, Err(Refusal::TooLarge)) {
            let message = "the answer is too large (limits.unsent_bytes)";
            let refused = Response::Error { code: code::INTERNAL_ERROR, message, data: None };
            answered = self.respond(request, refused, after);
        }
        match answered {
            Ok(entry) => self.let_go(entry, after),
            Err(Refusal::OutboxFull) => return false,
            // It is answered already, or under these limits nothing can be.
            Err(_) => {}
        }
        true
    }

    /// Answers a request, if there is room for that, and ends the operation that it started.
    fn respond(
        &mut self,
        request: RequestHandle,
        reply: Response<'_>,
        after: &mut Afterwards,
    ) -> Result<RequestEntry, Refusal> {
        let core = self.stream.connection_mut();
        let (entry, clean_up) =
            operations::respond(core, self.operations.as_ref(), request, reply)?;
        after.show(self.spans.answered(request, &reply, self.now));
        if let Some(clean_up) = clean_up {
            after.push(Afterward::CleanUp(clean_up));
        }
        Ok(entry)
    }

    /// Lets go what was kept with a request that is over: mostly another can have its marker.
    pub(crate) fn let_go(&mut self, entry: RequestEntry, after: &mut Afterwards) {
        /// More markers than those are given back.
        const KEPT: usize = 1024;

        if let Some(name) = entry.method {
            self.names.let_go(name);
        }
        let Some(mut marker) = entry.marker else { return };
        if self.spare.len() < KEPT && marker.is_unused() {
            self.spare.push(marker);
        } else {
            after.push(Afterward::Drop(marker));
        }
    }

    /// Whoever served a request has dropped it without an answer.
    pub(crate) fn worker_gone(&mut self, request: RequestHandle, after: &mut Afterwards) {
        let operations = self.operations.as_ref();
        if let Some(clean_up) = operations::worker_gone(self.core(), operations, request) {
            after.push(Afterward::CleanUp(clean_up));
        }
    }

    /// Moves one message from the outbox to those that leave with the cork.
    pub(crate) fn stage_transmit(&mut self) -> bool {
        let mut staged = mem::take(&mut self.staged);
        let moved = staged.push(|bytes| self.take_transmit(bytes));
        self.staged = staged;
        moved
    }

    fn take_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let transmit = self.stream.poll_transmit(out);
        // Mostly nobody wants to know what it was.
        if let (Some(transmit), true) = (&transmit, self.trace.is_some()) {
            self.trace(Way::Sent, transmit.message(out));
        }
        transmit.is_some()
    }

    /// Adds what may be written now; says whether that is anything.
    pub(crate) fn take_output(&mut self, out: &mut Messages) -> bool {
        if self.is_corked() {
            return false;
        }
        if !self.staged.is_empty() {
            out.append(&mut self.staged);
        }
        while out.len() < self.pipe_bytes && out.push(|bytes| self.take_transmit(bytes)) {}
        !out.is_empty()
    }

    pub(crate) fn trace(&mut self, way: Way, message: &[u8]) {
        if let Some(trace) = &mut self.trace {
            contain(|| trace(way, message));
        }
    }

    fn observe(&mut self, event: &Event<'_, CallEntry>) {
        let Some(observer) = &mut self.observer else { return };
        if let Some(verdict) = Verdict::of(event, self.stream.connection()) {
            contain(|| observer(verdict));
        }
    }

    /// Passes on what came of these bytes. What is no message goes to whoever listens for that.
    pub(crate) fn hear(
        &mut self,
        bytes: &[u8],
        event: Option<Event<'_, CallEntry>>,
        after: &mut Afterwards,
    ) {
        match (&event, &mut self.noise) {
            (Some(Event::Violation { violation, id }), Some(noise))
                if is_noise(self.stream.connection().config(), *violation, id.as_ref()) =>
            {
                contain(|| noise(*violation, bytes));
            }
            _ => self.dispatch(event, after),
        }
    }

    /// The peer pays for what costs it little, or else the connection ends.
    #[inline]
    fn charge(&mut self, event: Option<&Event<'_, CallEntry>>, after: &mut Afterwards) {
        // Once the connection is closed, that nothing happens is not the peer's doing.
        if event.is_none() && self.core().machine().is_closed() {
            return;
        }
        let what = Cheap::of(event, self.core().config());
        let over = what.and_then(|what| self.buckets.pay(what, self.now));
        if let Some(over) = over {
            self.end_over(over, after);
        }
    }

    #[cold]
    fn end_over(&mut self, over: OverBudget, after: &mut Afterwards) {
        if let Some(observer) = &mut self.observer {
            contain(|| observer(Verdict::OverBudget { over }));
        }
        after.show(spans::over_budget(over));
        self.error.get_or_insert_with(|| Arc::new(over.into()));
        self.stream.connection_mut().handle_eof(self.now);
    }

    /// A cork holds no more back than the outbox would.
    pub(crate) fn is_corked(&self) -> bool {
        let core = self.core();
        let most = core.config().limits.unsent_bytes;
        self.corks > 0 && self.staged.len() + core.next_transmit_len().unwrap_or(0) <= most
    }

    /// When the next timer is due.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let timer = self.core().poll_timeout().map(|(due, _)| due);
        let muted = self.muted.filter(|_| self.closed.is_none());
        [timer, self.patience(), muted, self.beat_due()].into_iter().flatten().min()
    }

    /// Until when a peer that reads no more is waited for: once nothing is in flight, only unwritten
    /// bytes keep the connection alive, and they must not for ever.
    fn patience(&self) -> Option<Timestamp> {
        let Writing::Busy { settled } = self.writing else { return None };
        settled.filter(|_| !self.is_abandoned).map(|settled| settled + self.patience)
    }

    /// Whether only unwritten bytes keep the connection alive, and nobody has looked at the clock yet.
    pub(crate) fn lacks_patience(&self) -> bool {
        self.writing == Writing::Busy { settled: None } && self.is_settled() && !self.is_abandoned
    }

    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        self.now = now;
        if self.patience().is_some_and(|until| until <= now) {
            self.abandon(now);
        }
        let core = self.stream.connection_mut();
        core.handle_timeout(now);
        if self.muted.is_some_and(|until| until <= now) {
            core.handle_eof(now);
        }
        self.beat(now);
    }

    /// Whether there is anything to write now.
    pub(crate) fn has_output(&self) -> bool {
        self.writing == Writing::Idle
            && !self.is_corked()
            && (!self.staged.is_empty() || self.core().next_transmit_len().is_some())
    }

    /// Whether every message has been written, or never will be.
    pub(crate) fn is_flushed(&self) -> bool {
        let is_written = self.writing == Writing::Idle
            && self.staged.is_empty()
            && self.answers.is_empty()
            && self.core().next_transmit_len().is_none();
        is_written || self.is_abandoned
    }

    /// Nothing comes in any more, and everything that did is answered.
    fn is_settled(&self) -> bool {
        let machine = self.core().machine();
        machine.is_closed() && machine.requests_in_flight() == 0
    }

    /// There is nothing left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.is_abandoned || self.is_settled() && self.is_flushed()
    }
}
