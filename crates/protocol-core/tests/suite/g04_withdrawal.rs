//! G4: a message that has not left is withdrawn. A cancel overtakes bulk output but never its own request. A call
//! sends at most one cancel.

use crate::support;

use protocol_core::{CallOptions, CancelOutcome, Cause, Grace, TransmitKind};
use support::{acp, cancel, error, jsonrpc, lsp, millis, raw, request, result};

#[test]
fn g04_an_unsent_call_is_withdrawn_and_nothing_of_it_leaves() {
    for mut host in [acp(), lsp(), jsonrpc()] {
        let call = host.call("slow");
        assert_eq!(host.cancel(call), CancelOutcome::Withdrawn);
        assert_eq!(host.events(), ["settled slow cancelled caller"]);
        assert_eq!((host.sent(), host.conn.unsent_bytes()), (vec![], 0));
        assert_eq!(host.cancel(call), CancelOutcome::AlreadySettled);
    }
}

#[test]
fn g04_withdrawing_leaves_the_neighbours_alone() {
    let mut host = acp();
    host.call("first");
    let call = host.call("slow");
    host.call("last");
    host.cancel(call);
    assert_eq!(host.sent(), [request("1", "first"), request("3", "last")]);
}

#[test]
fn g04_a_withdrawn_id_was_never_sent() {
    let mut host = acp();
    let call = host.call("slow");
    host.cancel(call);
    host.events();
    for _ in 0..2 {
        assert_eq!(host.receive(&result("1", "1")), ["violation unknown_response 1"]);
    }
}

#[test]
fn g04_a_cancel_overtakes_bulk_output() {
    let mut host = acp();
    let call = host.sent_call("slow");
    let work = host.peer_requests("7");
    host.respond_ok(work);
    host.conn.notify("bulk", None).unwrap();
    host.call("next");
    assert_eq!(host.cancel(call), CancelOutcome::Sent);
    let kinds: Vec<_> = host.sent_with_kinds().into_iter().map(|(kind, _)| kind).collect();
    let expected = [
        TransmitKind::Cancel,
        TransmitKind::Response,
        TransmitKind::Notification,
        TransmitKind::Request,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn g04_a_cancel_never_overtakes_its_own_request() {
    let mut host = acp();
    host.conn.notify("bulk", None).unwrap();
    let call = host.call("slow");
    host.send_one();
    assert_eq!(host.send_one().unwrap().1, request("1", "slow"));
    assert_eq!(host.cancel(call), CancelOutcome::Sent);
    assert_eq!(host.sent(), [cancel("1")]);
}

#[test]
fn g04_cancels_leave_in_the_order_they_were_asked_for() {
    let mut host = acp();
    let calls = [host.sent_call("a"), host.sent_call("b"), host.sent_call("c")];
    for call in [calls[2], calls[0], calls[1]] {
        host.cancel(call);
    }
    assert_eq!(host.sent(), [cancel("3"), cancel("1"), cancel("2")]);
}

#[test]
fn g04_a_call_sends_at_most_one_cancel() {
    let mut host = acp();
    let options = CallOptions::default().timeout(millis(10)).hard_cap(millis(20));
    let call = host.sent_call_with("slow", options);
    assert_eq!(host.cancel(call), CancelOutcome::Sent);
    for &cause in Cause::ALL {
        assert_eq!(host.cancel_for(call, cause), CancelOutcome::AlreadySent);
    }
    assert_eq!(host.sent(), [cancel("1")]);
    assert_eq!(host.advance(15), ["settled slow cancelled caller"]);
    host.advance(15);
    assert_eq!(host.cancel(call), CancelOutcome::AlreadySettled);
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn g04_a_cancel_that_the_answer_beat_does_not_leave() {
    for (answer, settled) in [
        (result("1", "1"), "settled slow result 1".to_owned()),
        (error("1", -1), r#"settled slow error {"code":-1,"message":"no"}"#.into()),
        (
            error("1", -32800),
            r#"settled slow cancelled caller {"code":-32800,"message":"no"}"#.into(),
        ),
    ] {
        let mut host = acp();
        let call = host.sent_call("slow");
        host.cancel(call);
        assert_eq!(host.receive(&answer), [settled]);
        assert_eq!((host.sent(), host.conn.unsent_bytes()), (vec![], 0));
    }
}

/// The peer works for nobody, and only the cancel can stop it.
#[test]
fn b18_a_cancel_leaves_though_its_call_was_settled_here_meanwhile() {
    let mut host = acp();
    let graceful = CallOptions::default().grace(Grace::Settle(millis(5)));
    let call = host.sent_call_with("slow", graceful);
    host.cancel(call);
    assert_eq!(host.advance(5), ["settled slow cancelled caller"]);
    assert_eq!(host.sent(), [cancel("1")]);

    let call = host.sent_call_with("slow", CallOptions::default().timeout(millis(5)));
    host.cancel(call);
    assert_eq!(host.advance(5), ["settled slow cancelled caller"]);
    assert_eq!(host.sent(), [cancel("2")]);

    host.sent_call_with("slow", CallOptions::default().timeout(millis(5)));
    assert_eq!(host.advance(5), ["settled slow timed_out deadline"]);
    assert_eq!(host.receive(&result("3", "1")), ["violation late_response 3"]);
    assert_eq!(host.sent(), [cancel("3")]);
}

#[test]
fn g04_a_settled_calls_cancel_survives_the_reuse_of_its_place() {
    let mut host = acp();
    let options = CallOptions::default().grace(Grace::Settle(millis(0)));
    let old = host.sent_call_with("old", options);
    host.cancel(old);
    assert_eq!(host.events(), ["settled old cancelled caller"]);
    let new = host.call("new");
    assert_eq!(host.cancel(new), CancelOutcome::Withdrawn);
    assert_eq!(host.sent(), [cancel("1")]);
}

#[test]
fn g04_withdrawing_makes_room() {
    let mut host = support::limited(|config| config.limits.unsent_bytes = 60);
    let call = host.call("slow");
    let before = host.state();
    let refused = host.try_call_with("m", Some(raw("[1,2,3]")), CallOptions::default());
    assert_eq!(refused, Err(protocol_core::Refusal::OutboxFull));
    assert_eq!(host.state(), before);
    host.cancel(call);
    assert_eq!(host.events(), ["settled slow cancelled caller", "ready"]);
}

#[test]
fn the_cancel_of_every_dialect() {
    for (mut host, expected) in [
        (acp(), Some(cancel("1"))),
        (lsp(), Some(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#.into())),
        (jsonrpc(), None),
    ] {
        let call = host.sent_call("slow");
        host.cancel(call);
        let expected: Vec<_> =
            expected.into_iter().map(|text| (TransmitKind::Cancel, text)).collect();
        assert_eq!(host.sent_with_kinds(), expected);
    }
}

#[test]
fn g04_a_cancel_of_the_hosts_own_routing_does_not_overtake_what_it_may_name() {
    let mut host = acp();
    let id = protocol_core::WireId::from_json("1").unwrap();
    host.call("slow");
    host.conn.send_cancel_request(&id).unwrap();
    assert_eq!(host.sent(), [request("1", "slow"), cancel("1")]);
}
