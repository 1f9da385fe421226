//! The table of checks, in the order in which they are made and reported.

mod after;
mod base;
mod cancel;
pub(crate) mod clauses;
mod connection;
mod http;
mod stop;
mod work;

use std::sync::LazyLock;

use crate::known::Known;
use crate::words::Check;

/// The table of all checks of servers.
pub static CHECKS: LazyLock<Vec<Check>> = LazyLock::new(|| {
    [cancel::CANCEL, work::WORK, stop::STOPS, after::AFTER, connection::CONNECTION, http::HTTP]
        .concat()
});

impl Known {
    /// Reads the ids of checks that fail, as [`read_among`](Self::read_among) does, of servers.
    ///
    /// # Errors
    ///
    /// A line that names no check.
    pub fn read(failing: &str, flaky: &str) -> Result<Self, String> {
        let all: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        Self::read_among(&all, failing, flaky)
    }
}
