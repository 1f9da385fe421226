//! Ids of requests inside the params and the results of other messages, as the receiver knows them.

use protocol_core::{Config, Dialect};
use protocol_relay::Side;

use crate::bench::{Bench, error, request, result};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn between(dialect: &Dialect) -> Bench {
    Bench::new(Side::Up, [(); 2].map(|()| Config::client(dialect.clone())))
}

/// Makes a client that has subscribed under the id `sub`, which is request 2 of the server.
fn subscribed() -> Bench {
    let mut bench = between(&Dialect::MCP_2026_07_28);
    bench.receive(Side::Up, &request("1", "tools/list"));
    bench.receive(Side::Up, &request("\"sub\"", "subscriptions/listen"));
    assert_eq!(bench.sent(Side::Down)[1], request("2", "subscriptions/listen"));
    bench
}

/// Returns what names a subscription by this id.
fn named(id: &str) -> String {
    format!(r#"{{ "_meta": {{"a":[0],"{SUBSCRIPTION}":{id} }},"b":2}}"#)
}

fn changed(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{params}}}"#)
}

#[test]
fn b25_what_a_client_subscribed_to_names_its_own_request() {
    let mut bench = subscribed();
    bench.receive(Side::Down, &changed(&named("2")));
    assert_eq!(bench.sent(Side::Up), [changed(&named("\"sub\""))]);
    bench.receive(Side::Down, &result("2", &named("2")));
    assert_eq!(bench.sent(Side::Up), [result("\"sub\"", &named("\"sub\""))]);
    for params in ["{}", r#"{"_meta":{}}"#, r#"{"_meta":[2]}"#] {
        bench.receive(Side::Down, &changed(params));
        assert_eq!(bench.sent(Side::Up), [changed(params)]);
    }
    assert_eq!(bench.events(), [""; 0]);
}

#[test]
fn b25_what_nobody_subscribed_to_is_not_forwarded() {
    let reason = "was not forwarded: the parent request has had its response";
    let event = format!("down: notification notifications/tools/list_changed {reason}");
    let mut bench = subscribed();
    for id in ["3", "\"sub\"", "2.0"] {
        bench.receive(Side::Down, &changed(&named(id)));
        assert_eq!(bench.sent(Side::Up), [""; 0]);
        assert_eq!(bench.events(), [event.as_str()]);
    }
    bench.receive(Side::Down, &result("2", "{}"));
    bench.sent(Side::Up);
    bench.receive(Side::Down, &changed(&named("2")));
    assert_eq!((bench.sent(Side::Up), bench.events()), (vec![], vec![event]));
}

#[test]
fn b25_an_id_that_stands_twice_is_not_forwarded() {
    let mut bench = subscribed();
    let twice = format!(r#"{{"_meta":{{"{SUBSCRIPTION}":2,"{SUBSCRIPTION}":2}}}}"#);
    bench.receive(Side::Down, &changed(&twice));
    assert_eq!((bench.sent(Side::Up), bench.events().len()), (vec![], 1));
    bench.receive(Side::Down, &result("2", &twice));
    let malformed = error("\"sub\"", -32603, "the response of the next hop was malformed");
    assert_eq!(bench.sent(Side::Up), [malformed]);
}

fn elicitation(id: u8, scope: &str) -> String {
    let params = format!(r#"{{"mode":"form",{scope},"message":"m"}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{params}}}"#)
}

/// Makes a client whose request `login` is request 2 of the agent.
fn logging_in(dialect: &Dialect) -> Bench {
    let mut bench = between(dialect);
    bench.receive(Side::Up, &request("1", "session/list"));
    bench.receive(Side::Up, &request("\"login\"", "authenticate"));
    assert_eq!(bench.sent(Side::Down)[1], request("2", "authenticate"));
    bench
}

#[test]
fn b25_an_elicitation_names_the_request_as_the_client_knows_it() {
    for dialect in [Dialect::ACP_V1, Dialect::ACP_V2] {
        let mut bench = logging_in(&dialect);
        bench.receive(Side::Down, &elicitation(7, r#""requestId":2"#));
        assert_eq!(bench.sent(Side::Up), [elicitation(1, r#""requestId":"login""#)]);
        bench.receive(Side::Down, &elicitation(8, r#""sessionId":"2""#));
        assert_eq!(bench.sent(Side::Up), [elicitation(2, r#""sessionId":"2""#)]);
        bench.receive(Side::Down, &elicitation(9, r#""sessionId":"2","requestId":null"#));
        assert_eq!(bench.sent(Side::Up), [elicitation(3, r#""sessionId":"2""#)], "null is none");
    }
}

#[test]
fn b25_an_elicitation_for_no_request_gets_an_error() {
    let mut bench = logging_in(&Dialect::ACP_V1);
    let message = "invalid params: the request that they name is over or unknown";
    for scope in [r#""requestId":3"#, r#""requestId":"login""#] {
        bench.receive(Side::Down, &elicitation(7, scope));
        assert_eq!(bench.sent(Side::Down), [error("7", -32602, message)]);
        let reason = "the request was not forwarded: the parent request has had its response";
        assert_eq!(bench.events(), [format!("down: id 7: {reason}")]);
    }
    bench.receive(Side::Down, &elicitation(7, r#""requestId":2,"requestId":2"#));
    assert_eq!(bench.sent(Side::Down), [error("7", -32602, message)]);
    assert_eq!(bench.sent(Side::Up), [""; 0]);
}

/// A client names no request of the server's in this way.
#[test]
fn b25_what_a_client_sends_under_such_a_name_passes_as_it_is() {
    let mut bench = subscribed();
    bench.receive(Side::Up, &changed(&named("7")));
    assert_eq!(bench.sent(Side::Down), [changed(&named("7"))]);
    let mut bench = between(&Dialect::ACP_V1);
    bench.receive(Side::Up, &elicitation(1, r#""requestId":7"#));
    assert_eq!(bench.sent(Side::Down), [elicitation(1, r#""requestId":7"#)]);
    assert_eq!(bench.events(), [""; 0]);
}

/// Other dialects give such members no meaning.
#[test]
fn b25_in_other_dialects_an_elicitation_and_a_subscription_pass_as_they_are() {
    for dialect in [Dialect::MCP_2025_11_25, Dialect::LSP_3_17, Dialect::JSON_RPC] {
        let mut bench = between(&dialect);
        let passing = [changed(&named("7")), elicitation(1, r#""requestId":7"#)];
        for message in passing {
            bench.receive(Side::Down, &message);
            assert_eq!(bench.sent(Side::Up), [message]);
        }
    }
}
