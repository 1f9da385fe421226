//! G8: a message that does not fit leads to a response or an event.

use protocol_core::{CancelRule, Config, Shutdown};
use protocol_relay::Side;

use crate::bench::{Bench, between, cancel, notification, request, result};

const ROOM: usize = 400;

fn small(config: &mut Config) {
    config.limits.unsent_bytes = ROOM;
}

fn bulk(len: usize) -> String {
    format!("\"{}\"", "x".repeat(len))
}

#[test]
fn g08_a_request_that_does_not_fit_is_answered_with_the_overload_code() {
    between(small, |bench, near, far| {
        let mut passed = 0;
        while bench.events().is_empty() {
            passed += 1;
            bench.receive(near, &request(&passed.to_string(), "work"));
        }
        let code = bench.dialect(near).overload_code;
        let refused = format!(r#"{{"jsonrpc":"2.0","id":{passed},"error":{{"code":{code},"#);
        let answers = bench.sent(near);
        assert!(answers.len() == 1 && answers[0].starts_with(&refused), "{answers:?}");
        assert_eq!(bench.sent(far).len(), passed - 1);
        bench.receive(near, &request("0", "work"));
        assert_eq!(bench.sent(far), [request(&passed.to_string(), "work")], "there is room again");
    });
}

#[test]
fn g08_too_many_calls_are_answered_with_the_overload_code() {
    let few = |config: &mut Config| config.limits.calls = 1;
    between(few, |bench, near, far| {
        bench.receive(near, &request("1", "work"));
        bench.receive(near, &request("2", "work"));
        assert_eq!(bench.sent(far), [request("1", "work")]);
        let code = bench.dialect(near).overload_code;
        let answers = bench.sent(near);
        assert!(answers.len() == 1 && answers[0].contains(&code.to_string()), "{answers:?}");
        let reason = "too many calls are in flight (limits.calls)";
        let event = format!("{near}: id 2: the request was not forwarded: {reason}");
        assert_eq!(bench.events(), [event]);
        bench.receive(far, &result("1", "1"));
        assert_eq!(bench.sent(near), [result("1", "1")]);
    });
}

#[test]
fn g08_a_notification_that_does_not_fit_is_an_event() {
    between(small, |bench, near, far| {
        for _ in 0..20 {
            bench.receive(near, &notification("log"));
        }
        let (passed, events) = (bench.sent(far).len(), bench.events());
        assert_eq!(passed + events.len(), 20, "none is dropped in silence");
        let reason = "the outbox is full (limits.unsent_bytes, limits.unsent_messages)";
        assert_eq!(events[0], format!("{near}: notification log was not forwarded: {reason}"));
    });
}

#[test]
fn g08_an_answer_that_does_not_fit_is_replaced_and_the_replacement_waits_for_room() {
    between(small, |bench, near, far| {
        for id in ["1", "2", "3"] {
            bench.receive(near, &request(id, "work"));
            bench.sent(far);
        }
        // The near peer doesn't read; the far one answers all the same.
        for id in ["1", "2", "3"] {
            bench.receive(far, &result(id, &bulk(ROOM - 60)));
        }
        let events = bench.events();
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[0].starts_with(&format!("{near}: id 2: the response was not forwarded")));
        assert!(bench.relay.connection(near).unsent_bytes() <= ROOM);

        bench.hang_up(near);
        assert!(!bench.relay.is_over(near), "it may still be reading");
        let answers = bench.sent(near);
        assert_eq!(answers[0], result("1", &bulk(ROOM - 60)));
        let code = bench.dialect(near).overload_code;
        for (answer, id) in answers[1..].iter().zip(["2", "3"]) {
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"#);
            assert!(answer.starts_with(&expected), "{answer}");
        }
        assert_eq!((answers.len(), bench.in_flight()), (3, [0; 4]));
        assert_eq!(bench.over(), [true, true]);
    });
}

