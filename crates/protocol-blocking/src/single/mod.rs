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

mod transport;

use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use protocol_async::CallError;
use protocol_async::hub::{Arrived, Inbox, Options, Trace, Way};
use protocol_async::operations::{self, CleanUp, SharedOperations};
use protocol_async::outside::{self, Entropy};
use protocol_core::{
    CallOptions, Cause, CloseReason, Connection, Event, InputBuffer, Refusal, Reply, RequestHandle,
    Shutdown, StreamConnection, Timestamp,
};
use serde_json::value::RawValue;

use crate::clock::Clock;
use crate::handler::{self, Answer, Cancelled, Handler, Notification, Request, Responder};

#[cfg(unix)]
pub use transport::FdTransport;
pub use transport::{PlainTransport, Readiness, Ready, Transport};

type Outcome = Result<Box<RawValue>, CallError>;

/// A connection on one thread: everything happens inside the methods of this type.
pub struct Host<T> {
    /// Where a call's outcome goes is the call's data; a request's data is why it was cancelled.
    stream: StreamConnection<Arc<OnceLock<Outcome>>, Option<Cause>>,
    transport: T,
    input: InputBuffer,
    input_end: InputEnd,
    inbox: Inbox,
    /// Messages on their way: they can't be withdrawn any more.
    output: Vec<u8>,
    written: usize,
    room: Room,
    closed: Option<CloseReason>,
    /// Why the transport can't be waited for any more.
    failure: Option<io::Error>,
    clock: Clock,
    trace: Tracer,
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

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;
/// Messages are taken out of the outbox only up to this many bytes ahead of writing.
const OUTPUT_BYTES: usize = 64 << 10;
/// Reads in one checkpoint: a peer that writes faster than we read must not keep us from work.
const READS_A_CHECKPOINT: usize = 64;

impl<T: Transport> Host<T> {
    /// A host that has read nothing yet.
    pub fn new(transport: T, options: impl Into<Options>) -> Self {
        let Options { mut config, inbox_bytes, trace, entropy, operations, .. } = options.into();
        let clock = Clock::start();
        if config.unix_time_at_zero.is_zero() {
            config.unix_time_at_zero = outside::unix_time_at_zero(clock.now());
        }
        Self {
            stream: StreamConnection::new(config),
            transport,
            input: InputBuffer::new(),
            input_end: InputEnd::Ahead,
            inbox: Inbox::new(inbox_bytes),
            output: Vec::new(),
            written: 0,
            room: Room::There,
            closed: None,
            failure: None,
            clock,
            trace: Tracer(trace),
            entropy,
            operations,
        }
    }

