//! The handle that responds to one request of the peer.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use protocol_core::{Cause, Refusal, RequestHandle, code};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::answer::RpcError;
use crate::at_work::Place;
use crate::cancellation::Cancellation;
use crate::failure::{Answer, Failure};
use crate::json::written;
use crate::lease::Lease;
use crate::method::clip;
use crate::peer::Peer;
use crate::spanned;
use crate::spans::RequestSpan;
use crate::state::Given;
use crate::sync::Arc;

/// Owes one request its answer. Dropping it pays too: as cancelled if the request is, else with
/// error -32603 that names the method.
#[must_use = "dropping it answers the request with an error"]
pub struct Responder<T = Box<RawValue>> {
    /// Invariant: `Some` until the request is answered.
    debt: Option<Debt>,
    result: PhantomData<fn(T)>,
}

struct Debt {
    lease: Arc<Lease>,
    request: RequestHandle,
    marker: Cancellation,
    /// Among the requests at work.
    place: Place,
}

impl Responder {
    pub(crate) fn new(
        lease: Arc<Lease>,
        request: RequestHandle,
        marker: Cancellation,
        place: Place,
    ) -> Self {
        Self { debt: Some(Debt { lease, request, marker, place }), result: PhantomData }
    }
}

impl<T> Responder<T> {
    /// The request's marker.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        self.owed().marker.clone()
    }

    /// Whether the request was cancelled. One relaxed load.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.owed().marker.is_cancelled()
    }

    /// Names the request; what a call is made on behalf of
    /// ([`CallOptions::parent`](protocol_core::CallOptions::parent)).
    #[must_use]
    pub fn handle(&self) -> RequestHandle {
        self.owed().request
    }

    /// The peer that sent the request.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(self.owed().lease.clone())
    }

    /// Does some work inside the request's span, if it has one: what a [`Router`](crate::Router) does for
    /// its handlers.
    pub fn in_span<U>(&self, work: impl FnOnce() -> U) -> U {
        self.request_span().inside(work)
    }

    /// The request's span, for futures: `work.instrument(responder.span())`. It is disabled if nobody
    /// listened when the request was taken.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn span(&self) -> tracing::Span {
        self.request_span().span()
    }

    pub(crate) fn request_span(&self) -> RequestSpan {
        let Debt { lease, request, .. } = self.owed();
        spanned::of_request(lease, *request)
    }

    /// Cancels the request for a reason of our own: it is marked exactly as if the peer had asked.
    pub fn cancel(&self) {
        let Debt { lease, request, .. } = self.owed();
        lease.command(|core, now| core.cancel_request(*request, Cause::Internal, now));
    }

    /// Ends a request of the client's that the dialect lets the server end, without an answer, and
    /// perhaps tells why.
    ///
    /// # Errors
    ///
    /// As [`Connection::end_request`](protocol_core::Connection::end_request), with the responder
    /// given back.
    pub fn end(mut self, reason: Option<&str>) -> Result<(), (Refusal, Self)> {
        let Debt { lease, request, .. } = self.owed();
        let ended =
            lease.send(|state, _| state.stream.connection_mut().end_request(*request, reason));
        match ended {
            Ok(entry) => {
                spanned::request_ends(lease, *request);
                if let Some(Debt { lease, place, .. }) = self.debt.take() {
                    lease.with(|state, after| {
                        state.at_work.leave(place);
                        state.let_go(entry, after);
                    });
                }
                Ok(())
            }
            Err(refusal) => Err((refusal, self)),
        }
    }

    /// The same debt, for a result of another type.
    pub fn cast<U>(mut self) -> Responder<U> {
        Responder { debt: self.debt.take(), result: PhantomData }
    }

    /// Answers with a failure.
    pub fn respond_with_failure(self, failure: impl Into<Failure>) {
        self.answer(Err(failure.into()));
    }

    /// Answers with what is already on the wire's terms. Never blocks: an answer that has no room
    /// yet waits for it.
    pub fn answer(mut self, answer: Answer) {
        self.pay(answer.into());
    }

    fn owed(&self) -> &Debt {
        self.debt.as_ref().expect("only answering, which consumes the responder, takes it")
    }

    fn pay(&mut self, given: Given<'_>) {
        if let Some(Debt { lease, request, marker, place }) = self.debt.take() {
            // Nobody else may have the marker: then it is used again.
            drop(marker);
            lease.respond(request, Some(place), given);
        }
    }
}

impl<T: Serialize> Responder<T> {
    /// Answers with a result.
    pub fn respond(mut self, result: T) {
        let paid = written(&result, |result| self.pay(Given::Result(Cow::Borrowed(result))));
        if let Err(error) = paid {
            self.pay(Given::Failure(error.into()));
        }
    }

    /// Answers with a result or a failure.
    pub fn respond_with_result<E: Into<Failure>>(self, result: Result<T, E>) {
        match result {
            Ok(result) => self.respond(result),
            Err(failure) => self.answer(Err(failure.into())),
        }
    }
}

impl<T> Drop for Responder<T> {
    fn drop(&mut self) {
        let Some(debt) = &self.debt else { return };
        let method = debt.lease.worker_gone(debt.request);
        let failure = if debt.marker.is_cancelled() {
            Failure::Cancelled
        } else {
            let message = format!("no answer from the handler of {}", clip(&method));
            Failure::Error(RpcError::new(code::INTERNAL_ERROR, message))
        };
        self.pay(Given::Failure(failure));
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
