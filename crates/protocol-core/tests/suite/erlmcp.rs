//! erlmcp: what the vectors can't show. Tokens from any entropy, limits.

use crate::support;

use std::time::Duration;

use protocol_core::{
    CallOptions, Cause, Config, Connection, Dialect, InputBuffer, Refusal, RequestHandle, Response,
    WireId,
};
use support::{Host, millis, raw, request, result};

/// Another server's token: those need not look like ours.
const TOKEN: &str = r#""0101010101010101010101010101010101""#;

fn server(change: impl FnOnce(&mut Config)) -> Host {
    let mut config = Config::server(Dialect::ERLMCP);
    change(&mut config);
    Host::new(config)
}

fn client(change: impl FnOnce(&mut Config)) -> Host {
    let mut config = Config::client(Dialect::ERLMCP);
    change(&mut config);
    Host::new(config)
}

/// Receives a tool call, which becomes request `number`, and begins its operation.
fn operation(host: &mut Host, number: usize) -> RequestHandle {
    host.receive(&request(&number.to_string(), "tool/call"));
    let request = host.request(number);
    host.conn.begin_operation(request, [number as u8; 16]).expect("it begins");
    request
}

fn token(byte: u8) -> String {
    format!("\"{}\"", format!("{byte:02X}").repeat(16))
}

fn cancel(id: &str, token: &str) -> String {
    let params = format!(r#""params":{{"cancellationToken":{token}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"cancel",{params}}}"#)
}

fn answer(id: &str, token: &str) -> String {
    result(id, &format!(r#"{{"cancellationToken":{token}}}"#))
}

fn bulk(conn: &mut Connection<String, u32>, bytes: usize) {
    let params = format!("[\"{}\"]", "x".repeat(bytes));
    conn.notify("bulk", Some(raw(&params))).unwrap();
}

#[test]
fn g10_an_operation_that_can_not_begin_changes_nothing() {
    let mut server = server(|config| config.limits.unsent_bytes = 200);
    let begun = operation(&mut server, 1);
    server.receive(&request("2", "resources/read"));
    server.receive(&request("3", "tool/call"));
    let refusals = [
        (begun, 9, Refusal::AlreadyResponded),
        (server.request(2), 9, Refusal::NoOperation),
        (server.request(3), 1, Refusal::TokenInUse),
    ];
    for (request, byte, refusal) in refusals {
        let before = server.state();
        assert_eq!(server.conn.begin_operation(request, [byte; 16]), Err(refusal));
        assert_eq!(server.state(), before);
    }
    bulk(&mut server.conn, 50);
    let before = server.state();
    let waiting = server.request(3);
    assert_eq!(server.conn.begin_operation(waiting, [3; 16]), Err(Refusal::OutboxFull));
    assert_eq!(server.state(), before);
    server.sent();
    assert_eq!(server.events(), ["ready"]);
    server.conn.begin_operation(waiting, [3; 16]).expect("there is room");
    server.respond_ok(begun);
    assert_eq!(server.conn.begin_operation(begun, [9; 16]), Err(Refusal::AlreadyResponded));
}

#[test]
fn g02_a_request_names_its_operation_until_it_ends() {
    let mut server = server(|_| {});
    server.receive(&request("1", "tool/call"));
    let request = server.request(1);
    assert_eq!(server.conn.operation(request), None, "it has not begun");
    server.conn.begin_operation(request, [0xa1; 16]).unwrap();
    let begun = [0xa1; 16];
    assert_eq!(server.conn.operation(request), Some(begun));
    server.receive(&cancel("2", &token(0xa1)));
    assert_eq!(server.conn.operation(request), Some(begun), "its worker has not stopped");
    server.respond_ok(request);
    assert_eq!((server.conn.operation(request), server.in_flight()), (None, (0, 0)));
}

#[test]
fn g05_the_client_is_told_of_every_cause() {
    let causes = [
        (Cause::Peer, "client_requested"),
        (Cause::Deadline, "timeout"),
        (Cause::HardCap, "timeout"),
        (Cause::Shutdown, "server_shutdown"),
        (Cause::Internal, "error: internal"),
    ];
    let mut server = server(|config| config.unix_time_at_zero = Duration::from_secs(1));
    server.now = server.now + millis(3);
    for (number, (cause, reason)) in (1..).zip(causes) {
        let request = operation(&mut server, number);
        server.sent();
        server.conn.cancel_request(request, cause, server.now);
        server.conn.cancel_request(request, Cause::Peer, server.now);
        let told = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"{reason}","timestamp":1003}}}}"#,
            token(number as u8)
        );
        assert_eq!(server.sent(), [told], "once");
    }
}

