//! Faults that were found once, each as the rule that must hold instead. Others of their row stand with their
//! subject: F1 in `f01_memory.rs`, F4 and F19 in `batches.rs`, F5 in `g09_bad_input.rs`, F6 and F10 in
//! `machine.rs`. F13 is in `src/id.rs`, and F16 in `g07_end_of_input.rs`. The tests of other crates are named
//! for their number, too.

use crate::support;

use protocol_core::{
    CallOptions, CancelOutcome, Cause, Config, Connection, Dialect, Event, Refusal, Response,
    Shutdown, Timestamp,
};
use support::{Host, acp, jsonrpc, limited, raw, request, result};

const NOW: Timestamp = Timestamp::ZERO;

#[test]
fn f03_a_promised_wake_up_comes_after_the_end_too() {
    let mut host = limited(|config| config.limits.unsent_bytes = 60);
    let requests = ["1", "2"].map(|id| host.peer_requests(id));
    host.eof();
    host.respond(requests[0], Response::Result(raw("1"))).unwrap();
    let refused = host.respond(requests[1], Response::Result(raw("2")));
    assert_eq!(refused, Err(Refusal::OutboxFull));
    assert_eq!(host.events(), [""; 0], "there is no room yet");
    assert_eq!(host.sent().len(), 1);
    assert_eq!(host.events(), ["ready"], "and nothing but that may follow the end");
    host.respond(requests[1], Response::Result(raw("2"))).unwrap();
    assert_eq!(host.sent().len(), 1);
    assert_eq!(host.events(), [""; 0]);
}

