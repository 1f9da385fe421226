//! G3: a cancelled flag is set while the message is decoded, however busy the host is.

use crate::support::{acp, cancel, limited, lsp, raw, request};
use protocol_core::{Config, Dialect, Event, Refusal, Timestamp};
use protocol_core::{InputBuffer, RequestPhase, StreamConnection};

#[test]
fn b09_a_cancel_in_the_same_read_as_its_request_is_marked_before_the_host_sees_either() {
    let mut server: StreamConnection<()> = StreamConnection::new(Config::client(Dialect::ACP_V1));
    let mut input = InputBuffer::new();
    input.extend_from_slice(format!("{}\n{}\n", request("7", "slow"), cancel("7")).as_bytes());
    let mut request = None;
    loop {
        let received = server.receive(input.unread(), Timestamp::ZERO);
        let consumed = received.consumed;
        if let Some(Event::Request { request: new, .. }) = received.event {
            request = Some(new);
        }
        if consumed == 0 {
            break;
        }
        input.consume(consumed);
    }
    let phase = server.connection().machine().request_phase(request.unwrap());
    assert_eq!(phase, Some(RequestPhase::Cancelled));
}

#[test]
fn g03_a_request_is_marked_though_nobody_looked_at_the_events() {
    let mut host = acp();
    let work = host.peer_requests("7");
    drop(host.conn.receive(cancel("7").as_bytes(), host.now));
    let phase = host.conn.machine().request_phase(work);
    assert_eq!(phase, Some(RequestPhase::Cancelled));
}

#[test]
fn b07_a_cancel_is_read_at_every_limit() {
    let mut host = limited(|config| {
        config.limits.requests = 2;
        config.limits.unsent_bytes = 40;
    });
    host.peer_requests("1");
    host.peer_requests("2");
    host.conn.notify("full", Default::default()).unwrap();
    assert_eq!(host.conn.notify("x", Default::default()), Err(Refusal::OutboxFull));
    assert_eq!(host.receive(&cancel("2")), ["cancelled r2 peer"]);
}

#[test]
fn g03_a_cancel_before_its_request_is_ignored() {
    let mut host = acp();
    assert_eq!(host.receive(&cancel("7")), [""; 0]);
    assert_eq!(host.receive(&request("7", "m")), ["request r1 7 m"]);
    assert_eq!(host.sent(), [""; 0], "a cancel is never answered");
}

#[test]
fn g03_a_cancel_hits_the_id_it_names_and_no_look_alike() {
    let mut host = acp();
    for id in ["1", "\"1\"", "0", "\"\"", "null", "\"null\""] {
        host.peer_requests(id);
    }
    assert_eq!(host.receive(&cancel("\"1\"")), ["cancelled r2 peer"]);
    assert_eq!(host.receive(&cancel("\"\"")), ["cancelled r4 peer"]);
    assert_eq!(host.receive(&cancel("null")), ["cancelled r5 peer"]);
    assert_eq!(host.receive(&cancel("0")), ["cancelled r3 peer"]);
    assert_eq!(host.receive(&cancel("1")), ["cancelled r1 peer"]);
    assert_eq!(host.receive(&cancel("1.0")), ["violation malformed_cancel"]);
}

#[test]
fn g03_a_cancel_in_any_layout_is_understood() {
    for message in [
        r#"{"jsonrpc":"2.0","method":"$\/cancelRequest","params":{"id":7}}"#,
        r#"{"params":{"id":7},"method":"$/cancelRequest","jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","\u006dethod":"\u0024/cancelRequest","params":{"i\u0064":7}}"#,
        "{ \"jsonrpc\" : \"2.0\" , \"method\" : \"$/cancelRequest\" , \"params\" : { \"id\" : 7 } }",
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"_meta":{"id":8},"id":7,"\ud800":0}}"#,
    ] {
        let mut host = lsp();
        host.peer_requests("7");
        assert_eq!(host.receive(message), ["cancelled r1 peer"], "{message}");
    }
}

#[test]
fn a_cancel_that_names_no_id_is_reported_and_ignored() {
    let long = format!("{{\"requestId\":\"{}\"}}", "x".repeat(2_000));
    let mut host = acp();
    host.peer_requests("7");
    for params in
        ["{}", "[7]", r#"{"id":7}"#, r#"{"requestId":[7]}"#, r#"{"requestId":true}"#, &long]
    {
        assert!(raw(params).get().len() > 1);
        let message =
            format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{params}}}"#);
        assert_eq!(host.receive(&message), ["violation malformed_cancel"], "{params}");
    }
    let absent = r#"{"jsonrpc":"2.0","method":"$/cancel_request"}"#;
    assert_eq!(host.receive(absent), ["violation malformed_cancel"]);
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn the_cancel_of_another_dialect_is_a_notification_like_any_other() {
    let mut host = acp();
    host.peer_requests("7");
    let message = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}"#;
    assert_eq!(host.receive(message), [r#"notification $/cancelRequest {"id":7}"#]);
}

#[test]
fn a_request_with_the_cancels_method_is_a_request() {
    let mut host = acp();
    host.peer_requests("7");
    let message =
        r#"{"jsonrpc":"2.0","id":8,"method":"$/cancel_request","params":{"requestId":7}}"#;
    assert_eq!(host.receive(message), [r#"request r2 8 $/cancel_request {"requestId":7}"#]);
}
