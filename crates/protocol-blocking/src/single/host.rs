//! The host: an endpoint, and a transport that is waited for.

use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use protocol_async::hub::Callbacks;
use protocol_async::operations::{self, SharedOperations};
use protocol_async::outside::Entropy;
use protocol_async::{CallError, Options};
use protocol_core::{CallOptions, CancelOutcome, Cause, InputBuffer, Refusal};
use protocol_core::{RequestHandle, Shutdown, Timestamp};
use protocol_endpoint::{Call, Effect, Messages, OperationEnd, Output};
use serde_json::value::RawValue;

use super::call::{Dropped, OwnCall};
use super::transport::{Readiness, Ready, Transport, is_transient};
use crate::clock::Clock;

/// An endpoint that nobody waits for. A handler asks for the cause of its request, so there are no
/// marks.
pub(super) type Endpoint = protocol_endpoint::Endpoint<(), ()>;
type Effects = protocol_endpoint::Effects<(), ()>;

/// A connection on one thread: everything happens inside the methods of this type.
///
/// Dropping it refuses the requests that wait, and runs the clean-ups of their operations.
pub struct Host<T> {
    pub(super) endpoint: Endpoint,
    pub(super) clock: Clock,
    transport: T,
    pipe_bytes: usize,
    input: InputBuffer,
    /// Messages that are being written, and the number of bytes that were.
    output: Messages,
    written: usize,
    /// The error that ended the connection.
    error: Option<io::Error>,
    /// The error of waiting for the transport.
    pub(super) failure: Option<io::Error>,
    dropped: Dropped,
    callbacks: Callbacks,
    entropy: Entropy,
    operations: Option<SharedOperations>,
}

impl<T: Transport> Host<T> {
    /// Creates a host that has read nothing yet. A connection without a number gets one of its own.
    ///
    /// It does not draw on [`Options::account`], because nothing could wake this thread when it may read
    /// again.
    pub fn new(transport: T, options: impl Into<Options>) -> Self {
        let mut options = options.into();
        let clock = Clock::start();
        let callbacks = options.prepare(clock.now());
        Self {
            transport,
            clock,
            pipe_bytes: options.pipe_bytes.max(1),
            input: InputBuffer::new(),
            output: Messages::default(),
            written: 0,
            error: None,
            failure: None,
            dropped: Dropped::default(),
            endpoint: Endpoint::new(options.endpoint),
            callbacks,
            entropy: options.entropy,
            operations: options.operations,
        }
    }

