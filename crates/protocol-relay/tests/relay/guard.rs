//! G5: a request that takes too long is cancelled on the far side and gets its response on the near one.

use std::time::Duration;

use protocol_core::{CallOptions, CancelRule};
use protocol_relay::{Guard, Side};

use crate::bench::{Bench, between_all, cancel, error, request, result};

const SECOND: Duration = Duration::from_secs(1);

fn deadline() -> CallOptions {
    CallOptions::default().timeout(SECOND)
}

/// Returns the messages that cancel request 1 of the far side when it is given up.
fn cancels(bench: &Bench, far: Side) -> Vec<String> {
    let dialect = bench.dialect(far);
    match dialect.cancel {
        CancelRule::Local => vec![],
        _ => vec![cancel(dialect, "1")],
    }
}

#[test]
fn g05_a_request_past_its_deadline_is_cancelled_there_and_answered_here_at_once() {
    between_all(|bench, near, far| {
        bench.relay.guard(near, Guard::new(deadline()));
        bench.receive(near, &request("7", "work"));
        bench.sent(far);
        bench.advance(SECOND - Duration::from_millis(1));
        assert_eq!((bench.sent(near), bench.sent(far)), (vec![], vec![]));
        bench.advance(Duration::from_millis(1));
        let answer = error("7", -32803, "the next hop did not respond in time (deadline)");
        assert_eq!(bench.sent(near), [answer]);
        assert_eq!(bench.sent(far), cancels(bench, far));
        let told = format!("{near}: id 7: took too long (deadline), and was cancelled");
        assert_eq!(bench.events(), [told]);

        bench.receive(far, &result("1", "1"));
        assert_eq!(bench.sent(near), [""; 0], "a late answer goes nowhere");
        let late = format!("{far}: id 1: a response came after its call was settled");
        assert_eq!((bench.events(), bench.in_flight()), (vec![late], [0; 4]));
    });
}

#[test]
fn g05_an_answer_in_time_is_passed_back_and_nothing_is_told() {
    between_all(|bench, near, far| {
        bench.relay.guard(near, Guard::new(deadline()));
        bench.receive(near, &request("7", "work"));
        bench.sent(far);
        bench.receive(far, &result("1", "1"));
        bench.advance(2 * SECOND);
        assert_eq!(bench.sent(near), [result("7", "1")]);
        assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
    });
}

#[test]
fn g05_only_the_side_and_the_methods_that_are_guarded_are() {
    between_all(|bench, near, far| {
        let guard = Guard::new(CallOptions::default())
            .method("slow/never", CallOptions::default())
            .method("slow/*", deadline());
        bench.relay.guard(near, guard);
        for (id, method) in [("1", "work"), ("2", "slow/never"), ("3", "slow/one"), ("4", "slow")] {
            bench.receive(near, &request(id, method));
        }
        bench.receive(far, &request("5", "slow/one"));
        bench.sent(near);
        bench.advance(SECOND);
        let answer = error("3", -32803, "the next hop did not respond in time (deadline)");
        assert_eq!(bench.sent(near), [answer]);
    });
}

#[test]
fn g05_progress_ends_the_silence_but_not_the_cap() {
    between_all(|bench, near, far| {
        // Only where progress names what it is the progress of.
        let Some(rule) = bench.dialect(far).progress.first().cloned() else { return };
        let path = rule.tokens_of_call[0].join(r#"":{""#);
        let braces = "}".repeat(rule.tokens_of_call[0].len() - 1);
        let asked = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"work","params":{{"{path}":"t"{braces}}}}}"#
        );
        let progress = format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{"{}":"t"}}}}"#,
            rule.method, rule.token
        );
        let silence = CallOptions::default().idle_timeout(SECOND).hard_cap(3 * SECOND);
        bench.relay.guard(near, Guard::new(silence));
        bench.receive(near, &asked);
        for _ in 0..3 {
            bench.advance(SECOND - Duration::from_millis(1));
            bench.receive(far, &progress);
        }
        assert_eq!(bench.sent(near), [&*progress; 3]);
        bench.advance(SECOND);
        assert_eq!(bench.sent(near), [error("7", -32803, "the next hop took too long (hard_cap)")]);

        bench.receive(near, &asked.replace(":7", ":8"));
        bench.advance(SECOND);
        let silent = error("8", -32803, "the request made no progress for too long (idle_timeout)");
        assert_eq!(bench.sent(near), [silent]);
    });
}

#[test]
fn g05_nobody_is_told_of_a_deadline_when_whoever_asked_is_gone() {
    between_all(|bench, near, far| {
        bench.relay.guard(near, Guard::new(deadline()));
        bench.receive(near, &request("7", "work"));
        bench.sent(far);
        bench.hang_up(near);
        bench.events();
        bench.advance(SECOND);
        let told = bench.events();
        assert!(told.iter().all(|it| !it.contains("took too long")), "{told:?}");
        assert_eq!(bench.in_flight(), [0; 4]);
    });
}
