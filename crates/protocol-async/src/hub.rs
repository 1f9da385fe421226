//! What the handles of one connection share, for whoever drives it.
//!
//! A [`Hub`] stands between a transport and the handles. [`Driver`](crate::Driver) drives one with
//! a single future; a host with other means, such as a thread for each direction, does the same:
//!
//! 1. read bytes into an [`InputBuffer`] and call [`Hub::receive`]; at the end [`Hub::finish`];
//! 2. call [`Hub::poll_output`] and do what it says: write, or wait for the waker;
//! 3. call [`Hub::poll_timers`] and wait for the waker or the time. One task for both calls
//!    [`Hub::poll`].
//!
//! Where the transport keeps messages apart by itself, [`Hub::receive_message`] takes the place of the
//! first.

use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::task::Waker;

use protocol_core::{InputBuffer, Shutdown, Timestamp};

use crate::afterwards::Afterwards;
pub use crate::budget::Buckets;
use crate::closed;
pub use crate::inbox::{Arrived, Inbox};
use crate::incoming::Incoming;
use crate::lease::{Lease, Taker};
use crate::options::{Options, Way};
pub use crate::outgoing::Messages;
use crate::outside;
use crate::peer::Peer;
use crate::shared::Shared;
use crate::state::{State, Writing};
use crate::sync::{Arc, MutexGuard};

/// The transport's side of a connection.
#[derive(Debug)]
pub struct Hub {
    shared: Arc<Shared>,
}

/// What [`Hub::poll_output`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write the bytes that were added, then ask again.
    Write,
    /// Nothing until the waker is woken.
    Idle,
    /// Nothing ever again: close the writer.
    Over,
}