#[test]
fn f07_a_refused_call_passes_no_time() {
    let run = |is_refused: bool| {
        let mut config = Config::client(Dialect::ABP);
        config.limits.calls = 0;
        let mut conn: Connection<()> = Connection::new(config);
        if is_refused {
            let later = Timestamp::from_millis(5_000);
            let refused = conn.call("x", None, (), CallOptions::default(), later);
            assert_eq!(refused.unwrap_err().reason, Refusal::TooManyCalls);
        }
        conn.notify("n", None).unwrap();
        let mut out = Vec::new();
        conn.poll_transmit(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(run(true), run(false));
}

/// Returns an agent that speaks ABP, with its session open. Its numbers go on at 2.
fn agent() -> Host {
    let mut agent = Host::new(Config::client(Dialect::ABP));
    agent.sent_call("initialize");
    let opened = r#"{"type":"initialize-result","id":"1","timestamp":0,"payload":{}}"#;
    assert_eq!(agent.receive(opened).len(), 1);
    agent
}

fn abp_result(call: &str) -> String {
    let payload = format!(r#"{{"callId":"{call}","success":true,"data":1}}"#);
    format!(
        r#"{{"type":"capabilities/call-result","id":"{call}","timestamp":0,"payload":{payload}}}"#
    )
}

fn abp_acknowledgement(cancel: &str, call: &str) -> String {
    let payload = format!(r#"{{"callId":"{call}","cancelled":true}}"#);
    format!(
        r#"{{"type":"capabilities/cancel-result","id":"{cancel}","timestamp":0,"payload":{payload}}}"#
    )
}

#[test]
fn f08_an_acknowledgement_of_a_cancel_that_never_left_is_an_unknown_response() {
    let mut agent = agent();
    let call = agent.sent_call("cap");
    assert_eq!(agent.cancel(call), CancelOutcome::Sent);
    let early = agent.receive(&abp_acknowledgement("3", "2"));
    assert_eq!(early, ["violation unknown_response \"3\""], "it waits in the outbox");
    assert_eq!(agent.receive(&abp_result("2")), ["settled cap result 1"]);
    assert_eq!(agent.sent(), [""; 0], "there is nothing to cancel any more");
    let late = agent.receive(&abp_acknowledgement("3", "2"));
    assert_eq!(late, ["violation unknown_response \"3\""]);
    // One that has left is acknowledged once, without an event, whichever answer is faster.
    for is_first in [true, false] {
        let call = agent.sent_call("cap");
        agent.cancel(call);
        assert_eq!(agent.sent().len(), 1);
        let (number, cancel) = (call.number(), call.number() + 1);
        let acknowledgement = abp_acknowledgement(&cancel.to_string(), &number.to_string());
        let answer = abp_result(&number.to_string());
        if is_first {
            assert_eq!(agent.receive(&acknowledgement), [""; 0]);
        }
        assert_eq!(agent.receive(&answer), ["settled cap result 1"]);
        if !is_first {
            assert_eq!(agent.receive(&acknowledgement), [""; 0]);
        }
        let again = format!("violation duplicate_response \"{cancel}\"");
        assert_eq!(agent.receive(&acknowledgement), [again]);
    }
}

#[test]
fn a_dialect_may_have_as_many_kinds_of_work_as_a_byte_counts() {
    let mut dialect = Dialect::LSP_3_17;
    dialect.work = vec![dialect.work[0].clone(); 255].into();
    let mut host = Host::new(Config::client(dialect));
    // The last kind is looked at too, and none fits.
    let none = r#"{"jsonrpc":"2.0","method":"$/progress","params":{"other":1}}"#;
    assert_eq!(host.receive(none), [r#"notification $/progress {"other":1}"#]);
}

#[test]
fn f11_the_outcome_of_a_cancel_says_what_happened() {
    let mut client = Host::new(Config::client(Dialect::ERLMCP));
    let call = client.sent_call("tool/call");
    assert_eq!(client.cancel(call), CancelOutcome::AwaitsToken);
    assert_eq!(client.sent(), [""; 0], "there is no token to name yet");
    assert_eq!(client.cancel(call), CancelOutcome::AwaitsToken);
    let token = r#"{"cancellationToken":"0123456789ABCDEF0123456789ABCDEF"}"#;
    assert_eq!(client.receive(&result("1", token)), [""; 0]);
    assert_eq!(client.sent().len(), 1, "now it follows");
    assert_eq!(client.cancel(call), CancelOutcome::AlreadySent);
}

#[test]
fn f14_a_server_obeys_the_cancels_of_a_dialect_in_which_only_clients_cancel() {
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
    let mut server = Host::new(Config::server(Dialect::MCP));
    server.receive(&request("9", "tools/call"));
    assert_eq!(server.receive(cancel), ["cancelled r1 peer"]);
    let mut client = Host::new(Config::client(Dialect::MCP));
    client.receive(&request("9", "elicitation/create"));
    assert_eq!(client.receive(cancel), [""; 0]);
}

#[test]
fn f15_nothing_is_lost_by_stopping_early() {
    let mut conn: Connection<&str> = Connection::new(Config::client(Dialect::JSON_RPC));
    for data in ["one", "two", "three"] {
        conn.call("m", None, data, CallOptions::default(), NOW).unwrap();
    }
    let mut out = Vec::new();
    while conn.poll_transmit(&mut out).is_some() {}
    let batch = format!("[{},{},{}]", result("1", "[1]"), result("2", "[2]"), result("3", "[3]"));
    let mut told = Vec::new();
    let mut take = |event: Option<Event<'_, &'static str>>| {
        let Some(Event::Settled { outcome, data, .. }) = event else { panic!("{event:?}") };
        told.push((data, outcome.value().unwrap().get().to_owned()));
    };
    // The message is gone before the others are asked for.
    take(conn.receive(batch.as_bytes(), NOW));
    drop(batch);
    take(conn.poll_event());
    take(conn.receive(b" ", NOW));
    assert!(matches!(conn.poll_event(), Some(Event::Violation { .. })), "of the empty message");
    assert_eq!(
        told,
        [("one", "[1]"), ("two", "[2]"), ("three", "[3]")]
            .map(|(data, value)| { (data, value.to_owned()) })
    );
}

#[test]
fn f15_events_are_told_in_one_order_however_they_are_asked_for() {
    let mut host = acp();
    host.call_with("slow", CallOptions::default().timeout(support::millis(1)));
    host.conn.handle_timeout(Timestamp::from_millis(1));
    // It has not polled what the timer made happen.
    let message = request("7", "m");
    let first = host.conn.receive(message.as_bytes(), NOW);
    assert!(matches!(first, Some(Event::Settled { .. })), "{first:?}");
    assert!(matches!(host.conn.poll_event(), Some(Event::Request { .. })));
    assert!(host.conn.poll_event().is_none());
}

#[test]
fn f18_no_cancel_is_told_of_a_request_that_is_answered_meanwhile() {
    let mut host = acp();
    let requests = ["1", "2"].map(|id| host.peer_requests(id));
    host.conn.shutdown(Shutdown::CancelAll, host.now);
    host.respond_ok(requests[0]);
    assert_eq!(host.events(), ["cancelled r2 shutdown"]);
    host.respond_ok(requests[1]);
    assert_eq!(host.events(), ["closed shutdown"]);
}

#[test]
fn f20_the_acknowledgement_and_the_answer_say_the_same() {
    let opened = r#"{"type":"initialize","id":"0","timestamp":0,"payload":{}}"#;
    let call = |id: &str| {
        let payload = format!(r#"{{"capability":"a","options":{{"callId":"{id}"}}}}"#);
        format!(r#"{{"type":"capabilities/call","id":"{id}","timestamp":0,"payload":{payload}}}"#)
    };
    let cancel = |id: &str| {
        let payload = format!(r#"{{"callId":"{id}"}}"#);
        format!(r#"{{"type":"capabilities/cancel","id":"x","timestamp":0,"payload":{payload}}}"#)
    };
    for (reply, is_ours) in [
        (Response::Result(raw("1")), false),
        (Response::Error { code: -1, message: "no", data: None }, false),
        (Response::Cancelled, false),
        // Our own side cancelled first, and the peer's cancel is acknowledged all the same.
        (Response::Result(raw("1")), true),
    ] {
        let mut app = Host::new(Config::server(Dialect::ABP));
        app.receive(opened);
        app.respond(app.request(1), Response::Result(raw("{}"))).unwrap();
        app.receive(&call("a"));
        app.sent();
        if is_ours {
            app.conn.cancel_request(app.request(2), Cause::Internal, app.now);
        }
        app.receive(&cancel("a"));
        app.respond(app.request(2), reply).unwrap();
        let [acknowledgement, answer] = app.sent().try_into().unwrap();
        assert!(acknowledgement.contains(r#""cancelled":true"#), "{acknowledgement}");
        assert!(answer.contains(r#""success":false,"cancelled":true"#), "{answer}");
        // A cancel that comes after the answer says as much.
        app.receive(&call("b"));
        app.respond(app.request(3), Response::Result(raw("1"))).unwrap();
        app.receive(&cancel("b"));
        let [answer, acknowledgement] = app.sent().try_into().unwrap();
        assert!(answer.contains(r#""success":true"#), "{answer}");
        assert!(acknowledgement.contains(r#""cancelled":false"#), "{acknowledgement}");
    }
}

#[test]
fn f72_a_family_speaks_the_revision_that_was_negotiated_on_both_sides() {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let chosen = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    let mut server = Host::new(Config::server(Dialect::MCP));
    assert_eq!(server.conn.config().dialect.name, "mcp");
    server.receive(initialize);
    assert_eq!(server.conn.config().dialect.name, "mcp", "it is not answered yet");
    server.respond(server.request(1), Response::Result(raw(chosen))).unwrap();
    assert_eq!(server.conn.config().dialect.name, "mcp-2025-11-25");
    // In that revision both sides may cancel.
    let call = server.sent_call("elicitation/create");
    assert_eq!(server.cancel(call), CancelOutcome::Sent);

    let mut client = Host::new(Config::client(Dialect::MCP));
    client.sent_call("initialize");
    client.receive(&result("1", chosen));
    assert_eq!(client.conn.config().dialect.name, "mcp-2025-11-25");
    client.receive(&request("5", "elicitation/create"));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    assert_eq!(client.receive(cancel), ["cancelled r1 peer"]);
    // An error settles nothing, and neither does a method that is no exchange.
    let mut client = Host::new(Config::client(Dialect::MCP));
    client.sent_call("initialize");
    client.receive(&support::error("1", -32_601));
    client.sent_call("tools/list");
    client.receive(&result("2", chosen));
    assert_eq!(client.conn.config().dialect.name, "mcp");
}

#[test]
fn g05_a_shutdown_is_told_as_a_shutdown() {
    for how in [Shutdown::CancelAll, Shutdown::Abandon] {
        let mut host = jsonrpc();
        host.receive(&request("1", "m"));
        let told = host.shutdown(how);
        assert_eq!(told[0], "cancelled r1 shutdown", "{how:?}");
    }
}

#[test]
fn g11_an_id_that_is_used_anew_is_a_new_request() {
    let mut app = Host::new(Config::server(Dialect::ABP));
    app.receive(r#"{"type":"initialize","id":"0","timestamp":0,"payload":{}}"#);
    app.respond(app.request(1), Response::Result(raw("{}"))).unwrap();
    let call =
        r#"{"type":"capabilities/call","id":"a","timestamp":0,"payload":{"capability":"a"}}"#;
    let cancel =
        r#"{"type":"capabilities/cancel","id":"x","timestamp":0,"payload":{"callId":"a"}}"#;
    app.receive(call);
    app.receive(cancel);
    app.respond(app.request(2), Response::Cancelled).unwrap();
    app.sent();
    // The first is remembered as cancelled, the second is not.
    app.receive(call);
    app.respond(app.request(3), Response::Result(raw("1"))).unwrap();
    app.sent();
    app.receive(cancel);
    let [acknowledgement] = app.sent().try_into().unwrap();
    assert!(acknowledgement.contains(r#""cancelled":false"#), "{acknowledgement}");
}

#[test]
fn every_error_tells_its_source() {
    use std::error::Error;
    let mut conn: Connection<&str> = Connection::new(Config::client(Dialect::ACP_V1));
    conn.handle_eof(NOW);
    let refused = conn.call("m", None, "mine", CallOptions::default(), NOW).unwrap_err();
    assert_eq!((refused.data, refused.reason), ("mine", Refusal::Closed));
    assert_eq!(refused.source().unwrap().to_string(), Refusal::Closed.to_string());
}
