//! G5, B21: deadline, idle timeout and hard cap are three real timers, and a timer frees its caller
//! at once.

use crate::support::{Host, acp, cancel, jsonrpc, lsp, millis, raw, result};
use protocol_core::{CallOptions, Config, Dialect, Grace, Timestamp};

fn progress(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

fn idle_call(host: &mut Host, method: &str, params: &str, idle: u64) {
    let options = CallOptions::default().idle_timeout(millis(idle));
    host.try_call_with(method, Some(raw(params)), options).expect("the call is taken");
    host.sent();
}

#[test]
fn b21_each_timer_fires_on_its_own_and_sends_the_cancel() {
    for (options, cause) in [
        (CallOptions::default().timeout(millis(10)), "deadline"),
        (CallOptions::default().idle_timeout(millis(10)), "idle_timeout"),
        (CallOptions::default().hard_cap(millis(10)), "hard_cap"),
    ] {
        let mut host = acp();
        host.sent_call_with("slow", options.grace(Grace::Await));
        assert_eq!(host.next_timer(), Some((10, cause)));
        assert_eq!(host.advance(9), [""; 0]);
        assert_eq!(host.advance(1), [format!("settled slow timed_out {cause}")]);
        assert_eq!(host.sent(), [cancel("1")]);
        assert_eq!(host.next_timer(), None);
        assert_eq!(host.receive(&result("1", "1")), ["violation late_response 1"]);
    }
}

#[test]
fn g05_a_timer_withdraws_what_has_not_left() {
    let mut host = acp();
    host.call_with("slow", CallOptions::default().timeout(millis(0)));
    assert_eq!(host.next_timer(), Some((0, "deadline")));
    assert_eq!(host.advance(0), ["settled slow timed_out deadline"]);
    assert_eq!(host.sent(), [""; 0]);
}

#[test]
fn g05_timers_work_where_the_dialect_has_no_cancel() {
    let mut host = jsonrpc();
    host.sent_call_with("slow", CallOptions::default().timeout(millis(10)));
    assert_eq!(host.advance(10), ["settled slow timed_out deadline"]);
    assert_eq!((host.sent(), host.in_flight()), (vec![], (0, 0)));
}

#[test]
fn g05_an_answer_disarms_every_timer() {
    let mut host = acp();
    let options = CallOptions::default()
        .timeout(millis(1))
        .idle_timeout(millis(2))
        .hard_cap(millis(3))
        .grace(Grace::Settle(millis(4)));
    let call = host.sent_call_with("slow", options);
    host.cancel(call);
    host.receive(&result("1", "1"));
    assert_eq!((host.next_timer(), host.advance(100)), (None, vec![]));
}

#[test]
fn g05_progress_resets_the_idle_timeout_and_only_that() {
    let mut host = lsp();
    let options =
        CallOptions::default().idle_timeout(millis(10)).timeout(millis(25)).hard_cap(millis(26));
    host.try_call_with("slow", Some(raw(r#"{"workDoneToken":"t"}"#)), options).unwrap();
    host.sent();
    for _ in 0..3 {
        assert_eq!(host.advance(8), [""; 0]);
        let event = r#"notification $/progress {"token":"t"}"#;
        assert_eq!(host.receive(&progress("$/progress", r#"{"token":"t"}"#)), [event]);
    }
    assert_eq!(host.next_timer(), Some((25, "deadline")));
    assert_eq!(host.advance(1), ["settled slow timed_out deadline"]);
}

#[test]
fn g05_lsp_progress_is_by_either_token_and_tokens_are_compared_as_ids() {
    for (params, token, is_progress) in [
        (r#"{"workDoneToken":"t"}"#, "\"t\"", true),
        (r#"{"partialResultToken":7}"#, "7", true),
        (r#"{"workDoneToken":"t","partialResultToken":"t"}"#, "\"\\u0074\"", true),
        (r#"{"workDoneToken":7}"#, "\"7\"", false),
        (r#"{"workDoneToken":"t"}"#, "\"u\"", false),
        (r#"{"other":"t"}"#, "\"t\"", false),
    ] {
        let mut host = lsp();
        idle_call(&mut host, "slow", params, 10);
        host.advance(5);
        host.receive(&progress("$/progress", &format!(r#"{{"token":{token}}}"#)));
        // The timer learns of the progress when it is due.
        assert_eq!(host.next_timer(), Some((10, "idle_timeout")), "{params} {token}");
        let settled = host.advance(5).len();
        assert_eq!(settled, usize::from(!is_progress), "{params} {token}");
        let next = is_progress.then_some((15, "idle_timeout"));
        assert_eq!(host.next_timer(), next, "{params} {token}");
    }
}

#[test]
fn g05_acp_progress_is_a_session_update_of_the_calls_session() {
    let mut host = acp();
    idle_call(&mut host, "mine", r#"{"sessionId":"a"}"#, 10);
    idle_call(&mut host, "mine too", r#"{"sessionId":"a"}"#, 10);
    idle_call(&mut host, "other", r#"{"sessionId":"b"}"#, 10);
    host.advance(5);
    host.receive(&progress("session/update", r#"{"sessionId":"a","update":{}}"#));
    host.receive(&progress("session/other", r#"{"sessionId":"b"}"#));
    assert_eq!(host.advance(5), ["settled other timed_out idle_timeout"]);
    let expected =
        ["settled mine timed_out idle_timeout", "settled mine too timed_out idle_timeout"];
    assert_eq!(host.advance(5), expected);
}

#[test]
fn g05_the_host_may_report_progress_itself() {
    let mut host = jsonrpc();
    let call = host.sent_call_with("slow", CallOptions::default().idle_timeout(millis(10)));
    host.advance(5);
    host.conn.progress(call, host.now);
    assert_eq!(host.next_timer(), Some((15, "idle_timeout")));
    host.receive(&result("1", "1"));
    host.conn.progress(call, host.now);
    assert_eq!(host.next_timer(), None);
}

#[test]
fn g05_progress_of_a_settled_call_is_only_a_notification() {
    let mut host = acp();
    idle_call(&mut host, "slow", r#"{"sessionId":"a"}"#, 10);
    host.receive(&result("1", "1"));
    let update = progress("session/update", r#"{"sessionId":"a"}"#);
    assert_eq!(host.receive(&update), [r#"notification session/update {"sessionId":"a"}"#]);
    assert_eq!(host.next_timer(), None);
}

#[test]
fn g05_timers_fire_by_time_then_in_the_order_of_their_calls() {
    let mut host = acp();
    host.sent_call_with("c", CallOptions::default().hard_cap(millis(20)));
    host.sent_call_with("b", CallOptions::default().timeout(millis(10)));
    host.sent_call_with("a", CallOptions::default().idle_timeout(millis(10)));
    host.sent_call_with("d", CallOptions::default().timeout(millis(30)));
    let expected = [
        "settled b timed_out deadline",
        "settled a timed_out idle_timeout",
        "settled c timed_out hard_cap",
    ];
    assert_eq!(host.advance(25), expected);
    assert_eq!(host.next_timer(), Some((30, "deadline")));
}

#[test]
fn g05_timers_of_one_call_at_one_time_fire_deadline_first() {
    let all =
        CallOptions::default().timeout(millis(10)).idle_timeout(millis(10)).hard_cap(millis(10));
    for (options, cause) in [
        (all, "deadline"),
        (all.timeout(None), "idle_timeout"),
        (all.timeout(None).idle_timeout(None), "hard_cap"),
    ] {
        let mut host = acp();
        host.sent_call_with("slow", options);
        assert_eq!(host.advance(10), [format!("settled slow timed_out {cause}")]);
    }
}

/// Progress moves the idle timer, and another timer of the call is due when it would have run out.
#[test]
fn g05_the_timer_that_ran_out_is_the_cause_though_progress_moved_another() {
    let progress = progress("$/progress", r#"{"token":"t","value":1}"#);
    let idle = CallOptions::default().idle_timeout(millis(10));
    for (options, is_detached, end) in [
        (idle.hard_cap(millis(10)), false, "settled slow timed_out hard_cap"),
        (idle, true, "settled slow timed_out dropped"),
    ] {
        let mut config = Config::client(Dialect::LSP_3_17);
        config.abandoned_grace = millis(10);
        let mut host = Host::new(config);
        let params = raw(r#"{"workDoneToken":"t"}"#);
        let call = host.conn.call("slow", Some(params), "slow".into(), options, host.now).unwrap();
        host.sent();
        if is_detached {
            host.conn.detach(call, host.now);
        }
        host.advance(5);
        host.receive(&progress);
        assert_eq!(host.advance(10), [end]);
        assert_eq!(host.sent().is_empty(), is_detached, "a grace sends no cancel");
    }
}

#[test]
fn g05_a_clock_that_runs_backwards_only_makes_timers_late() {
    let mut host = acp();
    host.now = Timestamp::from_millis(100);
    host.sent_call_with("slow", CallOptions::default().timeout(millis(10)));
    host.now = Timestamp::from_millis(50);
    assert_eq!(host.advance(0), [""; 0]);
    assert_eq!(host.advance(60), ["settled slow timed_out deadline"]);
}

#[test]
fn g05_time_saturates() {
    let mut host = acp();
    host.now = Timestamp::from_millis(1);
    host.call_with("slow", CallOptions::default().timeout(std::time::Duration::MAX));
    assert_eq!(host.advance(1_000_000_000), [""; 0]);
    host.now = Timestamp::from_millis(u64::MAX);
    assert_eq!(host.advance(0), ["settled slow timed_out deadline"]);
}
