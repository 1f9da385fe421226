//! How a connection ended.

use std::fmt;
use std::io;

use protocol_core::CloseReason;

use crate::sync::Arc;

/// Why a connection closed, as [`Peer::closed`](crate::Peer::closed) tells it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Closed {
    /// The connection's own reason.
    pub reason: CloseReason,
    /// What reading or writing failed with, if that ended the connection. The end of input is no error.
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

/// The same error once more: the driver gives the first one to whoever runs it.
pub(crate) fn copy(error: &io::Error) -> Arc<io::Error> {
    Arc::new(match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    })
}
