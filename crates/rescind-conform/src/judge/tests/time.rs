//! Rules on records in which it matters how long something takes, or how late the machine is.

use std::time::{Duration, Instant};
use std::{io, mem};

use protocol_core::Dialect;
use serde_json::{Value, json};

use super::{breaks, by_hand, holds, played, played_for};
use crate::facts::{Facts, Slow};
use crate::family::Request;
use crate::judge::may_come_too_late;
use crate::judge::rules::Rule;
use crate::session::Session;
use crate::suite::tests::slow;
use crate::target::Link;
use crate::wire::Wire;

const TOO_LATE: &str = "unclear: the machine was too slow to tell";

#[test]
fn an_order_says_nothing_where_half_the_time_is_not_half() {
    let order = |params: Value, slow_ms: u64, record: &str| {
        let mut facts = Facts::unknown(Dialect::ACP_V1);
        let request = Request::new("work", params);
        facts.slow = slow(false, true).map(|slow| Slow { request, ..slow });
        let rule = Rule::Honoured('a', 'b');
        by_hand::broken(&played_for(&facts, slow_ms, record), &[rule])
    };
    let [fixed, seconds, millis] = [json!({}), json!({ "s": "$S" }), json!({ "ms": "$MS" })];
    let reversed = "ask b 8; slow a 7; cancel 7; wait 800; result 7; result 8";
    let same = "unclear: request 8, which was asked first, may take as long as request 7";
    for (params, slow_ms, why) in [
        (&fixed, 1000, Some(same)),
        (&seconds, 1000, Some(same)),
        (&seconds, 3000, None),
        (&millis, 1000, None),
    ] {
        assert_eq!(order(params.clone(), slow_ms, reversed).as_deref(), why, "{params} {slow_ms}");
    }
    let cut_short = "ask b 8; slow a 7; cancel 7; wait 300; result 7; result 8";
    assert_eq!(order(seconds.clone(), 1000, cut_short), None);
    let in_order = "ask b 8; slow a 7; cancel 7; next 9; result 9; wait 800; result 8; result 7";
    let ignored = "request 7 is answered with a result, after request 8 that was asked first";
    assert_eq!(order(seconds.clone(), 1000, in_order).as_deref(), Some(ignored));
    assert_eq!(order(seconds, 1000, &reversed.replace("result 7", "error 7 -32800")), None);
}

#[test]
fn a_wait_is_as_long_as_the_work_before_it_and_as_a_request_takes() {
    let mut facts = Facts::unknown(Dialect::ACP_V1);
    let request = Request::new("work", json!({ "ms": "$MS" }));
    facts.slow = slow(false, true).map(|slow| Slow { request, ..slow });
    let mut play = played_for(&facts, 1000, "slow a 7; slow b 8; result 8");
    assert_eq!(play.session.patience, Duration::from_secs(1));
    // It says something now and then, and is waited for without patience.
    let link = Link::new(Beats, io::sink(), None);
    let session = Session::new(link, Wire::new(Dialect::ACP_V1), Duration::ZERO, None);
    play.session.record = mem::replace(&mut play.session, session).record;
    let begun = Instant::now();
    let is_over = |_: &Session| begun.elapsed() > Duration::from_millis(200);
    assert_eq!(play.wait("an answer", is_over), Ok(()), "7 takes a second");
}

struct Beats;

impl io::Read for Beats {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(50));
        into[0] = b'\n';
        Ok(1)
    }
}

/// Work that takes three times as long as it is asked to, and looks for cancels three times.
#[test]
fn work_is_stopped_before_its_time_by_the_time_that_it_was_seen_to_take() {
    let mut facts = Facts::unknown(Dialect::ACP_V1);
    let request = Request::new("work", json!({ "ms": "$MS" }));
    let undelayed = Duration::from_secs(3);
    facts.slow = slow(false, true).map(|slow| Slow { request, undelayed, ..slow });
    let judged = |ended_ms: u64| {
        let record = format!(
            "ask b 8; slow a 7; cancel 7; next 9; result 9; wait {ended_ms}; error 7 -32800"
        );
        by_hand::broken(&played_for(&facts, 500, &record), &[Rule::Honoured('a', 'b')])
    };
    assert_eq!(judged(600), None, "it has looked once");
    let why = "request 7 is answered as cancelled only after the time that it takes";
    assert_eq!(judged(1500).as_deref(), Some(why));
    let [Ok(slow), half] = [&facts.slow, &slow(false, true)] else { panic!("they are known") };
    let lasts = |ms| (slow.lasts(ms), half.as_ref().map(|half| half.lasts(ms)).ok());
    assert_eq!(lasts(1000), (Duration::from_millis(2625), Some(Duration::from_secs(1))));
    // The 1,625 ms more may be the same each time.
    assert_eq!(lasts(3000).0, Duration::from_millis(4625));
}

#[test]
fn work_that_fails_before_its_time_was_disturbed() {
    let mut facts = Facts::unknown(Dialect::ACP_V1);
    let request = Request::new("work", json!({ "ms": "$MS" }));
    facts.slow = slow(false, true).map(|slow| Slow { request, ..slow });
    let judged = |record: &str| {
        by_hand::broken(&played_for(&facts, 1000, record), &[Rule::Undisturbed('a')])
    };
    let why = "request 7 was not cancelled, and fails with error -32603";
    assert_eq!(judged("slow a 7; wait 100; error 7 -32603").as_deref(), Some(why));
    assert_eq!(judged("slow a 7; wait 800; error 7 -32603"), None, "it may fail by itself");
    assert_eq!(judged("slow a 7; wait 800; late; error 7 -32603").as_deref(), Some(TOO_LATE));
    assert_eq!(judged("slow a 7; wait 100; late; error 7 -32603").as_deref(), Some(why));
    assert_eq!(judged("slow a 7; wait 800; late; result 7"), None);
    assert_eq!(judged("slow a 7; wait 100; result 7"), None);
}