impl Hub {
    /// A connection that has read nothing yet. `now` reads the clock that the core's times are of.
    ///
    /// A connection whose [`Config::connection`](protocol_core::Config::connection) is 0 gets a number of
    /// its own in this process.
    pub fn new(
        options: impl Into<Options>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> (Self, Peer, Incoming) {
        let mut options = options.into();
        let config = &mut options.config;
        if config.unix_time_at_zero.is_zero() {
            config.unix_time_at_zero = outside::unix_time_at_zero(now());
        }
        if config.connection == 0 {
            config.connection = outside::connection_number();
        }
        let state = State::new(options);
        let shared = Arc::new(Shared::new(state, Box::new(now)));
        let lease = Arc::new(Lease(shared.clone()));
        let taker = Arc::new(Taker(shared.clone()));
        (Self { shared }, Peer::new(lease.clone()), Incoming::new(lease, taker))
    }

    /// Takes every whole message in the input, and marks what they cancel.
    ///
    /// All of that is marked when this returns (G3). It reports whether more may come, as
    /// [`is_closed`](Self::is_closed) does.
    pub fn receive(&self, input: &mut InputBuffer) -> ControlFlow<()> {
        self.shared.at(|state, after| {
            // Once nothing is unread, asking again gives nothing.
            while !input.unread().is_empty() {
                let taken = state.stream.receive(input.unread(), state.now);
                if let Some(message) = taken.message {
                    state.trace(Way::Received, message);
                }
                if taken.message.is_some() || taken.event.is_some() {
                    state.hear(taken.message.unwrap_or(input.unread()), taken.event, after);
                }
                state.dispatch_queued(after);
                if taken.consumed == 0 {
                    break;
                }
                input.consume(taken.consumed);
            }
            let is_closed = state.core().machine().is_closed();
            if is_closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// The input has ended, with these bytes unread; with an error, if that is why.
    pub fn finish(&self, input: &InputBuffer, error: Option<&io::Error>) {
        self.shared.at(|state, after| {
            // What ended the input says more than what a write to a peer that is gone has met.
            if error.is_some() {
                state.error = error.map(closed::copy);
            }
            if let Some(message) = state.stream.handle_eof(input.unread(), state.now) {
                state.trace(Way::Received, message);
                if let event @ Some(_) = state.stream.connection_mut().poll_event() {
                    state.hear(message, event, after);
                }
            }
        });
    }

    /// Nothing can be written any more, for this reason: the connection closes, and whatever is given
    /// to be written from now on is to be dropped (F34).
    ///
    /// What the peer has said already is still to be read. Whoever knows that nothing of it is left
    /// calls [`finish`](Self::finish); otherwise that is done in a second.
    pub fn fail(&self, error: &io::Error) {
        self.shared.at(|state, _| {
            state.error.get_or_insert_with(|| closed::copy(error));
            state.mute(state.now);
        });
    }

    /// Fires the timers that are due, and says when the next one is; the waker is woken when that
    /// changes. It never waits for writing: a deadline frees its caller however stuck the peer is
    /// (G5).
    pub fn poll_timers(&self, waker: &Waker) -> Option<Timestamp> {
        let (mut state, due) = self.fire_timers();
        let replaced = set(&mut state.timers.waker, waker);
        drop(state);
        drop(replaced);
        due
    }

    /// Adds what there is to write to `out`, which the caller has cleared: what was given before is
    /// written, or never will be. Any number of messages may be in it: one write for all.
    ///
    /// They are framed as the dialect says; [`Whole`](protocol_core::Framing::Whole) adds nothing to them.
    pub fn poll_output(&self, waker: &Waker, out: &mut Messages) -> Output {
        self.take_from(self.shared.lock(), waker, out)
    }

    /// [`poll_timers`](Self::poll_timers) and then [`poll_output`](Self::poll_output), for one task
    /// that does both.
    pub fn poll(&self, waker: &Waker, out: &mut Messages) -> (Option<Timestamp>, Output) {
        let (mut state, due) = self.fire_timers();
        let replaced = set(&mut state.timers.waker, waker);
        let output = self.take_from(state, waker, out);
        drop(replaced);
        (due, output)
    }

    /// Fires the timers that are due; then the next one, if there is any, is armed.
    fn fire_timers(&self) -> (MutexGuard<'_, State>, Option<Timestamp>) {
        loop {
            let mut state = self.shared.lock();
            if state.lacks_patience() {
                state.writing = Writing::Busy { settled: Some(self.shared.now()) };
            }
            let due = state.due();
            // The clock is read only when there is something to compare it with.
            if due.is_none_or(|due| due > self.shared.now()) {
                state.timers.armed = due;
                return (state, due);
            }
            state.handle_timeout(self.shared.now());
            self.shared.settle(state, &mut Afterwards::default());
        }
    }

    fn take_from(
        &self,
        mut state: MutexGuard<'_, State>,
        waker: &Waker,
        out: &mut Messages,
    ) -> Output {
        let mut after = Afterwards::default();
        if mem::replace(&mut state.writing, Writing::Idle) != Writing::Idle {
            state.room.wake_all(&mut after);
        }
        if state.take_output(out) {
            state.writing = Writing::Busy { settled: None };
            // Taking messages out makes room for others.
            self.shared.settle(state, &mut after);
            return Output::Write;
        }
        if state.is_over() {
            self.shared.settle(state, &mut after);
            return Output::Over;
        }
        let replaced = set(&mut state.driver, waker);
        drop(state);
        drop(replaced);
        after.run();
        Output::Idle
    }

    /// Takes one whole message, without framing.
    ///
    /// A cancel is carried out before this returns (G3).
    pub fn receive_message(&self, message: &[u8]) {
        self.shared.at(|state, after| {
            let event = state.stream.connection_mut().receive(message, state.now);
            state.trace(Way::Received, message);
            state.hear(message, event, after);
        });
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

/// Keeps a waker, without cloning the one that is there already. Gives another one back, to be
/// dropped when the lock is released.
fn set(place: &mut Option<Waker>, waker: &Waker) -> Option<Waker> {
    match place {
        Some(other) if other.will_wake(waker) => None,
        _ => place.replace(waker.clone()),
    }
}