#[test]
fn a_request_that_was_cancelled_before_its_operation_began_is_told_with_the_token() {
    let mut server = server(|_| {});
    server.receive(&request("1", "tool/call"));
    let request = server.request(1);
    server.conn.cancel_request(request, Cause::Internal, server.now);
    assert_eq!(server.sent(), [""; 0], "it has no token yet");
    server.conn.begin_operation(request, [1; 16]).unwrap();
    let [answer, told] = server.sent().try_into().unwrap();
    assert!(answer.contains("cancellationToken") && told.contains("error: internal"));
}

#[test]
fn f84_an_id_and_a_token_are_no_names_of_each_other() {
    let mut server = server(|_| {});
    server.receive(&request(&token(1), "tool/call"));
    assert_eq!(server.receive(&cancel("2", &token(1))), [""; 0]);
    assert!(server.sent()[0].contains("-32001"), "the id only looks like a token");
    let waiting = server.request(1);
    server.conn.begin_operation(waiting, [1; 16]).unwrap();
    // The id is free again, and the token of the operation is no id.
    server.receive(&request(&token(1), "tool/call"));
    let second = server.request(2);
    assert_eq!(server.conn.begin_operation(second, [1; 16]), Err(Refusal::TokenInUse));
    assert_eq!(server.receive(&cancel("2", &token(1))), ["cancelled r1 peer"]);
}

