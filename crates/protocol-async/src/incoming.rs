//! Arrivals: the messages of the peer, and the rules that it broke.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use protocol_core::{CloseReason, Violation, WireId};
use protocol_endpoint::{Arrived, Line, Notification, Place, Request};

use crate::lease::{Lease, Taker};
use crate::peer::Peer;
use crate::responder::Responder;
use crate::shared::Inner;
use crate::spanned;
use crate::spans;
use crate::sync::Arc;
use crate::wait::{leave, poll_wait};
use crate::waiter::Effects;

/// An arrival: one message of the peer, or one rule that it broke.
#[derive(Debug)]
#[non_exhaustive]
// Its tag is a word, because a tag of one byte splits the words that are moved with it.
#[repr(usize)]
pub enum Arrival {
    /// A request, and its responder.
    Request(Request, Responder),
    /// A notification, which has no response.
    Notification(Notification),
    /// The peer broke a rule. The core has responded already, if a response was possible. A late response is nobody's
    /// fault, and is none of these.
    Violation {
        /// The rule that the peer broke.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<WireId>,
    },
    /// Notifications and violations that were not kept, because too much waited to be taken
    /// ([`Options::inbox_bytes`](protocol_endpoint::Options::inbox_bytes)).
    Missed {
        /// The number of notifications and violations that were not kept.
        count: usize,
    },
}

/// The arrivals of a connection, in the order of the wire. Clones share the queue, and the
/// [`receive`](Self::receive) that has waited longest gets the next arrival.
///
/// When the last clone is dropped, requests get error -32601, and everything else is dropped.
#[derive(Debug)]
pub struct Incoming {
    // Dropped before the lease: requests that it refuses still get responses.
    taker: Arc<Taker>,
    lease: Arc<Lease>,
    /// The [`Timer::yield_now`](crate::Timer::yield_now) of the connection's runtime.
    yields: Yields,
}

type Yields = fn(&mut Context<'_>);

impl Incoming {
    pub(crate) fn new(lease: Arc<Lease>, taker: Arc<Taker>) -> Self {
        Self { taker, lease, yields: |cx| cx.waker().wake_by_ref() }
    }

    pub(crate) fn yielding(mut self, yields: Yields) -> Self {
        self.yields = yields;
        self
    }

    /// Wakes the task once other tasks have run, the driver among them.
    #[doc(hidden)]
    pub fn yield_now(&self, cx: &mut Context<'_>) {
        (self.yields)(cx);
    }

    /// Waits for the next arrival.
    ///
    /// Dropping the future before it is ready loses nothing (B28).
    ///
    /// # Errors
    ///
    /// Returns the reason why the connection closed, once everything that arrived before is taken.
    pub fn receive(
        &self,
    ) -> impl Future<Output = Result<Arrival, CloseReason>> + Send + Unpin + '_ {
        Receive { lease: &self.lease, place: None }
    }

    /// Takes the oldest waiting notification with this method ahead of its turn. It is for feature
    /// methods that concern running work, such as `session/cancel`.
    #[must_use]
    pub fn take_notification(&self, method: &str) -> Option<Notification> {
        self.lease.with(|inner, _| inner.endpoint.take_notification(method))
    }

    /// Returns the peer whose messages these are.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(self.lease.clone())
    }
}

impl Clone for Incoming {
    fn clone(&self) -> Self {
        Self::new(self.lease.clone(), self.taker.clone()).yielding(self.yields)
    }
}

/// The future of [`Incoming::receive`]. Polled again after it was ready, it takes the next arrival.
struct Receive<'a> {
    lease: &'a Arc<Lease>,
    /// Its place among those that wait.
    place: Option<Place>,
}

impl Future for Receive<'_> {
    type Output = Result<Arrival, CloseReason>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { lease, place } = self.get_mut();
        let taken = poll_wait(lease, Line::Arrival, place, cx.waker(), |inner, _, effects| {
            take(lease, inner, effects)
        });
        match &taken {
            Poll::Ready(Ok(Arrival::Request(request, responder))) => {
                let marker = || responder.cancellation();
                spanned::request_begins(lease, request, responder.handle(), marker);
            }
            Poll::Ready(Ok(Arrival::Missed { count })) => spans::missed(*count),
            _ => {}
        }
        taken
    }
}

impl Drop for Receive<'_> {
    fn drop(&mut self) {
        leave(self.lease, Line::Arrival, self.place.take());
    }
}

fn take(
    lease: &Arc<Lease>,
    inner: &mut Inner,
    effects: &mut Effects,
) -> Option<Result<Arrival, CloseReason>> {
    let Some(arrived) = inner.endpoint.take(effects) else {
        let is_empty = inner.endpoint.arrivals() == 0;
        return inner.endpoint.closed().filter(|_| is_empty).map(Err);
    };
    Some(Ok(match arrived {
        Arrived::Request(handle, request) => {
            let marker = inner.mark(handle);
            Arrival::Request(request, Responder::new(lease.clone(), handle, marker))
        }
        Arrived::Notification(notification) => Arrival::Notification(notification),
        Arrived::Violation(violation, id) => Arrival::Violation { violation, id },
        Arrived::Missed(count) => Arrival::Missed { count },
    }))
}
