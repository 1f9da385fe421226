//! The transport's side of a connection, for drivers.
//!
//! A [`Hub`] stands between a transport and the handles. [`Driver`](crate::Driver) drives one with a
//! single future. A host with other means, such as a thread for each direction, does the same:
//!
//! 1. It reads bytes into an [`InputBuffer`] and calls [`Hub::receive`], and at the end [`Hub::finish`].
//! 2. It calls [`Hub::poll_output`], and writes or waits for the waker.
//! 3. It calls [`Hub::poll_timers`], and waits for the waker or the time. A task that does both calls
//!    [`Hub::poll`].
//!
//! If the transport keeps messages apart by itself, [`Hub::receive_message`] takes the place of the
//! first.

use std::io;
use std::ops::ControlFlow;
use std::task::Waker;

use protocol_core::{Cause, InputBuffer, Shutdown, Timestamp, WireId};
pub use protocol_endpoint::{Buckets, Grant, Messages, Output};

use crate::account::{Membership, Woken};
pub use crate::charge::{Charge, Holder};
use crate::closed;
use crate::incoming::Incoming;
use crate::lease::{Lease, Taker};
pub use crate::options::Callbacks;
use crate::options::Options;
use crate::peer::Peer;
use crate::pipe::is_gone;
use crate::shared::{Inner, Shared};
use crate::sync::Arc;
pub use crate::timer::Alarm;
use crate::wait::is_same;
use crate::waiter::{Effects, Waiter};

/// The bytes of an input buffer that do not count: every connection may have them.
const KEPT: usize = 64 << 10;

/// The transport's side of a connection.
#[derive(Debug)]
pub struct Hub {
    shared: Arc<Shared>,
}

