//! What the Model Context Protocol has beside cancelling, and so beside what a dialect says.

use protocol_core::Dialect;

/// Whether a dialect is a revision of it.
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "only spans ask"))]
pub(crate) fn is_spoken(dialect: &Dialect) -> bool {
    dialect.name.strip_prefix("mcp").is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
