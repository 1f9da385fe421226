//! Tasks that wait for something.

use std::mem;
use std::task::Waker;

use slab::Slab;

use crate::afterwards::{Afterward, Afterwards};

/// The tasks that wait for one thing. Whoever stops waiting leaves no trace here.
///
/// Wakers are handed out, never woken or dropped here: this is behind a lock, and either may run a
/// whole task, or drop it, and with it handles that take the same lock.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    tasks: Slab<(u64, Waker)>,
    /// Counts places, so that a stale one is recognised.
    last: u64,
}

/// Where a task stands among those that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    key: usize,
    serial: u64,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits at this place, or at a new one; gives back a waker to be dropped.
    #[must_use]
    pub(crate) fn wait(&mut self, place: &mut Option<Place>, waker: &Waker) -> Option<Waker> {
        if let Some((_, waiting)) = self.at(*place) {
            if waiting.will_wake(waker) {
                return None;
            }
            return Some(mem::replace(waiting, waker.clone()));
        }
        self.last += 1;
        let key = self.tasks.insert((self.last, waker.clone()));
        *place = Some(Place { key, serial: self.last });
        None
    }

    /// Stops waiting; gives back a waker to be dropped.
    #[must_use]
    pub(crate) fn leave(&mut self, place: Option<Place>) -> Option<Waker> {
        self.at(place)?;
        Some(self.tasks.remove(place?.key).1)
    }

    /// Hands out every waker.
    pub(crate) fn wake_all(&mut self, after: &mut Afterwards) {
        if !self.tasks.is_empty() {
            self.tasks.drain().for_each(|(_, waker)| after.push(Afterward::Wake(waker)));
        }
    }

    fn at(&mut self, place: Option<Place>) -> Option<&mut (u64, Waker)> {
        let Place { key, serial } = place?;
        self.tasks.get_mut(key).filter(|(other, _)| *other == serial)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn who_was_woken_and_waits_again_takes_nobodys_place() {
        let [first, other] = [(); 2].map(|()| Waker::from(Arc::new(Task)));
        let (mut waiters, mut after) = (Waiters::default(), Afterwards::default());
        let (mut stale, mut place) = (None, None);
        assert!(waiters.wait(&mut stale, &first).is_none());
        waiters.wake_all(&mut after);
        after.run();
        assert!(waiters.wait(&mut place, &other).is_none());
        assert!(waiters.leave(stale).is_none(), "it left when it was woken");
        assert!(waiters.wait(&mut stale, &first).is_none());
        assert!(waiters.leave(place).is_some_and(|waker| waker.will_wake(&other)));
        assert!(waiters.leave(stale).is_some_and(|waker| waker.will_wake(&first)));
        assert!(waiters.is_empty());
    }
}
