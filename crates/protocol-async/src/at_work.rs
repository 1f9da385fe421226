//! Requests at work: taken to be served, and not answered yet.

use crate::message::Request;

/// How many requests of one connection are at work, and the bytes of what they ask.
///
/// A request has a place here from when it is taken until it is answered. One that finds none is
/// answered with the dialect's overload code: reading goes on, so cancels get through (G3), and memory
/// is bounded (G8).
#[derive(Debug)]
pub(crate) struct AtWork {
    requests: usize,
    bytes: usize,
    most_requests: usize,
    most_bytes: usize,
}

/// The place of one request, which whoever answers it gives back.
#[derive(Debug)]
#[must_use = "a place that is not given back is lost"]
pub(crate) struct Place {
    bytes: usize,
}

impl AtWork {
    pub(crate) const fn new(most_requests: usize, most_bytes: usize) -> Self {
        Self { requests: 0, bytes: 0, most_requests, most_bytes }
    }

    /// A place for a request, if it fits; one that is alone always does.
    pub(crate) fn enter(&mut self, request: &Request) -> Option<Place> {
        let bytes = request.bytes();
        let has_room = self.requests < self.most_requests
            && self.bytes.saturating_add(bytes) <= self.most_bytes;
        if self.requests > 0 && !has_room {
            return None;
        }
        self.requests += 1;
        self.bytes += bytes;
        Some(Place { bytes })
    }

    pub(crate) fn leave(&mut self, place: Place) {
        self.requests -= 1;
        self.bytes -= place.bytes;
    }
}
