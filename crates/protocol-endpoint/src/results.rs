//! The account of outcomes that wait until their callers take them.

use alloc::boxed::Box;

use serde_json::value::RawValue;

use crate::error::CallError;

/// The outcome of a call, as the peer wrote it. Errors are large and rare.
pub type CallOutcome = Result<Box<RawValue>, Box<CallError>>;

/// The bytes of outcomes that wait to be taken, and their limit: [`Options::result_bytes`](crate::Options::result_bytes).
///
/// An endpoint keeps one. A host to which outcomes are handed over, and that keeps them, has one of its own.
#[derive(Debug)]
pub struct Results {
    bytes: usize,
    limit: usize,
}

impl Results {
    /// Returns an account without an outcome, for so many bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { bytes: 0, limit }
    }

    /// Returns the bytes that are held.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Enters an outcome, or replaces it by [`CallError::Untaken`] if it does not fit. One that is alone
    /// always fits.
    pub fn enter(&mut self, outcome: CallOutcome) -> CallOutcome {
        let more = size(&outcome);
        // An outcome without bytes of the peer's fits, too: its row is there anyway.
        if more == 0 || self.bytes == 0 || self.bytes + more <= self.limit {
            self.bytes += more;
            return outcome;
        }
        Err(Box::new(CallError::Untaken))
    }

    /// Notes that an outcome that was entered is taken.
    pub fn leave(&mut self, outcome: &CallOutcome) {
        self.bytes -= size(outcome);
    }
}

/// Returns the bytes of the peer's in an outcome.
fn size(outcome: &CallOutcome) -> usize {
    match outcome {
        Ok(result) => result.get().len(),
        Err(error) => error.bytes(),
    }
}
