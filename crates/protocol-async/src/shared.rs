//! The endpoint that the handles of one connection share, behind a lock.
//!
//! The lock is held for one command or one read. Effects are carried out after it is released, so no code
//! and no destructor of the host's runs under it (F85).

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::task::Waker;

use protocol_core::{RequestHandle, Response, Shutdown, Timestamp};
use protocol_endpoint::{EndReason, Grant, OperationEnd, Shown};

use crate::account::{self, Membership, Woken};
use crate::cancellation::Cancellation;
use crate::catch_panic::catch_panic;
use crate::closed::Closed;
use crate::operations::{self, SharedOperations};
use crate::options::{Callbacks, Options, SHARED};
use crate::outside::Entropy;
use crate::spans::{Seen, Spans};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::waiter::{Effect, Effects, Endpoint, Waiter};

/// The endpoint and what this adapter keeps beside it.
pub(crate) struct Inner {
    pub(crate) endpoint: Endpoint,
    pub(crate) spans: Spans,
    /// Marks for the next requests. Most are never set, so most can be used again.
    spare: Vec<Cancellation>,
    /// Messages and decisions that the callbacks have still to see, in the order of the connection.
    shown: VecDeque<Shown>,
    /// Effects that the registry of operations has still to learn of, in the order of the connection.
    operations: VecDeque<Effect>,
    /// The error that the transport failed with.
    pub(crate) error: Option<Arc<io::Error>>,
}

/// The endpoint behind its lock, the clock, and the host's callbacks.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// `None` if there are none. They have a lock of their own, since they are the host's.
    callbacks: Option<Mutex<Callbacks>>,
    operations: Option<SharedOperations>,
    /// The part in the account of memory.
    pub(crate) member: Option<Membership>,
    /// Held by whoever reports to the registry of operations.
    order: Mutex<()>,
    entropy: Entropy,
}

thread_local! {
    /// Whether this thread runs a callback of a connection.
    static IS_SHOWING: Cell<bool> = const { Cell::new(false) };
}

/// The formula counts it so.
const _: () = assert!(size_of::<Shared>() <= SHARED);

impl Shared {
    pub(crate) fn new(
        options: Options,
        callbacks: Callbacks,
        clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        let Options { endpoint, entropy, operations, account, .. } = options;
        let inner = Inner {
            endpoint: Endpoint::new(endpoint),
            spans: Spans::default(),
            spare: Vec::new(),
            shown: VecDeque::new(),
            operations: VecDeque::new(),
            error: None,
        };
        let callbacks = (!callbacks.is_empty()).then(|| Mutex::new(callbacks));
        Self {
            inner: Mutex::new(inner),
            clock,
            callbacks,
            operations,
            member: account.map(|account| account.open()),
            order: Mutex::new(()),
            entropy,
        }
    }

    /// Reads the clock.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Locks the endpoint, to look at it. Commands go through [`with`](Self::with).
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Runs a command under the lock, and its effects after that.
    #[inline]
    pub(crate) fn with<R>(&self, command: impl FnOnce(&mut Inner, &mut Effects) -> R) -> R {
        // Mostly it holds nothing in the end, which the compiler can't know: dropping it is not free.
        let mut effects = ManuallyDrop::new(Effects::new());
        let mut inner = self.lock();
        // The ends of requests are shown if anybody listens to spans.
        let is_watched = inner.spans.is_watched();
        inner.endpoint.show_responses(is_watched);
        let done = command(&mut inner, &mut effects);
        if let Some(member) = &self.member {
            self.draw(member, inner, &mut effects);
        } else if effects.holds_nothing() {
            return done;
        } else {
            self.carry_out(inner, &mut effects);
        }
        if !effects.holds_nothing() {
            drop(ManuallyDrop::into_inner(effects));
        }
        done
    }

    /// Charges the account of memory, and carries the effects out.
    #[cold]
    fn draw(&self, member: &Membership, mut inner: MutexGuard<'_, Inner>, effects: &mut Effects) {
        let woken = member.draw(&mut inner.endpoint, effects);
        self.carry_out(inner, effects);
        account::wake(woken);
    }

    /// Releases the lock, and carries the effects out.
    fn carry_out(&self, mut inner: MutexGuard<'_, Inner>, effects: &mut Effects) {
        let has_callbacks = self.callbacks.is_some();
        let seen = effects.has_shown().then(|| inner.keep_shown(effects, has_callbacks));
        if self.operations.is_some() {
            inner.operations.extend(effects.take_operations());
        }
        drop(inner);
        // A message is shown before its consequences.
        if let Some(callbacks) = &self.callbacks {
            self.show(callbacks);
        }
        if let Some(operations) = &self.operations {
            self.tell_operations(operations);
        }
        self.run(effects);
        if let Some(seen) = seen {
            seen.into_iter().for_each(|seen| catch_panic(|| seen.tell()));
        }
    }

