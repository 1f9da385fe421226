//! Facts about the Model Context Protocol that a dialect does not hold, since they do not concern
//! cancellation.
//!
//! The name of a dialect tells its revision.

use protocol_core::Dialect;

/// The revisions in which each side must respond to `ping` at once. Later ones have none.
const WITH_PING: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Returns whether a dialect is a revision of MCP.
pub fn is_spoken(dialect: &Dialect) -> bool {
    dialect.name == "mcp" || dialect.name.starts_with("mcp-")
}

/// Returns the method that asks whether the other side is there, if the dialect has one.
pub fn ping(dialect: &Dialect) -> Option<&'static str> {
    let revision = dialect.name.strip_prefix("mcp-")?.trim_end_matches("-http");
    WITH_PING.contains(&revision).then_some("ping")
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn mcp_had_ping_until_it_became_stateless() {
        for dialect in Dialect::PRESETS {
            let name: &str = &dialect.name;
            let has_ping = name.starts_with("mcp-202") && !name.contains("2026");
            assert_eq!(ping(dialect).is_some(), has_ping, "{name}");
            assert_eq!(is_spoken(dialect), name.starts_with("mcp"), "{name}");
        }
    }
}
