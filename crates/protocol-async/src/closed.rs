//! The end of a connection, and its reason.

use std::fmt;
use std::io;

use protocol_core::CloseReason;

use crate::sync::Arc;

/// The reason why a connection closed, from [`Peer::closed`](crate::Peer::closed).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Closed {
    /// The connection's own reason.
    pub reason: CloseReason,
    /// The error of reading or writing, if one ended the connection or lost output after its end. The end of
    /// input is no error.
    pub error: Option<Arc<io::Error>>,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{}: {error}", self.reason),
            None => self.reason.fmt(f),
        }
    }
}

/// Returns a copy of an error. The driver returns the first one to the task that runs it.
pub(crate) fn copy(error: &io::Error) -> Arc<io::Error> {
    Arc::new(match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    })
}
