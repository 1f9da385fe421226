//! Calls that were given up, and whose result tells of work that goes on.

use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Config, Connection, Dialect, Event, RequestHandle,
    Response,
};

use super::pair::{NOW, Pair, raw, request_in, words};
use super::{SESSION, begin_task, ms, prompt};

const IDLE: &str = r#"{"sessionId":"s","update":{"state":"idle","stopReason":"cancelled"}}"#;
const TASK: &str = r#"{"task":{"taskId":"t1","status":"working"}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
const ALL: [Cause; 5] =
    [Cause::Caller, Cause::Parent, Cause::Dropped, Cause::Shutdown, Cause::Deadline];

/// Calls a method, and returns the request of the server's side.
fn begin(pair: &mut Pair, method: &str, params: &str) -> (CallId, RequestHandle) {
    let options = CallOptions::default().timeout(ms(1));
    let call = pair.client.call(method, Some(&raw(params)), "call", options, NOW);
    let (_, events) = pair.up();
    (call.expect("there is room"), request_in(&events))
}

/// Gives a call up, and lets the time pass in which its response could have come.
fn give_up(pair: &mut Pair, call: CallId, cause: Cause) {
    if cause != Cause::Deadline {
        pair.client.cancel(call, cause, NOW);
    }
    pair.client.handle_timeout(NOW + ms(1));
}

fn respond(pair: &mut Pair, request: RequestHandle, result: &str) -> Vec<String> {
    let result = raw(result);
    pair.server.respond(request, Response::Result(&result)).expect("there is room");
    words(&pair.down().1)
}

/// Returns the stops that leave the client.
fn stops(pair: &mut Pair) -> Vec<String> {
    let sent = pair.up().0.into_iter();
    sent.filter(|it| it.contains("session/cancel") || it.contains("tasks/cancel")).collect()
}

#[test]
fn w19_a_task_that_is_named_after_its_call_was_given_up_is_stopped_once() {
    for cause in ALL {
        let mut pair = Pair::new(Dialect::MCP_2025_11_25);
        let (call, request) = begin(&mut pair, "tools/call", r#"{"task":{}}"#);
        give_up(&mut pair, call, cause);
        assert_eq!(pair.up().0, Vec::<String>::new(), "no message may name such a request");
        let events = respond(&mut pair, request, TASK);
        let seen = events.iter().position(|it| it.contains("LateResponse")).expect("it is late");
        let stopped = format!("stopped {cause}");
        assert_eq!(events[seen + 1..], ["began task \"t1\" there", stopped.as_str()]);
        let (sent, events) = pair.up();
        assert!(matches!(&sent[..], [it] if it.contains("tasks/cancel")), "{sent:?}");
        let task = raw(r#"{"taskId":"t1","status":"cancelled"}"#);
        pair.server.respond(request_in(&events), Response::Result(&task)).unwrap();
        assert_eq!(words(&pair.down().1), ["ended stopped"]);
        // A duplicate names nothing that goes on.
        let duplicate = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{TASK}}}"#);
        assert!(pair.client.receive(duplicate.as_bytes(), NOW).is_some());
        assert_eq!(stops(&mut pair), Vec::<String>::new());
        assert_eq!(pair.client.machine().works().count(), 0);
    }
}

