//! What a connection of the libraries is allowed here, and what that is in memory.

use protocol_async::{Budget, Options};
use protocol_core::{Config, Dialect};

/// A debug build attacks with a fiftieth of a release build, and what may wait is a fiftieth too; messages of 1 MiB have to fit.
pub const PART: usize = if cfg!(debug_assertions) { 50 } else { 1 };

/// The options of `hosted`. Who breaks rules without end may stay, so that what that takes is seen.
#[must_use]
pub fn options() -> Options {
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.config.limits.message_bytes /= PART.min(8);
    options.inbox_bytes /= PART;
    options.work_bytes /= PART;
    options.response_bytes /= PART;
    options.budgets.violations = Budget::Unlimited;
    options
}