    /// Serves until the connection closes and everything is answered and written.
    ///
    /// # Errors
    ///
    /// Those of [`Transport::wait`]. A peer that hangs up is no error.
    pub fn run(&mut self, handler: &(impl Handler + ?Sized)) -> io::Result<CloseReason> {
        loop {
            match self.inbox.pop() {
                Some(Arrived::Request(handle, request)) => self.serve(handler, handle, &request),
                Some(Arrived::Notification(notification)) => {
                    if handler::notify(handler, &notification).is_break() {
                        self.shutdown(Shutdown::CancelAll);
                    }
                }
                Some(Arrived::Violation(violation, id)) => {
                    handler::report(handler, violation, id.as_ref());
                }
                Some(Arrived::Missed(_)) => {}
                None => match (self.failure.take(), self.closed) {
                    (Some(failure), _) => return Err(failure),
                    (None, Some(reason)) if self.is_flushed() => return Ok(reason),
                    _ => {
                        self.turn(Reading::MayBlock, None);
                    }
                },
            }
        }
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
        let outcome = Arc::new(OnceLock::new());
        self.command(|core, now| {
            core.call(method, params, outcome.clone(), options, now).map_err(|error| error.reason)
        })?;
        while outcome.get().is_none() {
            self.turn(Reading::MayBlock, None);
        }
        let outcome = Arc::into_inner(outcome).and_then(OnceLock::into_inner);
        outcome.expect("the connection has given its half back with the outcome")
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

    fn serve(
        &mut self,
        handler: &(impl Handler + ?Sized),
        handle: RequestHandle,
        request: &Request,
    ) {
        let cancelled = self.cancelled(handle);
        let rule = self.stream.connection().config().dialect.before_start;
        let mut responder = HostResponder { host: self, handle };
        let answer = handler::answer(handler, request, &mut responder, cancelled, rule);
        self.respond(handle, &answer);
    }

    fn respond(&mut self, request: RequestHandle, answer: &Answer) {
        let reply = match answer {
            Ok(result) => Reply::Result(result),
            Err(failure) => failure.as_reply(),
        };
        if self.respond_once(request, reply) == Err(Refusal::TooLarge) {
            // Limits that this does not fit under either let nothing be answered.
            let _ = self.respond_once(request, handler::too_large().as_reply());
        }
    }

    /// Answers, after making room if need be.
    fn respond_once(&mut self, request: RequestHandle, reply: Reply<'_>) -> Result<(), Refusal> {
        loop {
            let operations = self.operations.clone();
            match self
                .command(|core, _| operations::respond(core, operations.as_ref(), request, reply))
            {
                Err(Refusal::OutboxFull) => self.make_room(),
                Err(refusal) => return Err(refusal),
                Ok((_, clean_up)) => {
                    clean_up.into_iter().for_each(CleanUp::run);
                    return Ok(());
                }
            }
        }
    }

    /// Writes until the core says that there is room for what it refused, which it does even after
    /// the end.
    fn make_room(&mut self) {
        self.room = Room::Promised;
        while self.room == Room::Promised {
            self.turn(Reading::WhatIsThere, None);
        }
    }

    fn cancelled(&mut self, request: RequestHandle) -> Option<Cause> {
        *self.stream.connection_mut().request_data_mut(request)?
    }

    fn command<R>(
        &mut self,
        command: impl FnOnce(&mut Connection<Arc<OnceLock<Outcome>>, Option<Cause>>, Timestamp) -> R,
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

    fn dispatch(&mut self, event: Event<'_, Arc<OnceLock<Outcome>>>) {
        if let Event::Request { request, method, params, .. } = &event {
            if !self.inbox.has_room_for(method, params.as_deref()) && self.refuse(*request) {
                return;
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
                // A call settles once.
                let _ = data.set(CallError::check(outcome));
            }
            Event::Ready => self.room = Room::There,
            Event::Closed { reason } => self.closed = Some(reason),
            _ => {}
        }
    }

    /// Answers that too much waits. A peer that floods us and does not read even that is left to
    /// the limits of the core.
    fn refuse(&mut self, request: RequestHandle) -> bool {
        let core = self.stream.connection_mut();
        let code = core.config().dialect.overload_code;
        let message = "The request was refused: too much waits to be served";
        core.respond(request, Reply::Error { code, message, data: None }).is_ok()
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
        self.handle_timeout();
        self.fill_output();
        let readable = match reading {
            Reading::MayBlock => true,
            Reading::WhatIsThere => self.transport.readiness() == Readiness::Told,
        };
        let interest = Ready {
            read: readable && self.input_end == InputEnd::Ahead && self.closed.is_none(),
            write: self.written < self.output.len(),
        };
        let due = self.stream.connection().poll_timeout().map(|(due, _)| self.clock.until(due));
        let timeout = due.into_iter().chain(timeout).min();
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
        }
        if ready.write {
            self.write();
        }
        self.handle_timeout();
        if ready == Ready::default() { Progress::Idle } else { Progress::Made }
    }

    fn handle_timeout(&mut self) {
        let due = self.stream.connection().poll_timeout();
        if due.is_some_and(|(due, _)| due <= self.clock.now()) {
            self.command(Connection::handle_timeout);
        }
    }

    fn read(&mut self) {
        match self.input.fill(READ_BYTES, |room| self.transport.read(room)) {
            Err(error) if transport::is_transient(&error) => {}
            Ok(0) | Err(_) => self.finish(),
            Ok(_) => self.receive(),
        }
    }

    fn receive(&mut self) {
        let mut input = mem::take(&mut self.input);
        loop {
            let taken = self.stream.receive(input.unread(), self.clock.now());
            self.trace.received(taken.message);
            if let Some(event) = taken.event {
                self.dispatch(event);
            }
            self.settle();
            if taken.used == 0 {
                break;
            }
            input.consume(taken.used);
        }
        self.input = input;
    }

    fn finish(&mut self) {
        self.input_end = InputEnd::Reached;
        let input = mem::take(&mut self.input);
        self.trace.received(self.stream.finish(input.unread(), self.clock.now()));
        self.settle();
    }

    fn fill_output(&mut self) {
        while self.output.len() < OUTPUT_BYTES {
            let Some(transmit) = self.stream.poll_transmit(&mut self.output) else { break };
            self.trace.sent(transmit.message(&self.output));
        }
        self.settle();
    }

    fn write(&mut self) {
        match self.transport.write(&self.output[self.written..]) {
            Ok(written) if written > 0 => self.written += written,
            Err(error) if transport::is_transient(&error) => {}
            // The peer reads no more. What it has already written is still to be read, so the
            // connection lives until the input ends.
            Ok(_) | Err(_) => self.written = self.output.len(),
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.output.shrink_to(OUTPUT_BYTES);
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

/// Shows every message to whoever asked for that.
struct Tracer(Option<Trace>);

impl Tracer {
    fn received(&mut self, message: Option<&[u8]>) {
        if let (Some(trace), Some(message)) = (&mut self.0, message) {
            trace(Way::Received, message);
        }
    }

    fn sent(&mut self, message: &[u8]) {
        if let Some(trace) = &mut self.0 {
            trace(Way::Sent, message);
        }
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

/// What a handler on a [`Host`] can do.
struct HostResponder<'h, T> {
    host: &'h mut Host<T>,
    handle: RequestHandle,
}

impl<T: Transport> HostResponder<'_, T> {
    fn result(&mut self) -> Result<(), Cancelled> {
        self.host.cancelled(self.handle).map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }
}

impl<T: Transport> Responder for HostResponder<'_, T> {
    fn checkpoint(&mut self) -> Result<(), Cancelled> {
        self.host.checkpoint();
        self.result()
    }

    fn sleep(&mut self, duration: Duration) -> Result<(), Cancelled> {
        let end = self.host.clock.now() + duration;
        loop {
            self.checkpoint()?;
            let left = self.host.clock.until(end);
            if left.is_zero() {
                return Ok(());
            }
            self.host.turn(Reading::WhatIsThere, Some(left));
        }
    }

    fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.host.notify(method, params)
    }

    fn take_notification(&mut self, method: &str) -> Option<Notification> {
        self.host.inbox.take_notification(method)
    }

    fn call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        self.host.call(method, params, options.parent(self.handle))
    }
}
