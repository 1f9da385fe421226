//! The error of cancelled work.

use core::error::Error;
use core::fmt;

use protocol_core::Cause;

/// The error of work that stopped because it was cancelled.
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