    /// As [`with`](Self::with), with the time.
    #[inline]
    pub(crate) fn at<R>(
        &self,
        command: impl FnOnce(&mut Inner, Timestamp, &mut Effects) -> R,
    ) -> R {
        let now = self.now();
        self.with(|inner, effects| command(inner, now, effects))
    }

    /// As [`with`](Self::with), for a command that may leave `waiter`, a waiter for this task.
    ///
    /// A waker is the executor's, so it is cloned and dropped without the lock. It is cloned for a command
    /// that had none and returns `None`, which then runs once more.
    #[inline]
    pub(crate) fn with_waker<R>(
        &self,
        waker: &Waker,
        mut waiter: Option<Waiter>,
        mut command: impl FnMut(&mut Inner, &mut Option<Waiter>, &mut Effects) -> Option<R>,
    ) -> R {
        loop {
            let done = self.with(|inner, effects| command(inner, &mut waiter, effects));
            match done {
                Some(done) => return done,
                None => waiter = Some(Waiter::Task(waker.clone())),
            }
        }
    }

    /// Runs effects, with no lock held. A panic of the host's code stops none of the others.
    fn run(&self, effects: &mut Effects) {
        for effect in effects.drain() {
            match effect {
                Effect::Wake(Waiter::Task(waker)) => catch_panic(|| waker.wake()),
                effect => catch_panic(|| self.run_rare(effect)),
            }
        }
    }

    #[cold]
    fn run_rare(&self, effect: Effect) {
        match effect {
            Effect::HandOver(Waiter::HandOver(then), outcome) => then.give(outcome),
            Effect::Cancel(mark, cause) => {
                mark.set(cause);
                mark.release();
            }
            Effect::DropMark(mark) => mark.release(),
            Effect::BeginOperation(request, method) => self.begin_operation(request, &method),
            // A waiter may own anything of the host's.
            other => drop(other),
        }
    }

    fn begin_operation(&self, request: RequestHandle, method: &str) {
        let overload = self.lock().endpoint.dialect().overload_code;
        let operations = self.operations.as_ref();
        match operations::register(operations, method, self.entropy, overload) {
            Ok(entropy) => {
                let begun = self.with(|inner, effects| {
                    inner.endpoint.begin_operation(request, entropy, effects)
                });
                if begun.is_err() {
                    // It was not cancelled, so there is nothing to clean up.
                    let _ = operations.and_then(|it| it.end(entropy, OperationEnd::WorkerGone));
                }
            }
            Err(error) => self.respond(request, error.as_response()),
        }
    }

    /// Reports what became of operations to their registry, in the order of the connection. Clean-ups are
    /// the host's, so they run once no lock is held.
    fn tell_operations(&self, operations: &SharedOperations) {
        if self.lock().operations.is_empty() {
            return;
        }
        let order = lock(&self.order);
        let mut clean_ups = Vec::new();
        loop {
            let Some(effect) = self.lock().operations.pop_front() else { break };
            match effect {
                Effect::CancelOperation(token, cause) => operations.cancel(token, cause.into()),
                Effect::EndOperation(token, end) => clean_ups.extend(operations.end(token, end)),
                _ => {}
            }
        }
        drop(order);
        clean_ups.into_iter().for_each(|clean_up| clean_up());
    }