#[test]
fn w19_the_caller_of_a_task_hears_that_the_stop_awaits_its_name() {
    for (cause, response) in [(Cause::Caller, "settled call cancelled"), (Cause::Dropped, "")] {
        let mut pair = Pair::new(Dialect::MCP_2025_11_25);
        let (call, request) = begin(&mut pair, "tools/call", r#"{"task":{}}"#);
        assert_eq!(pair.client.cancel(call, cause, NOW), CancelOutcome::AwaitsToken);
        let settled: Vec<_> = pair.client.drain_events().collect();
        assert_eq!(words(&settled).concat(), response);
        respond(&mut pair, request, TASK);
        assert_eq!(stops(&mut pair).len(), 1);
    }
}

#[test]
fn w19_a_turn_of_acp_v2_that_is_accepted_after_it_was_given_up_is_stopped_once() {
    for cause in ALL {
        for is_late in [true, false] {
            let mut pair = Pair::new(Dialect::ACP_V2);
            let (call, request) = begin(&mut pair, "session/prompt", SESSION);
            if is_late || cause == Cause::Deadline {
                give_up(&mut pair, call, cause);
            } else {
                // The cancel crosses the response.
                pair.client.cancel(call, cause, NOW);
            }
            let events = respond(&mut pair, request, "{}");
            assert_eq!(events.last(), Some(&format!("stopped {cause}")), "{events:?}");
            assert_eq!(stops(&mut pair), [CANCEL]);
            pair.server.notify("session/update", Some(&raw(IDLE))).unwrap();
            assert!(words(&pair.down().1).contains(&"ended stopped".to_owned()));
            assert_eq!(pair.client.machine().works().count(), 0);
        }
    }
}

#[test]
fn w19_nothing_is_stopped_where_nothing_goes_on() {
    let failed = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#;
    let done = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let (prompt, tool) = ("session/prompt", "tools/call");
    for (dialect, method, params, response) in [
        (Dialect::ACP_V2, prompt, SESSION, failed),
        (Dialect::ACP_V1, prompt, SESSION, done),
        (Dialect::MCP_2025_11_25, tool, r#"{"task":{}}"#, failed),
        (Dialect::MCP_2025_11_25, tool, r#"{"task":{}}"#, done),
        (Dialect::MCP_2025_11_25, "tasks/get", r#"{"taskId":"t1"}"#, done),
    ] {
        let mut pair = Pair::new(dialect);
        let (call, _) = begin(&mut pair, method, params);
        give_up(&mut pair, call, Cause::Caller);
        let _ = pair.client.receive(response.as_bytes(), NOW);
        assert_eq!(stops(&mut pair), Vec::<String>::new());
        assert_eq!(pair.client.machine().works().count(), 0);
    }
}

#[test]
fn w19_work_that_was_stopped_by_its_name_or_is_still_wanted_is_not_stopped_again() {
    // The stop has left before the call was given up.
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = begin(&mut pair, "session/prompt", SESSION);
    pair.client.stop_call(call, Cause::Caller, None, NOW);
    assert_eq!(stops(&mut pair), [CANCEL]);
    give_up(&mut pair, call, Cause::Deadline);
    respond(&mut pair, request, "{}");
    assert_eq!(stops(&mut pair), Vec::<String>::new());
    // Nobody awaits a detached call, and its work is to go on.
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    let options = CallOptions::default();
    let task = raw(r#"{"task":{}}"#);
    let call = pair.client.call("tools/call", Some(&task), "call", options, NOW).unwrap();
    let request = request_in(&pair.up().1);
    pair.client.detach(call, NOW);
    pair.client.handle_timeout(NOW + ms(60_000));
    assert!(respond(&mut pair, request, TASK).concat().contains("LateResponse"));
    assert_eq!(stops(&mut pair), Vec::<String>::new());
}

#[test]
fn w19_a_late_result_never_stops_the_next_turn_unless_that_was_given_up_too() {
    for is_given_up in [false, true] {
        let mut pair = Pair::new(Dialect::ACP_V2);
        let (first, late) = begin(&mut pair, "session/prompt", SESSION);
        give_up(&mut pair, first, Cause::Caller);
        let (next, request) = prompt(&mut pair);
        respond(&mut pair, late, "{}");
        assert_eq!(stops(&mut pair), Vec::<String>::new(), "the next turn is wanted");
        if is_given_up {
            pair.client.cancel(next, Cause::Caller, NOW);
        }
        respond(&mut pair, request, "{}");
        assert_eq!(stops(&mut pair).len(), usize::from(is_given_up));
        pair.server.notify("session/update", Some(&raw(IDLE))).unwrap();
        pair.down();
        assert_eq!(pair.client.machine().works().count(), 0);
    }
}

#[test]
fn w19_a_late_task_whose_stop_is_the_hosts_is_reported() {
    let mut pair = Pair::new(Dialect::MCP_2026_07_28);
    let meta = r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}"#;
    let (call, _) = begin(&mut pair, "tools/call", meta);
    give_up(&mut pair, call, Cause::Caller);
    pair.client.drain_events().for_each(drop);
    let late = br#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t1"}}"#;
    assert!(matches!(pair.client.receive(late, NOW), Some(Event::Violation { .. })));
    let events: Vec<_> = pair.client.drain_events().collect();
    assert_eq!(words(&events), ["began task \"t1\" there"]);
    assert_eq!(stops(&mut pair), Vec::<String>::new());
    assert_eq!(pair.client.machine().works().count(), 1);
}

#[test]
fn w19_a_task_can_be_stopped_after_the_call_for_its_result_was_given_up() {
    for cause in ALL {
        let mut pair = Pair::new(Dialect::MCP_2025_11_25);
        let call = begin_task(&mut pair);
        pair.down();
        let (waiting, _) = begin(&mut pair, "tasks/result", r#"{"taskId":"t1"}"#);
        give_up(&mut pair, waiting, cause);
        assert_eq!(stops(&mut pair), Vec::<String>::new(), "the task itself is wanted");
        let stopped = pair.client.stop_call(call, Cause::Caller, None, NOW);
        assert_eq!(stopped, CancelOutcome::Sent);
        assert_eq!(stops(&mut pair).len(), 1);
    }
}

#[test]
fn g08_a_stop_that_is_owed_needs_no_room() {
    let mut config = Config::client(Dialect::MCP_2025_11_25);
    config.limits.unsent_messages = 1;
    let mut client: Connection<()> = Connection::new(config);
    let (task, mut wire) = (raw(r#"{"task":{}}"#), Vec::new());
    let call = client.call("tools/call", Some(&task), (), CallOptions::default(), NOW).unwrap();
    client.poll_transmit(&mut wire).expect("the call");
    client.cancel(call, Cause::Caller, NOW);
    client.notify("fills/the/outbox", None).unwrap();
    let late = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{TASK}}}"#);
    let _ = client.receive(late.as_bytes(), NOW);
    assert_eq!(std::iter::from_fn(|| client.poll_transmit(&mut wire)).count(), 2);
    assert!(String::from_utf8(wire).unwrap().contains("tasks/cancel"));
}

#[test]
fn w19_a_stop_without_a_limit_has_none_after_a_response_that_crosses_it() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    pair.client.stop_call(call, Cause::Caller, None, NOW);
    respond(&mut pair, request, "{}");
    assert_eq!(pair.client.poll_timeout(), None);
    assert_eq!(pair.client.machine().works().count(), 1, "the agent has not ended it yet");
}

#[test]
fn w19_a_refused_stop_of_work_that_was_given_up_leaves_nothing() {
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    let (call, request) = begin(&mut pair, "tools/call", r#"{"task":{}}"#);
    give_up(&mut pair, call, Cause::Deadline);
    respond(&mut pair, request, TASK);
    let (_, events) = pair.up();
    let refusal = Response::Error { code: -32602, message: "it is over", data: None };
    pair.server.respond(request_in(&events), refusal).unwrap();
    pair.down();
    assert_eq!(pair.client.machine().works().count(), 1);
    pair.client.handle_timeout(NOW + pair.client.config().abandoned_grace + ms(1));
    assert_eq!(pair.client.machine().works().count(), 0);
}

#[test]
fn w19_the_stop_of_a_later_turn_stops_the_one_that_was_given_up() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (first, request) = begin(&mut pair, "session/prompt", SESSION);
    give_up(&mut pair, first, Cause::Deadline);
    let (second, _) = begin(&mut pair, "session/prompt", SESSION);
    pair.client.stop_call(second, Cause::Caller, None, NOW + ms(1));
    assert_eq!(stops(&mut pair).len(), 1);
    respond(&mut pair, request, "{}");
    assert_eq!(stops(&mut pair), Vec::<String>::new(), "that stop came after both prompts");
}

#[test]
fn w16_a_result_to_a_turn_that_has_not_left_does_not_say_how_it_ends() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let params = raw(SESSION);
    let options = CallOptions::default();
    pair.client.call("session/prompt", Some(&params), "prompt", options, NOW).unwrap();
    let guessed = br#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#;
    let _begin_of_the_turn = pair.client.receive(guessed, NOW);
    let stray = words(&pair.client.drain_events().collect::<Vec<_>>());
    assert!(stray.iter().any(|it| it.contains("UnknownResponse")), "{stray:?}");
    let (_, events) = pair.up();
    let result = raw(r#"{"stopReason":"end_turn"}"#);
    pair.server.respond(request_in(&events), Response::Result(&result)).unwrap();
    assert!(words(&pair.down().1).contains(&"ended finished".to_owned()));
}
