//! Calls in flight.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use protocol_core::{CallId, CancelOutcome, Cause};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::answer::CallError;
use crate::cancellation::{Cancellation, Following};
use crate::handle::CancellationHandle;
use crate::lease::Lease;
use crate::outcome::{HandOver, RawOutcome};
use crate::spanned;
use crate::sync::Arc;
use crate::turn::waits_for_peer;

/// A call in flight: a future of its outcome.
///
/// Dropping it before the response is routed cancels the call, cause `dropped`; once the response
/// is routed that does nothing, whether or not anyone took the outcome.
///
/// Awaiting it gives the result as `T`, or the [`CallError`]; a call that was never sent gives
/// [`CallError::Refused`].
#[must_use = "dropping it cancels the call"]
pub struct SentRequest<T = Box<RawValue>> {
    outcome: Whereabouts,
    /// Kept as long as it is in flight. In a box because it is mostly not there.
    followers: Option<Box<Followers>>,
    result: PhantomData<fn() -> T>,
}

/// What cancels a call when a marker is set.
struct Followers {
    _last: Following,
    _earlier: Option<Box<Followers>>,
}

/// Where the outcome of a call is.
enum Whereabouts {
    /// With the connection, or still to come.
    There { lease: Arc<Lease>, call: CallId },
    /// Here: the call was refused.
    Here(Box<CallError>),
    /// Nowhere: it was taken, handed over or given up. The call's id, if it was sent.
    Taken(Option<CallId>),
}

impl<T> SentRequest<T> {
    pub(crate) const fn sent(lease: Arc<Lease>, call: CallId) -> Self {
        Self::of(Whereabouts::There { lease, call })
    }

    pub(crate) fn refused(error: CallError) -> Self {
        Self::of(Whereabouts::Here(Box::new(error)))
    }

    const fn of(outcome: Whereabouts) -> Self {
        Self { outcome, followers: None, result: PhantomData }
    }

    /// The call's id, whose number is what stands on the wire; `None` if it was refused.
    #[must_use]
    pub const fn id(&self) -> Option<CallId> {
        match self.outcome {
            Whereabouts::There { call, .. } => Some(call),
            Whereabouts::Taken(id) => id,
            Whereabouts::Here(_) => None,
        }
    }

    /// Cancels the call.
    ///
    /// This never waits (B29), and the outcome comes all the same.
    pub fn cancel(&self) -> CancelOutcome {
        self.cancellation_handle().cancel()
    }

    /// As [`cancel`](Self::cancel), and tells the peer why in words, where the dialect has a place for
    /// that.
    pub fn cancel_with_reason(&self, reason: &str) -> CancelOutcome {
        self.cancellation_handle().cancel_with_reason(reason)
    }

    /// A handle that cancels the call from anywhere. It keeps nothing alive.
    #[must_use]
    pub fn cancellation_handle(&self) -> CancellationHandle {
        match &self.outcome {
            Whereabouts::There { lease, call } => CancellationHandle::of(&lease.0, *call),
            Whereabouts::Here(_) | Whereabouts::Taken(_) => CancellationHandle::of_nothing(),
        }
    }

    /// Gives up interest in the outcome without cancelling the call.
    pub fn detach(mut self) {
        if let Whereabouts::There { lease, call } = self.take_outcome() {
            if lease.hand_over(call, self.and_let_go(HandOver::NOBODY)).is_ok() {
                lease.command(|core, now| core.detach(call, now));
            }
        }
    }

    /// Cancels the call when `marker` is set. To be chained before the call is awaited or handed
    /// over; without it a call made by a proxy absorbs the cancel.
    pub fn forward_cancellation_from(mut self, marker: &Cancellation) -> Self {
        let handle = self.cancellation_handle();
        let last = marker.on_cancel(move |_| {
            handle.cancel_because(Cause::Parent, None);
        });
        let earlier = self.followers.take();
        self.followers = Some(Box::new(Followers { _last: last, _earlier: earlier }));
        self
    }

    /// Hands the outcome over, once it is there, to `then`, which is not dropped before that.
    pub(crate) fn hand_to(mut self, then: HandOver) {
        let settled = match self.take_outcome() {
            Whereabouts::There { lease, call } => lease.hand_over(call, self.and_let_go(then)),
            Whereabouts::Here(error) => Err((then, Err(error))),
            Whereabouts::Taken(_) => Ok(()),
        };
        if let Err((then, outcome)) = settled {
            then.give(outcome);
        }
    }

    /// Keeps what cancels the call as long as it is in flight.
    fn and_let_go(&mut self, then: HandOver) -> HandOver {
        let Some(followers) = self.followers.take() else { return then };
        HandOver::to(move |outcome| {
            drop(followers);
            then.give(outcome);
        })
    }

    fn take_outcome(&mut self) -> Whereabouts {
        let taken = Whereabouts::Taken(self.id());
        mem::replace(&mut self.outcome, taken)
    }
}

impl<T: DeserializeOwned> SentRequest<T> {
    /// Hands the outcome to `then` when it is there, on whatever thread routes it; `then` must not
    /// block. The call is not cancelled when this returns.
    pub fn on_result(self, then: impl FnOnce(Result<T, CallError>) + Send + 'static) {
        self.hand_to(HandOver::to(move |outcome| then(decode(outcome))));
    }
}

impl<T: DeserializeOwned> Future for SentRequest<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Whereabouts::There { lease, call } = &this.outcome {
            let Poll::Ready(outcome) = lease.poll_outcome(*call, cx.waker()) else {
                waits_for_peer();
                return Poll::Pending;
            };
            this.outcome = Whereabouts::Taken(Some(*call));
            return Poll::Ready(decode(outcome));
        }
        match this.take_outcome() {
            Whereabouts::Here(error) => Poll::Ready(Err(*error)),
            _ => panic!("a SentRequest was polled after it gave its outcome"),
        }
    }
}

fn decode<T: DeserializeOwned>(outcome: RawOutcome) -> Result<T, CallError> {
    let result = outcome.map_err(|error| *error)?;
    serde_json::from_str(result.get())
        .map_err(|error| CallError::InvalidResult { problem: error.to_string() })
}

impl<T> Drop for SentRequest<T> {
    fn drop(&mut self) {
        if let Whereabouts::There { lease, call } = &self.outcome {
            if lease.hand_over(*call, HandOver::NOBODY).is_ok() {
                spanned::cancelling(lease, *call, Cause::Dropped);
                lease.command(|core, now| core.cancel(*call, Cause::Dropped, now));
            }
        }
    }
}

impl<T> fmt::Debug for SentRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentRequest").field("id", &self.id()).finish_non_exhaustive()
    }
}
