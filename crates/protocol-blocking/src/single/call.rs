//! Calls of a host that waits for nothing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use protocol_async::CallError;
use protocol_core::CallId;
use serde_json::value::RawValue;

pub(super) type Outcome = Result<Box<RawValue>, CallError>;

/// Where the outcome of a call goes: the call's data.
pub(super) type Place = Arc<Mutex<Option<Outcome>>>;

/// Calls whose [`OwnCall`] was dropped, to be cancelled at the next turn.
pub(super) type Dropped = Arc<Mutex<Vec<CallId>>>;

/// A call in flight, made by [`Host::start_call`](super::Host::start_call). Dropping it cancels the call,
/// with the next thing that the host does.
#[must_use = "dropping it cancels the call"]
pub struct OwnCall {
    pub(super) id: CallId,
    pub(super) outcome: Place,
    pub(super) dropped: Dropped,
}

impl OwnCall {
    /// The call's id, whose number is what stands on the wire.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// Takes the outcome, once it is there.
    pub fn take(&mut self) -> Option<Result<Box<RawValue>, CallError>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for OwnCall {
    fn drop(&mut self) {
        // To cancel a call that has settled does nothing.
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
    }
}

impl fmt::Debug for OwnCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCall").field("id", &self.id).finish_non_exhaustive()
    }
}
