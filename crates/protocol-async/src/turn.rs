//! Whose turn it is: notifications are handled in order, but one that waits for the peer gives its
//! turn up, because the peer may be waiting for us (F36).

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    /// Whether something that was polled on this thread waits for a peer.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Takes note that the task at hand waits for a peer: for an answer, or for the peer to read.
pub(crate) fn waits_for_peer() {
    WAITS.set(true);
}

/// Some work, up to the moment when what comes after it need not wait any more: it is done, or it
/// waits for a peer. Gives what is left of it.
pub(crate) struct Turn<W>(Option<W>);

impl<W> Turn<W> {
    pub(crate) const fn of(work: W) -> Self {
        Self(Some(work))
    }
}

impl<W: Future + Unpin> Future for Turn<W> {
    type Output = Option<W>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<W>> {
        let work = self.0.as_mut().expect("it is not polled again once it is over");
        // The task that polls this one may be somebody's turn, too.
        let around = WAITS.replace(false);
        let polled = Pin::new(work).poll(cx);
        let waits = WAITS.replace(around);
        match polled {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending if waits => Poll::Ready(self.0.take()),
            Poll::Pending => Poll::Pending,
        }
    }
}
