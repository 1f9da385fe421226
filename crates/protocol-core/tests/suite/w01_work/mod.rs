//! Work that is stopped by a name of its own: turns, tasks and progress.

mod crossing;
mod nested;
mod pair;

use std::time::Duration;

use pair::{NOW, Pair, raw, request_in, words};
use protocol_core::{
    CancelOutcome, Cause, Config, Connection, Dialect, Event, Refusal, Response, Timestamp,
    WorkOutcome,
};

const SESSION: &str = r#"{"sessionId":"s"}"#;

/// Prompts a session, and returns the request of the agent's side.
fn prompt(pair: &mut Pair) -> (protocol_core::CallId, protocol_core::RequestHandle) {
    let params = raw(SESSION);
    let call = pair
        .client
        .call("session/prompt", Some(&params), "prompt", Default::default(), NOW)
        .expect("there is room");
    let (_, events) = pair.up();
    (call, request_in(&events))
}

/// Calls a tool that becomes the task `t1` of the server's side.
fn begin_task(pair: &mut Pair) -> protocol_core::CallId {
    let params = raw(r#"{"name":"t","task":{"ttl":1}}"#);
    let called = pair.client.call("tools/call", Some(&params), "call", Default::default(), NOW);
    let call = called.expect("there is room");
    let (_, events) = pair.up();
    let created = raw(r#"{"task":{"taskId":"t1","status":"working"}}"#);
    let responded = pair.server.respond(request_in(&events), Response::Result(&created));
    responded.expect("there is room");
    call
}

/// Stops the work of a call from the client's side.
fn stop(pair: &mut Pair, call: protocol_core::CallId) -> protocol_core::WorkId {
    let work = pair.client.machine().work_of_call(call).expect("it began work");
    pair.client.stop(work, Cause::Caller, None, NOW).expect("there is room");
    work
}

#[test]
fn w01_session_cancel_marks_the_prompt_before_anybody_sees_the_notification() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, request) = prompt(&mut pair);
    stop(&mut pair, call);
    let (sent, events) = pair.up();
    assert_eq!(sent, [r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#]);
    assert_eq!(
        words(&events),
        ["stopped peer", "cancelled stopped", "notification session/cancel"]
    );
    pair.server.respond(request, Response::Cancelled).unwrap();
    let (sent, events) = pair.down();
    assert_eq!(sent, [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
    assert_eq!(
        words(&events),
        ["began turn \"s\" there", "stopped caller", "settled prompt result", "ended stopped"]
    );
}

#[test]
fn w02_a_prompt_that_is_cancelled_as_a_request_gets_the_error() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, request) = prompt(&mut pair);
    pair.client.cancel(call, Cause::Caller, NOW);
    let (_, events) = pair.up();
    assert_eq!(words(&events), ["cancelled peer"]);
    pair.server.respond(request, Response::Cancelled).unwrap();
    let (sent, _) = pair.down();
    assert!(sent[0].contains("-32800"), "{sent:?}");
}

#[test]
fn w03_permission_requests_within_a_stopped_turn_end_as_cancelled() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, _) = prompt(&mut pair);
    let params = raw(SESSION);
    for _ in 0..2 {
        let options = Default::default();
        pair.server.call("session/request_permission", Some(&params), "ask", options, NOW).unwrap();
    }
    let (_, events) = pair.down();
    let asked = request_in(&events);
    stop(&mut pair, call);
    let events: Vec<_> = pair.client.drain_events().collect();
    assert_eq!(words(&events), ["stopped caller", "cancelled stopped", "cancelled stopped"]);
    pair.client.respond(asked, Response::Cancelled).unwrap();
    let (sent, _) = pair.up();
    assert!(sent[1].ends_with(r#""result":{"outcome":{"outcome":"cancelled"}}}"#), "{sent:?}");
}

#[test]
fn w04_a_request_that_crosses_the_stop_is_marked_on_arrival() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, _) = prompt(&mut pair);
    let params = raw(SESSION);
    pair.server
        .call("session/request_permission", Some(&params), "ask", Default::default(), NOW)
        .unwrap();
    stop(&mut pair, call);
    let (_, events) = pair.down();
    let words = words(&events);
    assert!(words.contains(&"cancelled stopped".to_owned()), "{words:?}");
}

