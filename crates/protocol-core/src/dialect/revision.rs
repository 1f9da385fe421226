//! The agreement of two peers on a revision of their protocol.

use serde_json::value::RawValue;

use super::Dialect;

impl Dialect {
    /// Returns the dialect that both sides speak after a request of this method had this result.
    ///
    /// It keeps the framing, the envelope and the revisions of this one. Returns `None` if nothing changes.
    pub fn settled_by(&self, method: &str, result: &RawValue) -> Option<Self> {
        let (_, member) = self.exchanges.iter().find(|(exchange, _)| exchange == method)?;
        let named = protocol_json::member(result, member)?;
        // The list may be as long as a message, so it is read once and not stored (G8).
        let mut best = self.revisions.len();
        protocol_json::each_text(named, |name| {
            let rank = self.revisions.iter().position(|(version, _)| *version == name);
            best = best.min(rank.unwrap_or(best));
        });
        let (_, revision) = self.revisions.get(best)?;
        let settled = Self {
            framing: self.framing,
            envelope: self.envelope,
            exchanges: self.exchanges.clone(),
            revisions: self.revisions.clone(),
            ..revision.clone()
        };
        (settled != *self).then_some(settled)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::frame::Framing;

    fn settled(dialect: &Dialect, method: &str, result: &str) -> Option<Dialect> {
        let result: &RawValue = serde_json::from_str(result).expect("it is JSON");
        dialect.settled_by(method, result)
    }

    fn initialized(version: &str) -> String {
        format!(r#"{{"capabilities":{{}},"protocolVersion":"{version}"}}"#)
    }

    /// Returns a preset as a member of its family speaks it.
    fn in_family(preset: Dialect, family: &Dialect) -> Dialect {
        let mut dialect = preset;
        dialect.exchanges = family.exchanges.clone();
        dialect.revisions = family.revisions.clone();
        dialect
    }

    #[test]
    fn f72_initialize_settles_the_revision_that_the_server_names() {
        for (family, transport) in [(Dialect::MCP, ""), (Dialect::MCP_HTTP, "-http")] {
            for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
                let preset = Dialect::named(&format!("mcp-{version}{transport}"));
                let expected = preset.map(|preset| in_family(preset, &family));
                assert_eq!(settled(&family, "initialize", &initialized(version)), expected);
            }
        }
    }

    #[test]
    fn f72_discover_settles_the_best_revision_that_the_server_lists() {
        let discovered = r#"{"supportedVersions":["2025-11-25","2026-07-28","2099-01-01"]}"#;
        let newest = in_family(Dialect::MCP_2026_07_28, &Dialect::MCP);
        assert_eq!(settled(&Dialect::MCP, "server/discover", discovered), Some(newest));
    }

    #[test]
    fn f72_a_later_exchange_settles_it_anew_and_an_equal_one_changes_nothing() {
        let older = settled(&Dialect::MCP, "initialize", &initialized("2025-11-25"));
        let older = older.expect("it is one of its revisions");
        assert_eq!(settled(&older, "initialize", &initialized("2025-11-25")), None);
        let newest = settled(&older, "server/discover", r#"{"supportedVersions":["2026-07-28"]}"#);
        assert_eq!(newest, Some(in_family(Dialect::MCP_2026_07_28, &Dialect::MCP)));
    }

    #[test]
    fn f72_the_rules_stay_where_nothing_known_is_named() {
        let results = [
            "null",
            "[]",
            "{}",
            r#"{"protocolVersion":null}"#,
            r#"{"protocolVersion":20251125}"#,
            r#"{"protocolVersion":{"2025-11-25":1}}"#,
            r#"{"protocolVersion":[["2025-11-25"]]}"#,
            r#"{"protocolVersion":"2025-11-25 "}"#,
            r#"{"protocolVersion":"2099-01-01"}"#,
            r#"{"supportedVersions":["2025-11-25"]}"#,
        ];
        for result in results {
            assert_eq!(settled(&Dialect::MCP, "initialize", result), None, "{result}");
        }
        let named = initialized("2025-11-25");
        assert_eq!(settled(&Dialect::MCP, "tools/list", &named), None, "no exchange");
        assert_eq!(settled(&Dialect::MCP_2026_07_28, "initialize", &named), None, "fixed");
        assert_eq!(settled(&Dialect::LSP_3_17, "initialize", &named), None, "fixed");
    }

    #[test]
    fn f72_a_settled_dialect_keeps_the_framing_and_the_envelope() {
        let mut family = Dialect::MCP_HTTP;
        family.framing = Framing::ContentLength;
        let settled = settled(&family, "initialize", &initialized("2025-06-18"));
        assert_eq!(settled.map(|dialect| dialect.framing), Some(Framing::ContentLength));
    }

    #[test]
    fn the_names_in_a_result_are_decoded() {
        let escaped = r#"{"protocol\u0056ersion":"2025-06-\u00318"}"#;
        assert!(settled(&Dialect::MCP, "initialize", escaped).is_some());
    }
}
