//! G5: drop, cancel, timers and parents are one transition with a recorded cause.

use crate::support::{acp, cancel, error, jsonrpc, limited, lsp, millis, request, result};
use protocol_core::{CallOptions, CancelOutcome, Cause, Shutdown};

#[test]
fn g05_every_cause_has_its_name() {
    let names: Vec<&str> = Cause::ALL.iter().map(|cause| cause.as_str()).collect();
    let expected = [
        "caller",
        "dropped",
        "deadline",
        "idle_timeout",
        "hard_cap",
        "parent",
        "peer",
        "peer_gone",
        "stopped",
        "shutdown",
        "internal",
    ];
    assert_eq!(names, expected);
    assert_eq!(Cause::IdleTimeout.to_string(), "idle_timeout");
}

#[test]
fn g05_the_first_cause_is_the_one_that_is_told() {
    let confirmed = r#"{"code":-32800,"message":"no"}"#;
    for first in [Cause::Caller, Cause::Dropped, Cause::Internal, Cause::Shutdown] {
        let mut host = acp();
        let call = host.sent_call("slow");
        assert_eq!(host.cancel_for(call, first), CancelOutcome::Sent);
        host.cancel_for(call, Cause::Caller);
        host.cancel_for(call, Cause::Dropped);
        let settled = format!("settled slow cancelled {first} {confirmed}");
        assert_eq!(host.receive(&error("1", -32800)), [settled]);
    }
}

#[test]
fn b22_the_users_abort_is_not_reported_as_a_time_out() {
    let mut host = acp();
    let call = host.sent_call_with("slow", CallOptions::default().timeout(millis(10)));
    host.cancel(call);
    assert_eq!(host.advance(10), ["settled slow cancelled caller"]);
}

