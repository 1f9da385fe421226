//! Calls of a host that waits for nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol_async::CallError;
use protocol_core::CallId;
use protocol_endpoint::{Call, CallOutcome, Results};
use serde_json::value::RawValue;

/// A call in flight, made by [`Host::start_call`](super::Host::start_call). Dropping it cancels the call,
/// with the next thing that the host does.
#[must_use = "dropping it cancels the call"]
pub struct OwnCall {
    pub(super) call: Call,
    own: OwnCalls,
    is_taken: bool,
}

impl OwnCall {
    /// Returns the id of the call, whose number stands on the wire.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.call.id
    }

    /// Takes the outcome once it is there. After that it returns `None`.
    pub fn take(&mut self) -> Option<Result<Box<RawValue>, CallError>> {
        let outcome = self.own.lock().take(self.call.id)?;
        self.is_taken = true;
        Some(outcome.map_err(|error| *error))
    }
}

impl Drop for OwnCall {
    fn drop(&mut self) {
        if !self.is_taken {
            self.own.lock().dropped.push(self.call);
        }
    }
}

impl fmt::Debug for OwnCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCall").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The outcomes that a host and its [`OwnCall`]s share.
#[derive(Clone)]
pub(super) struct OwnCalls(Arc<Mutex<Outcomes>>);

struct Outcomes {
    settled: BTreeMap<CallId, CallOutcome>,
    results: Results,
    /// Calls whose [`OwnCall`] was dropped. The host cancels them.
    dropped: Vec<Call>,
}

impl OwnCalls {
    /// The most bytes of heap for a call: its place in a map, which may be half empty, and in a list that
    /// grows.
    pub(super) const ROW: usize =
        4 * size_of::<(CallId, CallOutcome)>() + 3 * size_of::<Call>() + size_of::<CallError>();
    /// The bytes of heap without any call.
    pub(super) const FIXED: usize = size_of::<Mutex<Outcomes>>() + 16 * Self::ROW;

    pub(super) fn new(result_bytes: usize) -> Self {
        let (settled, results) = (BTreeMap::new(), Results::new(result_bytes));
        Self(Arc::new(Mutex::new(Outcomes { settled, results, dropped: Vec::new() })))
    }

    pub(super) fn handle(&self, call: Call) -> OwnCall {
        OwnCall { call, own: self.clone(), is_taken: false }
    }

    pub(super) fn settle(&self, call: CallId, outcome: CallOutcome) {
        let mut own = self.lock();
        let outcome = own.results.enter(outcome);
        own.settled.insert(call, outcome);
    }

    pub(super) fn has_dropped(&self) -> bool {
        !self.lock().dropped.is_empty()
    }

    /// Takes the calls that were dropped. Nobody takes their outcomes any more.
    pub(super) fn take_dropped(&self) -> Vec<Call> {
        let mut own = self.lock();
        let dropped = mem::take(&mut own.dropped);
        for call in &dropped {
            own.take(call.id);
        }
        dropped
    }

    fn lock(&self) -> MutexGuard<'_, Outcomes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outcomes {
    fn take(&mut self, call: CallId) -> Option<CallOutcome> {
        let outcome = self.settled.remove(&call)?;
        self.results.leave(&outcome);
        Some(outcome)
    }
}
