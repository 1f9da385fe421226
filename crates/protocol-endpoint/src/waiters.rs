//! Queues of waiters: first come, first served.

use alloc::collections::VecDeque;
use core::mem;

use crate::effects::{Effect, Effects};

/// Something that waiters wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An arrival, or the end.
    Arrival,
    /// Room in the outbox, for a message that waits with its waiter.
    Room,
    /// The moment to try again to send, once no message waits in the line for room.
    Ready,
    /// The moment when everything is written, or never will be.
    Flushed,
    /// The end of the connection.
    End,
}

/// A place in a queue of waiters. Whoever has one waits again, or leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Place(u64);

/// A queue of waiters. One that was woken keeps its place until it waits again or leaves, so nobody
/// overtakes it.
#[derive(Debug)]
pub(crate) struct Waiters<W> {
    /// Ordered by place. `None` for a waiter that was woken.
    queue: VecDeque<(u64, Option<W>)>,
    last: u64,
}

impl<W> Waiters<W> {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new(), last: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether nobody stands before this place, or before a new one.
    pub(crate) fn is_first(&self, place: Option<&Place>) -> bool {
        match (self.queue.front(), place) {
            (Some((first, _)), Some(place)) => *first == place.0,
            (front, _) => front.is_none(),
        }
    }

    /// Waits at this place, or at the end of the queue. The waiter that was there before is left in its
    /// stead.
    pub(crate) fn wait(&mut self, place: &mut Option<Place>, waiter: &mut Option<W>) {
        if let Some(index) = place.as_ref().and_then(|place| self.find(place)) {
            mem::swap(&mut self.queue[index].1, waiter);
            return;
        }
        self.last += 1;
        self.queue.push_back((self.last, waiter.take()));
        *place = Some(Place(self.last));
    }

    /// Returns the waiter at this place, unless it was woken.
    pub(crate) fn waiting(&self, place: Option<&Place>) -> Option<&W> {
        self.queue[self.find(place?)?].1.as_ref()
    }

    /// Wakes the first waiter that was not woken before.
    #[inline]
    pub(crate) fn wake_one<M>(&mut self, effects: &mut Effects<W, M>) {
        effects.wake(self.queue.iter_mut().find_map(|(_, waiter)| waiter.take()));
    }

    /// Wakes the waiter at the head of the queue. If it was woken before, nobody is.
    pub(crate) fn wake_first<M>(&mut self, effects: &mut Effects<W, M>) {
        effects.wake(self.queue.front_mut().and_then(|(_, waiter)| waiter.take()));
    }

    pub(crate) fn wake_all<M>(&mut self, effects: &mut Effects<W, M>) {
        self.queue.iter_mut().for_each(|(_, waiter)| effects.wake(waiter.take()));
    }

    /// Leaves the queue. Returns whether the waiter had been woken, so that its turn passes on.
    pub(crate) fn leave<M>(&mut self, place: &Place, effects: &mut Effects<W, M>) -> bool {
        let Some((_, waiter)) = self.find(place).and_then(|index| self.queue.remove(index)) else {
            return false;
        };
        let was_woken = waiter.is_none();
        effects.add(waiter.map(Effect::Drop));
        was_woken
    }

    fn find(&self, place: &Place) -> Option<usize> {
        self.queue.binary_search_by_key(&place.0, |(place, _)| *place).ok()
    }
}
