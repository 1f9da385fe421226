//! The pace at which a side is read while the other side does not read.

use std::task::Poll;
use std::time::Duration;

use protocol_core::Timestamp;

/// A side is read slowly while so large a part of the other one's outbox is full: one sixteenth.
pub(super) const SLOW_AT: usize = 16;
/// The time between two reads then. It is short, because a cancel may be behind what piles up.
const BETWEEN_READS: Duration = Duration::from_millis(100);

/// The pace of one side.
#[derive(Default)]
pub(super) struct Pace {
    /// The time of the next read, while the other side is slow.
    next: Option<Timestamp>,
}

impl Pace {
    /// Is ready when the side may be read.
    pub(super) fn poll(&mut self, is_slow: bool, now: impl FnOnce() -> Timestamp) -> Poll<()> {
        if is_slow && self.next.is_some_and(|next| next > now()) {
            return Poll::Pending;
        }
        self.next = None;
        Poll::Ready(())
    }

    /// Takes a read, which the next one follows after a pause if the other side is slow.
    pub(super) fn read(&mut self, is_slow: bool, now: impl FnOnce() -> Timestamp) {
        self.next = is_slow.then(|| now() + BETWEEN_READS);
    }

    /// Returns the time to poll again.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        self.next
    }
}
