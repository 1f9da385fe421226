//! ABP: what the vectors can't show. Limits, times, room in the outbox, what events borrow.

use std::borrow::Cow;
use std::time::Duration;

use crate::support::{Host, millis, raw};
use protocol_core::{
    CallOptions, Cause, Config, Dialect, Event, MessageOrder, Refusal, Response, Role, Shutdown,
    Timestamp, TransmitKind, WireId,
};

fn host(role: Role, change: impl FnOnce(&mut Config)) -> Host {
    let mut config = Config::client(Dialect::ABP);
    config.role = role;
    change(&mut config);
    Host::new(config)
}

/// Returns the app's side, with a session.
fn app(change: impl FnOnce(&mut Config)) -> Host {
    let mut app = host(Role::Server, change);
    app.receive(r#"{"type":"initialize","id":"i","payload":{}}"#);
    app.respond(app.request(1), Response::Result(raw("{}"))).unwrap();
    app.sent();
    app
}

/// Returns the agent's side. Its first call is number 1.
fn agent(change: impl FnOnce(&mut Config)) -> Host {
    host(Role::Client, change)
}

/// Returns the agent's side, with its session open.
fn opened() -> Host {
    let mut agent = agent(|_| {});
    let number = agent.sent_call("initialize").number();
    agent.receive(&answer_to("initialize", number, "{}"));
    agent
}

fn answer_to(asked: &str, number: u32, payload: &str) -> String {
    format!(r#"{{"type":"{asked}-result","id":"{number}","payload":{payload}}}"#)
}

fn call(id: &str) -> String {
    let id =
        format!(r#""id":"m-{id}","payload":{{"capability":"a","options":{{"callId":"{id}"}}}}"#);
    format!(r#"{{"type":"capabilities/call",{id}}}"#)
}

fn cancel(id: &str) -> String {
    format!(r#"{{"type":"capabilities/cancel","id":"x-{id}","payload":{{"callId":"{id}"}}}}"#)
}

fn acknowledgement(id: &str) -> String {
    format!(r#"{{"type":"capabilities/cancel-result","id":"{id}","payload":{{"cancelled":true}}}}"#)
}

/// The response to a cancel says that there is nothing to cancel, so the cancel can't be remembered.
#[test]
fn f20_an_acknowledgement_is_not_contradicted_though_messages_overtake_each_other() {
    let mut app = app(|config| config.dialect.order = MessageOrder::MayChange);
    app.receive(&cancel("5"));
    assert!(app.sent()[0].contains(r#""cancelled":false"#));
    let begun = app.receive(&call("5"));
    assert!(begun.len() == 1 && begun[0].starts_with("request"), "{begun:?}");
}

#[test]
fn g10_timestamps_are_unix_times_of_the_latest_input() {
    let mut agent = agent(|config| config.unix_time_at_zero = Duration::from_secs(1_700_000_000));
    let stamp = |host: &mut Host| {
        let message = host.sent().pop().expect("something is sent");
        let message: serde_json::Value = serde_json::from_str(&message).unwrap();
        message["timestamp"].as_u64().unwrap()
    };
    agent.call("a");
    assert_eq!(stamp(&mut agent), 1_700_000_000_000);
    agent.advance(5);
    agent.conn.notify("x/y", None).unwrap();
    assert_eq!(stamp(&mut agent), 1_700_000_000_005, "a timer's time");
    agent.now = agent.now + millis(5);
    agent.receive(r#"{"type":"x/y"}"#);
    agent.conn.notify("x/y", None).unwrap();
    assert_eq!(stamp(&mut agent), 1_700_000_000_010, "a message's time");
    agent.now = protocol_core::Timestamp::ZERO;
    agent.call("b");
    assert_eq!(stamp(&mut agent), 1_700_000_000_010, "time never runs backwards");

    let mut app = app(|_| {});
    app.receive(&call("a"));
    app.now = app.now + millis(7);
    app.eof();
    app.respond_ok(app.request(2));
    assert_eq!(stamp(&mut app), 7, "the end has a time too");
}

#[test]
fn g02_an_id_that_is_used_again_takes_no_place_in_the_memory_of_finished_calls() {
    let mut app = app(|config| config.limits.abandoned_ids = 2);
    for (number, id) in [(2, "b"), (3, "a")] {
        app.receive(&call(id));
        app.respond_ok(app.request(number));
    }
    // It is in flight again while a third one finishes.
    app.receive(&call("a"));
    app.receive(&call("c"));
    app.respond_ok(app.request(5));
    app.sent();
    app.receive(&cancel("b"));
    let sent = app.sent();
    assert!(sent[0].contains("Operation already completed"), "{sent:?}");
}

#[test]
fn g08_the_memory_of_answered_calls_is_bounded() {
    let mut app = app(|config| config.limits.abandoned_ids = 2);
    for (number, id) in [(2, "a"), (3, "b"), (4, "c")] {
        app.receive(&call(id));
        app.respond_ok(app.request(number));
    }
    app.sent();
    for (id, reason) in [
        ("a", "Operation not found"),
        ("b", "Operation already completed"),
        ("c", "Operation already completed"),
    ] {
        app.receive(&cancel(id));
        let [(kind, message)] = app.sent_with_kinds().try_into().unwrap();
        assert_eq!(kind, TransmitKind::Acknowledgement);
        assert!(message.contains(reason), "{id}: {message}");
    }
}

#[test]
fn g08_an_acknowledgement_without_room_is_an_event_and_the_cancel_is_obeyed() {
    let mut app = app(|config| config.limits.unsent_bytes = 150);
    app.receive(&call("a"));
    app.conn.notify("bulk/x", Some(raw(&format!(r#"{{"x":"{}"}}"#, "x".repeat(60))))).unwrap();
    let events = app.receive(&cancel("a"));
    assert_eq!(events, ["cancelled r2 peer", "violation response_dropped \"x-a\""]);
    app.sent();
    assert_eq!(app.receive(&cancel("a")), [""; 0], "there is room again");
    assert!(app.sent()[0].contains(r#""cancelled":true"#));
}

#[test]
fn g08_cancels_are_taken_above_the_limit_and_words_are_not() {
    let mut agent = agent(|config| config.limits.unsent_bytes = 200);
    let call = agent.sent_call("a");
    agent.conn.notify("x/y", Some(raw(&format!(r#"{{"x":"{}"}}"#, "x".repeat(90))))).unwrap();
    agent.conn.cancel_because(call, Cause::Caller, Some(&"why ".repeat(20)), agent.now);
    let [cancel, _] = agent.sent().try_into().unwrap();
    assert!(cancel.ends_with(r#""payload":{"callId":"1"}}"#), "{cancel}");
}

#[test]
fn g08_cancels_that_nobody_acknowledges_are_forgotten_oldest_first() {
    let mut agent = agent(|config| {
        config.limits.calls = 1;
        config.limits.abandoned_ids = 6;
    });
    // The cancels are numbers 2, 4, 6 and 8, and the calls before them are remembered too.
    for _ in 0..4 {
        let options = CallOptions::default().timeout(millis(1));
        agent.sent_call_with("a", options);
        assert_eq!(agent.advance(1), ["settled a timed_out deadline"]);
        agent.sent();
    }
    assert_eq!(agent.receive(&acknowledgement("2")), ["violation duplicate_response \"2\""]);
    for known in ["4", "6", "8"] {
        assert_eq!(agent.receive(&acknowledgement(known)), [""; 0], "{known}");
        let again = format!("violation duplicate_response \"{known}\"");
        assert_eq!(agent.receive(&acknowledgement(known)), [again]);
    }
}

#[test]
fn g04_a_cancel_of_the_hosts_own_waits_behind_its_request_and_for_room() {
    let mut agent = agent(|config| config.limits.unsent_bytes = 250);
    agent.call("a");
    let id = WireId::from_json("\"1\"").unwrap();
    agent.conn.send_cancel_request(&id).unwrap();
    let before = agent.state();
    assert_eq!(agent.conn.send_cancel_request(&id), Err(Refusal::OutboxFull));
    assert_eq!(agent.state(), before);
    let kinds: Vec<_> = agent.sent_with_kinds().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [TransmitKind::Request, TransmitKind::Cancel]);
    assert_eq!(agent.events(), ["ready"]);

    agent.call("settings/read");
    let id = WireId::from_json("\"3\"").unwrap();
    let refusal = agent.conn.send_cancel_request(&id).unwrap_err();
    assert_eq!(refusal.as_str(), "cancel_of_method", "it has no call id");
}

#[test]
fn events_borrow_from_the_message() {
    let mut app = app(|_| {});
    let message = call("a").replace("\"callId\"", "\"timeout\": 5, \"callId\"");
    let event = app.conn.receive(message.as_bytes(), app.now);
    let Some(Event::Request { options: Some(options), method: Cow::Borrowed("a"), .. }) = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(options.get(), r#"{"timeout": 5, "callId":"a"}"#);
    assert!(message.as_bytes().as_ptr_range().contains(&options.get().as_ptr()));

    let message = cancel("a").replace("}}", r#","reason":"why"}}"#);
    let event = app.conn.receive(message.as_bytes(), app.now);
    let Some(Event::Cancelled { reason: Some(reason), .. }) = event else { panic!("{event:?}") };
    assert_eq!(reason, "why");
}

#[test]
fn g02_a_whole_error_is_written_in_the_words_of_the_envelope() {
    for (error, said) in [
        (r#"{"code":-32800,"message":"stop"}"#, r#""cancelled":true"#),
        (
            r#"{"code":-32803,"message":"no paper"}"#,
            r#""error":{"code":"OPERATION_FAILED","message":"no paper","retryable":false}"#,
        ),
        (r#"{"code":"OUT_OF_INK"}"#, r#""error":{"code":"OUT_OF_INK"}"#),
    ] {
        let mut app = app(|_| {});
        app.receive(&call("a"));
        app.respond(app.request(2), Response::ErrorRaw(raw(error))).unwrap();
        let sent = app.sent().pop().expect("an answer");
        assert!(sent.contains(&format!(r#""success":false,{said}}}"#)), "{sent}");
    }
}

#[test]
fn g09_no_payload_is_sent_that_a_peer_would_refuse() {
    let mut agent = agent(|_| {}).conn;
    let array = Some(raw("[1]"));
    let mut call = |method| {
        let options = CallOptions::default();
        let now = Timestamp::ZERO;
        agent.call(method, array, Default::default(), options, now).map_err(|error| error.reason)
    };
    assert_eq!(call("x/y"), Err(Refusal::InvalidParams));
    assert!(call("capability").is_ok(), "its params stand inside the payload");
    assert_eq!(agent.notify("x", array), Err(Refusal::InvalidParams));
}

#[test]
fn g09_a_cancel_that_names_no_call_is_told_so() {
    let mut app = app(|_| {});
    app.receive(&call("a"));
    for named in ["{}", r#"{"callId":[]}"#] {
        let cancel = format!(r#"{{"type":"capabilities/cancel","id":"x","payload":{named}}}"#);
        app.receive(&cancel);
        let sent = app.sent().pop().expect("a refusal");
        assert!(sent.contains("the cancel names nothing"), "{named}: {sent}");
    }
    assert_eq!(app.in_flight(), (0, 1), "nothing is cancelled");
}

#[test]
fn g09_a_message_may_be_as_deep_as_the_limit_and_no_deeper() {
    let mut app = app(|config| config.limits.depth = 5);
    let deep = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"type":"x/y","payload":{{"a":{open}{close}}}}}"#)
    };
    assert!(app.receive(&deep(3))[0].starts_with("notification x/y"));
    assert_eq!(app.receive(&deep(4)), ["violation invalid_notification"]);
}

#[test]
fn g01_what_failed_is_an_error_whichever_member_says_so() {
    let mut agent = opened();
    let failed = r#""error":{"code":"NO","message":"no"}"#;
    let number = agent.sent_call("settings/read").number();
    let answer = format!(r#"{{"success":false,{failed}}}"#);
    let settled = agent.receive(&answer_to("settings/read", number, &answer));
    assert_eq!(settled.len(), 1);
    assert!(settled[0].starts_with("settled settings/read error"), "{settled:?}");
    for success in ["", r#""success":false,"#] {
        let number = agent.sent_call("a").number();
        let answer = format!(r#"{{{success}"callId":"{number}",{failed}}}"#);
        let settled = agent.receive(&answer_to("capabilities/call", number, &answer));
        assert!(settled[0].starts_with("settled a error"), "{settled:?}");
    }
    let number = agent.sent_call("a").number();
    let answer = format!(r#"{{"success":false,"callId":"{number}"}}"#);
    let settled = agent.receive(&answer_to("capabilities/call", number, &answer));
    assert_eq!(settled[0], format!("violation malformed_response \"{number}\""));
}

#[test]
fn g12_the_answer_of_a_call_does_not_acknowledge_its_cancel() {
    let mut agent = opened();
    let call = agent.sent_call("a");
    agent.cancel(call);
    agent.sent();
    let (number, cancel) = (call.number(), call.number() + 1);
    let answer = |number: u32| {
        let payload = format!(r#"{{"callId":"{number}","success":true}}"#);
        answer_to("capabilities/call", number, &payload)
    };
    let unknown = format!("violation unknown_response \"{cancel}\"");
    assert_eq!(agent.receive(&answer(cancel)), [unknown]);
    assert_eq!(agent.receive(&answer(number)), ["settled a result null"]);
    let again = format!("violation duplicate_response \"{number}\"");
    assert_eq!(agent.receive(&answer(number)), [again]);
    assert_eq!(agent.receive(&acknowledgement(&cancel.to_string())), [""; 0]);
}

#[test]
fn g05_a_shutdown_before_the_session_is_what_requests_are_refused_for() {
    let mut app = host(Role::Server, |_| {});
    assert_eq!(app.receive(&call("1")), ["violation not_initialized \"1\""]);
    app.sent();
    // Something is in flight, or else it would be over at once.
    app.sent_call("work");
    app.conn.shutdown(Shutdown::Drain, Timestamp::ZERO);
    assert_eq!(app.receive(&call("2")), ["violation request_after_shutdown \"2\""]);
    let sent = app.sent();
    assert!(sent[0].contains("shutting down"), "{sent:?}");
    // A cancel is taken until the end.
    assert_eq!(app.receive(&cancel("2")), [""; 0]);
    let sent = app.sent();
    assert!(sent[0].contains(r#""cancelled":false"#), "{sent:?}");
}

#[test]
fn g05_a_forwarded_call_is_kept_alive_by_progress_under_the_token_that_was_chosen() {
    let idle = CallOptions::default().idle_timeout(millis(10));
    let progress = |token: &str| {
        format!(r#"{{"type":"capabilities/progress","payload":{{"progressToken":{token}}}}}"#)
    };
    let [longest, too_long] = [0, 1].map(|more| {
        let len = Config::client(Dialect::ABP).limits.id_bytes - 2 + more;
        format!("\"{}\"", "t".repeat(len))
    });
    let choice = |token: &str| format!(r#"{{"progressToken":{token}}}"#);
    for (chosen, token, end) in [
        (&*choice(&longest), &*longest, 15),
        (&choice(&too_long), &too_long, 10),
        (r#"{"progressToken":null}"#, "null", 10),
        (r#"{"progressToken":"t"}"#, "\"t\"", 15),
        (r#"{"progressToken":"t"}"#, "\"1\"", 10),
        ("{}", "\"1\"", 10),
    ] {
        let mut agent = agent(|_| {});
        let data = "d".to_owned();
        agent.conn.forward_call("a", None, Some(raw(chosen)), data, idle, agent.now).unwrap();
        let sent = agent.sent().concat();
        let passes = sent.contains(&format!(r#""options":{{"callId":"1",{}"#, &chosen[1..]));
        assert_eq!(passes, chosen.contains(":\""), "{sent}");
        agent.advance(5);
        agent.receive(&progress(token));
        let until = |host: &mut Host, end: u64| (5..end).all(|_| host.advance(1).is_empty());
        assert!(until(&mut agent, end - 1), "{token}");
        assert!(!agent.advance(1).is_empty(), "{token}");
    }
}

#[test]
fn b15_a_call_id_that_is_null_counts_as_absent() {
    let mut agent = opened();
    agent.sent_call("a");
    let response = r#"{"callId":null,"success":true,"data":1}"#;
    assert_eq!(agent.receive(&answer_to("capabilities/call", 2, response)), ["settled a result 1"]);

    let mut app = app(|_| {});
    let cancel = r#"{"type":"capabilities/cancel","id":"x","payload":{"callId":null}}"#;
    assert_eq!(app.receive(cancel), ["violation malformed_cancel \"x\""]);
    let sent = app.sent();
    assert!(matches!(&sent[..], [it] if it.contains("OPERATION_FAILED")), "{sent:?}");
}
