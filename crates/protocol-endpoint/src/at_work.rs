//! Requests at work: taken to be served, without a response yet.

/// The number of requests at work, and their bytes.
///
/// A request has a place here from when it is taken until it gets its response. One that finds none gets
/// the dialect's overload code: reading goes on, so cancels get through (G3), and memory is bounded (G8).
#[derive(Debug)]
pub(crate) struct AtWork {
    requests: usize,
    bytes: usize,
    most_requests: usize,
    most_bytes: usize,
}

impl AtWork {
    pub(crate) const fn new(most_requests: usize, most_bytes: usize) -> Self {
        Self { requests: 0, bytes: 0, most_requests, most_bytes }
    }

    /// Returns the bytes of all requests at work.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Enters a request of this many bytes if it fits. It always fits if no other is at work.
    pub(crate) fn enter(&mut self, bytes: usize) -> bool {
        let has_room = self.requests < self.most_requests
            && self.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.most_bytes);
        if self.requests > 0 && !has_room {
            return false;
        }
        self.requests += 1;
        self.bytes += bytes;
        true
    }

    /// Removes a request of this many bytes that had entered.
    #[inline]
    pub(crate) fn leave(&mut self, bytes: usize) {
        self.requests -= 1;
        self.bytes -= bytes;
    }
}
