//! Calls in flight.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use protocol_core::{CallId, CancelOutcome, Cause};
use protocol_endpoint::{Call, CallError, CallOutcome};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::cancellation::{Cancellation, Following};
use crate::handle::CancellationHandle;
use crate::lease::Lease;
use crate::spanned;
use crate::sync::Arc;
use crate::wait::is_same;
use crate::waiter::{HandOver, Waiter};

/// A call in flight: a future of its outcome.
///
/// Dropping it before the response is routed cancels the call, with the cause `dropped`. Once the
/// response is routed, dropping it does nothing.
///
/// Its output is the result as `T`, or a [`CallError`]. A call that was never sent has
/// [`CallError::Refused`].
#[must_use = "dropping it cancels the call"]
pub struct SentRequest<T = Box<RawValue>> {
    outcome: Whereabouts,
    /// The markers that cancel the call, kept while it is in flight. They are boxed because they are
    /// mostly absent.
    followers: Option<Box<Followers>>,
    result: PhantomData<fn() -> T>,
}

/// Markers that cancel a call.
struct Followers {
    _last: Following,
    _earlier: Option<Box<Followers>>,
}

/// The place of a call's outcome.
enum Whereabouts {
    /// The connection has it, or it is still to come.
    There {
        lease: Arc<Lease>,
        call: Call,
        /// Whether a task waits for it.
        is_awaited: bool,
    },
    /// It is here, because the call was refused.
    Here(Box<CallError>),
    /// It was taken, handed over or given up. Work that the call began may go on, and be stopped.
    Taken(CancellationHandle),
}

impl<T> SentRequest<T> {
    pub(crate) const fn sent(lease: Arc<Lease>, call: Call) -> Self {
        Self::of(Whereabouts::There { lease, call, is_awaited: false })
    }

    pub(crate) fn refused(error: CallError) -> Self {
        Self::of(Whereabouts::Here(Box::new(error)))
    }

    const fn of(outcome: Whereabouts) -> Self {
        Self { outcome, followers: None, result: PhantomData }
    }

    /// Returns the call's id, whose number stands on the wire; `None` if it was refused.
    #[must_use]
    pub const fn id(&self) -> Option<CallId> {
        match self.outcome {
            Whereabouts::There { call, .. } => Some(call.id),
            Whereabouts::Taken(ref handle) => handle.id(),
            Whereabouts::Here(_) => None,
        }
    }

    /// Cancels the call.
    ///
    /// This never waits (B29), and the outcome comes all the same.
    pub fn cancel(&self) -> CancelOutcome {
        self.cancellation_handle().cancel()
    }

    /// As [`cancel`](Self::cancel). The peer gets the reason in words, if the dialect has a place for it.
    pub fn cancel_with_reason(&self, reason: &str) -> CancelOutcome {
        self.cancellation_handle().cancel_with_reason(reason)
    }

    /// Stops the work that the call began, as [`CancellationHandle::stop`] does.
    pub fn stop(&self) -> CancelOutcome {
        self.cancellation_handle().stop()
    }

    /// Returns a handle that cancels the call from anywhere. It keeps nothing alive.
    #[must_use]
    pub fn cancellation_handle(&self) -> CancellationHandle {
        match &self.outcome {
            Whereabouts::There { lease, call, .. } => CancellationHandle::of(&lease.0, call.id),
            Whereabouts::Taken(handle) => handle.clone(),
            Whereabouts::Here(_) => CancellationHandle::of_nothing(),
        }
    }

    /// Gives up interest in the outcome without cancelling the call.
    pub fn detach(mut self) {
        match (self.followers.take(), self.take_outcome()) {
            (None, Whereabouts::There { lease, call, .. }) => {
                lease.at(|inner, now, effects| inner.endpoint.detach(call, now, effects));
            }
            // They cancel the call as long as it is in flight.
            (Some(followers), Whereabouts::There { lease, call, .. }) => {
                let then = HandOver::to(move |_| drop(followers));
                if hand_over(&lease, call, then).is_ok() {
                    lease.at(|inner, now, effects| {
                        inner.endpoint.detach_call(call.id, now, effects);
                    });
                }
            }
            _ => {}
        }
    }

