//! A count of a server's output that was no message.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what is no message.
#[derive(Debug, Default)]
pub(crate) struct Noises(AtomicU64);

impl Noises {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count in words, if there was any.
    pub(crate) fn total(&self) -> Option<String> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some("1 line was no message".into()),
            lines => Some(format!("{lines} lines were no messages")),
        }
    }
}
