//! G2: every request gets exactly one response, or none where the dialect demands silence.

use crate::support::{Host, acp, cancel, jsonrpc, limited, lsp, raw, request, result};
use protocol_core::{Config, Dialect, Refusal, Response, ResponseRule};

#[test]
fn g02_a_request_is_answered_once() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.respond_ok(work);
    let before = host.state();
    for reply in [Response::Result(raw("2")), Response::Cancelled] {
        assert_eq!(host.respond(work, reply), Err(Refusal::AlreadyResponded));
    }
    assert_eq!(host.state(), before);
    assert_eq!(host.sent(), [result("7", "null")]);
}

#[test]
fn g02_every_form_of_answer() {
    let mut host = acp();
    for (reply, expected) in [
        (Response::Result(raw(" {\"a\":\r\n1} ")), r#""result":{"a":  1}"#),
        (
            Response::Error { code: -1, message: "a \"b\"\n", data: None },
            r#""error":{"code":-1,"message":"a \"b\"\u000a"}"#,
        ),
        (
            Response::Error { code: 1, message: "", data: Some(raw("null")) },
            r#""error":{"code":1,"message":"","data":null}"#,
        ),
        (Response::ErrorRaw(raw(r#"{"code":0,"x":1}"#)), r#""error":{"code":0,"x":1}"#),
        (Response::Cancelled, r#""error":{"code":-32800,"message":"Request cancelled"}"#),
    ] {
        let work = host.peer_requests("1");
        host.respond(work, reply).unwrap();
        assert_eq!(host.sent(), [format!(r#"{{"jsonrpc":"2.0","id":1,{expected}}}"#)]);
    }
}

#[test]
fn g02_a_cancel_after_the_answer_changes_nothing() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.respond_ok(work);
    let before = host.state();
    assert_eq!(host.receive(&cancel("7")), [""; 0]);
    host.conn.cancel_request(work, protocol_core::Cause::Internal, host.now);
    assert_eq!((host.events(), host.state()), (vec![], before));
}

#[test]
fn g02_a_second_cancel_changes_nothing() {
    let mut host = acp();
    let work = host.peer_requests("7");
    assert_eq!(host.receive(&cancel("7")), ["cancelled r1 peer"]);
    let before = host.state();
    assert_eq!(host.receive(&cancel("7")), [""; 0]);
    assert_eq!(host.state(), before);
    host.respond(work, Response::Cancelled).unwrap();
    assert_eq!(host.receive(&cancel("7")), [""; 0]);
    assert_eq!(host.sent().len(), 1);
}

#[test]
fn b23_a_good_result_is_sent_though_the_request_was_cancelled() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.receive(&cancel("7"));
    host.respond(work, Response::Result(raw("[1]"))).unwrap();
    assert_eq!(host.sent(), [result("7", "[1]")]);
}

#[test]
fn b11_a_cancelled_request_is_not_answered_where_the_dialect_demands_silence() {
    let mut silent = Dialect::ACP_V1;
    silent.response = ResponseRule::Silent;
    let mut host = Host::new(Config::client(silent));
    let (cancelled, other) = (host.peer_requests("1"), host.peer_requests("2"));
    host.receive(&cancel("1"));
    host.respond_ok(cancelled);
    assert_eq!((host.sent(), host.conn.unsent_bytes()), (vec![], 0));
    assert_eq!(host.respond(cancelled, Response::Cancelled), Err(Refusal::AlreadyResponded));
    host.respond_ok(other);
    assert_eq!(host.sent(), [result("2", "null")]);
    assert_eq!(host.in_flight(), (0, 0));
}

#[test]
fn b05_a_duplicate_id_is_refused_and_the_first_is_untouched() {
    let mut host = acp();
    let first = host.peer_requests("7");
    assert_eq!(host.receive(&request("7", "again")), ["violation duplicate_id 7"]);
    let sent = host.sent();
    assert!(sent.len() == 1 && sent[0].contains(r#""id":7,"error":{"code":-32600,"#), "{sent:?}");
    assert_eq!(host.receive(&cancel("7")), ["cancelled r1 peer"]);
    host.respond_ok(first);
    assert_eq!(host.sent(), [result("7", "null")]);
}

#[test]
fn b05_two_spellings_of_one_string_are_one_id() {
    let mut host = acp();
    let first = host.peer_requests(r#""\u0061\/""#);
    assert_eq!(host.receive(&request("\"a/\"", "again")), ["violation duplicate_id \"a/\""]);
    assert_eq!(host.receive(&cancel("\"\\u0061/\"")), ["cancelled r1 peer"]);
    host.sent();
    host.respond_ok(first);
    assert_eq!(host.sent(), [result(r#""\u0061\/""#, "null")], "echoed as it was written");
}

#[test]
fn g02_an_id_is_free_again_once_it_is_answered() {
    let mut host = acp();
    let first = host.peer_requests("7");
    host.receive(&cancel("7"));
    host.respond_ok(first);
    let second = host.peer_requests("7");
    assert_ne!(first, second);
    assert_eq!(host.respond(first, Response::Cancelled), Err(Refusal::AlreadyResponded));
    assert_eq!(host.receive(&cancel("7")), ["cancelled r2 peer"]);
    host.respond_ok(second);
    assert_eq!(host.sent().len(), 2);
}

#[test]
fn g02_the_hosts_data_rides_on_the_request() {
    let mut host = acp();
    let work = host.peer_requests("7");
    *host.conn.request_data_mut(work).unwrap() = 5;
    assert_eq!(host.respond(work, Response::Cancelled), Ok(5));
    assert!(host.conn.request_data_mut(work).is_none());
    let next = host.peer_requests("8");
    assert_eq!(host.conn.request_data_mut(next), Some(&mut 0), "a reused slot begins anew");
}

#[test]
fn g02_an_answered_request_whose_calls_live_has_no_data_any_more() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.call_with("child", protocol_core::CallOptions::default().parent(work));
    host.respond_ok(work);
    assert!(host.conn.request_data_mut(work).is_none());
    assert_eq!(host.respond(work, Response::Cancelled), Err(Refusal::AlreadyResponded));
}

/// No response to it could ever be sent, so it must not stay in flight for ever.
#[test]
fn f84_a_request_that_is_released_frees_its_row_and_its_id() {
    for mut host in [acp(), lsp(), jsonrpc()] {
        let work = host.peer_requests("7");
        *host.conn.request_data_mut(work).unwrap() = 5;
        assert_eq!(host.conn.release_request(work), Ok(5));
        assert_eq!(host.conn.release_request(work), Err(Refusal::AlreadyResponded));
        assert_eq!(host.respond(work, Response::Cancelled), Err(Refusal::AlreadyResponded));
        assert_eq!(host.conn.machine().requests_in_flight(), 0);
        let again = host.peer_requests("7");
        host.respond_ok(again);
        assert_eq!(host.sent(), [result("7", "null")]);
    }
}

#[test]
fn f84_a_batch_does_not_wait_for_a_member_that_is_released() {
    let mut host = jsonrpc();
    host.receive(&format!("[{},{}]", request("1", "a"), request("2", "b")));
    host.respond_ok(host.request(1));
    assert_eq!(host.sent(), [""; 0]);
    assert_eq!(host.conn.release_request(host.request(2)), Ok(0));
    assert_eq!(host.sent(), [format!("[{}]", result("1", "null"))]);
}

#[test]
fn b15_each_dialect_serves_its_ids_and_refuses_the_others_by_their_name() {
    let every =
        ["1", "\"1\"", "0", "\"\"", "-7", "9007199254740993", "3000000000", "1.0", "1e2", "null"];
    for (mut host, refused) in [
        (jsonrpc(), &["null"][..]),
        (acp(), &["1.0", "1e2"]),
        (lsp(), &["9007199254740993", "3000000000", "1.0", "1e2", "null"]),
    ] {
        for id in every {
            let events = host.receive(&request(id, "m"));
            if refused.contains(&id) {
                assert_eq!(events, [format!("violation invalid_request {id}")]);
                let sent = host.sent();
                let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"#);
                assert!(sent.len() == 1 && sent[0].starts_with(&expected), "{sent:?}");
            } else {
                assert!(events.len() == 1 && events[0].starts_with("request "), "{id} {events:?}");
            }
        }
        assert_eq!(host.in_flight().1, every.len() - refused.len(), "all in flight at once (B14)");
        for number in 1..=host.in_flight().1 {
            host.respond_ok(host.request(number));
        }
        let served = every.into_iter().filter(|id| !refused.contains(id));
        assert!(host.sent().into_iter().eq(served.map(|id| result(id, "null"))), "byte for byte");
    }
}

#[test]
fn b15_what_is_no_id_is_refused_with_null() {
    for id in ["true", "[1]", "{\"a\":1}", "\"\\ud800\""] {
        let mut host = acp();
        assert_eq!(host.receive(&request(id, "m")), ["violation invalid_request"]);
        assert!(
            host.sent()[0].starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#)
        );
    }
}

#[test]
fn g02_a_host_may_answer_after_the_peer_hung_up() {
    let mut host = acp();
    let work = host.peer_requests("7");
    assert_eq!(host.eof(), ["cancelled r1 peer_gone", "closed peer_gone"]);
    host.respond_ok(work);
    assert_eq!(host.sent(), [result("7", "null")]);
    assert_eq!((host.events(), host.in_flight()), (vec![], (0, 0)));
}

#[test]
fn g10_a_refused_answer_leaves_the_request_as_it_was() {
    let mut host = limited(|config| config.limits.unsent_bytes = 100);
    let (work, other) = (host.peer_requests("7"), host.peer_requests("8"));
    *host.conn.request_data_mut(work).unwrap() = 5;
    host.respond_ok(other);
    let before = host.state();
    let long = format!("\"{}\"", "x".repeat(40));
    assert_eq!(host.respond(work, Response::Result(raw(&long))), Err(Refusal::OutboxFull));
    let longer = format!("\"{}\"", "x".repeat(90));
    assert_eq!(host.respond(work, Response::Result(raw(&longer))), Err(Refusal::TooLarge));
    assert_eq!(host.state(), before);
    host.sent();
    assert_eq!(host.events(), ["ready"]);
    assert_eq!(host.respond(work, Response::Result(raw(&long))), Ok(5));
}

#[test]
fn g02_who_still_waits_for_an_answer_is_listed_in_the_order_they_came() {
    let mut host = acp();
    let [first, second, third] = ["9", "\"a\"", "1"].map(|id| host.peer_requests(id));
    let waiting =
        |host: &Host| host.conn.requests().map(|(request, _)| request).collect::<Vec<_>>();
    assert_eq!(waiting(&host), [first, second, third]);
    host.receive(&cancel("1"));
    host.respond_ok(first);
    assert_eq!(waiting(&host), [second, third]);
    let fourth = host.peer_requests("9");
    assert_eq!(waiting(&host), [second, third, fourth]);
}