#[test]
fn w05_a_stop_never_hits_the_next_turn() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, request) = prompt(&mut pair);
    let work = pair.client.machine().work_of_call(call).unwrap();
    // The turn ends while the stop is on its way.
    let params = raw(r#"{"stopReason":"end_turn"}"#);
    pair.server.respond(request, Response::Result(&params)).unwrap();
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    let (_, events) = pair.up();
    assert_eq!(words(&events), ["ended finished", "notification session/cancel"]);
    pair.down();
    let (_, next) = prompt(&mut pair);
    assert_eq!(pair.server.machine().request_cause(next), None);
    // A handle names one run, so a late stop is not sent.
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    assert_eq!(pair.up().0, Vec::<String>::new());
}

#[test]
fn w06_a_stop_before_the_prompt_has_left_takes_it_back() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let params = raw(SESSION);
    let call = pair
        .client
        .call("session/prompt", Some(&params), "prompt", Default::default(), NOW)
        .unwrap();
    stop(&mut pair, call);
    assert_eq!(pair.up().0, Vec::<String>::new());
    let events: Vec<_> = pair.client.drain_events().collect();
    let expected =
        ["began turn \"s\" there", "stopped caller", "settled prompt cancelled", "ended stopped"];
    assert_eq!(words(&events), expected);
}

#[test]
fn w07_a_stop_that_the_host_sends_itself_counts_as_one() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, _) = prompt(&mut pair);
    let params = raw(SESSION);
    pair.client.notify("session/cancel", Some(&params)).unwrap();
    let work = pair.client.machine().work_of_call(call).unwrap();
    assert!(pair.client.machine().is_stopping(work));
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    assert_eq!(pair.up().0.len(), 1);
}

#[test]
fn w08_work_of_acp_v2_goes_on_after_its_response_until_the_agent_is_idle() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    let work = pair.client.machine().work_of_call(call).unwrap();
    let accepted = raw("{}");
    pair.server.respond(request, Response::Result(&accepted)).unwrap();
    pair.down();
    let asked = raw(SESSION);
    pair.server
        .call("session/request_permission", Some(&asked), "ask", Default::default(), NOW)
        .unwrap();
    pair.down();
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    let (_, events) = pair.up();
    assert_eq!(words(&events), ["stopped peer", "notification session/cancel"]);
    let idle = raw(
        r#"{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}"#,
    );
    pair.server.notify("session/update", Some(&idle)).unwrap();
    let (sent, events) = pair.down();
    // The agent cancels its open permission request, as version 2 demands.
    assert!(sent[0].contains("$/cancel_request"), "{sent:?}");
    assert!(words(&events).contains(&"ended stopped".to_owned()), "{events:?}");
    assert_eq!(pair.client.machine().works().count(), 0);
    assert_eq!(pair.server.machine().works().count(), 0);
}

#[test]
fn w09_a_prompt_of_acp_v2_that_has_not_begun_gets_the_error() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    stop(&mut pair, call);
    pair.up();
    pair.server.respond(request, Response::Cancelled).unwrap();
    let (sent, _) = pair.down();
    assert!(sent[0].contains("-32800"), "{sent:?}");
    assert_eq!(pair.client.machine().works().count(), 0);
}

