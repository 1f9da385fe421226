//! What becomes of a call, and who is told.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::Waker;

use protocol_core::CallId;
use serde_json::value::RawValue;

use crate::answer::CallError;

/// What becomes of a call, as the peer wrote it. Errors are large and rare.
pub(crate) type RawOutcome = Result<Box<RawValue>, Box<CallError>>;

/// What is done with an outcome.
pub(crate) type HandOver = Box<dyn FnOnce(RawOutcome) + Send>;

/// Nobody wants to know. A box of what captures nothing takes no room.
pub(crate) fn nobody() -> HandOver {
    Box::new(drop)
}

/// Who is told the outcome of a call in flight.
#[derive(Default)]
pub(crate) enum Interest {
    /// Whoever asks for it later.
    #[default]
    Later,
    /// A task, which then asks for it.
    Task(Waker),
    /// What it is handed to.
    Handed(HandOver),
}

/// What became of calls that have settled, until whoever made them asks.
#[derive(Default)]
pub(crate) struct Outcomes(HashMap<CallId, RawOutcome, BuildHasherDefault<Spread>>);

impl Outcomes {
    pub(crate) fn insert(&mut self, call: CallId, outcome: RawOutcome) {
        self.0.insert(call, outcome);
    }

    /// Takes what became of a call, if it has settled.
    pub(crate) fn take(&mut self, call: CallId) -> Option<RawOutcome> {
        self.0.remove(&call)
    }
}

/// Hashes ids of calls: they are our own numbers, one after another, so nobody can make them collide.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        /// 2^64 by the golden ratio.
        const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = number.wrapping_mul(STRIDE);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
