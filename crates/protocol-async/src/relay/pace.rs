//! How fast a side is read whose words the other side does not take.

use std::task::Poll;
use std::time::Duration;

use protocol_core::Timestamp;

/// A side is read slowly while this part of what may wait for the other one does.
pub(super) const SLOW_AT: usize = 16;
/// How long the next read has to wait then. It is not for ever: behind what piles up may be a cancel.
const BETWEEN_READS: Duration = Duration::from_millis(100);

/// The pace of one side.
#[derive(Default)]
pub(super) struct Pace {
    /// When the next read may be, while the other side is slow.
    next: Option<Timestamp>,
}

impl Pace {
    /// Ready when it may be read.
    pub(super) fn poll(&mut self, is_slow: bool, now: impl FnOnce() -> Timestamp) -> Poll<()> {
        if !is_slow {
            self.next = None;
            return Poll::Ready(());
        }
        let now = now();
        if self.next.is_some_and(|next| next > now) {
            return Poll::Pending;
        }
        self.next = Some(now + BETWEEN_READS);
        Poll::Ready(())
    }

    /// When to poll again.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        self.next
    }
}
