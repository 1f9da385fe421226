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
        C: FnMut(&mut Inner, Option<&Place>, &mut Effects) -> Option<T>,
    {
        Self { shared, line, check, place: None }
    }
}

impl<C, T> Future for WaitFor<'_, C>
where
    C: FnMut(&mut Inner, Option<&Place>, &mut Effects) -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { shared, line, check, place } = self.get_mut();
        poll_wait(shared, *line, place, cx.waker(), check)
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        leave(self.shared, self.line, self.place.take());
    }
}

/// Returns what a check finds, or waits at a place until it may find something.
#[inline]
pub(crate) fn poll_wait<T>(
    shared: &Shared,
    line: Line,
    place: &mut Option<Place>,
    waker: &Waker,
    mut check: impl FnMut(&mut Inner, Option<&Place>, &mut Effects) -> Option<T>,
) -> Poll<T> {
    shared.with_waker(waker, None, |inner, waiter, effects| {
        if let Some(found) = check(inner, place.as_ref(), effects) {
            if let Some(place) = place.take() {
                inner.endpoint.leave(line, &place, effects);
            }
            return Some(Poll::Ready(found));
        }
        if !is_same(inner.endpoint.waiting(line, place.as_ref()), waker) {
            waiter.as_ref()?;
            inner.endpoint.wait(line, place, waiter, effects);
        }
        Some(Poll::Pending)
    })
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
