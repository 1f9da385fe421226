//! G12: after a cancel, a call waits for its response or settles here after a grace. Late, duplicate and
//! unknown responses are told apart.

use crate::support::{acp, cancel, error, limited, lsp, millis, result};
use protocol_core::{CallOptions, CancelOutcome, Cause, Grace};

fn grace(grace: Grace) -> CallOptions {
    CallOptions::default().grace(grace)
}

#[test]
fn g12_by_default_a_cancelled_call_waits_for_its_answer() {
    for mut host in [acp(), lsp()] {
        let call = host.sent_call("slow");
        host.cancel(call);
        assert_eq!(host.next_timer(), None);
        assert_eq!(host.advance(1_000_000_000), [""; 0]);
        let settled = r#"settled slow cancelled caller {"code":-32800,"message":"no"}"#;
        assert_eq!(host.receive(&error("1", -32800)), [settled]);
    }
}

#[test]
fn g12_a_call_may_settle_here_after_a_grace() {
    let mut host = acp();
    let call = host.sent_call_with("slow", grace(Grace::Settle(millis(50))));
    assert_eq!(host.next_timer(), None);
    host.advance(7);
    assert_eq!(host.cancel(call), CancelOutcome::Sent);
    assert_eq!(host.next_timer(), Some((57, "grace")));
    assert_eq!(host.advance(49), [""; 0]);
    assert_eq!(host.advance(1), ["settled slow cancelled caller"]);
    assert_eq!(host.sent(), [cancel("1")]);
}

#[test]
fn g12_an_answer_within_the_grace_is_the_outcome() {
    let mut host = acp();
    let call = host.sent_call_with("slow", grace(Grace::Settle(millis(50))));
    host.cancel(call);
    host.advance(49);
    assert_eq!(host.receive(&result("1", "1")), ["settled slow result 1"]);
    assert_eq!((host.advance(10), host.next_timer()), (vec![], None));
}

#[test]
fn g12_no_grace_settles_at_once_and_sends_the_cancel() {
    let mut host = acp();
    let call = host.sent_call_with("slow", grace(Grace::Settle(millis(0))));
    assert_eq!(host.cancel(call), CancelOutcome::Sent);
    assert_eq!(host.events(), ["settled slow cancelled caller"]);
    assert_eq!(host.sent(), [cancel("1")]);
    assert_eq!(host.receive(&result("1", "1")), ["violation late_response 1"]);
}

#[test]
fn g12_a_second_cancel_does_not_lengthen_the_grace() {
    let mut host = acp();
    let call = host.sent_call_with("slow", grace(Grace::Settle(millis(50))));
    host.cancel(call);
    host.advance(40);
    assert_eq!(host.cancel(call), CancelOutcome::AlreadySent);
    assert_eq!(host.next_timer(), Some((50, "grace")));
}

#[test]
fn g12_the_dialects_grace_is_the_default() {
    let mut host = limited(|config| config.dialect.grace = Grace::Settle(millis(20)));
    let call = host.sent_call("slow");
    let patient = host.sent_call_with("patient", grace(Grace::Await));
    host.cancel(call);
    host.cancel(patient);
    assert_eq!(host.advance(20), ["settled slow cancelled caller"]);
    assert_eq!(host.in_flight(), (1, 0));
}

#[test]
fn g12_a_dropped_call_is_released_after_the_default_grace() {
    let mut host = limited(|config| config.limits.calls = 1);
    let call = host.sent_call("slow");
    assert_eq!(host.cancel_for(call, Cause::Dropped), CancelOutcome::Sent);
    assert_eq!(host.sent(), [cancel("1")]);
    assert_eq!(host.next_timer(), Some((30_000, "grace")));
    assert!(host.try_call("m", CallOptions::default()).is_err(), "it counts until then");
    assert_eq!(host.advance(30_000), ["settled slow cancelled dropped"]);
    host.call("m");
}

