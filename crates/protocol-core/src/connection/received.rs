//! Events on their way to the host.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::mem;

use crate::event::Event;

/// What one message made happen, in order; older events that the host has not polled come first.
///
/// Borrows the message and not the connection, so the host may command the connection while it
/// goes through the events. What those commands make happen is in
/// [`poll_event`](crate::Connection::poll_event).
#[derive(Debug)]
#[must_use = "dropping events loses them, and the data of the calls they settle"]
pub struct Received<'m, O> {
    pub(super) message: Option<&'m [u8]>,
    pub(super) events: EventQueue<'m, O>,
}

impl<'m, O> Received<'m, O> {
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self { message: None, events: EventQueue::new() }
    }

    /// The whole message that was taken, without framing, for traces. After
    /// [`finish`](crate::StreamConnection::finish) it is the last one.
    #[must_use]
    pub const fn message(&self) -> Option<&'m [u8]> {
        self.message
    }
}

impl<'m, O> Iterator for Received<'m, O> {
    type Item = Event<'m, O>;

    #[inline]
    fn next(&mut self) -> Option<Event<'m, O>> {
        self.events.pop()
    }
}

/// A queue that holds its usual one event without an allocation.
#[derive(Clone, Debug)]
pub(super) struct EventQueue<'m, O> {
    first: Option<Event<'m, O>>,
    /// Invariant: empty while `first` was never taken since the queue was empty.
    ///
    /// In a box because the queue is moved for every message, and this is mostly not there.
    #[expect(clippy::box_collection, reason = "it is smaller")]
    rest: Option<Box<VecDeque<Event<'m, O>>>>,
}

impl<'m, O> EventQueue<'m, O> {
    pub(super) const fn new() -> Self {
        Self { first: None, rest: None }
    }

    /// Makes an event where it waits: moving it takes time.
    #[inline]
    pub(super) fn push(&mut self, event: impl FnOnce() -> Event<'m, O>) {
        if self.is_empty() {
            // There is nothing to drop.
            mem::forget(self.first.replace(event()));
        } else {
            self.push_behind(event());
        }
    }

    #[cold]
    fn push_behind(&mut self, event: Event<'m, O>) {
        self.rest.get_or_insert_default().push_back(event);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(|rest| rest.is_empty())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event<'m, O>> {
        if self.first.is_some() { self.first.take() } else { self.rest.as_mut()?.pop_front() }
    }
}
