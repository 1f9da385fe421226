//! G1: every accepted call settles exactly once, with its own data, whatever the peer does.

use crate::support;

use support::{Host, acp, error, jsonrpc, lsp, raw, request, result};

use protocol_core::{CallOptions, Config, Dialect, Refusal, Response, TransmitKind};

#[test]
fn g01_a_result_settles_the_call_with_its_own_data() {
    let mut host = acp();
    host.sent_call("first");
    host.sent_call("second");
    assert_eq!(host.receive(&result("2", r#"{"b":2}"#)), [r#"settled second result {"b":2}"#]);
    assert_eq!(host.receive(&result("1", "null")), ["settled first result null"]);
    assert_eq!(host.in_flight(), (0, 0));
}

#[test]
fn g01_an_error_settles_the_call_with_the_whole_error() {
    let mut host = acp();
    host.sent_call("slow");
    let answer =
        r#"{"error":{"code":-1,"message":"\u006eo","data":[1],"more":0},"id":1,"jsonrpc":"2.0"}"#;
    let error = r#"{"code":-1,"message":"\u006eo","data":[1],"more":0}"#;
    assert_eq!(host.receive(answer), [format!("settled slow error {error}")]);
}

#[test]
fn g01_minus_32800_is_an_error_when_we_did_not_ask() {
    for mut host in [acp(), lsp(), jsonrpc()] {
        host.sent_call("slow");
        let settled = r#"settled slow error {"code":-32800,"message":"no"}"#;
        assert_eq!(host.receive(&error("1", -32800)), [settled]);
    }
}

#[test]
fn g01_a_second_answer_is_a_duplicate() {
    let mut host = acp();
    host.sent_call("slow");
    host.receive(&result("1", "1"));
    for _ in 0..3 {
        assert_eq!(host.receive(&result("1", "2")), ["violation duplicate_response 1"]);
        assert_eq!(host.receive(&error("1", -1)), ["violation duplicate_response 1"]);
    }
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn g01_an_answer_to_what_has_not_left_is_not_genuine() {
    let mut host = acp();
    host.call("slow");
    for answer in
        [result("1", "1"), error("1", -32800), r#"{"jsonrpc":"2.0","id":1,"error":1}"#.into()]
    {
        assert_eq!(host.receive(&answer), ["violation unknown_response 1"]);
    }
    host.sent();
    assert_eq!(host.receive(&result("1", "1")), ["settled slow result 1"]);
}

#[test]
fn b01_a_malformed_response_settles_its_call() {
    for answer in [
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"both"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"code as string"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"code as fraction"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"message":"no code"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"a string"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
        r#"{"id":1,"result":1}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":1}"#,
        r#"{"jsonrpc":2.0,"id":1,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
    ] {
        let mut host = acp();
        host.sent_call("slow");
        let settled = ["violation malformed_response 1", "settled slow malformed"];
        assert_eq!(host.receive(answer), settled, "{answer}");
        assert_eq!(host.sent(), [""; 0], "a response is never answered: {answer}");
        assert_eq!(host.receive(&result("1", "1")), ["violation duplicate_response 1"]);
    }
}

#[test]
fn b01_members_that_are_null_are_absent() {
    for (answer, settled) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":null,"result":5,"error":null}"#, "result 5"),
        (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#, "result null"),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":7,"message":"no"}}"#,
            r#"error {"code":7,"message":"no"}"#,
        ),
    ] {
        let mut host = acp();
        host.sent_call("slow");
        assert_eq!(host.receive(answer), [format!("settled slow {settled}")], "{answer}");
    }
}

#[test]
fn b01_an_id_that_stands_twice_settles_nothing() {
    let mut host = acp();
    host.sent_call("slow");
    let answer = r#"{"jsonrpc":"2.0","id":1,"id":2,"result":1}"#;
    assert_eq!(host.receive(answer), ["violation unknown_response"]);
    assert_eq!(host.in_flight(), (1, 0));
}

#[test]
fn b14_only_our_own_number_answers_a_call() {
    let mut host = acp();
    host.sent_call("slow");
    for id in ["\"1\"", "1.0", "1e0", "-1", "null", "true", "[1]", "{}", "0", "2", "4294967297"] {
        let events = host.receive(&result(id, "1"));
        assert!(events.len() == 1 && events[0].starts_with("violation unknown_response"), "{id}");
    }
    assert_eq!(host.in_flight(), (1, 0));
}

#[test]
fn b31_an_answer_without_an_id_is_reported_and_the_connection_lives() {
    let mut host = acp();
    host.sent_call("slow");
    let answer = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse"}}"#;
    assert_eq!(host.receive(answer), ["violation unknown_response"]);
    assert_eq!(host.receive(&result("1", "1")), ["settled slow result 1"]);
}

#[test]
fn g01_a_response_in_any_layout_is_understood() {
    for answer in [
        r#"{"result":1,"id":1,"jsonrpc":"2.0"}"#,
        " { \"id\" : 1 , \"jsonrpc\" : \"2.0\" , \"result\" : 1 } ",
        r#"{"\u006asonrpc":"2.\u0030","i\u0064":1,"resul\u0074":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"extra":[{}],"\ud800":0}"#,
    ] {
        let mut host = acp();
        host.sent_call("slow");
        assert_eq!(host.receive(answer), ["settled slow result 1"], "{answer}");
    }
}

#[test]
fn b13_ids_of_the_two_directions_are_two_spaces() {
    let mut host = acp();
    host.sent_call("ours");
    assert_eq!(host.receive(&request("1", "theirs")), ["request r1 1 theirs"]);
    assert_eq!(host.receive(&support::cancel("1")), ["cancelled r1 peer"]);
    assert_eq!(host.in_flight(), (1, 1));
    assert_eq!(host.receive(&result("1", "1")), ["settled ours result 1"]);
    assert_eq!(host.in_flight(), (0, 1));
}

#[test]
fn our_ids_count_from_one_and_are_not_reused() {
    let mut host = acp();
    for number in 1..=50_u32 {
        let call = host.call("m");
        assert_eq!(call.number(), number);
        if number % 2 == 0 {
            host.cancel(call);
        } else {
            host.sent();
            host.receive(&result(&number.to_string(), "1"));
        }
        host.events();
    }
}

#[test]
fn params_are_written_as_they_are_and_null_is_nothing() {
    let mut host = acp();
    for params in ["[1, 2]", "{\"a\":\n9007199254740993}", "null"] {
        host.try_call_with("m", Some(raw(params)), CallOptions::default()).unwrap();
    }
    host.conn.notify("n\"\u{1}", Some(raw("null"))).unwrap();
    assert_eq!(
        host.sent_with_kinds(),
        [
            (TransmitKind::Request, r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1, 2]}"#),
            (
                TransmitKind::Request,
                r#"{"jsonrpc":"2.0","id":2,"method":"m","params":{"a": 9007199254740993}}"#
            ),
            (TransmitKind::Request, r#"{"jsonrpc":"2.0","id":3,"method":"m"}"#),
            (TransmitKind::Notification, r#"{"jsonrpc":"2.0","method":"n\"\u0001"}"#),
        ]
        .map(|(kind, message)| (kind, message.to_owned()))
    );
}

#[test]
fn a_calls_data_can_be_changed_while_it_is_in_flight() {
    let mut host = acp();
    let call = host.sent_call("slow");
    host.conn.call_data_mut(call).unwrap().push_str("er");
    assert_eq!(host.receive(&result("1", "1")), ["settled slower result 1"]);
    assert!(host.conn.call_data_mut(call).is_none());
}

/// An end that came before the result of `initialize` would be a notification without a meaning to the client.
#[test]
fn g01_a_server_ends_no_call_by_a_message_that_may_overtake_the_revision() {
    let settled = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    for (dialect, ends) in [(Dialect::MCP_HTTP, Err(Refusal::NotOursToEnd)), (Dialect::MCP, Ok(0))]
    {
        let mut server = Host::new(Config::server(dialect));
        server.receive(&request("1", "initialize"));
        server.receive(&request("2", "subscriptions/listen"));
        let [initialize, listen] = [1, 2].map(|number| server.request(number));
        server.respond(initialize, Response::Result(raw(settled))).unwrap();
        server.sent();
        assert_eq!(server.conn.end_request(listen, None), ends);
        if ends.is_err() {
            server.respond(listen, Response::Result(raw("{}"))).unwrap();
            assert_eq!(server.sent(), [result("2", "{}")]);
        }
    }
}