#[test]
fn g12_dropping_a_cancelled_call_bounds_its_wait() {
    let mut host = limited(|config| config.abandoned_grace = millis(100));
    let call = host.sent_call("slow");
    host.cancel(call);
    host.advance(10);
    assert_eq!(host.cancel_for(call, Cause::Dropped), CancelOutcome::AlreadySent);
    assert_eq!(host.next_timer(), Some((110, "grace")));
    assert_eq!(host.advance(100), ["settled slow cancelled caller"]);
}

#[test]
fn g12_a_shorter_grace_of_its_own_holds_for_a_dropped_call() {
    let mut host = acp();
    let call = host.sent_call_with("slow", grace(Grace::Settle(millis(5))));
    host.cancel_for(call, Cause::Dropped);
    assert_eq!(host.advance(5), ["settled slow cancelled dropped"]);
}

#[test]
fn g12_a_detached_call_sends_no_cancel_and_is_released_after_the_default_grace() {
    let mut host = limited(|config| config.limits.calls = 1);
    let call = host.sent_call("slow");
    host.conn.detach(call, host.now);
    assert_eq!(host.next_timer(), Some((30_000, "grace")));
    assert!(host.try_call("m", CallOptions::default()).is_err(), "it counts until then");
    let settled = host.advance(30_000);
    assert_eq!(settled, ["settled slow timed_out dropped"]);
    assert_eq!(host.sent(), [""; 0]);
    assert_eq!(host.receive(&result("1", "1")), ["violation late_response 1"]);
}

#[test]
fn g12_a_detached_call_still_settles_with_its_answer() {
    let mut host = acp();
    let call = host.call("slow");
    host.conn.detach(call, host.now);
    assert_eq!(host.sent().len(), 1, "it still leaves");
    assert_eq!(host.receive(&result("1", "1")), ["settled slow result 1"]);
    host.conn.detach(call, host.now);
    assert_eq!(host.next_timer(), None, "a stale id");
}

#[test]
fn b19_the_first_answer_after_a_local_settlement_is_late_and_the_next_a_duplicate() {
    let mut host = acp();
    host.sent_call_with("slow", CallOptions::default().timeout(millis(5)));
    host.advance(5);
    for expected in ["late_response", "duplicate_response", "duplicate_response"] {
        assert_eq!(host.receive(&error("1", -32800)), [format!("violation {expected} 1")]);
    }
    assert!(!host.conn.machine().is_closed());
}

#[test]
fn b19_a_late_malformed_response_is_late_too() {
    let mut host = acp();
    host.sent_call_with("slow", CallOptions::default().timeout(millis(5)));
    host.advance(5);
    let late = r#"{"jsonrpc":"2.0","id":1,"result":1,"error":2}"#;
    assert_eq!(host.receive(late), ["violation late_response 1"]);
}

#[test]
fn g12_an_id_that_was_never_issued_is_told_exactly() {
    let mut host = acp();
    for number in 1..=3 {
        host.sent_call("m");
        host.receive(&result(&number.to_string(), "1"));
    }
    assert_eq!(host.receive(&result("3", "1")), ["violation duplicate_response 3"]);
    for id in ["0", "4", "2147483647", "2147483648", "4294967295", "4294967296", "-1"] {
        assert_eq!(host.receive(&result(id, "1")), [format!("violation unknown_response {id}")]);
    }
}

#[test]
fn g12_abandoned_ids_bounds_what_is_remembered() {
    let mut host = limited(|config| config.limits.abandoned_ids = 2);
    for _ in 0..3 {
        host.sent_call_with("slow", CallOptions::default().timeout(millis(0)));
        host.advance(0);
    }
    assert_eq!(host.receive(&result("1", "1")), ["violation duplicate_response 1"], "forgotten");
    assert_eq!(host.receive(&result("2", "1")), ["violation late_response 2"]);
    assert_eq!(host.receive(&result("3", "1")), ["violation late_response 3"]);
}

#[test]
fn g12_abandoned_ids_may_be_none() {
    let mut host = limited(|config| config.limits.abandoned_ids = 0);
    host.sent_call_with("slow", CallOptions::default().timeout(millis(0)));
    host.advance(0);
    assert_eq!(host.receive(&result("1", "1")), ["violation duplicate_response 1"]);
}
