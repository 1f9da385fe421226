//! Properties of the dialects that come with the core, as data.

use protocol_core::{Dialect, MessageOrder};

#[test]
fn the_presets_of_a_transport_differ_in_its_fields_only() {
    for (stdio, http) in [
        (Dialect::MCP_2024_11_05, Dialect::MCP_2024_11_05_HTTP),
        (Dialect::MCP_2025_03_26, Dialect::MCP_2025_03_26_HTTP),
        (Dialect::MCP_2025_06_18, Dialect::MCP_2025_06_18_HTTP),
        (Dialect::MCP_2025_11_25, Dialect::MCP_2025_11_25_HTTP),
        (Dialect::MCP_2026_07_28, Dialect::MCP_2026_07_28_HTTP),
        (Dialect::MCP, Dialect::MCP_HTTP),
    ] {
        assert_eq!(http.name, format!("{}-http", stdio.name));
        assert_eq!(http.order, MessageOrder::MayChange);
        let mut same = http;
        same.name = stdio.name.clone();
        same.framing = stdio.framing;
        same.order = stdio.order;
        same.cancel = stdio.cancel.clone();
        same.closed_stream = stdio.closed_stream;
        same.revisions = stdio.revisions.clone();
        assert_eq!(same, stdio);
    }
}

#[test]
fn f72_both_transports_negotiate_the_same_revisions() {
    let [stdio, http] = [Dialect::MCP, Dialect::MCP_HTTP];
    assert_eq!(stdio.exchanges, http.exchanges);
    assert!(!stdio.exchanges.is_empty(), "a family negotiates");
    assert_eq!(stdio.revisions.len(), http.revisions.len());
    for ((version, stdio), (same, http)) in stdio.revisions.iter().zip(http.revisions.iter()) {
        assert_eq!(version, same);
        assert_eq!(stdio.name, format!("mcp-{version}"));
        assert_eq!(http.name, format!("mcp-{version}-http"));
        for revision in [stdio, http] {
            assert!(revision.exchanges.is_empty() && revision.revisions.is_empty());
        }
    }
}

#[test]
fn every_preset_has_its_own_name_and_is_found_by_it() {
    for (at, preset) in Dialect::PRESETS.iter().enumerate() {
        assert_eq!(Dialect::named(&preset.name), Some(preset.clone()));
        assert!(!Dialect::PRESETS[..at].iter().any(|other| other.name == preset.name));
    }
}
