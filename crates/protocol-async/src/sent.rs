//! Calls in flight.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use protocol_core::{CallError, CallId, CancelOutcome, Cause, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::afterwards::contain;
use crate::cancellation::Cancellation;
use crate::failure::Failure;
use crate::hub::{Core, Shared};
use crate::json;
use crate::lease::Lease;
use crate::outcomes::{HandOver, RawOutcome, Slot};
use crate::peer::Preparation;
use crate::responder::Responder;
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
    result: PhantomData<fn() -> T>,
}

/// Where the outcome of a call is.
enum Whereabouts {
    /// With the connection, or still to come.
    There { lease: Arc<Lease>, call: CallId, slot: Slot },
    /// Here: the call was refused.
    Here(Box<CallError>),
    /// Nowhere: it was taken, handed over or given up. The call's id, if it was sent.
    Taken(Option<CallId>),
}

impl<T> SentRequest<T> {
    pub(crate) fn sent(lease: Arc<Lease>, call: CallId, slot: Slot) -> Self {
        Self { outcome: Whereabouts::There { lease, call, slot }, result: PhantomData }
    }

    pub(crate) fn refused(error: CallError) -> Self {
        Self { outcome: Whereabouts::Here(Box::new(error)), result: PhantomData }
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
        self.command(|core, call, now| core.cancel_because(call, Cause::Caller, reason, now))
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
        CancellationHandle(match &self.outcome {
            Whereabouts::There { lease, call, .. } => {
                Target::Call { shared: Arc::downgrade(lease.shared()), call: *call }
            }
            Whereabouts::Here(_) | Whereabouts::Taken(_) => Target::Nothing,
        })
    }

    /// Gives up interest in the outcome without cancelling the call.
    pub fn detach(mut self) {
        self.leave(Core::detach);
    }

    /// Cancels the call when `marker` is set. To be chained before the call is awaited or handed
    /// over; without it a call made by a proxy absorbs the cancel.
    pub fn forward_cancellation_from(self, marker: &Cancellation) -> Self {
        let handle = self.cancellation_handle();
        let key = marker.follow(Box::new(move |_| {
            handle.cancel_because(Cause::Parent);
        }));
        if let (Some(key), Whereabouts::There { lease, slot, .. }) = (key, &self.outcome) {
            let settled = lease.shared().lock().outcomes.keep(*slot, key);
            drop(settled);
        }
        self
    }

    fn hand_to(mut self, hand_over: HandOver) {
        let settled = match self.take_outcome() {
            Whereabouts::There { lease, slot, .. } => {
                let handed = lease.shared().lock().outcomes.hand_over(slot, hand_over);
                handed.map(drop)
            }
            Whereabouts::Here(error) => Err((hand_over, Err(error))),
            Whereabouts::Taken(_) => Ok(()),
        };
        if let Err((hand_over, outcome)) = settled {
            contain(|| hand_over(outcome));
        }
    }

    fn take_outcome(&mut self) -> Whereabouts {
        let taken = Whereabouts::Taken(self.id());
        mem::replace(&mut self.outcome, taken)
    }

    /// Gives up interest in the outcome, and does that about the call if it is in flight.
    fn leave<R>(&mut self, command: impl FnOnce(&mut Core, CallId, Timestamp) -> R) {
        if let Whereabouts::There { lease, call, slot } = self.take_outcome() {
            let left = lease.shared().lock().outcomes.leave(slot);
            if left.is_ok() {
                lease.shared().command(|core, now| command(core, call, now));
            }
        }
    }
}

impl<T: DeserializeOwned> SentRequest<T> {
    /// Hands the outcome to `then` when it is there, on whatever thread routes it; `then` must not
    /// block. The call is not cancelled when this returns.
    pub fn on_result(self, then: impl FnOnce(Result<T, CallError>) + Send + 'static) {
        self.hand_to(Box::new(move |outcome| then(decode(outcome))));
    }
}

impl<T> SentRequest<T> {
    /// Answers another request with the outcome, and cancels this call when that request is
    /// cancelled: one hop of a proxy.
    pub fn forward_response_to<R>(self, responder: Responder<R>) {
        let responder: Responder = responder.cast();
        let forwarded = self.forward_cancellation_from(&responder.cancellation());
        forwarded.hand_to(Box::new(move |outcome| {
            responder.answer(outcome.map_err(|error| Failure::from(*error)));
        }));
    }
}

impl<T: DeserializeOwned> Future for SentRequest<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Whereabouts::There { lease, call, slot } = &this.outcome {
            let mut state = lease.shared().lock();
            if !state.outcomes.is_settled(*slot) {
                let replaced = state.outcomes.wait(*slot, cx.waker());
                drop(state);
                // Dropping another task's waker may drop that task.
                drop(replaced);
                waits_for_peer();
                return Poll::Pending;
            }
            let outcome = state.outcomes.take(*slot);
            drop(state);
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
        self.leave(|core, call, now| core.cancel(call, Cause::Dropped, now));
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
                Some(shared) => shared
                    .command(|core, now| core.cancel_because(*call, Cause::Caller, reason, now)),
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
