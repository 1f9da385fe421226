//! What the Model Context Protocol has beside cancelling, and so beside what a dialect says: a dialect's
//! name is all that tells of it.

use protocol_core::Dialect;

/// The revisions in which each side must answer `ping` at once. Later ones have none.
const WITH_PING: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Whether a dialect is a revision of it.
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "only spans ask"))]
pub(crate) fn is_spoken(dialect: &Dialect) -> bool {
    dialect.name == "mcp" || dialect.name.starts_with("mcp-")
}

/// The request that asks whether the other side is there, in a dialect that has one.
pub(crate) fn ping(dialect: &Dialect) -> Option<&'static str> {
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