/// Makes the response to `asker` wait for the room that a request to it takes.
fn let_an_answer_wait(bench: &mut Bench, asker: Side, other: Side) {
    bench.receive(asker, &request("9", "work"));
    bench.sent(other);
    bench.receive(other, &request("1", &"x".repeat(ROOM - 60)));
    bench.receive(other, r#"{"jsonrpc":"2.0","id":1,"error":1}"#);
    assert_eq!(bench.relay.connection(asker).machine().requests_in_flight(), 1, "it waits");
}

/// The only unsent message is taken back, so no message makes room by leaving.
#[test]
fn g02_an_answer_that_waits_for_room_is_given_when_the_room_is_made_by_a_withdrawal() {
    between(small, |bench, near, far| {
        let_an_answer_wait(bench, far, near);
        bench.hang_up(near);
        let answers = bench.sent(far);
        assert!(answers.len() == 1 && answers[0].contains(r#""id":9,"error""#), "{answers:?}");
        assert_eq!(bench.relay.connection(far).machine().requests_in_flight(), 0);
    });
}

#[test]
fn g02_an_answer_that_waits_for_room_is_given_up_with_its_connection() {
    between(small, |bench, near, far| {
        let_an_answer_wait(bench, near, far);
        bench.shutdown(Shutdown::Abandon);
        assert_eq!(bench.in_flight(), [0; 4]);
    });
}

#[test]
fn g05_a_drain_ends_with_the_answer_that_waits_for_room() {
    between(small, |bench, near, far| {
        bench.receive(near, &request("1", "work"));
        bench.sent(far);
        bench.receive(far, &notification(&"x".repeat(ROOM - 60)));
        bench.receive(far, r#"{"jsonrpc":"2.0","id":1,"error":1}"#);
        bench.shutdown(Shutdown::Drain);
        bench.events();
        bench.send_one(near).expect("the notification");
        assert_eq!(bench.events(), [format!("{near}: closed: shutdown")]);
    });
}

#[test]
fn g08_an_answer_that_could_never_fit_is_replaced_at_once() {
    between(small, |bench, near, far| {
        bench.receive(near, &request("1", "work"));
        bench.sent(far);
        bench.receive(far, &result("1", &bulk(2 * ROOM)));
        let answers = bench.sent(near);
        assert!(answers.len() == 1 && answers[0].contains(r#""error""#), "{answers:?}");
        assert_eq!(bench.events().len(), 1);
    });
}

#[test]
fn g08_limits_under_which_nothing_fits_do_not_keep_the_relay_from_ending() {
    let absurd = |config: &mut Config| config.limits.unsent_bytes = 60;
    between(absurd, |bench, near, far| {
        bench.receive(near, &request("1", "work"));
        bench.sent(far);
        bench.receive(far, &result("1", &bulk(60)));
        let events = bench.events();
        assert_eq!(
            events[1],
            format!("{near}: id 1: no response fits into the outbox (limits.unsent_bytes)")
        );
        bench.hang_up(near);
        assert_eq!(bench.over(), [true, true]);
    });
}

#[test]
fn g03_a_peer_that_does_not_read_is_read_all_the_same() {
    for unsent_bytes in [64 << 20, 1_000] {
        let limits = |config: &mut Config| config.limits.unsent_bytes = unsent_bytes;
        between(limits, |bench, near, far| {
            let dialect = bench.dialect(near).clone();
            if dialect.cancel == CancelRule::Local {
                return;
            }
            for number in 0..200 {
                bench.receive(near, &request(&number.to_string(), "work"));
            }
            for number in 0..200 {
                bench.receive(near, &cancel(&dialect, &number.to_string()));
            }
            let calls = bench.relay.connection(far).machine().calls_in_flight();
            assert_eq!(calls, 0, "all of them are withdrawn");
            assert_eq!(bench.sent(near).len(), 200, "each is answered");
            assert_eq!(bench.in_flight(), [0; 4]);
        });
    }
}
