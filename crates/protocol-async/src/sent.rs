//! Calls in flight.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use protocol_core::{CallError, CallId, CancelOutcome, Cause};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::afterwards::contain;
use crate::cancellation::{Cancellation, FollowerKey};
use crate::hub::Shared;
use crate::lease::Lease;
use crate::peer::Preparation;
use crate::responder::{Failure, Responder};
use crate::sync::{Arc, Mutex, Weak, lock};

/// What becomes of a call, as the peer wrote it.
pub(crate) type RawOutcome = Result<Box<RawValue>, CallError>;

/// Where the outcome of one call arrives.
#[derive(Default)]
pub(crate) struct CallSlot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    progress: Progress,
    /// The markers that cancel the call; let go when it settles.
    forwarded: Vec<FollowerKey>,
}

#[derive(Default)]
enum Progress {
    /// In flight, and nobody has asked.
    #[default]
    InFlight,
    /// In flight, and a task waits.
    Awaited(Waker),
    /// In flight, and what is to be done with the outcome is settled.
    Handed(Box<dyn FnOnce(RawOutcome) + Send>),
    Settled(RawOutcome),
    /// The outcome was given away.
    Taken,
}

impl CallSlot {
    /// Gives the slot its outcome. Not to be called under the connection's lock: it runs the
    /// host's own code.
    pub(crate) fn settle(&self, outcome: RawOutcome) {
        let mut state = lock(&self.0);
        let forwarded = mem::take(&mut state.forwarded);
        match mem::replace(&mut state.progress, Progress::Taken) {
            Progress::InFlight => {
                state.progress = Progress::Settled(outcome);
                drop(state);
            }
            Progress::Awaited(waker) => {
                state.progress = Progress::Settled(outcome);
                drop(state);
                contain(|| waker.wake());
            }
            Progress::Handed(hand_over) => {
                drop(state);
                contain(|| hand_over(outcome));
            }
            // The core settles a call once.
            settled @ (Progress::Settled(_) | Progress::Taken) => {
                state.progress = settled;
                drop(state);
            }
        }
        drop(forwarded);
    }

    fn hand_to(&self, hand_over: Box<dyn FnOnce(RawOutcome) + Send>) {
        let mut state = lock(&self.0);
        match mem::replace(&mut state.progress, Progress::Taken) {
            Progress::Settled(outcome) => {
                drop(state);
                contain(|| hand_over(outcome));
            }
            before => {
                state.progress = Progress::Handed(hand_over);
                drop(state);
                drop(before);
            }
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<RawOutcome> {
        let mut state = lock(&self.0);
        match mem::replace(&mut state.progress, Progress::Taken) {
            Progress::Settled(outcome) => Poll::Ready(outcome),
            Progress::Taken => panic!("a SentRequest was polled after it gave its outcome"),
            Progress::Awaited(waker) if waker.will_wake(cx.waker()) => {
                state.progress = Progress::Awaited(waker);
                Poll::Pending
            }
            before => {
                state.progress = Progress::Awaited(cx.waker().clone());
                // Dropping another task's waker may drop that task.
                drop(state);
                drop(before);
                Poll::Pending
            }
        }
    }

    fn keep(&self, forwarded: Option<FollowerKey>) {
        let mut state = lock(&self.0);
        let in_flight = !matches!(state.progress, Progress::Settled(_) | Progress::Taken);
        match forwarded {
            Some(key) if in_flight => state.forwarded.push(key),
            other => {
                drop(state);
                drop(other);
            }
        }
    }
}

/// A call in flight: a future of its outcome.
///
/// Dropping it before the response is routed cancels the call, cause `dropped`; once the response
/// is routed that does nothing, whether or not anyone took the outcome.
///
/// Awaiting it gives the result as `T`, or the [`CallError`]; a call that was never sent gives
/// [`CallError::Refused`].
#[must_use = "dropping it cancels the call"]
pub struct SentRequest<T = Box<RawValue>> {
    slot: Arc<CallSlot>,
    in_flight: InFlight,
    result: PhantomData<fn() -> T>,
}

/// What dropping a [`SentRequest`] has to do.
enum InFlight {
    /// Cancel this call.
    Armed { lease: Arc<Lease>, call: CallId },
    /// Nothing: it was refused, detached or handed over.
    Disarmed,
}

impl<T> SentRequest<T> {
    pub(crate) fn sent(lease: Arc<Lease>, call: CallId, slot: Arc<CallSlot>) -> Self {
        Self { slot, in_flight: InFlight::Armed { lease, call }, result: PhantomData }
    }

    pub(crate) fn refused(error: CallError) -> Self {
        let slot = Arc::new(CallSlot::default());
        slot.settle(Err(error));
        Self { slot, in_flight: InFlight::Disarmed, result: PhantomData }
    }

    /// The call's id, whose number is what stands on the wire; `None` if it was refused.
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        match &self.in_flight {
            InFlight::Armed { call, .. } => Some(*call),
            InFlight::Disarmed => None,
        }
    }

    /// Cancels the call. A change of state and never a wait (B29): the outcome comes all the same.
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
        match &self.in_flight {
            InFlight::Armed { lease, call } => CancellationHandle(Target::Call {
                shared: Arc::downgrade(lease.shared()),
                call: *call,
            }),
            InFlight::Disarmed => CancellationHandle(Target::Nothing),
        }
    }

    /// Gives up interest in the outcome without cancelling the call.
    pub fn detach(mut self) {
        if let InFlight::Armed { lease, call } = self.disarm() {
            lease.shared().command(|core, now| core.detach(call, now));
        }
    }

    /// Cancels the call when `marker` is set. To be chained before the call is awaited or handed
    /// over; without it a call made by a proxy absorbs the cancel.
    pub fn forward_cancellation_from(self, marker: &Cancellation) -> Self {
        let handle = self.cancellation_handle();
        let key = marker.follow(Box::new(move |_| {
            handle.cancel_because(Cause::Parent);
        }));
        self.slot.keep(key);
        self
    }

    fn disarm(&mut self) -> InFlight {
        mem::replace(&mut self.in_flight, InFlight::Disarmed)
    }
}

impl<T: DeserializeOwned> SentRequest<T> {
    /// Hands the outcome to `then` when it is there, on whatever thread routes it; `then` must not
    /// block. The call is not cancelled when this returns.
    pub fn on_result(mut self, then: impl FnOnce(Result<T, CallError>) + Send + 'static) {
        self.disarm();
        self.slot.hand_to(Box::new(move |outcome| then(decode(outcome))));
    }
}

impl<T> SentRequest<T> {
    /// Answers another request with the outcome, and cancels this call when that request is
    /// cancelled: one hop of a proxy.
    pub fn forward_response_to<R>(self, responder: Responder<R>) {
        let responder: Responder = responder.cast();
        let mut forwarded = self.forward_cancellation_from(&responder.cancellation());
        forwarded.disarm();
        forwarded.slot.hand_to(Box::new(move |outcome| {
            responder.answer(outcome.map_err(Failure::from));
        }));
    }
}

impl<T: DeserializeOwned> Future for SentRequest<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(cx).map(decode)
    }
}

fn decode<T: DeserializeOwned>(outcome: RawOutcome) -> Result<T, CallError> {
    let result = outcome?;
    serde_json::from_str(result.get())
        .map_err(|error| CallError::InvalidResult { problem: error.to_string() })
}

impl<T> Drop for SentRequest<T> {
    fn drop(&mut self) {
        if let InFlight::Armed { lease, call } = self.disarm() {
            lease.shared().command(|core, now| core.cancel(call, Cause::Dropped, now));
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