    /// Returns whether the account of memory lets the connection read.
    #[inline]
    pub(crate) fn may_read(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.grant() < Grant::NoReading)
    }

    /// As [`may_read`](Self::may_read). If it may not, the waker is woken when that changes.
    pub(crate) fn poll_may_read(&self, waker: &Waker) -> bool {
        let Some(member) = &self.member else { return true };
        if self.may_read() {
            return true;
        }
        member.watch(Woken::Reader, waker);
        // The endpoint gets the grant here, in case it has ended the connection.
        self.with(|_, _| ());
        self.may_read()
    }

    /// Notes the bytes of an unfinished message that a transport holds.
    pub(crate) fn note_unfinished(&self, bytes: usize) {
        if self.member.is_some() {
            self.with(|inner, _| inner.endpoint.note_unfinished(bytes));
        }
    }

    /// Notes that a transport keeps `after` bytes beside the endpoint, in place of `before`.
    pub(crate) fn note_kept(&self, before: usize, after: usize) {
        if self.member.is_some() {
            self.with(|inner, _| inner.endpoint.note_kept(before, after));
        }
    }

    /// Responds to a request.
    pub(crate) fn respond(&self, request: RequestHandle, response: Response<'_>) {
        self.finish(|endpoint, effects| endpoint.respond(request, response, effects));
    }

    /// Runs a command that may return the mark of a request, which is over then. The mark is used again, or
    /// released once no lock is held.
    #[inline]
    pub(crate) fn finish(
        &self,
        command: impl FnOnce(&mut Endpoint, &mut Effects) -> Option<Cancellation>,
    ) {
        let mark = self.with(|inner, effects| {
            let mark = command(&mut inner.endpoint, effects);
            inner.recycle(mark)
        });
        if let Some(mark) = mark {
            catch_panic(|| mark.release());
        }
    }

    /// Shuts the connection down.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        self.at(|inner, now, effects| inner.endpoint.shutdown(how, now, effects));
    }

    /// Shows the callbacks what they have not seen, and waits until they have seen it. Those who move
    /// bytes call it, so that a slow callback slows the connection down and nothing piles up.
    ///
    /// A callback may be what moves them, by a handle of this connection or of another. It waits for nobody.
    #[inline]
    pub(crate) fn show_all(&self) {
        if let Some(callbacks) = &self.callbacks {
            self.show_rest(callbacks);
        }
    }

    #[cold]
    fn show_rest(&self, callbacks: &Mutex<Callbacks>) {
        if !IS_SHOWING.get() && !self.lock().shown.is_empty() {
            self.show_to(&mut lock(callbacks));
        }
        self.show(callbacks);
    }

    fn show_to(&self, callbacks: &mut Callbacks) {
        let before = IS_SHOWING.replace(true);
        loop {
            let Some(shown) = self.lock().shown.pop_front() else { break };
            callbacks.show(shown);
        }
        IS_SHOWING.set(before);
    }

    /// Shows the callbacks what they have not seen, in the order of the connection.
    ///
    /// One thread shows at a time. Another one leaves its part to it, and so does a callback that uses a
    /// handle.
    #[cold]
    fn show(&self, callbacks: &Mutex<Callbacks>) {
        // A thread that comes while the last part is shown finds the callbacks taken, so this looks again.
        while !self.lock().shown.is_empty() {
            let Ok(mut callbacks) = callbacks.try_lock() else { return };
            self.show_to(&mut callbacks);
        }
    }
}

impl Callbacks {
    /// Shows a callback what it is to see. A panic of it is contained.
    pub fn show(&mut self, shown: Shown) {
        match (shown, self) {
            (Shown::Message(way, message), Self { trace: Some(trace), .. }) => {
                catch_panic(|| trace(way, &message));
            }
            (Shown::Noise(violation, bytes), Self { noise: Some(noise), .. }) => {
                catch_panic(|| noise(violation, &bytes));
            }
            (Shown::Verdict(verdict, _), Self { observer: Some(observer), .. }) => {
                catch_panic(|| observer(&verdict));
            }
            _ => {}
        }
    }
}

impl Inner {
    /// Queues what the callbacks are to see, if there are any. Returns what the listeners of spans are to see.
    #[cold]
    fn keep_shown(&mut self, effects: &mut Effects, has_callbacks: bool) -> Vec<Seen> {
        let mut seen = Vec::new();
        for shown in effects.take_shown() {
            seen.extend(self.spans.see(&shown));
            let is_for_spans =
                matches!(shown, Shown::Responded { .. } | Shown::Room | Shown::NoRoom);
            if has_callbacks && !is_for_spans {
                self.shown.push_back(shown);
            }
        }
        seen
    }

    /// Returns the mark of a request that is taken, which is set if the request is cancelled already.
    pub(crate) fn mark(&mut self, request: RequestHandle) -> Cancellation {
        let mark = self.spare.pop().unwrap_or_default();
        match self.endpoint.cause(request) {
            // Nobody listens to it yet, so the lock that is held does no harm.
            Some(cause) => mark.set(cause),
            None => drop(self.endpoint.watch(request, mark.clone())),
        }
        mark
    }

    /// Keeps the mark of a request that is over for another one. Returns one that somebody has, or that
    /// was used: it is to be dropped when the lock is released.
    #[must_use]
    fn recycle(&mut self, mark: Option<Cancellation>) -> Option<Cancellation> {
        /// More marks than these are dropped.
        const KEPT: usize = 1024;

        let mut mark = mark?;
        if self.spare.len() < KEPT && mark.is_unused() {
            self.spare.push(mark);
            return None;
        }
        Some(mark)
    }

    /// Returns how the connection ended, once it has.
    pub(crate) fn how_closed(&self) -> Option<Closed> {
        let reason = self.endpoint.closed()?;
        let error = match self.endpoint.end_reason() {
            None | Some(EndReason::Transport(_)) => self.error.clone(),
            Some(end) => Some(Arc::new(end.clone().into())),
        };
        Some(Closed { reason, error })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
