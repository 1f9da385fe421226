//! The connection that a WebSocket carries, as seen from below.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use protocol_async::Peer;

/// A view of whether anything is in flight on a connection. It is empty before there is a connection. Clones are
/// the same.
#[derive(Clone, Default)]
pub(crate) struct Work(Arc<Mutex<Option<Peer>>>);

impl Work {
    pub(crate) fn of(&self, peer: &Peer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer.clone());
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        // All are looked at, for those whose answers wait to be written are counted and not listed.
        self.peer().is_some_and(|peer| !peer.in_flight(usize::MAX).is_empty())
    }

    /// Ready when the account of memory lets the connection read.
    pub(crate) fn poll_may_read(&self, cx: &Context<'_>) -> Poll<()> {
        self.peer().map_or(Poll::Ready(()), |peer| peer.poll_may_read(cx))
    }

    /// Charges the account with an unfinished message.
    pub(crate) fn note_unfinished(&self, bytes: usize) {
        if let Some(peer) = self.peer() {
            peer.note_unfinished(bytes);
        }
    }

    fn peer(&self) -> Option<Peer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
