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

use crate::check::Check;

/// The table of all checks of servers.
pub static CHECKS: LazyLock<Vec<Check>> = LazyLock::new(|| {
    [cancel::CANCEL, work::WORK, stop::STOPS, after::AFTER, connection::CONNECTION, http::HTTP]
        .concat()
});