    /// Cancels the call when `marker` is set. It is to be chained before the call is awaited or handed
    /// over. Without it a call that a proxy makes absorbs the cancel.
    pub fn forward_cancellation_from(mut self, marker: &Cancellation) -> Self {
        let handle = self.cancellation_handle();
        let last = marker.on_cancel(move |cause| {
            handle.follow(cause);
        });
        let earlier = self.followers.take();
        self.followers = Some(Box::new(Followers { _last: last, _earlier: earlier }));
        self
    }

    /// Hands the outcome to `then` once it is there. `then` is not dropped before that.
    pub(crate) fn hand_to(mut self, then: HandOver) {
        let settled = match self.take_outcome() {
            Whereabouts::There { lease, call, .. } => {
                hand_over(&lease, call, self.and_let_go(then))
            }
            Whereabouts::Here(error) => Err((then, Err(error))),
            Whereabouts::Taken(_) => Ok(()),
        };
        if let Err((then, outcome)) = settled {
            then.give(outcome);
        }
    }

    /// Keeps the markers that cancel the call as long as it is in flight.
    fn and_let_go(&mut self, then: HandOver) -> HandOver {
        let Some(followers) = self.followers.take() else { return then };
        HandOver::to(move |outcome| {
            drop(followers);
            then.give(outcome);
        })
    }

    fn take_outcome(&mut self) -> Whereabouts {
        let taken = Whereabouts::Taken(CancellationHandle::of_nothing());
        mem::replace(&mut self.outcome, taken)
    }
}

impl<T: DeserializeOwned> SentRequest<T> {
    /// Hands the outcome to `then` when it is there, on the thread that routes it. `then` must not block.
    /// The call is not cancelled when this returns.
    pub fn on_result(self, then: impl FnOnce(Result<T, CallError>) + Send + 'static) {
        self.hand_to(HandOver::to(move |outcome| then(decode(outcome))));
    }
}

impl<T: DeserializeOwned> Future for SentRequest<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Whereabouts::There { lease, call, is_awaited } = &mut this.outcome {
            let Poll::Ready(outcome) = poll_outcome(lease, *call, is_awaited, cx.waker()) else {
                return Poll::Pending;
            };
            this.outcome = Whereabouts::Taken(this.cancellation_handle());
            return Poll::Ready(decode(outcome));
        }
        match this.take_outcome() {
            Whereabouts::Here(error) => Poll::Ready(Err(*error)),
            _ => panic!("a SentRequest was polled after it gave its outcome"),
        }
    }
}

/// Takes the outcome of a call, or waits for it.
fn poll_outcome(
    lease: &Lease,
    call: Call,
    is_awaited: &mut bool,
    waker: &Waker,
) -> Poll<CallOutcome> {
    // A task that did not wait yet mostly has to.
    let waiter = (!*is_awaited).then(|| Waiter::Task(waker.clone()));
    *is_awaited = true;
    lease.with_waker(waker, waiter, |inner, waiter, _| {
        let waits = waiter.is_some();
        if let Some(outcome) = inner.endpoint.poll_outcome(call, waiter) {
            return Some(Poll::Ready(outcome));
        }
        (waits || is_same(inner.endpoint.waiting_for(call), waker)).then_some(Poll::Pending)
    })
}

/// Hands the outcome of a call over once it is there, or returns both if it is there already.
fn hand_over(lease: &Lease, call: Call, then: HandOver) -> Result<(), (HandOver, CallOutcome)> {
    let waiter = Waiter::HandOver(then);
    let handed = lease.with(|inner, effects| inner.endpoint.hand_over(call, waiter, effects));
    handed.map_err(|(waiter, outcome)| match waiter {
        Waiter::HandOver(then) => (then, outcome),
        Waiter::Task(_) => unreachable!("it is the waiter of above"),
    })
}

fn decode<T: DeserializeOwned>(outcome: CallOutcome) -> Result<T, CallError> {
    let result = outcome.map_err(|error| *error)?;
    serde_json::from_str(result.get())
        .map_err(|error| CallError::InvalidResult { problem: error.to_string() })
}

impl<T> Drop for SentRequest<T> {
    fn drop(&mut self) {
        if let Whereabouts::There { lease, call, .. } = &self.outcome {
            spanned::cancelling(lease, call.id, Cause::Dropped);
            lease.at(|inner, now, effects| inner.endpoint.drop_call(*call, now, effects));
        }
    }
}

impl<T> fmt::Debug for SentRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentRequest").field("id", &self.id()).finish_non_exhaustive()
    }
}
