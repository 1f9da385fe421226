//! Waiting for something of a connection's state.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::shared::Shared;
use crate::state::State;
use crate::sync::MutexGuard;
use crate::waiters::{Place, Waiters};

/// Which of a connection's waiters.
pub(crate) type Line = fn(&mut State) -> &mut Waiters;

/// Waits until a check under the lock succeeds. A check that fails gives the lock back.
pub(crate) struct WaitFor<'a, C> {
    shared: &'a Shared,
    line: Line,
    check: C,
    place: Option<Place>,
}

impl<'a, C> WaitFor<'a, C> {
    pub(crate) const fn new(shared: &'a Shared, line: Line, check: C) -> Self {
        Self { shared, line, check, place: None }
    }
}

impl<'a, C, T> Future for WaitFor<'a, C>
where
    C: FnMut(MutexGuard<'a, State>) -> Result<T, MutexGuard<'a, State>> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { shared, line, check, place } = self.get_mut();
        poll_wait(check(shared.lock()), *line, place, cx)
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        leave(self.shared, self.line, self.place);
    }
}

/// What a check found, or waits if that is nothing.
pub(crate) fn poll_wait<T>(
    found: Result<T, MutexGuard<'_, State>>,
    line: Line,
    place: &mut Option<Place>,
    cx: &mut Context<'_>,
) -> Poll<T> {
    match found {
        Ok(there) => Poll::Ready(there),
        Err(mut state) => {
            let replaced = line(&mut state).wait(place, cx.waker());
            drop(state);
            drop(replaced);
            Poll::Pending
        }
    }
}

/// Stops waiting at a place, if it is still taken.
pub(crate) fn leave(shared: &Shared, line: Line, place: Option<Place>) {
    if place.is_some() {
        let mut state = shared.lock();
        let left = line(&mut state).leave(place);
        drop(state);
        drop(left);
    }
}
