//! One synchronous thread, whose handlers can be cancelled while they run.
//!
//! ```
//! use protocol_blocking::single::{FdTransport, Host};
//! use protocol_blocking::{Request, Responder};
//! use protocol_core::{Config, Dialect};
//!
//! /// Works in steps, and can be cancelled between them.
//! fn serve(request: &Request, responder: &mut dyn Responder) -> protocol_blocking::Answer {
//!     let steps: u64 = request.params()?;
//!     for step in 0..steps {
//!         responder.checkpoint()?;
//!         // one step of the work
//!         let _ = step;
//!     }
//!     Ok(serde_json::value::to_raw_value("done")?)
//! }
//!
//! let (input, output) = (std::io::stdin(), std::io::stdout());
//! let mut host = Host::new(FdTransport::new(input, output), Config::server(Dialect::ACP_V1));
//! # if false {
//! host.run(&serve)?;
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```

mod budget;
mod call;
mod memory;
mod refused;
mod responder;
mod tracer;
mod transport;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::PoisonError;
use std::time::Duration;

use protocol_async::hub::{Arrived, Buckets, Inbox};
use protocol_async::operations::{self, CleanUp, SharedOperations};
use protocol_async::outside::{self, Entropy};
use protocol_async::{CallError, Observer, Options, Verdict};
use protocol_core::{
    CallOptions, CancelOutcome, Cause, CloseReason, Connection, Event, InputBuffer, Refusal,
    RequestHandle, Response, Shutdown, StreamConnection, Timestamp,
};
use serde_json::value::RawValue;

use crate::clock::Clock;
use crate::handler::{self, Answer, Handler};

pub use call::OwnCall;
use call::{Dropped, Place};
pub use memory::memory;
use responder::HostResponder;
use tracer::Tracer;
#[cfg(unix)]
pub use transport::FdTransport;
pub use transport::{PlainTransport, Readiness, Ready, Transport};

/// A connection on one thread: everything happens inside the methods of this type.
pub struct Host<T> {
    /// Where a call's outcome goes is the call's data; a request's data is why it was cancelled.
    stream: StreamConnection<Place, Option<Cause>>,
    transport: T,
    /// Bytes asked for in one read, and of messages taken out of the outbox ahead of writing.
    pipe_bytes: usize,
    input: InputBuffer,
    input_end: InputEnd,
    inbox: Inbox,
    buckets: Buckets,
    /// Messages on their way: they can't be withdrawn any more.
    output: Vec<u8>,
    written: usize,
    room: Room,
    /// An answer that waits for room while the host does other things.
    unanswered: Option<(RequestHandle, Answer)>,
    /// Requests whose refusal waits for room.
    refused: VecDeque<RequestHandle>,
    writing: Writing,
    patience: Duration,
    closed: Option<CloseReason>,
    /// What reading or writing failed with first.
    error: Option<io::Error>,
    /// Why the transport can't be waited for any more.
    failure: Option<io::Error>,
    dropped: Dropped,
    clock: Clock,
    trace: Tracer,
    observer: Option<Observer>,
    entropy: Entropy,
    operations: Option<SharedOperations>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputEnd {
    Ahead,
    Reached,
}

/// Whether the core owes an [`Event::Ready`] after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    There,
    Promised,
}

/// Whether the peer takes what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Open,
    /// Nothing keeps the connection alive but that it does not, since then.
    Stuck(Timestamp),
    /// It reads no more: everything is dropped. Its last words are read until then.
    Broken(Timestamp),
}

/// Reads in one checkpoint: a peer that writes faster than we read must not keep us from work.
const READS_A_CHECKPOINT: usize = 64;

impl<T: Transport> Host<T> {
    /// Creates a host that has read nothing yet. A connection without a number gets one of its own.
    pub fn new(transport: T, options: impl Into<Options>) -> Self {
        let mut options = options.into();
        let (clock, config) = (Clock::start(), &mut options.config);
        if config.unix_time_at_zero.is_zero() {
            config.unix_time_at_zero = outside::unix_time_at_zero(clock.now());
        }
        if config.connection == 0 {
            config.connection = outside::connection_number();
        }
        Self {
            stream: StreamConnection::new(options.config),
            transport,
            pipe_bytes: options.pipe_bytes.max(1),
            input: InputBuffer::new(),
            input_end: InputEnd::Ahead,
            inbox: Inbox::new(options.inbox_bytes),
            buckets: Buckets::new(options.budgets),
            output: Vec::new(),
            written: 0,
            room: Room::There,
            unanswered: None,
            refused: VecDeque::new(),
            writing: Writing::Open,
            patience: options.patience,
            closed: None,
            error: None,
            failure: None,
            dropped: Dropped::default(),
            clock,
            trace: Tracer(options.trace),
            observer: options.observer,
            entropy: options.entropy,
            operations: options.operations,
        }
    }

    /// Serves until the connection closes and everything is answered and written. A closed peer that does
    /// not read is waited for, for [`Options::patience`](protocol_async::Options::patience).
    ///
    /// # Errors
    ///
    /// Those of [`Transport::wait`]. A peer that hangs up is no error; [`error`](Self::error) tells how.
    pub fn run(&mut self, handler: &(impl Handler + ?Sized)) -> io::Result<CloseReason> {
        loop {
            self.answer_waiting();
            while self.owes_answer() {
                self.make_room();
                self.answer_waiting();
            }
            match self.inbox.pop() {
                Some(arrived) => self.serve(handler, arrived),
                None => match self.over()? {
                    Some(reason) => return Ok(reason),
                    None => {
                        self.turn(Reading::MayBlock, None);
                    }
                },
            }
        }
    }

    /// Takes one step of a loop of the host's own: reads, serves and writes without waiting. Returns
    /// `Some` once the connection is over.
    ///
    /// While an answer has no room, nothing more is served; cancels are marked all the same. It needs a
    /// transport whose readiness is [`Told`](Readiness::Told): of any other it reads nothing.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn tick(&mut self, handler: &(impl Handler + ?Sized)) -> io::Result<Option<CloseReason>> {
        self.checkpoint();
        self.answer_waiting();
        // What arrives meanwhile has its turn in the next step.
        for _ in 0..self.inbox.len() {
            if self.owes_answer() {
                break;
            }
            if let Some(arrived) = self.inbox.pop() {
                self.serve(handler, arrived);
            }
        }
        self.checkpoint();
        if self.inbox.is_empty() && !self.owes_answer() { self.over() } else { Ok(None) }
    }

    /// What is left of the connection: why it closed, once that is written too.
    fn over(&mut self) -> io::Result<Option<CloseReason>> {
        let failed = self.failure.take();
        failed.map_or_else(|| Ok(self.closed.filter(|_| self.is_flushed())), Err)
    }

    /// Returns the error of reading or writing that ended the connection; the end of input is none.
    #[must_use]
    pub const fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Calls the peer and waits; what arrives meanwhile stays queued.
    ///
    /// # Errors
    ///
    /// Every outcome but a result.
    pub fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let mut call = self.start_call(method, params, options)?;
        loop {
            if let Some(outcome) = call.take() {
                return outcome;
            }
            self.turn(Reading::MayBlock, None);
        }
    }

    /// Calls the peer without waiting: the outcome is there after some [`tick`](Self::tick) or in some
    /// handler of [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// As [`Connection::call`].
    pub fn start_call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<OwnCall, Refusal> {
        let (outcome, dropped) = (Place::default(), self.dropped.clone());
        let id = self.command(|core, now| {
            core.call(method, params, outcome.clone(), options, now).map_err(|error| error.reason)
        })?;
        Ok(OwnCall { id, outcome, dropped })
    }

    /// Cancels a call; its outcome comes all the same.
    pub fn cancel(&mut self, call: &OwnCall) -> CancelOutcome {
        self.command(|core, now| core.cancel(call.id, Cause::Caller, now))
    }

    /// Queues a notification to the peer.
    ///
    /// # Errors
    ///
    /// As [`Connection::notify`](protocol_core::Connection::notify).
    pub fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.command(|core, _| core.notify(method, params))
    }

    /// Shuts the connection down; [`run`](Self::run) returns when that is done.
    pub fn shutdown(&mut self, how: Shutdown) {
        self.command(|core, now| core.shutdown(how, now));
    }

    fn serve(&mut self, handler: &(impl Handler + ?Sized), arrived: Arrived) {
        match arrived {
            Arrived::Request(handle, request) => {
                let cancelled = self.cancelled(handle);
                let rule = self.stream.connection().config().dialect.before_start;
                let mut responder = HostResponder { host: self, handle };
                let answer = handler::answer(handler, &request, &mut responder, cancelled, rule);
                self.unanswered = Some((handle, answer));
                self.answer_waiting();
            }
            Arrived::Notification(notification) => {
                if handler::notify(handler, &notification).is_break() {
                    self.shutdown(Shutdown::CancelAll);
                }
            }
            Arrived::Violation(violation, id) => handler::report(handler, violation, id.as_ref()),
            Arrived::Missed(_) => {}
        }
    }

    /// Gives the answers that wait, as far as there is room for them.
    fn answer_waiting(&mut self) {
        self.answer_refused();
        if self.room == Room::Promised {
            return;
        }
        let Some((request, answer)) = self.unanswered.take() else { return };
        let reply = match &answer {
            Ok(result) => Response::Result(result),
            Err(failure) => failure.as_reply(),
        };
        let mut answered = self.respond(request, reply);
        if answered == Err(Refusal::TooLarge) {
            // Limits that this does not fit under either let nothing be answered.
            answered = self.respond(request, handler::too_large().as_reply());
        }
        if answered == Err(Refusal::OutboxFull) {
            self.room = Room::Promised;
            self.unanswered = Some((request, answer));
        }
    }

    fn respond(&mut self, request: RequestHandle, reply: Response<'_>) -> Result<(), Refusal> {
        let operations = self.operations.clone();
        let (_, clean_up) =
            self.command(|core, _| operations::respond(core, operations.as_ref(), request, reply))?;
        clean_up.into_iter().for_each(CleanUp::run);
        Ok(())
    }

    /// Writes until the core says that there is room for what it refused, which it does even after
    /// the end.
    fn make_room(&mut self) {
        while self.room == Room::Promised {
            self.turn(Reading::WhatIsThere, None);
        }
    }

    fn cancelled(&mut self, request: RequestHandle) -> Option<Cause> {
        *self.stream.connection_mut().request_data_mut(request)?
    }

    fn command<R>(
        &mut self,
        command: impl FnOnce(&mut Connection<Place, Option<Cause>>, Timestamp) -> R,
    ) -> R {
        let done = command(self.stream.connection_mut(), self.clock.now());
        self.settle();
        done
    }

    /// Passes on what commands and timers made happen.
    fn settle(&mut self) {
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.dispatch(event);
        }
    }

    fn dispatch(&mut self, event: Event<'_, Place>) {
        if let Some(observer) = &mut self.observer {
            Verdict::of(&event, self.stream.connection()).into_iter().for_each(observer);
        }
        self.charge(Some(&event));
        if let Event::Request { request, method, params, options, .. } = &event {
            let fits = self.inbox.has_room_for(method, params.as_deref(), options.as_deref());
            if !fits {
                return self.refuse(*request);
            }
            let core = self.stream.connection_mut();
            let operations = self.operations.as_ref();
            if let Err(error) = operations::begin(core, operations, *request, method, self.entropy)
            {
                // One that does not fit either is answered by its handler.
                if core.respond(*request, error.as_reply()).is_ok() {
                    return;
                }
            }
        }
        let Err(event) = self.inbox.take(event) else { return };
        match event {
            Event::Cancelled { request, cause, .. } => {
                let core = self.stream.connection();
                operations::cancelled(core, self.operations.as_ref(), request, cause);
                if let Some(mark) = self.stream.connection_mut().request_data_mut(request) {
                    *mark = Some(cause);
                }
            }
            Event::Settled { outcome, data, .. } => {
                let mut outcome = CallError::check(outcome);
                if let Err(CallError::ConnectionLost { how, .. }) = &mut outcome {
                    *how = self.error.as_ref().map(|error| error.to_string().into());
                }
                *data.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            }
            Event::Ready => self.room = Room::There,
            Event::Closed { reason } => self.closed = Some(reason),
            _ => {}
        }
    }

    /// Takes what has arrived and writes what there is room for, without blocking.
    fn checkpoint(&mut self) {
        for _ in 0..READS_A_CHECKPOINT {
            if self.turn(Reading::WhatIsThere, Some(Duration::ZERO)) == Progress::Idle {
                return;
            }
        }
    }

    /// One turn of the run loop: timers, one wait, one read, one write.
    fn turn(&mut self, reading: Reading, timeout: Option<Duration>) -> Progress {
        self.cancel_dropped();
        self.handle_timeout();
        self.fill_output();
        let is_told = self.transport.readiness() == Readiness::Told;
        // A peer that reads no more is listened to only as long as there is something to read.
        let is_last = matches!(self.writing, Writing::Broken(_)) && self.closed.is_none();
        let readable = is_told || reading == Reading::MayBlock && !is_last;
        let interest = Ready {
            read: readable && self.input_end == InputEnd::Ahead && self.closed.is_none(),
            write: self.written < self.output.len(),
        };
        let due = self.due().map(|due| self.clock.until(due));
        let timeout = if is_last { Some(Duration::ZERO) } else { timeout };
        // Where nothing is waited for, nothing would end the waiting.
        let at_once = (interest == Ready::default()).then_some(Duration::ZERO);
        let timeout = due.into_iter().chain(timeout).min().or(at_once);
        let ready = match self.transport.wait(interest, timeout) {
            Ok(ready) => ready,
            Err(failure) => {
                self.failure = Some(failure);
                self.shutdown(Shutdown::Abandon);
                return Progress::Idle;
            }
        };
        if ready.read {
            self.read();
        } else if is_last {
            self.finish();
        }
        if ready.write {
            self.write();
        } else {
            self.lose_patience();
        }
        self.handle_timeout();
        if ready == Ready::default() { Progress::Idle } else { Progress::Made }
    }

    /// When the next timer is due.
    fn due(&self) -> Option<Timestamp> {
        let timer = self.stream.connection().poll_timeout().map(|(due, _)| due);
        timer.into_iter().chain(self.out_of_patience()).min()
    }

    /// Until when the peer is waited for.
    fn out_of_patience(&self) -> Option<Timestamp> {
        match self.writing {
            Writing::Stuck(since) => Some(since + self.patience),
            Writing::Broken(since) if self.closed.is_none() => Some(since + self.patience),
            Writing::Open | Writing::Broken(_) => None,
        }
    }

    fn handle_timeout(&mut self) {
        let now = self.clock.now();
        let due = self.stream.connection().poll_timeout();
        if due.is_some_and(|(due, _)| due <= now) {
            self.command(Connection::handle_timeout);
        }
    }

    /// Gives the peer up that nothing could be written to, if it was waited for long enough.
    fn lose_patience(&mut self) {
        let now = self.clock.now();
        if self.out_of_patience().is_some_and(|until| until <= now) {
            if self.closed.is_none() {
                self.finish();
            }
            self.writing = Writing::Broken(now);
            self.output.clear();
            self.written = 0;
            self.shutdown(Shutdown::Abandon);
        }
    }

    fn cancel_dropped(&mut self) {
        let dropped = mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        for call in dropped {
            self.command(|core, now| core.cancel(call, Cause::Dropped, now));
        }
    }

    fn read(&mut self) {
        match self.input.fill(self.pipe_bytes, |room| self.transport.read(room)) {
            Err(error) if transport::is_transient(&error) => {}
            Err(error) => {
                self.error.get_or_insert(error);
                self.finish();
            }
            Ok(0) => self.finish(),
            Ok(_) => self.receive(),
        }
    }

    fn receive(&mut self) {
        let mut input = mem::take(&mut self.input);
        loop {
            let taken = self.stream.receive(input.unread(), self.clock.now());
            self.trace.received(taken.message);
            match (taken.message, taken.event) {
                (_, Some(event)) => self.dispatch(event),
                (Some(_), None) if self.closed.is_none() => self.charge(None),
                (_, None) => {}
            }
            self.settle();
            if taken.consumed == 0 {
                break;
            }
            input.consume(taken.consumed);
        }
        self.input = input;
    }

    fn finish(&mut self) {
        self.input_end = InputEnd::Reached;
        let input = mem::take(&mut self.input);
        self.trace.received(self.stream.handle_eof(input.unread(), self.clock.now()));
        self.settle();
    }

    fn fill_output(&mut self) {
        while self.output.len() < self.pipe_bytes {
            let Some(transmit) = self.stream.poll_transmit(&mut self.output) else { break };
            self.trace.sent(transmit.message(&self.output));
            if matches!(self.writing, Writing::Broken(_)) {
                self.output.clear();
            }
        }
        if self.closed.is_some() && !self.output.is_empty() && self.writing == Writing::Open {
            self.writing = Writing::Stuck(self.clock.now());
        }
        self.settle();
    }

    fn write(&mut self) {
        match self.transport.write(&self.output[self.written..]) {
            Ok(written) if written > 0 => {
                self.written += written;
                self.writing = Writing::Open;
            }
            Err(error) if transport::is_transient(&error) => {}
            ended => {
                let error = ended.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                self.error.get_or_insert(error);
                self.writing = Writing::Broken(self.clock.now());
                self.written = self.output.len();
            }
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.output.shrink_to(self.pipe_bytes);
            self.written = 0;
        }
    }

    fn is_flushed(&self) -> bool {
        self.output.is_empty() && self.stream.connection().unsent_bytes() == 0
    }
}

/// Without the messages on their way: they hold secrets, such as tokens of operations.
impl<T: fmt::Debug> fmt::Debug for Host<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("stream", &self.stream)
            .field("transport", &self.transport)
            .field("inbox", &self.inbox)
            .field("unwritten", &(self.output.len() - self.written))
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

/// What a turn may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Whatever comes, however long that takes.
    MayBlock,
    /// Only what is certain to be there: a handler is at work.
    WhatIsThere,
}

/// Whether a turn found anything to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Made,
    Idle,
}
