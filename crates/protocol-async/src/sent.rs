//! Calls in flight.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use protocol_core::{CallId, CancelOutcome, Cause, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::answer::CallError;
use crate::cancellation::{Cancellation, FollowerKey};
use crate::contain::contain;
use crate::json;
use crate::lease::Lease;
use crate::outcome::{HandOver, OutcomeCell, RawOutcome};
use crate::preparation::Preparation;
use crate::shared::Shared;
use crate::state::Core;
use crate::sync::{Arc, Weak};
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
    /// What cancels the call when a marker is set, as long as it is in flight.
    followers: Vec<FollowerKey>,
    result: PhantomData<fn() -> T>,
}

/// Where the outcome of a call is.
enum Whereabouts {
    /// With the connection, or still to come.
    There { lease: Arc<Lease>, call: CallId, cell: OutcomeCell },
    /// Here: the call was refused.
    Here(Box<CallError>),
    /// Nowhere: it was taken, handed over or given up. The call's id, if it was sent.
    Taken(Option<CallId>),
}

impl<T> SentRequest<T> {
    pub(crate) fn sent(lease: Arc<Lease>, call: CallId, cell: OutcomeCell) -> Self {
        Self::of(Whereabouts::There { lease, call, cell })
    }

    pub(crate) fn refused(error: CallError) -> Self {
        Self::of(Whereabouts::Here(Box::new(error)))
    }

    const fn of(outcome: Whereabouts) -> Self {
        Self { outcome, followers: Vec::new(), result: PhantomData }
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

    /// Cancels the call. A change of state and never a wait (B29): the outcome comes all the same.
    pub fn cancel(&self) -> CancelOutcome {
        self.command(|core, call, now| core.cancel(call, Cause::Caller, now))
    }

    /// As [`cancel`](Self::cancel), and tells the peer why in words, where the dialect has a place for
    /// that.
    pub fn cancel_with_reason(&self, reason: &str) -> CancelOutcome {
        self.command(|core, call, now| core.cancel_because(call, Cause::Caller, Some(reason), now))
    }

    fn command(
        &self,
        cancel: impl FnOnce(&mut Core, CallId, Timestamp) -> CancelOutcome,
    ) -> CancelOutcome {
        match &self.outcome {
            Whereabouts::There { lease, call, .. } => {
                lease.shared().command(|core, now| cancel(core, *call, now))
            }
            Whereabouts::Here(_) | Whereabouts::Taken(_) => CancelOutcome::AlreadySettled,
        }
    }

    /// A handle that cancels the call from anywhere. It keeps nothing alive.
    #[must_use]
    pub fn cancellation_handle(&self) -> CancellationHandle {
        CancellationHandle(
            self.target().map_or(Target::Nothing, |(shared, call)| Target::Call { shared, call }),
        )
    }

    /// The call, if it can still be cancelled.
    pub(crate) fn target(&self) -> Option<(Weak<Shared>, CallId)> {
        match &self.outcome {
            Whereabouts::There { lease, call, .. } => Some((Arc::downgrade(lease.shared()), *call)),
            Whereabouts::Here(_) | Whereabouts::Taken(_) => None,
        }
    }

    /// Gives up interest in the outcome without cancelling the call.
    pub fn detach(mut self) {
        if let Whereabouts::There { lease, call, cell } = self.take_outcome() {
            // A box of what captures nothing takes no room.
            if cell.hand_over(self.and_let_go(Box::new(drop))).is_ok() {
                lease.shared().command(|core, now| core.detach(call, now));
            }
        }
    }

    /// Cancels the call when `marker` is set. To be chained before the call is awaited or handed
    /// over; without it a call made by a proxy absorbs the cancel.
    pub fn forward_cancellation_from(mut self, marker: &Cancellation) -> Self {
        let handle = self.cancellation_handle();
        let key = marker.follow(Box::new(move |_| {
            handle.cancel_because(Cause::Parent);
        }));
        self.followers.extend(key);
        self
    }

    /// Hands the outcome over, once it is there, to `then`, which is not dropped before that.
    pub(crate) fn hand_to(mut self, then: HandOver) {
        let settled = match self.take_outcome() {
            Whereabouts::There { cell, .. } => cell.hand_over(self.and_let_go(then)),
            Whereabouts::Here(error) => Err((then, Err(error))),
            Whereabouts::Taken(_) => Ok(()),
        };
        if let Err((then, outcome)) = settled {
            contain(|| then(outcome));
        }
    }

    /// Keeps what cancels the call as long as it is in flight.
    fn and_let_go(&mut self, then: HandOver) -> HandOver {
        let followers = mem::take(&mut self.followers);
        if followers.is_empty() {
            return then;
        }
        Box::new(move |outcome| {
            drop(followers);
            then(outcome);
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
        self.hand_to(Box::new(move |outcome| then(decode(outcome))));
    }
}

impl<T: DeserializeOwned> Future for SentRequest<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Whereabouts::There { call, cell, .. } = &this.outcome {
            let Poll::Ready(outcome) = cell.poll(cx.waker()) else {
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
    json::read(result.get())
        .map_err(|error| CallError::InvalidResult { problem: error.to_string() })
}

impl<T> Drop for SentRequest<T> {
    fn drop(&mut self) {
        if let Whereabouts::There { lease, call, cell } = &self.outcome {
            if cell.leave() {
                lease.shared().command(|core, now| core.cancel(*call, Cause::Dropped, now));
            }
        }
    }
}

impl<T> fmt::Debug for SentRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentRequest").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Cancels one call, from anywhere. It keeps neither the call nor the connection alive.
#[derive(Clone)]
pub struct CancellationHandle(Target);

#[derive(Clone)]
enum Target {
    Call {
        shared: Weak<Shared>,
        call: CallId,
    },
    /// A call that is prepared and not sent yet.
    Prepared(Arc<Preparation>),
    Nothing,
}

impl CancellationHandle {
    pub(crate) fn of_prepared(preparation: Arc<Preparation>) -> Self {
        Self(Target::Prepared(preparation))
    }

    /// Cancels the call, cause `caller`; no effect on a settled one.
    pub fn cancel(&self) -> CancelOutcome {
        self.cancel_because(Cause::Caller)
    }

    /// As [`cancel`](Self::cancel), and tells the peer why in words, where the dialect has a place for
    /// that. A call that is not sent yet is taken back without a word.
    pub fn cancel_with_reason(&self, reason: &str) -> CancelOutcome {
        match &self.0 {
            Target::Call { shared, call } => match Weak::upgrade(shared) {
                Some(shared) => shared.command(|core, now| {
                    core.cancel_because(*call, Cause::Caller, Some(reason), now)
                }),
                None => CancelOutcome::AlreadySettled,
            },
            Target::Prepared(_) | Target::Nothing => self.cancel(),
        }
    }

    pub(crate) fn cancel_because(&self, cause: Cause) -> CancelOutcome {
        match &self.0 {
            Target::Call { shared, call } => match Weak::upgrade(shared) {
                Some(shared) => shared.command(|core, now| core.cancel(*call, cause, now)),
                None => CancelOutcome::AlreadySettled,
            },
            Target::Prepared(preparation) => preparation.cancel(cause),
            Target::Nothing => CancelOutcome::AlreadySettled,
        }
    }
}

impl fmt::Debug for CancellationHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationHandle").finish_non_exhaustive()
    }
}
