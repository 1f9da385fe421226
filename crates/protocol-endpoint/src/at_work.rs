//! Requests at work: taken to be served, without a response yet.

use crate::rows::Work;

/// The number of requests at work, and their bytes.
///
/// A request has a place here from when it is taken until it gets its response. One that finds none gets
/// the dialect's overload code: reading goes on, so cancels get through (G3), and memory is bounded (G8).
#[derive(Debug)]
pub(crate) struct AtWork {
    requests: usize,
    bytes: u64,
    most_requests: usize,
    most_bytes: u64,
}

impl AtWork {
    pub(crate) const fn new(most_requests: usize, most_bytes: usize) -> Self {
        Self { requests: 0, bytes: 0, most_requests, most_bytes: most_bytes as u64 }
    }

    /// Returns the bytes of all requests at work.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Enters a request if it fits. One that is alone always does.
    pub(crate) fn enter(&mut self, work: Work) -> bool {
        let bytes = work.bytes().unwrap_or(0);
        let has_room = self.requests < self.most_requests && self.bytes + bytes <= self.most_bytes;
        if self.requests > 0 && !has_room {
            return false;
        }
        self.requests += 1;
        self.bytes += bytes;
        true
    }

    /// Takes a request out that had entered.
    #[inline]
    pub(crate) fn leave(&mut self, work: Work) {
        if let Some(bytes) = work.bytes() {
            self.requests -= 1;
            self.bytes -= bytes;
        }
    }
}
