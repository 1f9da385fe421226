//! The handle that responds to one request of the peer.

use std::fmt;
use std::marker::PhantomData;

use protocol_core::{Cause, Refusal, RequestHandle, Response, WireId};
use protocol_endpoint::{Answer, Failure};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cancellation::Cancellation;
use crate::json::written;
use crate::lease::Lease;
use crate::peer::Peer;
use crate::spanned;
use crate::spans::RequestSpan;
use crate::sync::{Arc, Mutex, Weak, lock};

/// A responder, which owes one request its response. Dropping it responds too: as cancelled if the
/// request is, else with error -32603, which names the method.
///
/// The trait `rescind::blocking::Responder` is another type: what a handler on threads can do.
#[must_use = "dropping it answers the request with an error"]
pub struct Responder<T = Box<RawValue>> {
    /// Invariant: `Some` until the request has its response.
    debt: Option<Debt>,
    result: PhantomData<fn(T)>,
}

struct Debt {
    lease: Arc<Lease>,
    request: RequestHandle,
    marker: Cancellation,
    /// The place to which the responder returns if it is dropped before it responds.
    returns_to: Option<Weak<Mutex<Option<Responder>>>>,
}

/// A place to which a responder returns that is dropped before it responds.
///
/// Dropping this place drops the responder in it, which then responds as any other does.
#[doc(hidden)]
#[derive(Debug)]
pub struct ReturnSlot(Arc<Mutex<Option<Responder>>>);

impl ReturnSlot {
    /// Takes the responder, if it was dropped.
    #[must_use]
    pub fn take(&self) -> Option<Responder> {
        lock(&self.0).take()
    }
}

impl Responder {
    pub(crate) fn new(lease: Arc<Lease>, request: RequestHandle, marker: Cancellation) -> Self {
        let returns_to = None;
        Self { debt: Some(Debt { lease, request, marker, returns_to }), result: PhantomData }
    }

    /// Makes the responder return to a place when it is dropped, instead of responding.
    ///
    /// Once the place is gone, it responds when it is dropped, as ever.
    #[doc(hidden)]
    pub fn return_to(&mut self) -> ReturnSlot {
        let slot = Arc::new(Mutex::new(None));
        if let Some(debt) = &mut self.debt {
            debt.returns_to = Some(Arc::downgrade(&slot));
        }
        ReturnSlot(slot)
    }
}

