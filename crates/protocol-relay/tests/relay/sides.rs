//! F14, F73: a relay is a server to its client and a client to its server. The right to cancel follows from
//! that. A cancel without that right is reported.

use protocol_core::{Config, Dialect, Role};
use protocol_relay::Side;

use crate::bench::{Bench, cancel, notification, request, result};

fn between(up: &Dialect, down: &Dialect) -> Bench {
    Bench::new(Side::Up, [up, down].map(|dialect| Config::client(dialect.clone())))
}

#[test]
fn f14_a_relay_sets_the_roles_that_it_knows() {
    for role in [Role::Client, Role::Server] {
        let mut config = Config::client(Dialect::MCP_2026_07_28);
        config.role = role;
        let mut bench = Bench::new(Side::Up, [config.clone(), config]);
        let roles = Side::BOTH.map(|side| bench.relay.connection(side).config().role);
        assert_eq!(roles, [Role::Server, Role::Client]);
        bench.receive(Side::Up, &request("7", "work"));
        assert_eq!(bench.sent(Side::Down), [request("1", "work")]);
        bench.receive(Side::Up, &cancel(&Dialect::MCP_2026_07_28, "7"));
        assert_eq!(bench.sent(Side::Down), [cancel(&Dialect::MCP_2026_07_28, "1")]);
        assert_eq!(bench.events(), [""; 0]);
    }
}

#[test]
fn f73_a_server_cancels_its_own_request_in_a_session_of_2025_11_25() {
    let mcp = Dialect::MCP_2025_11_25;
    let mut bench = between(&mcp, &mcp);
    bench.receive(Side::Down, &request("5", "elicitation/create"));
    assert_eq!(bench.sent(Side::Up), [request("1", "elicitation/create")]);
    bench.receive(Side::Down, &cancel(&mcp, "5"));
    assert_eq!(bench.sent(Side::Up), [cancel(&mcp, "1")]);
    assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
}

#[test]
fn f73_a_cancel_that_the_dialect_forbids_is_reported() {
    let mcp = Dialect::MCP_2026_07_28;
    let mut bench = between(&mcp, &mcp);
    bench.receive(Side::Down, &request("5", "elicitation/create"));
    bench.sent(Side::Up);
    bench.receive(Side::Down, &cancel(&mcp, "5"));
    assert_eq!(bench.sent(Side::Up), [""; 0], "in this revision only the client cancels");
    let ignored = "down: id 5: the request may not be cancelled by this side";
    assert_eq!(bench.events(), [ignored]);
    bench.receive(Side::Up, &result("1", "{}"));
    assert_eq!(bench.sent(Side::Down), [result("5", "{}")], "the request goes on");
    // There is nothing left that it could name.
    bench.receive(Side::Down, &cancel(&mcp, "5"));
    bench.receive(Side::Down, &notification("notifications/cancelled"));
    assert_eq!(bench.events(), ["down: a cancel names no id"]);
}

#[test]
fn f73_a_cancel_of_what_can_not_be_cancelled_is_reported() {
    let mcp = Dialect::MCP_2025_11_25;
    let mut bench = between(&mcp, &mcp);
    bench.receive(Side::Up, &request(r#""7""#, "initialize"));
    bench.sent(Side::Down);
    bench.receive(Side::Up, &cancel(&mcp, r#""7""#));
    assert_eq!(bench.sent(Side::Down), [""; 0]);
    let ignored = r#"up: id "7": the request may not be cancelled by this side"#;
    assert_eq!(bench.events(), [ignored]);
}

/// The one request of a client's that a server of MCP 2026-07-28 may end.
#[test]
fn b13_a_server_that_ends_a_clients_subscription_ends_it_through_the_relay() {
    let mcp = Dialect::MCP_2026_07_28;
    let mut bench = between(&mcp, &mcp);
    bench.receive(Side::Up, &request(r#""s""#, "subscriptions/listen"));
    assert_eq!(bench.sent(Side::Down), [request("1", "subscriptions/listen")]);
    bench.receive(Side::Down, &cancel(&mcp, "1"));
    assert_eq!(bench.sent(Side::Up), [cancel(&mcp, r#""s""#)]);
    assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
}

/// A call and a request of the peer's may have the same id. The end of the one is no forbidden cancel of the
/// other.
#[test]
fn b13_the_end_of_a_call_is_not_reported_as_a_cancel_that_was_ignored() {
    let mcp = Dialect::MCP_2026_07_28;
    let mut bench = between(&mcp, &mcp);
    bench.receive(Side::Up, &request(r#""s""#, "subscriptions/listen"));
    assert_eq!(bench.sent(Side::Down), [request("1", "subscriptions/listen")]);
    bench.receive(Side::Down, &request("1", "elicitation/create"));
    bench.sent(Side::Up);
    bench.receive(Side::Down, &cancel(&mcp, "1"));
    assert_eq!(bench.sent(Side::Up), [cancel(&mcp, r#""s""#)]);
    assert_eq!(bench.events(), [""; 0]);
}

/// A dialect that has no such end responds to the request as cancelled.
#[test]
fn b13_a_server_that_ends_a_subscription_answers_a_client_of_another_dialect() {
    let mut bench = between(&Dialect::ACP_V1, &Dialect::MCP_2026_07_28);
    bench.receive(Side::Up, &request(r#""s""#, "subscriptions/listen"));
    bench.sent(Side::Down);
    bench.receive(Side::Down, &cancel(&Dialect::MCP_2026_07_28, "1"));
    let answer = crate::bench::error(r#""s""#, -32800, "Request cancelled");
    assert_eq!((bench.sent(Side::Up), bench.in_flight()), (vec![answer], [0; 4]));
}

/// A client that hung up may still be reading. It gets the response of a client that has no such end.
#[test]
fn g07_a_client_that_hangs_up_is_answered_also_for_what_a_server_may_end() {
    let mcp = Dialect::MCP_2026_07_28;
    let mut bench = between(&mcp, &mcp);
    bench.receive(Side::Up, &request("7", "subscriptions/listen"));
    bench.sent(Side::Down);
    bench.hang_up(Side::Up);
    assert_eq!(bench.sent(Side::Down), [cancel(&mcp, "1")]);
    let answer = crate::bench::error("7", -32800, "Request cancelled");
    assert_eq!((bench.sent(Side::Up), bench.in_flight()), (vec![answer], [0; 4]));
}

/// Both of the relay's connections start with the family, and the `initialize` that passes through
/// settles them.
#[test]
fn f73_a_session_that_negotiated_2025_11_25_is_relayed_by_its_rules() {
    let mut bench = between(&Dialect::MCP, &Dialect::MCP);
    let version = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    let initialize =
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{version}}}"#);
    bench.receive(Side::Up, &initialize(7));
    assert_eq!(bench.sent(Side::Down), [initialize(1)]);
    bench.receive(Side::Down, &result("1", version));
    assert_eq!(bench.sent(Side::Up), [result("7", version)]);
    bench.receive(Side::Down, &request("5", "elicitation/create"));
    assert_eq!(bench.sent(Side::Up), [request("1", "elicitation/create")]);
    let mcp = Dialect::MCP_2025_11_25;
    bench.receive(Side::Down, &cancel(&mcp, "5"));
    assert_eq!(bench.sent(Side::Up), [cancel(&mcp, "1")]);
    assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
}