impl Hub {
    /// Makes a connection that has read nothing yet. `now` reads the clock of the core's times.
    ///
    /// A connection whose [`Config::connection`](protocol_core::Config::connection) is 0 gets a number of
    /// its own in this process.
    pub fn new(
        options: impl Into<Options>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> (Self, Peer, Incoming) {
        let mut options = options.into();
        let callbacks = options.prepare(now());
        let shared = Arc::new(Shared::new(options, callbacks, Box::new(now)));
        let lease = Arc::new(Lease(shared.clone()));
        let taker = Arc::new(Taker(shared.clone()));
        (Self { shared }, Peer::new(lease.clone()), Incoming::new(lease, taker))
    }

    /// Takes every whole message in the input, and marks what they cancel.
    ///
    /// All of that is marked when this returns (G3). It breaks if nothing more can come, as
    /// [`is_closed`](Self::is_closed) reports.
    pub fn receive(&self, input: &mut InputBuffer) -> ControlFlow<()> {
        let is_closed = self.input(|inner, now, effects| {
            let used = inner.endpoint.receive(input.unread(), now, effects);
            input.consume(used);
            if self.shared.member.is_some() {
                // Room that is kept counts as an unfinished message, which counts twice.
                let room = input.capacity().saturating_sub(KEPT) / 2;
                inner.endpoint.note_unfinished(input.unread().len().max(room));
            }
            inner.endpoint.core().is_closed()
        });
        if is_closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Takes the end of the input, with these bytes unread, and the error that ended it, if one did.
    pub fn finish(&self, input: &InputBuffer, error: Option<&io::Error>) {
        let text = error.map(ToString::to_string);
        let error = error.map(closed::copy);
        let replaced = self.input(|inner, now, effects| {
            let error = error.filter(|_| inner.endpoint.closed().is_none());
            inner.endpoint.handle_eof(input.unread(), text.as_deref(), now, effects);
            // It says more than the error of a write to a peer that is gone.
            error.and_then(|error| inner.error.replace(error))
        });
        drop(replaced);
    }

    /// Takes an input, and waits until the callbacks have seen what it did.
    fn input<R>(&self, take: impl FnOnce(&mut Inner, Timestamp, &mut Effects) -> R) -> R {
        let taken = self.shared.at(take);
        self.shared.show_all();
        taken
    }

    /// Closes the connection because nothing can be written any more, for this reason. The host drops
    /// everything that it is given to write from now on (F34).
    ///
    /// The peer's last words are still to be read. A host that knows their end calls
    /// [`finish`](Self::finish). Otherwise the input ends in a second.
    pub fn fail(&self, error: &io::Error) {
        let (text, copy) = (error.to_string(), closed::copy(error));
        let unused = self.shared.at(|inner, now, effects| {
            // After the end a peer may be gone. If one that is not loses output, that is an error.
            let is_lost = !is_gone(error) && !inner.endpoint.is_flushed();
            let is_news = inner.error.is_none() && (is_lost || inner.endpoint.closed().is_none());
            inner.endpoint.stop_writing(&text, now, effects);
            if is_news { inner.error.replace(copy) } else { Some(copy) }
        });
        drop(unused);
    }

    /// Fires the timers that are due, and returns the time of the next one. The waker is woken when that
    /// becomes earlier, or when the connection is over.
    ///
    /// It never waits for writing: a deadline frees its caller however stuck the peer is (G5).
    pub fn poll_timers(&self, waker: &Waker) -> Option<Timestamp> {
        self.watch_grant(waker);
        // The clock is read only when there is something to compare it with.
        if self.shared.lock().endpoint.needs_time() {
            self.shared.at(|inner, now, effects| inner.endpoint.handle_timeout(now, effects));
        }
        self.shared.with_waker(waker, None, |inner, waiter, _| {
            if !is_same(inner.endpoint.waiting_for_timer(), waker) {
                waiter.as_ref()?;
            }
            Some(inner.endpoint.wait_for_timer(waiter))
        })
    }

    /// Adds the messages that may be written to `out`, which the caller has cleared. The messages before
    /// were written, or never will be. There may be any number, for one write.
    ///
    /// The dialect frames them; [`Whole`](protocol_core::Framing::Whole) adds nothing to them.
    pub fn poll_output(&self, waker: &Waker, out: &mut Messages) -> Output {
        let mut waiter = Some(Waiter::Task(waker.clone()));
        let output =
            self.shared.with(|inner, effects| poll_output(inner, &mut waiter, out, effects));
        self.shared.show_all();
        output
    }

    /// Notes that the peer took a part of what is being written, so the patience with it begins anew. A
    /// host calls it while the rest is still to be written.
    pub fn note_progress(&self) {
        self.shared.at(|inner, now, _| inner.endpoint.note_progress(now));
    }

    /// Does [`poll_timers`](Self::poll_timers) and then [`poll_output`](Self::poll_output), for a task
    /// that needs both.
    pub fn poll(&self, waker: &Waker, out: &mut Messages) -> (Option<Timestamp>, Output) {
        self.watch_grant(waker);
        // Wakers are the executor's, and so is the clock: neither is used under the lock.
        let (mut waiter, mut now, mut before) = (Some(Waiter::Task(waker.clone())), None, None);
        let polled = loop {
            let polled = self.shared.with(|inner, effects| {
                let due = match now {
                    Some(now) => inner.endpoint.handle_timeout(now, effects),
                    None if inner.endpoint.needs_time() => return None,
                    None => None,
                };
                // It may be that of a task that does not drive any more.
                before = inner.endpoint.arm_timer(due);
                Some((due, poll_output(inner, &mut waiter, out, effects)))
            });
            match polled {
                Some(polled) => break polled,
                None => now = Some(self.shared.now()),
            }
        };
        drop(before);
        self.shared.show_all();
        polled
    }

    /// Returns whether [`poll`](Self::poll) would change nothing, and this waker waits until it would.
    pub(crate) fn awaits(&self, waker: &Waker) -> bool {
        self.shared.member.is_none() && is_same(self.shared.lock().endpoint.idle_waiter(), waker)
    }

    /// Takes one whole message, without framing.
    ///
    /// A cancel is carried out before this returns (G3).
    pub fn receive_message(&self, message: &[u8]) {
        self.input(|inner, now, effects| inner.endpoint.receive_message(message, now, effects));
    }

    /// Cancels a request of the peer's by its id, if it is in flight.
    ///
    /// It is for a transport that knows of a cancel by other means than a message, such as the loss of a stream. The
    /// request is marked before this returns.
    pub fn cancel_request(&self, id: &WireId, cause: Cause) {
        self.input(|inner, now, effects| inner.endpoint.cancel_by_id(id, cause, now, effects));
    }

    /// Settles the call with this number as lost, and says how in words. The connection goes on.
    ///
    /// It is for a transport that knows that a response can't come any more, such as one whose stream is lost.
    pub fn lose_call(&self, number: u32, how: &str) {
        self.input(|inner, now, effects| inner.endpoint.lose_call(number, how, now, effects));
    }

    /// Shuts the connection down.
    pub fn shutdown(&self, how: Shutdown) {
        self.input(|inner, now, effects| inner.endpoint.shutdown(how, now, effects));
    }

    /// Returns whether the [`Account`](crate::Account) of the connection lets it read.
    #[inline]
    #[must_use]
    pub fn may_read(&self) -> bool {
        self.shared.may_read()
    }

    /// Returns what the [`Account`](crate::Account) of the connection permits it.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.shared.member.as_ref().map_or(Grant::All, Membership::grant)
    }

    /// Returns a charge of the connection, for bytes that its transport keeps beside the endpoint.
    #[must_use]
    pub fn charge(&self) -> Charge {
        Charge::of(self.shared.clone())
    }

    /// As [`may_read`](Self::may_read). If it may not, the waker is woken when that changes.
    #[must_use]
    pub fn poll_may_read(&self, waker: &Waker) -> bool {
        self.shared.poll_may_read(waker)
    }

    fn watch_grant(&self, waker: &Waker) {
        if let Some(member) = &self.shared.member {
            member.watch(Woken::Driver, waker);
        }
    }

    /// Returns whether nothing will ever be read, written or timed again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.lock().endpoint.is_over()
    }

    /// Returns whether what was not written is given up.
    pub fn is_abandoned(&self) -> bool {
        self.shared.lock().endpoint.is_abandoned()
    }

    /// Returns whether no request of the peer's is in flight, and every message is written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let endpoint = &self.shared.lock().endpoint;
        endpoint.core().requests_in_flight() == 0 && endpoint.is_flushed()
    }

    /// Returns whether nothing comes in any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().endpoint.core().is_closed()
    }
}

/// Settles everything in flight as lost, because nobody drives the connection any more.
impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.lock().endpoint.note_unfinished(0);
        self.shared.shutdown(Shutdown::Abandon);
    }
}

/// Takes output, or leaves the waiter if there is none.
fn poll_output(
    inner: &mut Inner,
    waiter: &mut Option<Waiter>,
    out: &mut Messages,
    effects: &mut Effects,
) -> Output {
    let output = inner.endpoint.poll_output(out, effects);
    if output == Output::Idle {
        inner.endpoint.wait_for_output(waiter);
    }
    output
}
