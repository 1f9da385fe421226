//! What a connection of the libraries is allowed here, and what that is in memory.

use protocol_async::{Budget, Options};
use protocol_core::{Config, Dialect};

/// The options of `hosted`. Who breaks rules without end may stay, so that what that takes is seen.
#[must_use]
pub fn options() -> Options {
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.budgets.violations = Budget::Unlimited;
    options
}
