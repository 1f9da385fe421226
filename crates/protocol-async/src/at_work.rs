//! Requests at work: taken to be served, and not answered yet.

use crate::message::Request;
use crate::sync::{Arc, AtomicUsize, Ordering::Relaxed};

/// How many requests of one connection are at work, and the bytes of what they ask.
///
/// A request has a place here from when it is taken until its responder is gone. One that finds none is
/// answered with the dialect's overload code: reading goes on, so cancels get through (G3), and memory
/// is bounded (G8).
#[derive(Debug)]
pub(crate) struct AtWork {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    most_requests: usize,
    most_bytes: usize,
}

/// The place of one request.
#[derive(Debug)]
pub(crate) struct Place {
    at_work: Arc<AtWork>,
    bytes: usize,
}

impl AtWork {
    pub(crate) fn new(most_requests: usize, most_bytes: usize) -> Arc<Self> {
        let (requests, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { requests, bytes, most_requests, most_bytes })
    }

    /// A place for a request, if it fits; one that is alone always does. To be called under the
    /// connection's lock: then places can only be given back meanwhile.
    pub(crate) fn enter(self: &Arc<Self>, request: &Request) -> Option<Place> {
        let bytes = request.bytes();
        let others = self.requests.load(Relaxed);
        let has_room = others < self.most_requests
            && self.bytes.load(Relaxed).saturating_add(bytes) <= self.most_bytes;
        if others > 0 && !has_room {
            return None;
        }
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        Some(Place { at_work: self.clone(), bytes })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.at_work.bytes.fetch_sub(self.bytes, Relaxed);
        self.at_work.requests.fetch_sub(1, Relaxed);
    }
}