    /// Returns the error that ended the connection. The end of input is none.
    #[must_use]
    pub const fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Calls the peer and waits. Requests that arrive meanwhile stay queued.
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
            self.settle();
            if let Some(outcome) = self.take_outcome(&mut call) {
                return outcome;
            }
            self.turn(Reading::MayBlock, None);
        }
    }

    /// Calls the peer without waiting. [`take_outcome`](Self::take_outcome) has the outcome after some
    /// [`tick`](Self::tick).
    ///
    /// # Errors
    ///
    /// As [`Connection::call`](protocol_core::Connection::call).
    pub fn start_call(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<OwnCall, Refusal> {
        self.at(|endpoint, now, effects| endpoint.call(method, params, options, now, effects))
            .map(|call| OwnCall { call, dropped: Some(self.dropped.clone()) })
    }

    /// Takes the outcome of a call once it is there. After that it returns `None`, as it does for a call
    /// of another host.
    pub fn take_outcome(&mut self, call: &mut OwnCall) -> Option<Result<Box<RawValue>, CallError>> {
        call.dropped.as_ref().filter(|dropped| Arc::ptr_eq(dropped, &self.dropped))?;
        let outcome = self.endpoint.poll_outcome(call.call, &mut None)?;
        call.dropped = None;
        Some(outcome.map_err(|error| *error))
    }

    /// Cancels a call. Its outcome comes all the same.
    pub fn cancel(&mut self, call: &OwnCall) -> CancelOutcome {
        let id = call.id();
        self.at(|endpoint, now, effects| endpoint.cancel(id, Cause::Caller, None, now, effects))
    }

    /// Stops the work that a call began, by its name: `session/cancel` for a prompt of ACP. Any other call is
    /// cancelled. Its outcome comes all the same.
    pub fn stop(&mut self, call: &OwnCall) -> CancelOutcome {
        let id = call.id();
        self.at(|endpoint, now, effects| endpoint.stop(id, Cause::Caller, now, effects))
    }

    /// Queues a notification to the peer.
    ///
    /// # Errors
    ///
    /// As [`Connection::notify`](protocol_core::Connection::notify).
    pub fn notify(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
        self.with(|endpoint, effects| endpoint.try_notify(method, params, effects))
    }

    /// Shuts the connection down. [`run`](Self::run) returns when that is done.
    pub fn shutdown(&mut self, how: Shutdown) {
        self.at(|endpoint, now, effects| endpoint.shutdown(how, now, effects));
    }

    /// Waits until the next [`tick`](Self::tick) has something to do, at most `timeout`. Returns whether
    /// it has.
    ///
    /// A tick has something to do when:
    ///
    /// - an arrival is queued, unless a response waits for room;
    /// - there is input, or room for output that waits;
    /// - a timer is due;
    /// - an [`OwnCall`] was dropped;
    /// - the connection is over, or its transport failed.
    ///
    /// `wait` itself reads and writes nothing, and runs no handler. A signal may end it early, with
    /// `false`. A call that another thread drops during the wait is cancelled after it. Over a transport
    /// of [unknown](Readiness::Unknown) readiness it sleeps until the next timer, or for `timeout`.
    ///
    /// ```
    /// use protocol_blocking::single::{FdTransport, Host};
    /// use protocol_blocking::{Answer, Request, Responder};
    /// use protocol_core::{CloseReason, Config, Dialect};
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// fn serve(_: &Request, _: &mut dyn Responder) -> Answer {
    ///     Ok(serde_json::value::to_raw_value("done")?)
    /// }
    ///
    /// let (mut peer, ours) = UnixStream::pair()?;
    /// peer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"work\"}\n")?;
    /// peer.shutdown(std::net::Shutdown::Write)?;
    ///
    /// let mut host = Host::new(FdTransport::new(&ours, &ours), Config::server(Dialect::ACP_V1));
    /// let reason = loop {
    ///     if let Some(reason) = host.tick(&serve)? {
    ///         break reason;
    ///     }
    ///     // The host's own work: drawing a frame, feeding a watchdog. None is done while a handler runs.
    ///     host.wait(Duration::from_millis(16));
    /// };
    /// assert_eq!(reason, CloseReason::PeerGone);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait(&mut self, timeout: Duration) -> bool {
        self.fill_output();
        let now = self.clock.now();
        if self.has_work(now) {
            return true;
        }
        // No timer is due. This only lets the patience with a slow peer begin.
        self.with(|endpoint, effects| endpoint.handle_timeout(now, effects));
        let ready = self.poll(Reading::WhatIsThere, Some(timeout));
        ready != Ready::default() || self.has_work(self.clock.now())
    }

    fn has_work(&self, now: Timestamp) -> bool {
        let is_due = self.endpoint.due().is_some_and(|due| due <= now);
        let is_over = self.failure.is_some() || self.endpoint.is_over();
        self.can_serve() || is_due || is_over || !self.dropped().is_empty()
    }

    /// Returns whether the turn of the next arrival has come. While a response waits for room, it has not.
    /// Once the connection is closed, it has: the patience with the peer begins when all are served.
    pub(super) fn can_serve(&self) -> bool {
        let is_held_up = self.endpoint.owes_response() && self.endpoint.closed().is_none();
        self.endpoint.arrivals() > 0 && !is_held_up
    }

    fn dropped(&self) -> MutexGuard<'_, Vec<Call>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`with`](Self::with), with the time.
    fn at<R>(&mut self, command: impl FnOnce(&mut Endpoint, Timestamp, &mut Effects) -> R) -> R {
        let now = self.clock.now();
        self.with(|endpoint, effects| command(endpoint, now, effects))
    }

    // The transport

    /// Takes what has arrived and writes what there is room for, without blocking.
    pub(super) fn checkpoint(&mut self) {
        for _ in 0..READS_A_CHECKPOINT {
            self.settle();
            if !self.turn(Reading::WhatIsThere, Some(Duration::ZERO)) {
                break;
            }
        }
        self.settle();
    }

    /// Does everything that needs no transport: cancels dropped calls, fires timers, takes messages out.
    ///
    /// A caller that waits for something looks for it between this and [`turn`](Self::turn).
    pub(super) fn settle(&mut self) {
        if self.endpoint.due().is_some_and(|due| self.clock.until(due).is_zero()) {
            // It may be there already that a timer waits for.
            self.turn(Reading::WhatIsThere, Some(Duration::ZERO));
        }
        let dropped = mem::take(&mut *self.dropped());
        for call in dropped {
            self.at(|endpoint, now, effects| endpoint.drop_call(call, now, effects));
        }
        self.fire_timers();
        if self.fill_output() {
            // The patience with a slow peer begins.
            self.fire_timers();
        }
    }

    fn fire_timers(&mut self) {
        if self.endpoint.needs_time() {
            self.at(Endpoint::handle_timeout);
        }
    }

    /// Takes messages out once those before are written, or given up. Returns whether there were any.
    fn fill_output(&mut self) -> bool {
        let is_given_up = self.endpoint.is_mute() || self.endpoint.is_over();
        if self.written < self.output.len() && !is_given_up {
            return false;
        }
        loop {
            let mut output = mem::take(&mut self.output);
            output.clear();
            self.written = 0;
            let taken = self.with(|endpoint, effects| endpoint.poll_output(&mut output, effects));
            self.output = output;
            if taken != Output::Write || !self.endpoint.is_mute() {
                return taken == Output::Write;
            }
        }
    }

    /// Waits once, reads once and writes once. Returns whether there was anything to read or write.
    pub(super) fn turn(&mut self, reading: Reading, timeout: Option<Duration>) -> bool {
        let is_last = self.hears_last_words();
        let ready = self.poll(reading, timeout);
        if ready.read {
            self.read();
        } else if is_last {
            self.finish(None);
        }
        if ready.write {
            self.write();
        }
        ready != Ready::default()
    }

    /// Waits until something can be read or written, or a timer is due.
    fn poll(&mut self, reading: Reading, timeout: Option<Duration>) -> Ready {
        let is_last = self.hears_last_words();
        let is_readable = self.transport.readiness() == Readiness::Told
            || reading == Reading::MayBlock && !is_last;
        let interest = Ready {
            read: is_readable && !self.endpoint.core().is_closed(),
            write: self.written < self.output.len(),
        };
        let due = self.endpoint.due().map(|due| self.clock.until(due));
        let timeout = if is_last { Some(Duration::ZERO) } else { timeout };
        // If nothing is waited for, nothing ends the wait.
        let at_once = (interest == Ready::default()).then_some(Duration::ZERO);
        let timeout = due.into_iter().chain(timeout).min().or(at_once);
        self.transport.wait(interest, timeout).unwrap_or_else(|failure| {
            self.failure = Some(failure);
            self.shutdown(Shutdown::Abandon);
            Ready::default()
        })
    }

    /// Returns whether the peer reads no more, and is read only as long as there is something to read.
    fn hears_last_words(&self) -> bool {
        self.endpoint.is_mute() && !self.endpoint.core().is_closed()
    }

    fn read(&mut self) {
        match self.input.fill(self.pipe_bytes, |room| self.transport.read(room)) {
            Err(error) if is_transient(&error) => {}
            Err(error) => self.finish(Some(error)),
            Ok(0) => self.finish(None),
            Ok(_) => {
                let mut input = mem::take(&mut self.input);
                let used = self
                    .at(|endpoint, now, effects| endpoint.receive(input.unread(), now, effects));
                input.consume(used);
                self.input = input;
            }
        }
    }

    /// Takes the end of the input.
    fn finish(&mut self, error: Option<io::Error>) {
        let input = mem::take(&mut self.input);
        let text = error.as_ref().map(ToString::to_string);
        // It says more than the error of a write to a peer that is gone.
        self.error = error.filter(|_| self.endpoint.closed().is_none()).or(self.error.take());
        self.at(|endpoint, now, effects| {
            endpoint.handle_eof(input.unread(), text.as_deref(), now, effects);
        });
    }

    fn write(&mut self) {
        match self.transport.write(&self.output.bytes()[self.written..]) {
            Ok(written) if written > 0 => {
                self.written += written;
                self.at(|endpoint, now, _| endpoint.note_progress(now));
            }
            Err(error) if is_transient(&error) => {}
            ended => {
                let error = ended.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                let text = error.to_string();
                self.error.get_or_insert(error);
                self.at(|endpoint, now, effects| endpoint.stop_writing(&text, now, effects));
            }
        }
    }
}

