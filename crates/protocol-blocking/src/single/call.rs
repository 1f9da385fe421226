//! Calls of a host that waits for nothing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use protocol_core::CallId;
use protocol_endpoint::Call;

/// A call in flight, made by [`Host::start_call`](super::Host::start_call). Dropping it cancels the call,
/// with the next thing that the host does.
#[must_use = "dropping it cancels the call"]
pub struct OwnCall {
    pub(super) call: Call,
    /// `None` once its outcome was taken.
    pub(super) dropped: Option<Dropped>,
}

/// The calls of a host whose [`OwnCall`] was dropped. The host cancels them.
pub(super) type Dropped = Arc<Mutex<Vec<Call>>>;

impl OwnCall {
    /// Returns the id of the call, whose number stands on the wire.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.call.id
    }
}

impl Drop for OwnCall {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.call);
        }
    }
}

impl fmt::Debug for OwnCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnCall").field(&self.id()).finish()
    }
}
