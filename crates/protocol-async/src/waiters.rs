//! Tasks that wait for something of a connection's state.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::afterwards::{Afterward, Afterwards};
use crate::hub::{Shared, State};
use crate::sync::MutexGuard;

/// The tasks that wait for one thing. Whoever stops waiting leaves no trace here.
///
/// Wakers are handed out, never dropped here: dropping one may drop a whole task, and with it handles
/// that take the lock that this is behind.
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
            return Some(std::mem::replace(waiting, waker.clone()));
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

/// Which of a connection's waiters.
pub(crate) type Line = fn(&mut State) -> &mut Waiters;

/// Waits until a check under the lock succeeds. A check that fails gives the lock back.
pub(crate) struct WaitFor<'a, C> {
    pub(crate) shared: &'a Shared,
    pub(crate) line: Line,
    pub(crate) check: C,
    pub(crate) place: Option<Place>,
}

impl<'a, C, T> Future for WaitFor<'a, C>
where
    C: FnMut(MutexGuard<'a, State>) -> Result<T, MutexGuard<'a, State>> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        match (this.check)(this.shared.lock()) {
            Ok(there) => Poll::Ready(there),
            Err(mut state) => {
                let replaced = (this.line)(&mut state).wait(&mut this.place, cx.waker());
                drop(state);
                drop(replaced);
                Poll::Pending
            }
        }
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        self.shared.leave(self.line, self.place);
    }
}

impl Shared {
    /// Stops waiting at a place, if it is still taken.
    pub(crate) fn leave(&self, line: Line, place: Option<Place>) {
        if place.is_some() {
            let mut state = self.lock();
            let left = line(&mut state).leave(place);
            drop(state);
            drop(left);
        }
    }
}