/// A host that joins two connections knows operations that were begun on the other one.
#[test]
fn f02_a_host_may_answer_cancels_of_operations_that_were_not_begun_here() {
    let mut server = server(|config| config.deliver_unknown_operations = true);
    operation(&mut server, 1);
    server.sent();
    assert_eq!(server.receive(&cancel("2", &token(1))), ["cancelled r1 peer"]);
    assert!(server.sent().last().unwrap().contains(r#""status":"cancelled""#));
    // A request whose id only looks like a token is no operation.
    assert_eq!(
        server.receive(&request(&token(2), "read")),
        [r#"request r2 "02020202020202020202020202020202" read"#]
    );
    for (named, request) in [(token(2), "r3 3"), (token(3), "r4 4"), ("\"AB\"".into(), "r5 5")] {
        let events = server.receive(&cancel(&request[3..], &named));
        let params = format!(r#"{{"cancellationToken":{named}}}"#);
        assert_eq!(events, [format!("request {request} cancel {params}")]);
    }
    assert_eq!(server.receive(&support::request("6", "cancel")), ["violation malformed_cancel 6"]);
    assert!(server.sent()[0].contains("-32602"), "it names nothing");
}

#[test]
fn f02_a_side_that_may_not_cancel_has_no_cancels_delivered() {
    let mut client = client(|config| config.deliver_unknown_operations = true);
    for named in [&token(1), "\"AB\""] {
        client.receive(&cancel("2", named));
        assert!(client.sent()[0].contains("-32001"));
    }
}

#[test]
fn g08_a_full_outbox_drops_the_acknowledgement_and_never_the_cancel() {
    let mut server = server(|config| config.limits.unsent_bytes = 200);
    operation(&mut server, 1);
    bulk(&mut server.conn, 60);
    let events = server.receive(&cancel("2", &token(1)));
    assert_eq!(events, ["cancelled r1 peer", "violation response_dropped 2"]);
    let sent = server.sent();
    assert!(sent.last().unwrap().contains("notifications/cancelled"), "told above the limit");
    assert_eq!(sent.len(), 3);
}

#[test]
fn g08_operations_count_as_requests_until_they_end() {
    let mut server = server(|config| config.limits.requests = 1);
    let request = operation(&mut server, 1);
    server.receive(&cancel("2", &token(1)));
    let again = support::request("3", "tool/call");
    assert_eq!(server.receive(&again), ["violation too_many_requests 3"]);
    server.respond(request, Response::Cancelled).unwrap();
    assert_eq!(server.receive(&again), ["request r2 3 tool/call"]);
}

#[test]
fn g08_tokens_over_the_length_of_an_id_are_not_sent_back() {
    let mut client = client(|config| config.limits.id_bytes = 40);
    let call = client.sent_call("tool/call");
    client.cancel(call);
    let long = format!("\"{}\"", "x".repeat(39));
    let settled = client.receive(&answer("1", &long));
    assert!(settled[0].starts_with("settled tool/call result"), "{settled:?}");
    assert_eq!(client.conn.unsent_bytes(), 0);
}

#[test]
fn g08_cancels_without_a_token_are_forgotten_oldest_first_but_never_while_their_call_waits() {
    let mut client = client(|config| {
        config.limits.calls = 2;
        config.limits.abandoned_ids = 1;
    });
    let waiting = client.sent_call("tool/call");
    client.cancel(waiting);
    for _ in 0..4 {
        client.sent_call_with("tool/call", CallOptions::default().timeout(millis(1)));
        client.advance(1);
    }
    let mut follows = |number: &str| {
        client.receive(&answer(number, TOKEN));
        client.sent().len()
    };
    // Call 1 waits; of 2 to 5 the last one is remembered.
    assert_eq!(["2", "3", "4", "5", "1"].map(&mut follows), [0, 0, 0, 1, 1]);
    assert_eq!(client.receive(&result("7", "{}")), ["settled tool/call cancelled caller"]);
}

#[test]
fn g08_cancels_without_an_acknowledgement_are_forgotten_but_never_while_their_call_waits() {
    let mut client = client(|config| {
        config.limits.calls = 2;
        config.limits.abandoned_ids = 1;
    });
    let waiting = client.sent_call("tool/call");
    client.cancel(waiting);
    client.receive(&answer("1", TOKEN));
    let token = WireId::from_json(TOKEN).unwrap();
    for _ in 0..4 {
        client.conn.send_cancel_request(&token).unwrap();
    }
    client.sent();
    assert_eq!(client.receive(&result("3", "{}")), ["violation duplicate_response 3"]);
    assert_eq!(client.receive(&result("6", "{}")), [""; 0]);
    assert_eq!(client.receive(&result("2", "{}")), ["settled tool/call cancelled caller"]);
}

#[test]
fn an_operation_is_cancelled_by_its_token_after_its_call_settled() {
    let mut client = client(|config| config.limits.unsent_bytes = 200);
    let call = client.sent_call("tool/call");
    client.receive(&answer("1", TOKEN));
    client.cancel(call);
    assert_eq!(client.sent(), [""; 0], "its call is over");
    let token = WireId::from_json(TOKEN).unwrap();
    client.conn.send_cancel_request(&token).unwrap();
    bulk(&mut client.conn, 30);
    let before = client.state();
    assert_eq!(client.conn.send_cancel_request(&token), Err(Refusal::OutboxFull), "bounded (G8)");
    assert_eq!(client.state(), before);
    assert_eq!(client.sent()[0], cancel("2", TOKEN));
    assert_eq!(client.receive(&result("2", r#"{"status":"cancelled"}"#)), ["ready"]);
}

#[test]
fn g07_nothing_leaves_after_the_connection_was_abandoned() {
    let mut server = server(|_| {});
    server.receive(&request("1", "tool/call"));
    let request = server.request(1);
    server.conn.shutdown(protocol_core::Shutdown::Abandon, server.now);
    server.conn.begin_operation(request, [1; 16]).expect("it is unanswered");
    assert_eq!(server.sent(), [""; 0]);
    server.respond_ok(request);
    assert_eq!(server.sent(), [""; 0]);
}

#[test]
fn f10_what_is_read_and_what_waits_to_be_sent_is_never_shown() {
    let mut server = server(|_| {});
    let request = operation(&mut server, 1);
    server.conn.cancel_request(request, Cause::Internal, server.now);
    let mut input = InputBuffer::new();
    input.extend_from_slice(token(1).as_bytes());
    let shown = format!("{:?} {input:?}", server.conn);
    // As text, and as the numbers that bytes are printed as.
    let secrets = ["01".repeat(16), "48, 49, ".repeat(16)];
    assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
}

#[test]
fn b01_a_broken_acknowledgement_settles_the_call_that_waits_for_it() {
    let mut client = client(|_| {});
    let call = client.sent_call("tool/call");
    client.cancel(call);
    client.receive(&answer("1", TOKEN));
    assert!(client.sent()[0].contains(r#""id":2"#));
    let events = client.receive(r#"{"jsonrpc":"2.0","id":2}"#);
    assert_eq!(events, ["violation malformed_response 2", "settled tool/call malformed"]);
    assert_eq!(client.sent(), [""; 0], "a response is never answered");
}

#[test]
fn g12_a_second_answer_is_told_while_the_cancel_is_under_way() {
    for has_left in [false, true] {
        let mut client = client(|_| {});
        let call = client.sent_call("tool/call");
        client.cancel(call);
        assert_eq!(client.receive(&answer("1", TOKEN)), [""; 0]);
        if has_left {
            assert_eq!(client.sent().len(), 1);
        }
        for again in [answer("1", TOKEN), result("1", "1")] {
            assert_eq!(client.receive(&again), ["violation duplicate_response 1"], "{has_left}");
        }
        assert_eq!(client.in_flight(), (1, 0));
    }
}