#[test]
fn w09_a_permission_request_that_the_agent_of_acp_v2_cancels_has_the_outcome() {
    for (dialect, sent_as) in [(Dialect::ACP_V1, "-32800"), (Dialect::ACP_V2, r#""cancelled""#)] {
        let mut pair = Pair::new(dialect);
        prompt(&mut pair);
        let params = raw(SESSION);
        let options = Default::default();
        let ask =
            pair.server.call("session/request_permission", Some(&params), "ask", options, NOW);
        let (_, events) = pair.down();
        pair.server.cancel(ask.unwrap(), Cause::Caller, NOW);
        pair.down();
        pair.client.respond(request_in(&events), Response::Cancelled).unwrap();
        let (sent, _) = pair.up();
        assert!(sent[0].contains(sent_as), "{sent:?}");
    }
}

#[test]
fn w10_a_task_is_named_by_its_response_and_stopped_by_a_request() {
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    begin_task(&mut pair);
    let (_, events) = pair.down();
    assert_eq!(words(&events), ["settled call result", "began task \"t1\" there"]);
    let work = pair.client.machine().works().next().unwrap();
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    let (sent, events) = pair.up();
    assert!(sent[0].contains(r#""method":"tasks/cancel","params":{"taskId":"t1"}"#), "{sent:?}");
    let words_of_server = words(&events);
    assert!(words_of_server.contains(&"stopped peer".to_owned()), "{words_of_server:?}");
    let cancelled = raw(r#"{"taskId":"t1","status":"cancelled"}"#);
    pair.server.notify("notifications/tasks/status", Some(&cancelled)).unwrap();
    let (_, events) = pair.down();
    assert!(words(&events).contains(&"ended stopped".to_owned()), "{events:?}");
    assert_eq!(pair.server.machine().works().count(), 0);
}

#[test]
fn w10_a_task_ends_by_the_result_of_the_request_that_stops_it_or_asks_for_it() {
    for stops in [true, false] {
        let mut pair = Pair::new(Dialect::MCP_2025_11_25);
        begin_task(&mut pair);
        pair.down();
        let task = raw(r#"{"taskId":"t1"}"#);
        if stops {
            let work = pair.client.machine().works().next().unwrap();
            pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
        } else {
            pair.client.call("tasks/get", Some(&task), "get", Default::default(), NOW).unwrap();
        }
        let (_, events) = pair.up();
        let status = if stops { "cancelled" } else { "completed" };
        let result = raw(&format!(r#"{{"taskId":"t1","status":"{status}"}}"#));
        pair.server.respond(request_in(&events), Response::Result(&result)).unwrap();
        let (_, events) = pair.down();
        let expected = if stops { "ended stopped" } else { "ended finished" };
        assert!(words(&events).contains(&expected.to_owned()), "{events:?}");
        assert_eq!(pair.server.machine().works().count(), 0);
        assert_eq!(pair.client.machine().works().count(), 0);
    }
}

#[test]
fn w10_a_stop_by_the_settled_call_reaches_the_task_that_its_result_began() {
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    let call = begin_task(&mut pair);
    pair.down();
    let grace = Some(Duration::from_secs(1));
    let stop = |pair: &mut Pair| pair.client.stop_call(call, Cause::Caller, grace, NOW);
    assert_eq!(stop(&mut pair), CancelOutcome::Sent);
    assert_eq!(stop(&mut pair), CancelOutcome::AlreadySent);
    let (sent, events) = pair.up();
    assert!(matches!(&sent[..], [stop] if stop.contains("tasks/cancel")), "{sent:?}");
    assert!(words(&events).contains(&"stopped peer".to_owned()), "{events:?}");
    // A server that says no more leaves the task silent after the grace.
    assert!(pair.client.poll_timeout().is_some());
    pair.client.handle_timeout(NOW + Duration::from_secs(1));
    assert_eq!(pair.client.machine().works().count(), 0);
    assert_eq!(stop(&mut pair), CancelOutcome::AlreadySettled);
}

#[test]
fn w10_the_shortest_grace_of_a_settled_call_bounds_its_task() {
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    let call = begin_task(&mut pair);
    pair.down();
    for (after, grace) in [(0, None), (5_000, Some(1_000)), (5_500, Some(1_000))] {
        let (now, grace) = (NOW + ms(after), grace.map(ms));
        pair.client.stop_call(call, Cause::Caller, grace, now);
    }
    for (after, left) in [(5_999, 1), (6_000, 0)] {
        pair.client.handle_timeout(NOW + ms(after));
        assert_eq!(pair.client.machine().works().count(), left, "after {after} ms");
    }
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A call of a tool that may become a task of the extension if the client declares that.
fn extended(pair: &mut Pair, declares: bool) -> (protocol_core::CallId, String) {
    let capabilities = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let capabilities = if declares { capabilities } else { "{}" };
    let meta = format!(r#"{{"io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#);
    let params = raw(&format!(r#"{{"name":"t","_meta":{meta}}}"#));
    let called = pair.client.call("tools/call", Some(&params), "call", Default::default(), NOW);
    let (_, events) = pair.up();
    let created = raw(r#"{"resultType":"task","taskId":"t1","status":"working"}"#);
    let responded = pair.server.respond(request_in(&events), Response::Result(&created));
    responded.expect("there is room");
    (called.expect("there is room"), meta)
}

#[test]
fn w18_a_task_of_the_extension_is_stopped_by_the_host_and_ends_by_its_status() {
    for declares in [true, false] {
        let mut pair = Pair::new(Dialect::MCP_2026_07_28);
        let (call, meta) = extended(&mut pair, declares);
        pair.down();
        let work = pair.client.machine().works().next();
        assert_eq!(work.is_some(), declares);
        let Some(work) = work else { continue };
        // What has to stand in its `_meta` is the host's.
        let stopped = pair.client.stop(work, Cause::Caller, None, NOW);
        assert_eq!(stopped, Err(Refusal::NoCancel));
        let outcome = pair.client.stop_call(call, Cause::Caller, Some(ms(1_000)), NOW);
        assert_eq!(outcome, CancelOutcome::NotStopped);
        assert_eq!(pair.client.poll_timeout(), None, "it goes on without a limit");
        assert!(!pair.client.machine().is_stopping(work));
        let task = raw(&format!(r#"{{"taskId":"t1","_meta":{meta}}}"#));
        pair.client.call("tasks/cancel", Some(&task), "stop", Default::default(), NOW).unwrap();
        assert!(pair.client.machine().is_stopping(work));
        let (_, events) = pair.up();
        assert!(words(&events).contains(&"stopped peer".to_owned()), "{events:?}");
        let acknowledged = raw(r#"{"resultType":"complete"}"#);
        pair.server.respond(request_in(&events), Response::Result(&acknowledged)).unwrap();
        pair.down();
        assert!(pair.client.machine().is_stopping(work), "the acknowledgement is no end");
        let cancelled = raw(r#"{"taskId":"t1","status":"cancelled"}"#);
        pair.server.notify("notifications/tasks", Some(&cancelled)).unwrap();
        let (_, events) = pair.down();
        assert!(words(&events).contains(&"ended stopped".to_owned()), "{events:?}");
        assert_eq!(pair.server.machine().works().count(), 0);
    }
}

#[test]
fn w08_a_stop_by_the_settled_call_reaches_the_turn_of_acp_v2() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    pair.server.respond(request, Response::Result(&raw("{}"))).unwrap();
    pair.down();
    assert_eq!(pair.client.stop_call(call, Cause::Caller, None, NOW), CancelOutcome::Sent);
    let (sent, _) = pair.up();
    assert!(matches!(&sent[..], [stop] if stop.contains("session/cancel")), "{sent:?}");
    let idle = raw(r#"{"sessionId":"s","update":{"state":"idle","stopReason":"cancelled"}}"#);
    pair.server.notify("session/update", Some(&idle)).unwrap();
    let (_, events) = pair.down();
    assert!(words(&events).contains(&"ended stopped".to_owned()), "{events:?}");
    assert_eq!(
        pair.client.stop_call(call, Cause::Caller, None, NOW),
        CancelOutcome::AlreadySettled
    );
}

#[test]
fn w11_progress_of_a_language_server_is_stopped_by_its_token() {
    let mut pair = Pair::new(Dialect::LSP_3_17);
    let begin = raw(r#"{"token":7,"value":{"kind":"begin","title":"index","cancellable":true}}"#);
    pair.server.notify("$/progress", Some(&begin)).unwrap();
    pair.down();
    let work = pair.client.machine().works().next().unwrap();
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    let (sent, events) = pair.up();
    assert_eq!(
        sent,
        [r#"{"jsonrpc":"2.0","method":"window/workDoneProgress/cancel","params":{"token":7}}"#]
    );
    assert_eq!(words(&events)[1], "stopped peer");
    let end = raw(r#"{"token":7,"value":{"kind":"end"}}"#);
    pair.server.notify("$/progress", Some(&end)).unwrap();
    let (_, events) = pair.down();
    assert!(words(&events).contains(&"ended finished".to_owned()), "{events:?}");
}

#[test]
fn w05_a_second_stop_of_a_run_does_not_hit_the_next_one() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (first, _) = prompt(&mut pair);
    let work = pair.client.machine().work_of_call(first).unwrap();
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    pair.up();
    let (_, second) = prompt(&mut pair);
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    assert_eq!(pair.up().0, Vec::<String>::new());
    assert_eq!(pair.server.machine().request_cause(second), None);
}

#[test]
fn w06_a_prompt_for_a_request_that_is_cancelled_begins_no_work_that_stays() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    pair.client.call("outer", None, "outer", Default::default(), NOW).unwrap();
    let (_, events) = pair.up();
    let parent = request_in(&events);
    pair.server.cancel_request(parent, Cause::Internal, NOW);
    let options = protocol_core::CallOptions::default().parent(parent);
    let params = raw(SESSION);
    pair.server.call("session/prompt", Some(&params), "inner", options, NOW).unwrap();
    assert_eq!(pair.server.machine().works().count(), 0);
}

#[test]
fn w08_a_stop_that_crosses_the_response_of_acp_v2_ends_with_the_agents_idle() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    stop(&mut pair, call);
    pair.up();
    let idle = r#"{"sessionId":"s","update":{"state":"idle","stopReason":"cancelled"}}"#;
    pair.server.notify("session/update", Some(&raw(idle))).unwrap();
    pair.server.respond(request, Response::Result(&raw("{}"))).unwrap();
    pair.down();
    assert_eq!(pair.client.machine().works().count(), 0);
    assert_eq!(pair.server.machine().works().count(), 0);
}

#[test]
fn w13_a_drained_connection_leaves_no_work() {
    let mut pair = Pair::new(Dialect::LSP_3_17);
    let begin = raw(r#"{"token":7,"value":{"kind":"begin"}}"#);
    pair.server.notify("$/progress", Some(&begin)).unwrap();
    pair.server.shutdown(protocol_core::Shutdown::Drain, NOW);
    let events: Vec<_> = pair.server.drain_events().collect();
    assert!(words(&events).contains(&"ended lost".to_owned()), "{events:?}");
}

#[test]
fn w14_another_revision_forgets_the_work_of_the_one_before() {
    let mut server: Connection<()> = Connection::new(Config::server(Dialect::MCP));
    let initialize = |id: u32, version: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{version}"}}}}"#
        )
    };
    for (id, version, works) in [(1, "2025-11-25", 1), (2, "2024-11-05", 0)] {
        let event = server.receive(initialize(id, version).as_bytes(), NOW).map(Event::into_owned);
        let Some(Event::Request { request, .. }) = event else { panic!("{event:?}") };
        let result = raw(&format!(r#"{{"protocolVersion":"{version}"}}"#));
        server.respond(request, Response::Result(&result)).unwrap();
        if works == 1 {
            let call = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"task":{}}}"#;
            let event = server.receive(call, NOW).map(Event::into_owned);
            let Some(Event::Request { request, .. }) = event else { panic!("{event:?}") };
            let created = raw(r#"{"task":{"taskId":"t","status":"working"}}"#);
            server.respond(request, Response::Result(&created)).unwrap();
        }
        assert_eq!(server.machine().works().count(), works);
    }
}

#[test]
fn w12_stopped_work_that_never_ends_is_silent_after_its_grace() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    let work = pair.client.machine().work_of_call(call).unwrap();
    let accepted = raw("{}");
    pair.server.respond(request, Response::Result(&accepted)).unwrap();
    pair.down();
    pair.client.stop(work, Cause::Caller, Some(Duration::from_secs(1)), NOW).unwrap();
    let (due, _) = pair.client.poll_timeout().unwrap();
    assert_eq!(due, Timestamp::from_millis(1_000));
    pair.client.handle_timeout(due);
    let ended = pair.client.drain_events().last();
    assert!(
        matches!(ended, Some(Event::WorkEnded { outcome: WorkOutcome::Silent, .. })),
        "{ended:?}"
    );
}

#[test]
fn w13_the_end_of_the_connection_ends_all_work() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    prompt(&mut pair);
    pair.server.handle_eof(NOW);
    pair.client.handle_eof(NOW);
    assert_eq!(pair.server.machine().works().count(), 0);
    let events: Vec<_> = pair.client.drain_events().collect();
    assert!(words(&events).contains(&"ended lost".to_owned()), "{events:?}");
}

#[test]
fn g08_work_over_the_limit_is_not_watched_and_its_messages_pass() {
    let mut config = Config::client(Dialect::LSP_3_17);
    config.limits.works = 2;
    let mut client: Connection<()> = Connection::new(config);
    for token in 0..3 {
        let begin = format!(
            r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":{token},"value":{{"kind":"begin"}}}}}}"#
        );
        let event = client.receive(begin.as_bytes(), NOW);
        assert!(matches!(event, Some(Event::Notification { .. })), "{event:?}");
    }
    assert_eq!(client.machine().works().count(), 2);
}

/// Begins a task, and passes its begin on to the client.
fn task(pair: &mut Pair) -> protocol_core::WorkId {
    begin_task(pair);
    pair.down();
    pair.client.machine().works().next().expect("it began")
}

#[test]
fn w15_a_stop_that_the_peer_refuses_leaves_the_task_running_on_both_sides() {
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    let work = task(&mut pair);
    for _ in 0..2 {
        pair.client.stop(work, Cause::Caller, Some(Duration::from_secs(1)), NOW).unwrap();
        let (sent, events) = pair.up();
        assert!(sent[0].contains("tasks/cancel"), "{sent:?}");
        let refusal = Response::Error { code: -32602, message: "no", data: None };
        pair.server.respond(request_in(&events), refusal).unwrap();
        let events: Vec<_> = pair.server.drain_events().collect();
        assert!(matches!(events[..], [Event::WorkResumed { .. }]), "{events:?}");
        let (_, events) = pair.down();
        assert!(events.iter().any(|it| matches!(it, Event::WorkResumed { .. })), "{events:?}");
        assert!(!pair.client.machine().is_stopping(work));
        assert_eq!(pair.client.poll_timeout(), None, "its grace is over");
    }
}

#[test]
fn w15_a_stop_that_the_host_takes_back_before_it_left_can_be_sent_again() {
    let mut pair = Pair::new(Dialect::MCP_2025_11_25);
    let work = task(&mut pair);
    let params = raw(r#"{"taskId":"t1"}"#);
    let call = pair.client.call("tasks/cancel", Some(&params), "stop", Default::default(), NOW);
    assert!(pair.client.machine().is_stopping(work));
    pair.client.cancel(call.unwrap(), Cause::Caller, NOW);
    assert!(!pair.client.machine().is_stopping(work));
    pair.client.stop(work, Cause::Caller, None, NOW).unwrap();
    let (sent, _) = pair.up();
    assert!(matches!(&sent[..], [stop] if stop.contains("tasks/cancel")), "{sent:?}");
}

#[test]
fn w16_a_turn_that_ends_by_itself_after_its_stop_has_finished_on_both_sides() {
    for (reason, expected) in [("end_turn", "ended finished"), ("cancelled", "ended stopped")] {
        let mut pair = Pair::new(Dialect::ACP_V1);
        let (call, request) = prompt(&mut pair);
        stop(&mut pair, call);
        pair.up();
        let result = raw(&format!(r#"{{"stopReason":"{reason}"}}"#));
        pair.server.respond(request, Response::Result(&result)).unwrap();
        let ended = words(&pair.server.drain_events().collect::<Vec<_>>());
        assert_eq!(ended, [expected]);
        assert!(words(&pair.down().1).contains(&expected.to_owned()));
    }
}

#[test]
fn w16_a_turn_that_fails_after_its_stop_has_failed_on_both_sides() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, request) = prompt(&mut pair);
    stop(&mut pair, call);
    pair.up();
    let failure = Response::Error { code: -32603, message: "no", data: None };
    pair.server.respond(request, failure).unwrap();
    assert_eq!(words(&pair.server.drain_events().collect::<Vec<_>>()), ["ended failed"]);
    assert!(words(&pair.down().1).contains(&"ended failed".to_owned()));
}

/// "the Agent MUST respond to the original `session/prompt` request with the `cancelled` stop reason". A cancel of the
/// request allows that response too ("a valid response with … cancellation marker").
#[test]
fn w17_a_turn_that_is_cancelled_as_a_request_and_stopped_gets_the_stop_reason() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let (call, request) = prompt(&mut pair);
    let params = raw(SESSION);
    let asked = pair.server.call(
        "session/request_permission",
        Some(&params),
        "ask",
        Default::default(),
        NOW,
    );
    let (_, events) = pair.down();
    let permission = request_in(&events);
    pair.server.cancel(asked.unwrap(), Cause::Caller, NOW);
    pair.down();
    pair.client.cancel(call, Cause::Caller, NOW);
    pair.client.notify("session/cancel", Some(&params)).unwrap();
    pair.client.respond(permission, Response::Cancelled).unwrap();
    let (sent, _) = pair.up();
    assert!(sent[2].ends_with(r#""result":{"outcome":{"outcome":"cancelled"}}}"#), "{sent:?}");
    pair.server.respond(request, Response::Cancelled).unwrap();
    let (sent, _) = pair.down();
    assert_eq!(sent, [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
}