/// The reads of one checkpoint. A peer that writes faster than we read must not keep us from work.
const READS_A_CHECKPOINT: usize = 64;

/// The input that a turn may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Any input, however long it takes to come.
    MayBlock,
    /// Only what is certain to be there: a handler is at work.
    WhatIsThere,
}

/// The endpoint, whatever the transport.
impl<T> Host<T> {
    /// Runs a command of the endpoint, and its effects after that.
    pub(super) fn with<R>(&mut self, command: impl FnOnce(&mut Endpoint, &mut Effects) -> R) -> R {
        let mut effects = Effects::new();
        let done = command(&mut self.endpoint, &mut effects);
        for shown in effects.take_shown() {
            self.callbacks.show(shown);
        }
        effects.drain().for_each(|effect| self.carry_out(effect));
        let ended = || self.endpoint.end_reason().cloned().map(Into::into);
        self.error = self.error.take().or_else(ended);
        done
    }

    fn carry_out(&mut self, effect: Effect<(), ()>) {
        match effect {
            Effect::BeginOperation(request, method) => self.begin_operation(request, &method),
            Effect::CancelOperation(token, cause) => {
                if let Some(operations) = &self.operations {
                    operations.cancel(token, cause.into());
                }
            }
            Effect::EndOperation(token, end) => self.end_operation(token, end),
            // Nobody waits on this thread.
            _ => {}
        }
    }

    fn begin_operation(&mut self, request: RequestHandle, method: &str) {
        let overload = self.endpoint.dialect().overload_code;
        match operations::register(self.operations.as_ref(), method, self.entropy, overload) {
            Ok(token) => {
                let begun = self.with(|it, effects| it.begin_operation(request, token, effects));
                if begun.is_err() {
                    self.end_operation(token, OperationEnd::WorkerGone);
                }
            }
            Err(error) => {
                self.with(|endpoint, effects| {
                    endpoint.respond(request, error.as_response(), effects)
                });
            }
        }
    }

    fn end_operation(&self, token: [u8; 16], end: OperationEnd) {
        if let Some(clean_up) = self.operations.as_ref().and_then(|it| it.end(token, end)) {
            clean_up();
        }
    }
}

/// Refuses what has arrived, which ends its operations.
impl<T> Drop for Host<T> {
    fn drop(&mut self) {
        self.with(Endpoint::stop_serving);
    }
}

/// Omits messages on their way: they hold secrets, such as tokens of operations.
impl<T: fmt::Debug> fmt::Debug for Host<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("endpoint", &self.endpoint)
            .field("transport", &self.transport)
            .field("unwritten", &(self.output.len() - self.written))
            .finish_non_exhaustive()
    }
}
