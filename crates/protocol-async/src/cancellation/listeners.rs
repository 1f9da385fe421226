//! Listeners of a marker: tasks and functions that run when it is set.

use std::task::Waker;

use protocol_core::Cause;
use slab::Slab;

use crate::catch_panic::catch_panic;

/// One listener of a marker.
pub(super) enum Listener {
    /// A task that awaits [`Cancellation::cancelled`](super::Cancellation::cancelled).
    Task(Waker),
    /// A function of [`Cancellation::on_cancel`](super::Cancellation::on_cancel).
    Follower(Box<dyn FnOnce(Cause) + Send>),
}

/// All listeners of one marker. Mostly there is none or one, which needs no allocation.
#[derive(Default)]
pub(super) struct Listeners {
    /// The listener with the key 0.
    first: Option<Listener>,
    /// The other listeners, whose keys are one more than in this table. The box keeps markers small.
    others: Option<Box<Slab<Listener>>>,
}

impl Listeners {
    /// Adds a listener, and returns its key.
    pub(super) fn insert(&mut self, listener: Listener) -> usize {
        if self.first.is_none() {
            self.first = Some(listener);
            return 0;
        }
        1 + self.others.get_or_insert_default().insert(listener)
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Listener> {
        match key.checked_sub(1) {
            None => self.first.as_mut(),
            Some(key) => self.others.as_mut()?.get_mut(key),
        }
    }

    pub(super) fn remove(&mut self, key: usize) -> Option<Listener> {
        match key.checked_sub(1) {
            None => self.first.take(),
            Some(key) => self.others.as_mut()?.try_remove(key),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.as_ref().is_none_or(|others| others.is_empty())
    }

    /// Wakes each task and calls each function. One that panics does not stop the others.
    pub(super) fn tell(self, cause: Cause) {
        let others = self.others.into_iter().flat_map(|others| *others);
        for listener in self.first.into_iter().chain(others.map(|(_, listener)| listener)) {
            match listener {
                Listener::Task(waker) => catch_panic(|| waker.wake()),
                Listener::Follower(follow) => catch_panic(|| follow(cause)),
            }
        }
    }
}
