//! Ends: a peer hangs up, its framing breaks, the relay is shut down.

use std::time::Duration;

use protocol_core::{CancelRule, Config, Dialect, Shutdown, TimerReason, Timestamp};
use protocol_relay::Side;

use crate::bench::{
    Bench, between, between_all, between_cancelling, cancel, error, notification, request, result,
};

fn over(bench: &Bench, near: Side) -> (bool, bool) {
    (bench.relay.is_over(near), bench.relay.is_over(near.other()))
}

#[test]
fn the_sides_are_named_as_they_are_seen_from_the_relay() {
    assert_eq!(Side::BOTH.map(|side| side.to_string()), ["up", "down"]);
}

/// Sends one request each way, and lets both leave.
fn both_ways(bench: &mut Bench, near: Side, far: Side) {
    bench.receive(near, &request(r#""n""#, "work"));
    bench.receive(far, &request(r#""f""#, "ask"));
    bench.sent(near);
    bench.sent(far);
}

#[test]
fn g07_an_idle_relay_is_over_on_both_sides_when_one_peer_hangs_up() {
    between_all(|bench, near, far| {
        assert_eq!(bench.over(), [false, false]);
        bench.hang_up(near);
        assert_eq!(bench.over(), [true, true]);
        assert_eq!(
            bench.events(),
            [format!("{near}: closed: peer_gone"), format!("{far}: closed: shutdown")]
        );
        bench.hang_up(far);
        assert_eq!(bench.events(), [""; 0], "each side closes once");
    });
}

#[test]
fn b16_b17_one_sides_end_settles_the_other_sides_requests_and_cancels_its_own() {
    between_cancelling(|bench, near, far| {
        both_ways(bench, near, far);
        bench.hang_up(near);
        let expected =
            [cancel(bench.dialect(far), "1"), error(r#""f""#, -32603, "the next hop is gone")];
        assert_eq!(bench.sent(far), expected);
        assert_eq!(over(bench, near), (false, false), "the answer to the cancel is awaited");
        bench.receive(far, &error("1", -32800, "ok"));
        assert_eq!(over(bench, near), (false, true));
        assert_eq!(bench.sent(near), [error(r#""n""#, -32800, "ok")], "it may still be reading");
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
        assert_eq!(bench.relay.poll_timeout(), None);
    });
}

#[test]
fn g12_a_peer_that_never_answers_is_waited_for_only_so_long() {
    between_cancelling(|bench, near, far| {
        both_ways(bench, near, far);
        bench.receive(near, &cancel(bench.dialect(near), r#""n""#));
        bench.advance(Duration::from_secs(3_600));
        assert_eq!(bench.sent(near), [""; 0], "while its client waits, so do we");
        assert_eq!(bench.relay.poll_timeout(), None);
        bench.hang_up(near);
        bench.sent(far);
        let due = Timestamp::from_millis(3_630_000);
        assert_eq!(bench.relay.poll_timeout(), Some((due, TimerReason::Grace)));
        bench.advance(Duration::from_secs(29));
        assert_eq!(over(bench, near), (false, false));
        bench.advance(Duration::from_secs(1));
        assert_eq!(bench.sent(near), [error(r#""n""#, -32800, "Request cancelled")]);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
    });
}

#[test]
fn g07_what_was_sent_before_the_end_still_arrives() {
    between_all(|bench, near, far| {
        bench.receive(far, &request("3", "ask"));
        bench.sent(near);
        bench.receive(near, &result("1", "1"));
        bench.receive(near, &notification("exit"));
        bench.hang_up(near);
        assert!(!bench.relay.is_over(far));
        assert_eq!(bench.sent(far), [result("3", "1"), notification("exit")]);
        assert_eq!(bench.over(), [true, true]);
    });
}

#[test]
fn g07_a_last_line_without_its_end_is_forwarded() {
    between_all(|bench, near, far| {
        if bench.dialect(near).framing != protocol_core::Framing::Newline {
            return;
        }
        let last = notification("last");
        let now = protocol_core::Timestamp::ZERO;
        let message = bench.relay.handle_eof(near, last.as_bytes(), now);
        assert_eq!(message, Some(last.as_bytes()));
        assert_eq!(bench.sent(far), [last]);
    });
}

#[test]
fn g07_nothing_new_is_forwarded_to_a_side_that_is_gone() {
    between_cancelling(|bench, near, far| {
        both_ways(bench, near, far);
        bench.hang_up(near);
        bench.events();
        bench.sent(far);
        bench.receive(far, &request("8", "ask"));
        bench.receive(far, &notification("log"));
        let refused = bench.sent(far);
        assert!(refused.len() == 1 && refused[0].contains(r#""id":8,"error":"#), "{refused:?}");
        let expected = [
            format!("{far}: id 8: a request came during shutdown"),
            format!("{far}: notification log was not forwarded: the connection is closed"),
        ];
        assert_eq!(bench.events(), expected);
        assert_eq!(bench.sent(near), [""; 0]);
    });
}

#[test]
fn g07_broken_framing_ends_a_side_as_hanging_up_does() {
    between_cancelling(|bench, near, far| {
        if bench.dialect(near).framing != protocol_core::Framing::ContentLength {
            return;
        }
        both_ways(bench, near, far);
        bench.receive_bytes(near, b"Content-Length: x\r\n\r\n");
        let gone = error(r#""f""#, -32603, "the next hop is gone");
        assert_eq!(bench.sent(far), [cancel(bench.dialect(far), "1"), gone]);
        let expected = [
            format!("{near}: a header block has no usable Content-Length"),
            format!("{near}: closed: broken_framing"),
        ];
        assert_eq!(bench.events(), expected);
    });
}

/// Over HTTP a closed stream is no cancel: the client may come back for its response (G7).
#[test]
fn g07_the_end_of_a_side_cancels_nothing_that_its_dialect_lets_go_on() {
    for near in Side::BOTH {
        let far = near.other();
        let dialects = [Dialect::MCP_2025_06_18_HTTP, Dialect::ACP_V1];
        let mut bench = Bench::new(near, dialects.map(Config::client));
        both_ways(&mut bench, near, far);
        bench.hang_up(near);
        let gone = error(r#""f""#, -32603, "the next hop is gone");
        assert_eq!(bench.sent(far), [gone], "the response that it owed, and no cancel");
        assert_eq!(over(&bench, near), (false, false));
        bench.receive(far, &result("1", "1"));
        assert_eq!(bench.sent(near), [result(r#""n""#, "1")]);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
    }
}

/// It is bounded all the same.
#[test]
fn g12_what_goes_on_after_the_end_of_its_side_is_given_up_after_a_grace() {
    let dialects = [Dialect::MCP_2025_06_18_HTTP, Dialect::ACP_V1];
    let mut bench = Bench::new(Side::Up, dialects.map(Config::client));
    both_ways(&mut bench, Side::Up, Side::Down);
    bench.hang_up(Side::Up);
    bench.advance(Duration::from_secs(29));
    assert_eq!(bench.sent(Side::Up), [""; 0]);
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.sent(Side::Up), [error(r#""n""#, -32603, "the next hop is gone")]);
    bench.sent(Side::Down);
    assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
}

/// A cancelled request gets no response in this dialect. The end of the other side cancels none, and only loses
/// the response.
#[test]
fn g07_the_end_of_one_side_does_not_cancel_what_the_other_side_asked() {
    for near in Side::BOTH {
        let far = near.other();
        let mut configs = [Dialect::MCP_2025_11_25; 2].map(Config::client);
        configs[1].limits.unsent_bytes = 300;
        let mut bench = Bench::new(near, configs);
        bench.receive(far, &request("9", "ask"));
        bench.sent(near);
        let bulk = notification(&"x".repeat(220));
        bench.receive(near, &bulk);
        bench.hang_up(near);
        assert_eq!(bench.relay.connection(far).machine().requests_in_flight(), 1, "no room yet");
        assert_eq!(bench.sent(far), [bulk, error("9", -32603, "the next hop is gone")]);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
    }
}

/// Each side has a timer of its own, and either may be the earlier.
#[test]
fn g12_the_relay_wakes_for_the_earlier_timer_of_its_sides() {
    for near in Side::BOTH {
        let far = near.other();
        let mut configs = [Dialect::ACP_V1; 2].map(Config::client);
        configs[0].abandoned_grace = Duration::from_secs(10);
        configs[1].abandoned_grace = Duration::from_secs(20);
        let mut bench = Bench::new(near, configs);
        both_ways(&mut bench, near, far);
        bench.shutdown(Shutdown::CancelAll);
        bench.sent(near);
        bench.sent(far);
        let wakes = |millis| Some((Timestamp::from_millis(millis), TimerReason::Grace));
        assert_eq!(bench.relay.poll_timeout(), wakes(10_000));
        bench.advance(Duration::from_secs(10));
        assert_eq!(bench.sent(far), [error(r#""f""#, -32800, "Request cancelled")]);
        assert_eq!(bench.relay.poll_timeout(), wakes(20_000));
        bench.advance(Duration::from_secs(10));
        assert_eq!(bench.sent(near), [error(r#""n""#, -32800, "Request cancelled")]);
        assert_eq!((bench.relay.poll_timeout(), bench.in_flight()), (None, [0; 4]));
    }
}

/// No timer has to fire for a relay to know the time.
#[test]
fn g12_what_an_input_does_to_the_other_side_happens_at_its_time() {
    for near in Side::BOTH {
        let far = near.other();
        let mut patient = Dialect::ACP_V1;
        patient.grace = protocol_core::Grace::Settle(Duration::from_secs(5));
        let mut bench = Bench::new(near, [Dialect::ACP_V1, patient].map(Config::client));
        bench.receive(near, &request("1", "work"));
        bench.receive(near, &request("2", "work"));
        bench.sent(far);
        let wakes = |millis| Some((Timestamp::from_millis(millis), TimerReason::Grace));
        bench.wait(Duration::from_secs(100));
        bench.receive(near, &cancel(&Dialect::ACP_V1, "1"));
        assert_eq!(bench.relay.poll_timeout(), wakes(105_000));
        bench.advance(Duration::from_secs(5));
        bench.wait(Duration::from_secs(95));
        bench.hang_up(near);
        assert_eq!(bench.relay.poll_timeout(), wakes(205_000));
    }
}

#[test]
fn g07_both_peers_hang_up_with_requests_both_ways() {
    between_all(|bench, near, far| {
        both_ways(bench, near, far);
        bench.hang_up(near);
        bench.hang_up(far);
        bench.sent(near);
        bench.sent(far);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
    });
}

#[test]
fn g05_a_drain_lets_what_is_in_flight_finish() {
    between_all(|bench, near, far| {
        both_ways(bench, near, far);
        bench.shutdown(Shutdown::Drain);
        assert_eq!((bench.sent(near), bench.sent(far)), (vec![], vec![]));
        bench.receive(far, &result("1", "1"));
        bench.receive(near, &result("1", "2"));
        assert_eq!(bench.sent(near), [result(r#""n""#, "1")]);
        assert_eq!(bench.sent(far), [result(r#""f""#, "2")]);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
    });
}

#[test]
fn g05_cancelling_all_cancels_both_ways() {
    between_cancelling(|bench, near, far| {
        both_ways(bench, near, far);
        bench.shutdown(Shutdown::CancelAll);
        for side in [near, far] {
            assert_eq!(bench.sent(side), [cancel(bench.dialect(side), "1")]);
        }
        bench.advance(Duration::from_secs(30));
        assert_eq!(bench.sent(near), [error(r#""n""#, -32800, "Request cancelled")]);
        assert_eq!(bench.sent(far), [error(r#""f""#, -32800, "Request cancelled")]);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
    });
}

#[test]
fn g05_abandoning_sends_nothing_more() {
    between_all(|bench, near, far| {
        both_ways(bench, near, far);
        bench.receive(near, &notification("unsent"));
        bench.shutdown(Shutdown::Abandon);
        assert_eq!((bench.over(), bench.in_flight()), ([true, true], [0; 4]));
        assert_eq!((bench.sent(near), bench.sent(far)), (vec![], vec![]));
    });
}

#[test]
fn g07_the_end_of_a_side_that_goes_over_its_limit_is_an_end() {
    let strict = |config: &mut protocol_core::Config| {
        config.limits.requests = 1;
        config.close_over_limit = true;
    };
    between(strict, |bench, near, far| {
        both_ways(bench, near, far);
        bench.receive(near, &request("2", "work"));
        let cancelled = bench.dialect(far).cancel != CancelRule::Local;
        assert_eq!(bench.sent(far).len(), 1 + usize::from(cancelled));
        assert!(bench.events().contains(&format!("{near}: closed: over_limit")));
    });
}
