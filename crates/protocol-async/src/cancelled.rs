//! What work stops with that was cancelled.

use std::error::Error;
use std::fmt;

use protocol_core::Cause;

/// The work was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// The reason for the cancellation.
    pub cause: Cause,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled ({})", self.cause)
    }
}

impl Error for Cancelled {}
