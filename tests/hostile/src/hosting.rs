//! The options of a connection of the libraries, whose limits the tests turn into bytes.

use protocol_async::{Budget, Options};
use protocol_core::{Config, Dialect};

/// Returns the options of `hosted`. A peer that breaks rules without end may stay, so that the cost
/// of it is seen.
#[must_use]
pub fn options() -> Options {
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.budgets.violations = Budget::Unlimited;
    options
}
