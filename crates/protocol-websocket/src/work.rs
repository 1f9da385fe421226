//! The connection that a WebSocket carries, as seen from below.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use protocol_async::Peer;

/// A view of the connection above, which does not exist while its transport is made. Clones are the same view.
#[derive(Clone, Default)]
pub(crate) struct Work(Arc<OnceLock<Peer>>);

impl Work {
    pub(crate) fn of(&self, peer: &Peer) {
        // A transport carries one connection.
        let _ = self.0.set(peer.clone());
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        // The list has no limit, because responses that wait to be written are counted and not listed.
        self.0.get().is_some_and(|peer| !peer.in_flight(usize::MAX).is_empty())
    }

    /// Ready when the account of memory lets the connection read.
    pub(crate) fn poll_may_read(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.get().map_or(Poll::Ready(()), |peer| peer.poll_may_read(cx))
    }

    /// Charges the account with an unfinished message.
    pub(crate) fn note_unfinished(&self, bytes: usize) {
        if let Some(peer) = self.0.get() {
            peer.note_unfinished(bytes);
        }
    }
}
