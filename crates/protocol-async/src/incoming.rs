//! What the peer sends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use protocol_core::{BeforeStart, CloseReason, Violation, WireId};

use crate::failure::Failure;
use crate::inbox::Arrived;
use crate::lease::{Lease, Taker};
use crate::message::{Notification, Request};
use crate::peer::Peer;
use crate::responder::Responder;
use crate::spanned;
use crate::spans;
use crate::state::{Given, State};
use crate::sync::{Arc, MutexGuard};
use crate::wait::{Line, WaitFor, leave, poll_wait};
use crate::waiters::Place;

/// One thing that the peer sent, or did wrong.
#[derive(Debug)]
#[non_exhaustive]
// Its tag is a word, because a tag of one byte splits the words that are moved with it.
#[repr(usize)]
pub enum Arrival {
    /// A request, and what answers it.
    Request(Request, Responder),
    /// A notification, which has no response.
    Notification(Notification),
    /// The peer broke a rule; the core has answered it already.
    Violation {
        /// The rule that the peer broke.
        violation: Violation,
        /// The id of the message that broke it, if it can be read.
        id: Option<WireId>,
    },
    /// So many notifications were not kept, because nobody took them:
    /// [`Options::inbox_bytes`](crate::Options::inbox_bytes).
    Missed {
        /// The number of notifications that were not kept.
        count: usize,
    },
}

/// The stream of what the peer sends, in its order. It ends when the connection is closed and
/// everything that arrived before is taken. Clones share the queue.
///
/// When the last clone is dropped, requests are answered -32601 and everything else is let go.
#[derive(Debug)]
pub struct Incoming {
    // Goes before the lease: what it refuses is then still answered.
    taker: Arc<Taker>,
    lease: Arc<Lease>,
    /// Where the stream waits.
    place: Option<Place>,
}

const ARRIVED: Line = |state| &mut state.arrived;

impl Incoming {
    pub(crate) fn new(lease: Arc<Lease>, taker: Arc<Taker>) -> Self {
        Self { taker, lease, place: None }
    }

    /// Waits for the next arrival.
    ///
    /// Dropping the future before it is ready loses nothing (B28).
    ///
    /// # Errors
    ///
    /// Why the connection closed, once everything that arrived before is taken.
    pub fn receive(
        &self,
    ) -> impl Future<Output = Result<Arrival, CloseReason>> + Send + Unpin + '_ {
        WaitFor::new(&self.lease, ARRIVED, |state| take(&self.lease, state))
    }

    /// Takes the oldest waiting notification with this method ahead of its turn: for feature
    /// methods, such as `session/cancel`, that are about work at hand.
    #[must_use]
    pub fn take_notification(&self, method: &str) -> Option<Notification> {
        self.lease.lock().inbox.take_notification(method)
    }

    /// The peer whose messages these are.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(self.lease.clone())
    }
}

impl Clone for Incoming {
    fn clone(&self) -> Self {
        Self::new(self.lease.clone(), self.taker.clone())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        leave(&self.lease, ARRIVED, self.place.take());
    }
}

impl Stream for Incoming {
    type Item = Arrival;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arrival>> {
        let this = self.get_mut();
        let found = take(&this.lease, this.lease.lock());
        poll_wait(found, ARRIVED, &mut this.place, cx).map(Result::ok)
    }
}

/// Takes the next arrival, or gives the lock back. Requests that find no place among those at work are
/// answered here, and where the dialect says so, those that were cancelled before their turn.
fn take<'a>(
    lease: &'a Arc<Lease>,
    mut state: MutexGuard<'a, State>,
) -> Result<Result<Arrival, CloseReason>, MutexGuard<'a, State>> {
    // A loop: a peer may cancel any number of requests before their turn (F30).
    loop {
        let Some(arrived) = state.inbox.pop() else {
            return state.closed.map_or(Err(state), |reason| Ok(Err(reason)));
        };
        return Ok(Ok(match arrived {
            Arrived::Request(handle, request) => {
                let rule = state.core().config().dialect.before_start;
                let entry = state.stream.connection_mut().request_data_mut(handle);
                let marker = entry.and_then(|entry| entry.marker.clone());
                let marker = marker.expect("only its responder answers a request");
                let taken = if rule == BeforeStart::Skipped && marker.is_cancelled() {
                    Err(Given::Failure(Failure::Cancelled))
                } else {
                    state.at_work.enter(&request).ok_or_else(|| state.too_many_at_work())
                };
                drop(state);
                match taken {
                    Ok(place) => {
                        spanned::request_begins(lease, handle, &request, &marker);
                        let responder = Responder::new(lease.clone(), handle, marker, place);
                        Arrival::Request(request, responder)
                    }
                    Err(refusal) => {
                        lease.respond(handle, None, refusal);
                        state = lease.lock();
                        continue;
                    }
                }
            }
            Arrived::Notification(notification) => Arrival::Notification(notification),
            Arrived::Violation(violation, id) => Arrival::Violation { violation, id },
            Arrived::Missed(count) => {
                drop(state);
                spans::missed(count);
                Arrival::Missed { count }
            }
        }));
    }
}
