//! Waiting in a queue of an endpoint.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use protocol_endpoint::{Line, Place};

use crate::shared::{Inner, Shared};
use crate::waiter::{Effects, Waiter};

/// Waits until a check under the lock succeeds.
pub(crate) struct WaitFor<'a, C> {
    shared: &'a Shared,
    line: Line,
    check: C,
    place: Option<Place>,
}

impl<'a, C> WaitFor<'a, C> {
    pub(crate) const fn new<T>(shared: &'a Shared, line: Line, check: C) -> Self
    where
        C: FnMut(&mut Inner, Option<&Place>) -> Option<T>,
    {
        Self { shared, line, check, place: None }
    }
}

impl<C, T> Future for WaitFor<'_, C>
where
    C: FnMut(&mut Inner, Option<&Place>) -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { shared, line, check, place } = self.get_mut();
        poll_wait(shared, *line, place, cx.waker(), |inner, place, _| check(inner, place))
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        leave(self.shared, self.line, self.place.take());
    }
}

/// Returns what a check finds, or waits at a place until it may find something.
pub(crate) fn poll_wait<T>(
    shared: &Shared,
    line: Line,
    place: &mut Option<Place>,
    waker: &Waker,
    mut check: impl FnMut(&mut Inner, Option<&Place>, &mut Effects) -> Option<T>,
) -> Poll<T> {
    // A waker is the executor's, so it is cloned and dropped outside the lock. Mostly nobody has to wait.
    let mut waiter = None;
    loop {
        let is_cloned = waiter.is_some();
        let mut found = None;
        let is_done = shared.with(|inner, effects| {
            found = check(inner, place.as_ref(), effects);
            if found.is_some() {
                if let Some(place) = place.take() {
                    inner.endpoint.leave(line, &place, effects);
                }
                return true;
            }
            if is_cloned {
                inner.endpoint.wait(line, place, &mut waiter);
            }
            is_cloned || is_same(inner.endpoint.waiting(line, place.as_ref()), waker)
        });
        match found {
            Some(found) => return Poll::Ready(found),
            None if is_done => return Poll::Pending,
            None => waiter = Some(Waiter::Task(waker.clone())),
        }
    }
}

/// Leaves a queue.
pub(crate) fn leave(shared: &Shared, line: Line, place: Option<Place>) {
    if let Some(place) = place {
        shared.with(|inner, effects| inner.endpoint.leave(line, &place, effects));
    }
}

/// Returns whether this task waits already.
pub(crate) fn is_same(waiter: Option<&Waiter>, waker: &Waker) -> bool {
    matches!(waiter, Some(Waiter::Task(waiting)) if waiting.will_wake(waker))
}
