//! A hostile peer: what it can have kept is refused or counted, and a cancel gets through (F31, F44, F48).

use protocol_async::{Arrival, Options};

use super::{acp, against_far, cancel_line, notification_line, request, request_line, run};
use crate::pipe::ENDLESS;

/// The error code of the response to a request over a limit.
const OVERLOAD: &str = "-32800";

#[test]
fn f31_answers_that_do_not_fit_are_replaced_and_a_cancel_gets_through() {
    run(async {
        let mut options = Options::new(acp());
        options.config.limits.unsent_bytes = 1_000;
        options.response_bytes = 1_000;
        let (peer, incoming, mut far) = against_far(options, 64);
        far.send(&[&request_line(1, "stays")]).await;
        let (_, stays) = request(&incoming).await;
        let mut larges = Vec::new();
        for id in 2..6 {
            far.send(&[&request_line(id, "large")]).await;
            larges.push(request(&incoming).await.1);
        }
        // The peer reads nothing: at least two of these do not fit, wherever they wait.
        peer.try_notify("bulk", ["x".repeat(900)]).unwrap();
        for large in larges {
            large.cast::<String>().respond("x".repeat(900));
        }
        far.send(&[&cancel_line(1)]).await;
        stays.cancellation().cancelled().await;
        stays.cast::<()>().respond(());
        let mut refused = 0;
        for _ in 0..6 {
            refused += usize::from(far.line().await.unwrap().contains(OVERLOAD));
        }
        assert!(refused > 0, "all would have been kept");
    });
}

#[test]
fn f44_requests_over_those_at_work_are_refused_and_a_cancel_gets_through() {
    run(async {
        for by_bytes in [false, true] {
            let mut options = Options::new(acp());
            if by_bytes {
                options.work_bytes = 1;
            } else {
                options.work_requests = 1;
            }
            let (_peer, incoming, mut far) = against_far(options, ENDLESS);
            far.send(&[&request_line(1, "works"), &request_line(2, "is one too many")]).await;
            let (_, works) = request(&incoming).await;
            far.send(&[&notification_line("in its turn")]).await;
            assert!(matches!(incoming.receive().await.unwrap(), Arrival::Notification(_)));
            let refused = far.line().await.unwrap();
            assert!(refused.contains(OVERLOAD) && refused.contains("\"id\":2"), "{refused}");
            far.send(&[&cancel_line(1)]).await;
            works.cancellation().cancelled().await;
        }
    });
}

#[test]
fn f48_ids_of_violations_count_in_the_inbox() {
    run(async {
        let mut options = Options::new(acp());
        options.inbox_bytes = 10_000;
        options.config.limits.id_bytes = 1_024;
        let (_peer, incoming, mut far) = against_far(options, ENDLESS);
        let broken = |n| format!(r#"{{"jsonrpc":"2.0","id":"{n:01000}","method":1}}"#);
        for number in 0..100 {
            far.send(&[&broken(number)]).await;
            assert!(far.line().await.unwrap().contains("-32600"), "it is answered all the same");
        }
        let (mut taken, mut missed) = (0, 0);
        while taken + missed < 100 {
            match incoming.receive().await.unwrap() {
                Arrival::Violation { .. } => taken += 1,
                Arrival::Missed { count } => missed += count,
                other => panic!("{other:?}"),
            }
        }
        assert!((1..=10).contains(&taken), "{taken} of a thousand bytes are more than the inbox");
    });
}