#[test]
fn a_result_is_not_that_of_another_request() {
    let judged = |params: Value, results: &str| {
        let mut facts = Facts::unknown(Dialect::ACP_V1);
        let request = Request::new("work", params);
        facts.slow = slow(false, true).map(|slow| Slow { request, ..slow });
        let record = format!("ask b 6; ask c 7; ask t 8; ask d 9; {results}");
        let rule = Rule::OwnResult('d', ['b', 'c'], 't');
        by_hand::broken(&played_for(&facts, 1000, &record), &[rule])
    };
    let others = "result 6 500; result 7 500; result 8 1000; result 9 1000";
    let why = "request 9 has the result of request 8, which asked for something else";
    assert_eq!(judged(json!({ "ms": "$MS" }), others).as_deref(), Some(why));
    assert_eq!(judged(json!({}), others), None, "it has asked for the same");
    for results in [
        "result 6 500; result 7 500; result 8 1000; result 9 500",
        "result 6 500; result 7 501; result 8 1000; result 9 1000",
        "result 6 done; result 7 done; result 8 done; result 9 done",
        "result 6 500; result 7 500; result 8 1000; error 9 -32603",
    ] {
        assert_eq!(judged(json!({ "ms": "$MS" }), results), None, "{results}");
    }
}

#[test]
fn an_order_that_a_late_machine_turns_round_says_nothing() {
    let before = Rule::Before('q', 'b');
    let record = "ask b 7; ask a 8; cancel 8; ask q 9; result 7; result 9";
    let why = "request 9 is answered after request 7, which was at work before the cancel";
    let late = format!("{record}; late");
    breaks("acp", before, &[(record, why), (&late, TOO_LATE)]);

    let rule = Rule::Honoured('a', 'b');
    holds("acp", rule, &["ask b 7; ask a 8; cancel 8; result 8; result 7"]);
    holds("acp", rule, &["ask b 7; ask a 8; cancel 8; late; error 8 -32800; result 7"]);
    breaks("acp", rule, &[("ask b 7; ask a 8; cancel 8; late; result 8; result 7", TOO_LATE)]);
}

#[test]
fn progress_that_was_to_end_before_the_cancel_was_read_says_nothing() {
    let event = |name: &str| {
        let body = r#"{"progressId":"p","requestId":7}"#;
        format!(r#"{{"type":"event","event":"progress{name}","body":{body}}}"#)
    };
    let response = |id| format!(r#"{{"type":"response","request_seq":{id},"success":true}}"#);
    let (start, end, [seven, eight]) = (event("Start"), event("End"), [7, 8].map(response));
    let cancelled = format!("ask a 7; {start}; cancel 7; next 8");
    holds("dap", Rule::ProgressEnded('a'), &[&format!("{cancelled}; {eight}; {end}; {seven}")]);
    let open = format!("{cancelled}; {eight}; {seven}");
    let why = "progress \"p\" of request 7 has started, and its end is not reported";
    let late = format!("{cancelled}; {end}; {seven}; {eight}");
    let unclear = "unclear: request 7 was answered before its cancel was seen to be read";
    breaks("dap", Rule::ProgressEnded('a'), &[(&open, why), (&late, unclear)]);
}

#[test]
fn a_cancel_that_may_have_come_after_the_work_is_found() {
    let mut facts = Facts::unknown(Dialect::ACP_V1);
    let late = |facts: &Facts, record: &str| may_come_too_late(&played(facts, record));
    let record = "slow a 7; cancel 7; next 8; result 7; result 8";
    assert!(!late(&facts, record), "a server that does not read on reads it then, each time");
    facts.slow = slow(false, true);
    for lost in [
        "late; slow a 7; cancel 7; next 8; result 7; result 8",
        "barely late; slow a 7; cancel 7; next 8; wait 9; result 7; result 8",
        "barely late; slow a 7; cancel 7; next 8; wait 9; result 8; wait 8; result 7",
        "late; slow a 7; cancel 7; result 7",
        "late; slow a 7; slow b 8; cancel 8; next 9; error 8 -32800; result 7; result 9",
    ] {
        assert!(late(&facts, lost), "{lost}");
    }
    for seen in [
        record,
        "barely late; slow a 7; cancel 7; next 8; wait 9; result 8; wait 9; result 7",
        "slow a 7; cancel 7; next 8; wait 9; result 7; result 8",
        "barely late; slow a 7; cancel 7; wait 9; result 7; next 8; result 8",
        "slow a 7; cancel 7; next 8; result 8; result 7",
        "slow a 7; cancel 7; next 8; error 7 -32800; result 8",
        "slow a 7; cancel 7; next 8; result 8",
        "ask a 7; cancel 7; next 8; result 7; result 8",
        "slow a 7; result 7; cancel 7; next 8; result 8",
        "slow a 7; cancel 7; next 8; error 7 -32800; result 8; slow b 9; result 9",
    ] {
        assert!(!late(&facts, seen), "{seen}");
    }
}