impl<T> Responder<T> {
    /// Returns the request's marker.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        self.owed().marker.clone()
    }

    /// Returns whether the request was cancelled. It costs one relaxed load.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.owed().marker.is_cancelled()
    }

    /// Returns the handle of the request, for calls on its behalf
    /// ([`CallOptions::parent`](protocol_core::CallOptions::parent)).
    #[must_use]
    pub fn handle(&self) -> RequestHandle {
        self.owed().request
    }

    /// Returns the id of the request as the peer wrote it. It means nothing on another connection.
    #[must_use]
    pub fn id(&self) -> Option<WireId> {
        let Debt { lease, request, .. } = self.owed();
        lease.lock().endpoint.request_id(*request).cloned()
    }

    /// Returns the peer that sent the request.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(self.owed().lease.clone())
    }

    /// Runs some work inside the request's span, if it has one. A router does so for its handlers.
    pub fn in_span<U>(&self, work: impl FnOnce() -> U) -> U {
        self.request_span().inside(work)
    }

    /// Returns the request's span, for futures: `work.instrument(responder.span())`. It is disabled if
    /// nobody listened when the request was taken.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn span(&self) -> tracing::Span {
        self.request_span().span()
    }

    /// Returns the span, which a clone keeps open.
    #[doc(hidden)]
    #[must_use]
    pub fn request_span(&self) -> RequestSpan {
        let Debt { lease, request, .. } = self.owed();
        spanned::of_request(lease, *request)
    }

    /// Cancels the request for a reason of our own. It is marked exactly as if the peer had cancelled it.
    pub fn cancel(&self) {
        let Debt { lease, request, .. } = self.owed();
        lease.at(|inner, now, effects| {
            inner.endpoint.cancel_request(*request, Cause::Internal, now, effects);
        });
    }

    /// Ends a request of the client's without a response, if the dialect lets the server do that. The
    /// client gets the reason, if there is one.
    ///
    /// # Errors
    ///
    /// As [`Connection::end_request`](protocol_core::Connection::end_request). The responder is returned
    /// with the error.
    pub fn end(mut self, reason: Option<&str>) -> Result<(), (Refusal, Self)> {
        let Debt { lease, request, .. } = self.owed();
        let mut ended = Ok(());
        lease.finish(|endpoint, effects| {
            let mark = endpoint.end_request(*request, reason, effects);
            mark.map_err(|refusal| ended = Err(refusal)).ok().flatten()
        });
        match ended {
            Ok(()) => {
                self.debt = None;
                Ok(())
            }
            Err(refusal) => Err((refusal, self)),
        }
    }

    /// Converts this responder into one for results of another type.
    pub fn cast<U>(mut self) -> Responder<U> {
        Responder { debt: self.debt.take(), result: PhantomData }
    }

    /// Responds with a failure.
    pub fn respond_with_failure(self, failure: impl Into<Failure>) {
        self.answer(Err(failure.into()));
    }

    /// Responds with a result that is JSON already, or with a failure. It never blocks: a response that
    /// has no room yet waits for it.
    pub fn answer(mut self, answer: Answer) {
        match answer {
            Ok(result) => self.pay(Response::Result(&result)),
            Err(failure) if self.is_cancellation(&failure) => self.pay(Response::Cancelled),
            Err(failure) => self.pay(failure.as_response()),
        }
    }

    /// Returns whether a failure of the handler is but the cancellation of its request: a call was lost by
    /// what cancelled it. Such a failure is no trouble.
    #[doc(hidden)]
    #[must_use]
    pub fn is_cancellation(&self, failure: &Failure) -> bool {
        let Debt { lease, request, .. } = self.owed();
        // Only such a failure may be the loss of the connection.
        matches!(failure, Failure::Internal(_))
            && lease.lock().endpoint.is_cancellation(*request, failure)
    }

    fn owed(&self) -> &Debt {
        self.debt.as_ref().expect("only answering, which consumes the responder, takes it")
    }

    fn pay(&mut self, response: Response<'_>) {
        if let Some(Debt { lease, request, marker, .. }) = self.debt.take() {
            // Nobody else may have the marker: then it is used again.
            drop(marker);
            lease.respond(request, response);
        }
    }
}

impl<T: Serialize> Responder<T> {
    /// Responds with a result.
    pub fn respond(mut self, result: T) {
        let paid = written(&result, |result| self.pay(Response::Result(result)));
        if let Err(error) = paid {
            self.pay(Failure::from(error).as_response());
        }
    }

    /// Responds with a result or a failure.
    pub fn respond_with_result<E: Into<Failure>>(self, result: Result<T, E>) {
        match result {
            Ok(result) => self.respond(result),
            Err(failure) => self.answer(Err(failure.into())),
        }
    }
}

impl<T> Drop for Responder<T> {
    fn drop(&mut self) {
        let Some(debt) = &mut self.debt else { return };
        if let Some(slot) = debt.returns_to.take().and_then(|slot| slot.upgrade()) {
            *lock(&slot) = Some(Responder { debt: self.debt.take(), result: PhantomData });
            return;
        }
        if let Some(Debt { lease, request, marker, .. }) = self.debt.take() {
            drop(marker);
            lease.finish(|endpoint, effects| endpoint.respond_for_worker(request, effects));
        }
    }
}

impl<T> fmt::Debug for Responder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("request", &self.debt.as_ref().map(|debt| debt.request))
            .field("cancelled", &self.debt.as_ref().and_then(|debt| debt.marker.cause()))
            .finish_non_exhaustive()
    }
}
