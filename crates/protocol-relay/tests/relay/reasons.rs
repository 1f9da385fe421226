//! F17, F74: the reason of a cancel is forwarded where both sides have a place for it.

use std::time::Duration;

use protocol_core::{Config, Dialect};
use protocol_relay::Side;

use crate::bench::{Bench, cancel, request, result};

fn between(near: Side, dialects: [&Dialect; 2]) -> Bench {
    Bench::new(near, dialects.map(|dialect| Config::client(dialect.clone())))
}

/// Returns a cancel with a reason, in a dialect whose cancels have one.
fn cancel_because(dialect: &Dialect, id: &str, reason: &str) -> String {
    cancel(dialect, id).replace("}}", &format!(r#","reason":"{reason}"}}}}"#))
}

fn abp(kind: &str, id: &str, payload: &str) -> String {
    format!(r#"{{"type":"{kind}","id":"{id}","timestamp":0,"payload":{payload}}}"#)
}

/// MCP's revisions in which both sides cancel.
const MCP: [Dialect; 4] = [
    Dialect::MCP_2024_11_05,
    Dialect::MCP_2025_03_26,
    Dialect::MCP_2025_06_18,
    Dialect::MCP_2025_11_25,
];

#[test]
fn f17_f74_a_reason_passes_between_equal_dialects_both_ways() {
    for near in Side::BOTH {
        for mcp in MCP {
            let mut bench = between(near, [&mcp, &mcp]);
            bench.receive(near, &request(r#""a""#, "work"));
            bench.sent(near.other());
            bench.receive(near, &cancel_because(&mcp, r#""a""#, "user pressed \\u0073top"));
            let passed = cancel_because(&mcp, "1", "user pressed stop");
            assert_eq!(bench.sent(near.other()), [passed]);
        }
    }
}

#[test]
fn f17_a_cancel_without_a_reason_is_forwarded_without_one() {
    let mcp = Dialect::MCP_2025_11_25;
    let mut bench = between(Side::Up, [&mcp, &mcp]);
    bench.receive(Side::Up, &request("7", "work"));
    bench.sent(Side::Down);
    bench.receive(Side::Up, &cancel(&mcp, "7"));
    assert_eq!(bench.sent(Side::Down), [cancel(&mcp, "1")]);
}

#[test]
fn f17_a_reason_that_does_not_fit_is_left_out_and_the_cancel_is_not() {
    let mcp = Dialect::MCP_2025_11_25;
    let mut config = Config::client(mcp.clone());
    config.limits.unsent_bytes = 200;
    let mut bench = Bench::new(Side::Up, [Config::client(mcp.clone()), config]);
    bench.receive(Side::Up, &request("7", "work"));
    bench.sent(Side::Down);
    bench.receive(Side::Up, &cancel_because(&mcp, "7", &"x".repeat(200)));
    assert_eq!(bench.sent(Side::Down), [cancel(&mcp, "1")]);
}

#[test]
fn f17_a_side_without_a_place_for_a_reason_gets_the_cancel_alone() {
    for near in Side::BOTH {
        for silent in [Dialect::LSP_3_17, Dialect::ACP_V1] {
            let mcp = Dialect::MCP_2025_11_25;
            let mut bench = between(near, [&mcp, &silent]);
            bench.receive(near, &request("7", "work"));
            bench.sent(near.other());
            bench.receive(near, &cancel_because(&mcp, "7", "enough"));
            assert_eq!(bench.sent(near.other()), [cancel(&silent, "1")]);
            assert_eq!(bench.events(), [""; 0]);

            // The member means nothing to a dialect that has no place for a reason.
            let mut bench = between(near, [&silent, &mcp]);
            bench.receive(near, &request("7", "work"));
            bench.sent(near.other());
            bench.receive(near, &cancel_because(&silent, "7", "enough"));
            assert_eq!(bench.sent(near.other()), [cancel(&mcp, "1")]);
        }
    }
}

#[test]
fn g12_a_cancel_with_a_reason_waits_for_its_answer_like_any_other() {
    let mut bench = between(Side::Up, [&Dialect::MCP_2025_11_25, &Dialect::ACP_V1]);
    bench.receive(Side::Up, &request("7", "work"));
    bench.sent(Side::Down);
    bench.receive(Side::Up, &cancel_because(&Dialect::MCP_2025_11_25, "7", "enough"));
    assert_eq!(bench.sent(Side::Down), [cancel(&Dialect::ACP_V1, "1")]);
    assert_eq!((bench.relay.poll_timeout(), bench.in_flight()), (None, [0, 1, 1, 0]));
}

/// Opens the session of an ABP agent in front of an MCP server.
fn abp_session(bench: &mut Bench) {
    bench.receive(Side::Up, &abp("initialize", "0", "{}"));
    bench.sent(Side::Down);
    bench.receive(Side::Down, &result("1", "{}"));
    bench.sent(Side::Up);
}

#[test]
fn f17_f74_a_reason_passes_from_an_abp_agent_to_an_mcp_server() {
    for mcp in [Dialect::MCP_2025_11_25, Dialect::MCP_2026_07_28] {
        let mut bench = between(Side::Up, [&Dialect::ABP, &mcp]);
        abp_session(&mut bench);
        let call = r#"{"capability":"export.pdf","options":{"callId":"c"}}"#;
        bench.receive(Side::Up, &abp("capabilities/call", "m2", call));
        assert_eq!(bench.sent(Side::Down), [request("2", "export.pdf")]);
        let why = r#"{"callId":"c","reason":"the page was closed"}"#;
        bench.receive(Side::Up, &abp("capabilities/cancel", "m3", why));
        assert_eq!(bench.sent(Side::Down), [cancel_because(&mcp, "2", "the page was closed")]);
    }
}

#[test]
fn f17_f74_a_reason_passes_from_an_mcp_client_to_an_abp_app() {
    let mcp = Dialect::MCP_2026_07_28;
    let mut bench = between(Side::Up, [&mcp, &Dialect::ABP]);
    bench.receive(Side::Up, &request("7", "export.pdf"));
    bench.sent(Side::Down);
    bench.receive(Side::Up, &cancel_because(&mcp, "7", "enough"));
    let payload = r#"{"callId":"1","reason":"enough"}"#;
    assert_eq!(bench.sent(Side::Down), [abp("capabilities/cancel", "2", payload)]);
}

#[test]
fn f17_a_cancel_of_the_relays_own_has_no_reason() {
    let mcp = Dialect::MCP_2025_11_25;
    let mut bench = between(Side::Up, [&mcp, &mcp]);
    bench.receive(Side::Up, &request("7", "work"));
    bench.sent(Side::Down);
    bench.advance(Duration::from_secs(1));
    bench.hang_up(Side::Up);
    assert_eq!(bench.sent(Side::Down), [cancel(&mcp, "1")]);
}
