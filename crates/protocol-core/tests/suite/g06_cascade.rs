//! G6: cancelling a request cancels the calls made on its behalf, and reports when the whole tree has settled.

use crate::support::{acp, cancel, error, request, result};
use protocol_core::{CallOptions, CancelOutcome, Cause, Refusal, RequestHandle, Response};

fn on_behalf(parent: RequestHandle) -> CallOptions {
    CallOptions::default().parent(parent)
}

#[test]
fn g06_a_cancelled_request_cancels_its_calls_and_no_others() {
    let mut host = acp();
    let (work, other) = (host.peer_requests("7"), host.peer_requests("8"));
    host.sent_call_with("first", on_behalf(work));
    host.sent_call_with("other", on_behalf(other));
    host.sent_call("mine");
    host.sent_call_with("second", on_behalf(work));
    host.call_with("queued", on_behalf(work));
    let events = host.receive(&cancel("7"));
    assert_eq!(events, ["cancelled r1 peer", "settled queued cancelled parent"]);
    assert_eq!(host.sent(), [cancel("1"), cancel("4")]);
    let settled = r#"settled first cancelled parent {"code":-32800,"message":"no"}"#;
    assert_eq!(host.receive(&error("1", -32800)), [settled]);
}

#[test]
fn g06_the_tree_has_settled_when_the_answer_and_every_call_have() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.sent_call_with("first", on_behalf(work));
    host.sent_call_with("second", on_behalf(work));
    host.receive(&cancel("7"));
    assert_eq!(host.receive(&result("1", "1")), ["settled first result 1"]);
    host.respond(work, Response::Cancelled).unwrap();
    assert_eq!(host.events(), [""; 0]);
    assert_eq!(host.receive(&result("2", "2")), ["settled second result 2", "tree_settled r1"]);
    assert_eq!(host.conn.machine().request_phase(work), None);
}

#[test]
fn g06_the_answer_may_be_the_last_of_the_tree() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.sent_call_with("child", on_behalf(work));
    assert_eq!(host.receive(&result("1", "1")), ["settled child result 1"]);
    host.respond_ok(work);
    assert_eq!(host.events(), ["tree_settled r1"]);
}

#[test]
fn g06_a_request_without_calls_has_no_tree() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.respond_ok(work);
    assert_eq!(host.events(), [""; 0]);
}

#[test]
fn g06_a_call_for_a_cancelled_request_is_made_and_withdrawn() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.receive(&cancel("7"));
    let call = host.call_with("child", on_behalf(work));
    assert_eq!(host.events(), ["settled child cancelled parent"]);
    assert_eq!((host.sent(), host.in_flight()), (vec![], (0, 1)));
    assert_eq!(host.cancel(call), CancelOutcome::AlreadySettled);
    host.respond(work, Response::Cancelled).unwrap();
    assert_eq!(host.events(), ["tree_settled r1"]);
}

#[test]
fn g06_a_call_for_an_answered_request_is_refused() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.sent_call_with("child", on_behalf(work));
    host.respond_ok(work);
    let before = host.state();
    assert_eq!(host.try_call("late", on_behalf(work)), Err(Refusal::UnknownParent));
    assert_eq!(host.state(), before);
    host.receive(&result("1", "1"));
    host.peer_requests("8");
    let stale = host.try_call("late", on_behalf(work));
    assert_eq!(stale, Err(Refusal::UnknownParent), "though its place is taken again");
}

#[test]
fn g06_the_answer_does_not_cancel_the_calls() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.sent_call_with("child", on_behalf(work));
    host.respond_ok(work);
    assert_eq!(host.receive(&cancel("7")), [""; 0], "a cancel after the answer (G2)");
    assert_eq!(host.sent(), [result("7", "null")]);
    assert_eq!(host.in_flight(), (1, 0));
}

#[test]
fn g06_a_detached_call_is_not_part_of_the_tree() {
    let mut host = acp();
    let work = host.peer_requests("7");
    let child = host.sent_call_with("child", on_behalf(work));
    host.conn.detach(child, host.now);
    assert_eq!(host.receive(&cancel("7")), ["cancelled r1 peer"]);
    assert_eq!(host.sent(), [""; 0]);
    host.respond(work, Response::Cancelled).unwrap();
    assert_eq!(host.events(), ["tree_settled r1"]);
    assert_eq!(host.receive(&result("1", "1")), ["settled child result 1"]);
}

#[test]
fn g06_detaching_the_last_call_settles_the_tree() {
    let mut host = acp();
    let work = host.peer_requests("7");
    let child = host.sent_call_with("child", on_behalf(work));
    host.respond_ok(work);
    host.conn.detach(child, host.now);
    assert_eq!(host.events(), ["tree_settled r1"]);
}

#[test]
fn g06_a_call_that_its_own_caller_cancelled_keeps_that_cause() {
    let mut host = acp();
    let work = host.peer_requests("7");
    let child = host.sent_call_with("child", on_behalf(work));
    assert_eq!(host.cancel(child), CancelOutcome::Sent);
    host.receive(&cancel("7"));
    assert_eq!(host.sent(), [cancel("1")], "one cancel, for both reasons");
    let settled = r#"settled child cancelled caller {"code":-32800,"message":"no"}"#;
    assert_eq!(host.receive(&error("1", -32800)), [settled]);
}

#[test]
fn g06_our_own_reasons_cascade_too() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.call_with("child", on_behalf(work));
    host.conn.cancel_request(work, Cause::Internal, host.now);
    assert_eq!(host.events(), ["cancelled r1 internal", "settled child cancelled parent"]);
}

#[test]
fn g06_many_calls_of_one_request_settle_in_the_order_they_were_made() {
    let mut host = acp();
    let work = host.peer_requests("7");
    for number in 0..100 {
        host.call_with(&number.to_string(), on_behalf(work));
    }
    let mut events = host.receive(&cancel("7"));
    assert_eq!(events.remove(0), "cancelled r1 peer");
    let expected: Vec<_> = (0..100).map(|n| format!("settled {n} cancelled parent")).collect();
    assert_eq!(events, expected);
    assert_eq!(host.receive(&request("8", "m")), ["request r2 8 m"]);
}
