//! Cancels: obeyed where they arrive, made anew on the other side, never forwarded.

use protocol_core::{CancelRule, Config, Dialect};
use protocol_relay::Side;

use crate::bench::{
    Bench, between, between_all, between_cancelling, cancel, error, notification, request, result,
};

/// Receives a request on the near side, which leaves on the far side under id 1.
fn under_way(bench: &mut Bench, near: Side, far: Side, id: &str) {
    bench.receive(near, &request(id, "work"));
    assert_eq!(bench.sent(far), [request("1", "work")]);
}

#[test]
fn b25_a_cancel_is_made_anew_with_the_far_id_and_in_the_far_dialect() {
    between_cancelling(|bench, near, far| {
        under_way(bench, near, far, r#""one""#);
        bench.receive(near, &cancel(bench.dialect(near), r#""one""#));
        assert_eq!(bench.sent(far), [cancel(bench.dialect(far), "1")]);
        assert_eq!(bench.sent(near), [""; 0], "the far side answers");
        let confirmed = r#"{"code":-32800,"message":"stopped","data":{"why":"you asked"}}"#;
        bench.receive(far, &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{confirmed}}}"#));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"one","error":{confirmed}}}"#);
        assert_eq!(bench.sent(near), [answer]);
        assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
    });
}

#[test]
fn g04_two_cancels_are_one_and_a_cancel_after_the_answer_is_none() {
    between_cancelling(|bench, near, far| {
        under_way(bench, near, far, "5");
        let cancel_it = cancel(bench.dialect(near), "5");
        bench.receive(near, &cancel_it);
        bench.receive(near, &cancel_it);
        assert_eq!(bench.sent(far), [cancel(bench.dialect(far), "1")]);
        bench.receive(far, &result("1", "1"));
        bench.receive(near, &cancel_it);
        assert_eq!(bench.sent(far), [""; 0]);
        assert_eq!(bench.sent(near), [result("5", "1")]);
        assert_eq!(bench.events(), [""; 0]);
    });
}

#[test]
fn b26_a_cancel_with_the_id_of_the_other_sides_request_cancels_only_its_own() {
    between_cancelling(|bench, near, far| {
        under_way(bench, near, far, "2");
        bench.receive(far, &request("1", "ask"));
        bench.receive(far, &request("2", "ask"));
        bench.sent(near);
        // Both numbers mean something on both sides, and something else each time.
        bench.receive(near, &cancel(bench.dialect(near), "1"));
        assert_eq!((bench.sent(far), bench.sent(near)), (vec![], vec![]));
        bench.receive(near, &cancel(bench.dialect(near), "2"));
        assert_eq!(bench.sent(far), [cancel(bench.dialect(far), "1")]);
        bench.receive(far, &cancel(bench.dialect(far), "2"));
        assert_eq!(bench.sent(near), [cancel(bench.dialect(near), "2")]);
        assert_eq!(bench.sent(far), [""; 0]);
    });
}

#[test]
fn g04_a_request_that_has_not_left_is_withdrawn() {
    between_all(|bench, near, far| {
        let CancelRule::Notification { .. } = bench.dialect(near).cancel else { return };
        bench.receive(near, &notification("before"));
        bench.receive(near, &request("5", "work"));
        bench.receive(near, &cancel(bench.dialect(near), "5"));
        assert_eq!(bench.sent(near), [error("5", -32800, "Request cancelled")]);
        assert_eq!(bench.sent(far), [notification("before")]);
        assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
    });
}

#[test]
fn b23_a_result_that_wins_is_passed_back_as_a_result() {
    between_cancelling(|bench, near, far| {
        under_way(bench, near, far, "5");
        bench.receive(near, &cancel(bench.dialect(near), "5"));
        bench.receive(far, &result("1", r#"{"partial":true}"#));
        assert_eq!(bench.sent(near), [result("5", r#"{"partial":true}"#)]);
        assert_eq!(bench.sent(far), [""; 0], "a cancel that has not left has nothing to cancel");
    });
}

#[test]
fn b12_a_side_that_cancels_in_silence_is_answered_for() {
    for far_dialect in [Dialect::JSON_RPC, silent()] {
        for near_dialect in [Dialect::ACP_V1, Dialect::LSP_3_17] {
            for near in Side::BOTH {
                let far = near.other();
                let mut bench = Bench::new(
                    near,
                    [near_dialect.clone(), far_dialect.clone()].map(Config::client),
                );
                under_way(&mut bench, near, far, r#""a""#);
                bench.receive(near, &cancel(&near_dialect, r#""a""#));
                assert_eq!(bench.sent(near), [error(r#""a""#, -32800, "Request cancelled")]);
                let expected: Vec<String> = match far_dialect.cancel {
                    CancelRule::Notification { .. } => vec![cancel(&far_dialect, "1")],
                    _ => vec![],
                };
                assert_eq!(bench.sent(far), expected);
                bench.receive(far, &result("1", "1"));
                assert_eq!(bench.sent(near), [""; 0], "one answer");
                let late = format!("{far}: id 1: a response came after its call was settled");
                assert_eq!((bench.events(), bench.in_flight()), (vec![late], [0; 4]));
            }
        }
    }
}

#[test]
fn b11_silence_is_kept_where_the_near_dialect_wants_it() {
    for near in Side::BOTH {
        let far = near.other();
        let mut bench = Bench::new(near, [silent(), Dialect::ACP_V1].map(Config::client));
        under_way(&mut bench, near, far, "5");
        bench.receive(near, &cancel(&silent(), "5"));
        assert_eq!(bench.sent(far), [cancel(&Dialect::ACP_V1, "1")]);
        bench.receive(far, &error("1", -32800, "Request cancelled"));
        assert_eq!((bench.sent(near), bench.in_flight()), (vec![], [0; 4]));
    }
}

/// Returns a dialect such as MCP's. The caller settles at once, and the peer keeps silent.
fn silent() -> Dialect {
    let mut dialect = Dialect::ACP_V1;
    dialect.response = protocol_core::ResponseRule::Silent;
    dialect.grace = protocol_core::Grace::Settle(std::time::Duration::ZERO);
    dialect
}

#[test]
fn b25_no_cancel_of_any_dialect_is_ever_forwarded() {
    for raw_cancels in [false, true] {
        let shown = |config: &mut Config| config.show_raw_cancels = raw_cancels;
        between(shown, |bench, near, far| {
            under_way(bench, near, far, "5");
            let own = bench.dialect(near).cancel.clone();
            for method in ["$/cancel_request", "$/cancelRequest"] {
                // Two of these name nothing, one the far side's id, one is no cancel at all.
                for params in
                    ["{}", r#"{"id":1,"requestId":1}"#, r#"{"id":[],"requestId":{}}"#, "[5]"]
                {
                    bench.receive(
                        near,
                        &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
                    );
                    let events = bench.events();
                    if !own.has_method(method) {
                        let dropped = format!(
                            "{near}: {method} was not forwarded: it is no cancel of this dialect"
                        );
                        assert_eq!(events, [dropped]);
                    } else if params.contains('1') {
                        assert_eq!(events, [""; 0], "a cancel of nothing in flight is no fault");
                    } else {
                        assert_eq!(events, [format!("{near}: a cancel names no id")]);
                    }
                }
            }
            assert_eq!((bench.sent(far), bench.sent(near)), (vec![], vec![]));
        });
    }
}

#[test]
fn b25_a_cancel_written_as_a_request_is_answered_here() {
    between_all(|bench, near, far| {
        for method in ["$/cancel_request", "$/cancelRequest"] {
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":8,"method":"{method}","params":{{"id":1,"requestId":1}}}}"#
            );
            bench.receive(near, &message);
            let answer = error("8", -32601, "method not found: cancels are notifications");
            assert_eq!(bench.sent(near), [answer]);
            assert_eq!(bench.events().len(), 1);
        }
        assert_eq!((bench.sent(far), bench.in_flight()), (vec![], [0; 4]));
    });
}

#[test]
fn g06_what_the_server_asked_on_behalf_of_a_request_is_cancelled_by_the_server_alone() {
    between_cancelling(|bench, near, far| {
        under_way(bench, near, far, "5");
        bench.receive(far, &request(r#""n""#, "nested"));
        assert_eq!(bench.sent(near), [request("1", "nested")]);
        bench.receive(near, &cancel(bench.dialect(near), "5"));
        assert_eq!(bench.sent(far), [cancel(bench.dialect(far), "1")]);
        assert_eq!(bench.sent(near), [""; 0], "only the server knows that they belong together");
        bench.receive(far, &cancel(bench.dialect(far), r#""n""#));
        assert_eq!(bench.sent(near), [cancel(bench.dialect(near), "1")]);
        bench.receive(near, &error("1", -32800, "nested"));
        assert_eq!(bench.sent(far), [error(r#""n""#, -32800, "nested")]);
        bench.receive(far, &error("1", -32800, "work"));
        assert_eq!(bench.sent(near), [error("5", -32800, "work")]);
        assert_eq!(bench.in_flight(), [0; 4]);
    });
}

#[test]
fn g04_a_cancel_overtakes_notifications_but_not_its_request() {
    between_cancelling(|bench, near, far| {
        bench.receive(near, &request("5", "work"));
        bench.receive(near, &notification("bulk"));
        assert_eq!(bench.send_one(far), Some(request("1", "work")));
        bench.receive(near, &cancel(bench.dialect(near), "5"));
        assert_eq!(bench.sent(far), [cancel(bench.dialect(far), "1"), notification("bulk")]);
    });
}