#[test]
fn b23_a_result_that_beat_the_cancel_is_a_result() {
    let mut host = acp();
    let call = host.sent_call("slow");
    host.cancel(call);
    host.sent();
    assert_eq!(
        host.receive(&result("1", r#"{"partial":1}"#)),
        [r#"settled slow result {"partial":1}"#]
    );
}

#[test]
fn g05_an_error_other_than_32800_after_a_cancel_is_an_error() {
    let mut host = acp();
    let call = host.sent_call("slow");
    host.cancel(call);
    let settled = r#"settled slow error {"code":-32603,"message":"no"}"#;
    assert_eq!(host.receive(&error("1", -32603)), [settled]);
}

#[test]
fn g05_a_malformed_answer_after_a_cancel_settles_as_malformed() {
    let mut host = acp();
    let call = host.sent_call("slow");
    host.cancel(call);
    let events = host.receive(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#);
    assert_eq!(events, ["violation malformed_response 1", "settled slow malformed"]);
}

#[test]
fn g05_without_a_cancel_on_the_wire_a_cancel_settles_here() {
    let mut host = jsonrpc();
    let call = host.sent_call("slow");
    assert_eq!(host.cancel(call), CancelOutcome::Settled);
    assert_eq!(host.events(), ["settled slow cancelled caller"]);
    assert_eq!(host.cancel(call), CancelOutcome::AlreadySettled);
    assert_eq!(host.receive(&result("1", "1")), ["violation late_response 1"]);
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn g05_our_own_side_cancels_a_request_exactly_as_the_peer_would() {
    for cause in [Cause::Internal, Cause::Shutdown] {
        let mut host = acp();
        let work = host.peer_requests("7");
        host.conn.cancel_request(work, cause, host.now);
        assert_eq!(host.events(), [format!("cancelled r1 {cause}")]);
        assert_eq!(host.receive(&cancel("7")), [""; 0]);
        host.respond(work, protocol_core::Response::Cancelled).unwrap();
        assert_eq!(host.sent().len(), 1);
    }
}

// Shutdown

#[test]
fn g05_drain_finishes_what_is_in_flight_and_sends_no_cancels() {
    let mut host = acp();
    host.sent_call("slow");
    let queued = host.call("queued");
    let work = host.peer_requests("7");
    assert_eq!(host.shutdown(Shutdown::Drain), [""; 0]);
    assert_eq!(host.sent(), [request("2", "queued")]);

    assert_eq!(host.receive(&request("8", "m")), ["violation request_after_shutdown 8"]);
    assert!(host.sent()[0].contains(r#""id":8,"error":{"code":-32800,"#));
    assert_eq!(host.receive(&cancel("7")), ["cancelled r1 peer"]);
    host.respond_ok(work);
    assert_eq!(host.receive(&result("1", "1")), ["settled slow result 1"]);
    assert_eq!(host.events(), [""; 0]);
    host.cancel(queued);
    assert_eq!(
        host.sent(),
        [result("7", "null"), cancel("2")].into_iter().rev().collect::<Vec<_>>()
    );
    let last = host.receive(&result("2", "2"));
    assert_eq!(last, ["settled queued result 2", "closed shutdown"]);
    assert!(host.conn.machine().is_closed());
}

#[test]
fn g05_drain_with_nothing_in_flight_closes_at_once() {
    let mut host = acp();
    assert_eq!(host.shutdown(Shutdown::Drain), ["closed shutdown"]);
    for how in [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon] {
        assert_eq!(host.shutdown(how), [""; 0]);
    }
}

#[test]
fn g05_while_draining_a_request_may_still_make_its_calls() {
    let mut host = acp();
    let work = host.peer_requests("7");
    host.shutdown(Shutdown::Drain);
    let refused = host.try_call("new", CallOptions::default());
    assert_eq!(refused, Err(protocol_core::Refusal::ShuttingDown));
    host.sent_call_with("child", CallOptions::default().parent(work));
    host.conn.notify("still", Default::default()).unwrap();
    host.respond_ok(work);
    let last = host.receive(&result("1", "1"));
    assert_eq!(last, ["settled child result 1", "tree_settled r1", "closed shutdown"]);
}

#[test]
fn g05_cancel_all_cancels_calls_and_requests_with_cause_shutdown() {
    let mut host = acp();
    host.sent_call("slow");
    host.call("queued");
    let work = host.peer_requests("7");
    let events = host.shutdown(Shutdown::CancelAll);
    assert_eq!(events, ["cancelled r1 shutdown", "settled queued cancelled shutdown"]);
    assert_eq!(host.sent(), [cancel("1")]);
    host.respond(work, protocol_core::Response::Cancelled).unwrap();
    let last = host.receive(&error("1", -32800));
    let settled = r#"settled slow cancelled shutdown {"code":-32800,"message":"no"}"#;
    assert_eq!(last, [settled, "closed shutdown"]);
}

#[test]
fn g05_cancel_all_does_not_wait_for_ever() {
    let mut host = lsp();
    host.sent_call("slow");
    let waiting = host.sent_call("waiting");
    host.cancel(waiting);
    host.shutdown(Shutdown::CancelAll);
    assert_eq!(host.next_timer(), Some((30_000, "grace")));
    let events = host.advance(30_000);
    let expected =
        ["settled slow cancelled shutdown", "settled waiting cancelled caller", "closed shutdown"];
    assert_eq!(events, expected);
}

#[test]
fn g05_abandon_settles_everything_now_and_sends_nothing_more() {
    let mut host = acp();
    let slow = host.sent_call("slow");
    host.cancel(slow);
    host.call("queued");
    let (work, answered) = (host.peer_requests("7"), host.peer_requests("8"));
    host.respond_ok(answered);
    let events = host.shutdown(Shutdown::Abandon);
    let expected = [
        "settled slow connection_lost shutdown",
        "settled queued connection_lost shutdown",
        "cancelled r1 shutdown",
        "closed shutdown",
    ];
    assert_eq!(events, expected);
    host.respond_ok(work);
    assert_eq!((host.sent(), host.conn.unsent_bytes(), host.in_flight()), (vec![], 0, (0, 0)));
}

#[test]
fn g05_a_stronger_shutdown_takes_over() {
    let mut host = acp();
    host.sent_call("slow");
    host.shutdown(Shutdown::Drain);
    assert_eq!(host.sent(), [""; 0]);
    host.shutdown(Shutdown::CancelAll);
    assert_eq!(host.sent(), [cancel("1")]);
    host.shutdown(Shutdown::Drain);
    let events = host.shutdown(Shutdown::Abandon);
    assert_eq!(events, ["settled slow connection_lost shutdown", "closed shutdown"]);
}

#[test]
fn g05_abandon_after_the_end_of_input_sends_nothing_more() {
    let mut host = acp();
    let (work, answered) = (host.peer_requests("7"), host.peer_requests("8"));
    host.eof();
    host.respond_ok(answered);
    assert_eq!(host.shutdown(Shutdown::Abandon), [""; 0]);
    host.respond_ok(work);
    assert_eq!((host.sent(), host.conn.unsent_bytes()), (vec![], 0));
}

#[test]
fn g05_a_peer_over_the_limit_loses_its_requests_for_a_reason_of_ours() {
    let mut host = limited(|config| {
        config.limits.requests = 1;
        config.close_over_limit = true;
    });
    host.sent_call("slow");
    host.peer_requests("7");
    let events = host.receive(&request("8", "m"));
    let expected = [
        "violation too_many_requests 8",
        "settled slow connection_lost internal",
        "cancelled r1 internal",
        "closed over_limit",
    ];
    assert_eq!(events, expected);
}
