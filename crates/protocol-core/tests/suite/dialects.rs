//! Rules of dialects that a transcript can't show. Refused cancels change nothing, silence needs no room,
//! memories are bounded, and roles and capabilities add up.

use crate::support::{Host, error, millis, raw, request, result};
use protocol_core::{
    CallOptions, CancelOutcome, CancelRefusal, CancelRule, Cancellers, Cause, Config, Connection,
    Dialect, Event, Grace, Refusal, Response, ResponseRule, Role, Shutdown, Timestamp,
    TransmitKind, Uncancellable, WireId,
};

const OPEN: &str = r#"{"clientCapabilities":{"cancellation":{"request":true}}}"#;
const OPENED: &str = r#"{"agentCapabilities":{"cancellation":{"request":true}}}"#;

fn host(dialect: Dialect, role: Role) -> Host {
    with(dialect, role, |_| ())
}

fn with(dialect: Dialect, role: Role, change: impl FnOnce(&mut Config)) -> Host {
    let mut config = Config::client(dialect);
    config.role = role;
    change(&mut config);
    Host::new(config)
}

fn cancelled(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

fn request_with(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn progress(host: &mut Host, token: &str) -> Result<(), Refusal> {
    let params = format!(r#"{{"progressToken":{token},"progress":1}}"#);
    host.conn.notify("notifications/progress", Some(raw(&params)))
}

// Refused cancels

/// MCP 2025-11-25 with tasks that nothing stops.
fn without_stop() -> Dialect {
    let mut dialect = Dialect::MCP_2025_11_25;
    dialect.work = vec![].into();
    dialect
}

#[test]
fn g10_refused_cancels_leave_everything_as_it_was() {
    let task = r#"{"task":{}}"#;
    for (dialect, role, method, params, why) in [
        (Dialect::ACP_DRAFT, Role::Client, "work", "{}", CancelRefusal::BeforeExchange),
        (Dialect::ACP_DRAFT, Role::Server, "work", "{}", CancelRefusal::BeforeExchange),
        (Dialect::ACP_DRAFT, Role::Client, "initialize", OPEN, CancelRefusal::Method),
        (Dialect::MCP_2025_06_18, Role::Client, "initialize", "{}", CancelRefusal::Method),
        (without_stop(), Role::Client, "tools/call", task, CancelRefusal::Params),
        (without_stop(), Role::Server, "elicitation/create", task, CancelRefusal::Params),
        (Dialect::MCP, Role::Server, "roots/list", "{}", CancelRefusal::NotOurs),
        (Dialect::MCP_2025_11_25_HTTP, Role::Client, "tools/call", task, CancelRefusal::Params),
    ] {
        let mut host = host(dialect.clone(), role);
        let options = CallOptions::default().timeout(millis(50)).idle_timeout(millis(40));
        let call = host.try_call_with(method, Some(raw(params)), options).unwrap();
        assert_eq!(host.sent().len(), 1);
        let before = host.state();
        for cause in [Cause::Caller, Cause::Parent, Cause::Deadline, Cause::Internal] {
            assert_eq!(host.cancel_for(call, cause), CancelOutcome::Refused(why), "{dialect:?}");
            let outcome = host.conn.cancel_because(call, cause, Some("why"), host.now);
            assert_eq!(outcome, CancelOutcome::Refused(why));
            assert_eq!(host.state(), before);
        }
        assert_eq!(host.receive(&result("1", "7")), [format!("settled {method} result 7")]);
        assert_eq!(host.cancel(call), CancelOutcome::AlreadySettled);
    }
}

#[test]
fn g05_uncancellable_calls_settle_here_and_tell_nobody() {
    let mut client = host(Dialect::MCP_2025_06_18, Role::Client);
    client.sent_call_with("initialize", CallOptions::default().timeout(millis(10)));
    let dropped = client.sent_call("initialize");
    assert_eq!(
        client.cancel_for(dropped, Cause::Dropped),
        CancelOutcome::Refused(CancelRefusal::Method)
    );
    assert_eq!(client.next_timer(), Some((10, "deadline")));
    assert_eq!(client.advance(10), ["settled initialize timed_out deadline"]);
    assert_eq!(client.next_timer(), Some((30_000, "grace")), "a dropped call is released (G12)");
    assert_eq!(client.advance(30_000), ["settled initialize cancelled dropped"]);
    client.sent_call("initialize");
    assert!(client.shutdown(Shutdown::CancelAll).is_empty());
    assert_eq!(
        client.advance(30_000),
        ["settled initialize cancelled shutdown", "closed shutdown"]
    );
    assert!(client.sent().is_empty());
}

#[test]
fn g06_an_uncancellable_call_outlives_its_parent() {
    let mut dialect = Dialect::MCP_2025_06_18;
    dialect.uncancellable =
        Uncancellable { methods: vec!["keep".into()].into(), params: vec![].into() };
    let mut server = host(dialect, Role::Server);
    let parent = server.peer_requests("1");
    let options = CallOptions::default().parent(parent);
    server.sent_call_with("keep", options);
    server.sent_call_with("stop", options);
    assert_eq!(
        server.receive(&cancelled("1")),
        ["cancelled r1 peer", "settled stop cancelled parent"]
    );
    assert_eq!(server.sent(), [cancelled("2")]);
    server.respond_ok(parent);
    assert!(server.events().is_empty(), "the tree is not settled yet");
    assert_eq!(server.receive(&result("1", "0")), ["settled keep result 0", "tree_settled r1"]);
    let late = server.call_with("keep", CallOptions::default());
    assert_eq!(server.cancel(late), CancelOutcome::Withdrawn, "unsent, it takes no cancel (G4)");
}

#[test]
fn a_cancel_that_was_sent_stays_sent_when_the_peer_takes_its_word_back() {
    let mut client = host(Dialect::ACP_DRAFT, Role::Client);
    for (id, answer) in [("1", OPENED), ("3", "{}")] {
        client.try_call_with("initialize", Some(raw(OPEN)), CallOptions::default()).unwrap();
        client.sent();
        client.receive(&result(id, answer));
        if id == "1" {
            let call = client.sent_call("work");
            assert_eq!(client.cancel(call), CancelOutcome::Sent);
        }
    }
    let first = client.conn.machine().calls().next().map(|(call, _)| call).unwrap();
    assert_eq!(client.cancel(first), CancelOutcome::AlreadySent);
    client.sent();
    let next = client.sent_call("next");
    assert_eq!(client.cancel(next), CancelOutcome::Refused(CancelRefusal::Undeclared));
    assert_eq!(client.receive(&error("2", -32800)).len(), 1);
}

#[test]
fn send_cancel_request_asks_whether_a_cancel_may_be_sent() {
    let id = WireId::from_json("1").unwrap();
    let refused = |dialect, role| host(dialect, role).conn.send_cancel_request(&id);
    let uncancellable = |why| Err(Refusal::Uncancellable(why));
    assert_eq!(
        refused(Dialect::ACP_DRAFT, Role::Client),
        uncancellable(CancelRefusal::BeforeExchange)
    );
    assert_eq!(refused(Dialect::MCP, Role::Server), uncancellable(CancelRefusal::NotOurs));
    assert_eq!(refused(Dialect::MCP_HTTP, Role::Client), Err(Refusal::NoCancel));
    assert_eq!(refused(Dialect::MCP, Role::Client), Ok(()));
    let mut client = host(Dialect::MCP_2024_11_05, Role::Client);
    client.sent_call("initialize");
    assert_eq!(client.conn.send_cancel_request(&id), uncancellable(CancelRefusal::Method));
}

// Capabilities and roles

/// Opens a client and an agent that declare these capabilities. Returns whether each of them cancels and obeys.
fn negotiated(open: &str, opened: &str) -> [(bool, bool); 2] {
    let mut client = host(Dialect::ACP_DRAFT, Role::Client);
    client.try_call_with("initialize", Some(raw(open)), CallOptions::default()).unwrap();
    let mut agent = host(Dialect::ACP_DRAFT, Role::Server);
    agent.receive(&client.sent()[0]);
    let request = agent.request(1);
    agent.respond(request, Response::Result(raw(opened))).unwrap();
    client.receive(&agent.sent()[0]);
    [client, agent].map(|mut host| {
        let call = host.sent_call("work");
        let cancels = host.cancel(call) == CancelOutcome::Sent;
        host.receive(&request_with("77", "work", "{}"));
        let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":77}}"#;
        (cancels, !host.receive(cancel).is_empty())
    })
}

#[test]
fn capabilities_are_read_in_both_directions() {
    assert_eq!(negotiated(OPEN, OPENED), [(true, true), (true, true)]);
    assert_eq!(negotiated("{}", OPENED), [(true, false), (false, true)]);
    assert_eq!(negotiated(OPEN, "{}"), [(false, true), (true, false)]);
    assert_eq!(negotiated("{}", "{}"), [(false, false), (false, false)]);
}

#[test]
fn g09_hostile_capabilities_declare_nothing() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for value in ["null", "1", "\"true\"", "[true]", "{}", "{\"request\":{}}", "true", &deep] {
        let open = format!(r#"{{"clientCapabilities":{{"cancellation":{value}}}}}"#);
        let opened = format!(r#"{{"agentCapabilities":{{"cancellation":{value}}}}}"#);
        assert_eq!(negotiated(&open, &opened), [(false, false), (false, false)], "{value}");
        assert_eq!(negotiated("[1]", value), [(false, false), (false, false)], "{value}");
    }
    // Keys are compared by what they say, and the last of two counts.
    let escaped = r#"{"agentCapabilities":{"cancell\u0061tion":{"request":false,"request":true}}}"#;
    assert_eq!(negotiated(OPEN, escaped), [(true, true), (true, true)]);
}

#[test]
fn an_answer_that_is_withheld_exchanges_nothing() {
    let mut dialect = Dialect::ACP_DRAFT;
    dialect.response = ResponseRule::Silent;
    let mut agent = host(dialect, Role::Server);
    agent.receive(&request_with("0", "initialize", OPEN));
    let request = agent.request(1);
    agent.conn.cancel_request(request, Cause::Peer, agent.now);
    agent.respond(request, Response::Result(raw(OPENED))).unwrap();
    assert_eq!(agent.conn.machine().cancel_refusal(), Some(CancelRefusal::BeforeExchange));
}

#[test]
fn g04_no_cancel_overtakes_a_batch_with_the_exchange_in_it() {
    let mut dialect = Dialect::ACP_DRAFT;
    dialect.batches = Some(vec![].into());
    let mut agent = host(dialect, Role::Server);
    let early = agent.sent_call("early");
    let (open, other) = (request_with("0", "initialize", OPEN), request("1", "work"));
    agent.receive(&format!("[{open},{other}]"));
    let (open, other) = (agent.request(1), agent.request(2));
    agent.respond(open, Response::Result(raw(OPENED))).unwrap();
    assert_eq!(agent.cancel(early), CancelOutcome::Refused(CancelRefusal::BeforeExchange));
    agent.respond_ok(other);
    assert_eq!(agent.cancel(early), CancelOutcome::Sent);
    let kinds: Vec<_> = agent.sent_with_kinds().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [TransmitKind::Response, TransmitKind::Cancel]);
}

#[test]
fn g04_each_of_two_batches_concludes_what_its_own_answers_say() {
    let mut dialect = Dialect::ACP_DRAFT;
    dialect.batches = Some(vec![].into());
    let mut agent = host(dialect, Role::Server);
    let early = agent.sent_call("early");
    for (open, other) in [("0", "1"), ("2", "3")] {
        let (open, other) = (request_with(open, "initialize", OPEN), request(other, "work"));
        agent.receive(&format!("[{open},{other}]"));
    }
    for open in [agent.request(1), agent.request(3)] {
        agent.respond(open, Response::Result(raw(OPENED))).unwrap();
    }
    agent.respond_ok(agent.request(2));
    assert_eq!(agent.sent().len(), 1, "the other batch is not complete");
    assert_eq!(agent.cancel(early), CancelOutcome::Sent);
}

#[test]
fn g04_cancels_overtake_the_rest_once_the_answer_to_the_exchange_has_left() {
    let mut agent = host(Dialect::ACP_DRAFT, Role::Server);
    let kinds = |agent: &mut Host| -> Vec<_> {
        agent.sent_with_kinds().into_iter().map(|(kind, _)| kind).collect()
    };
    let early = agent.sent_call("early");
    agent.receive(&request_with("0", "initialize", OPEN));
    agent.conn.notify("before", None).unwrap();
    let open = agent.request(1);
    agent.respond(open, Response::Result(raw(OPENED))).unwrap();
    agent.send_one().expect("the notification");
    assert_eq!(agent.cancel(early), CancelOutcome::Sent);
    assert_eq!(kinds(&mut agent), [TransmitKind::Response, TransmitKind::Cancel]);
    let late = agent.sent_call("late");
    agent.conn.notify("bulk", None).unwrap();
    assert_eq!(agent.cancel(late), CancelOutcome::Sent);
    assert_eq!(kinds(&mut agent), [TransmitKind::Cancel, TransmitKind::Notification]);
}

#[test]
fn an_exchange_never_lifts_what_a_role_may_not_do() {
    let mut dialect = Dialect::ACP_DRAFT;
    dialect.cancellers = Cancellers::Client { server_may_end: vec![].into() };
    let mut agent = host(dialect.clone(), Role::Server);
    agent.receive(&request_with("0", "initialize", OPEN));
    let open = agent.request(1);
    agent.respond(open, Response::Result(raw(OPENED))).unwrap();
    let call = agent.sent_call("work");
    assert_eq!(agent.cancel(call), CancelOutcome::Refused(CancelRefusal::NotOurs));

    let mut client = host(dialect, Role::Client);
    client.try_call_with("initialize", Some(raw(OPEN)), CallOptions::default()).unwrap();
    client.sent();
    client.receive(&result("1", OPENED));
    client.receive(&request("5", "work"));
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":5}}"#;
    assert!(client.receive(cancel).is_empty(), "a server may not cancel");
}

#[test]
fn b13_a_clients_cancel_never_ends_a_servers_call() {
    let mut server = host(Dialect::MCP, Role::Server);
    server.sent_call("subscriptions/listen");
    server.receive(&request("1", "work"));
    assert_eq!(server.receive(&cancelled("1")), ["cancelled r1 peer"]);
    assert_eq!(server.in_flight(), (1, 1));
}

/// The right of a server to end a call is decided when the call is made.
#[test]
fn b13_a_server_ends_a_call_that_was_made_before_another_revision_was_settled() {
    let mut client = host(Dialect::MCP, Role::Client);
    client.sent_call("subscriptions/listen");
    client.sent_call("initialize");
    client.receive(&result("2", r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#));
    assert_eq!(client.conn.config().dialect.name, "mcp-2025-11-25");
    assert_eq!(client.receive(&cancelled("1")), ["settled subscriptions/listen cancelled peer"]);
}

#[test]
fn f72_only_the_answer_of_the_exchange_settles_the_revision() {
    let settled = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    let mut client = host(Dialect::MCP, Role::Client);
    client.sent_call("tools/call");
    client.receive(&result("1", settled));
    assert_eq!(client.conn.config().dialect, Dialect::MCP);

    let mut server = host(Dialect::MCP, Role::Server);
    let asked = server.peer_requests("1");
    server.respond(asked, Response::Result(raw(settled))).unwrap();
    assert_eq!(server.conn.config().dialect, Dialect::MCP);

    // Nor does that of another request which opens something.
    let mut dialect = Dialect::MCP;
    dialect.session = Some("hello".into());
    let mut client = host(dialect.clone(), Role::Client);
    client.sent_call("hello");
    client.receive(&result("1", settled));
    assert_eq!(client.conn.config().dialect, dialect);
}

// Silence

#[test]
fn g02_silence_needs_no_room() {
    let mut server = with(Dialect::MCP, Role::Server, |config| config.limits.unsent_bytes = 100);
    let (first, second) = (server.peer_requests("1"), server.peer_requests("2"));
    server.receive(&cancelled("1"));
    let fill = format!("[\"{}\"]", "x".repeat(40));
    server.conn.notify("m", Some(raw(&fill))).unwrap();
    assert_eq!(server.respond(second, Response::Result(raw("1"))), Err(Refusal::OutboxFull));
    let long = format!("\"{}\"", "x".repeat(1_000));
    assert_eq!(server.respond(first, Response::Result(raw(&long))), Ok(0));
    assert_eq!(server.respond(first, Response::Cancelled), Err(Refusal::AlreadyResponded));
}

#[test]
fn progress_is_withheld_while_all_its_requests_are_cancelled() {
    let mut server = host(Dialect::MCP, Role::Server);
    let params = r#"{"_meta":{"progressToken":"t"}}"#;
    server.receive(&request_with("1", "tools/call", params));
    server.receive(&request_with("2", "tools/call", params));
    server.receive(&cancelled("1"));
    assert_eq!(progress(&mut server, "\"t\""), Ok(()), "another request has this token");
    server.receive(&cancelled("2"));
    let before = server.state();
    assert_eq!(progress(&mut server, "\"t\""), Err(Refusal::Withheld));
    assert_eq!(progress(&mut server, r#""\u0074""#), Err(Refusal::Withheld));
    assert_eq!(server.state(), before, "a refusal changes nothing (G10)");
    assert_eq!(server.conn.notify("log", Some(raw(params))), Ok(()));
}

#[test]
fn g08_withheld_tokens_are_bounded() {
    let mut server = with(Dialect::MCP, Role::Server, |config| {
        config.limits.abandoned_ids = 2;
        config.limits.id_bytes = 16;
    });
    for number in 1..=3 {
        let id = number.to_string();
        let params = format!(r#"{{"_meta":{{"progressToken":{number}}}}}"#);
        server.receive(&request_with(&id, "tools/call", &params));
        server.receive(&cancelled(&id));
        let request = server.request(number);
        server.respond_ok(request);
    }
    let withheld: Vec<_> =
        ["1", "2", "3"].map(|token| progress(&mut server, token).is_err()).into();
    assert_eq!(withheld, [false, true, true], "the oldest is forgotten first");
    let long = "x".repeat(17);
    let params = format!(r#"{{"_meta":{{"progressToken":"{long}"}}}}"#);
    server.receive(&request_with("9", "tools/call", &params));
    server.receive(&cancelled("9"));
    assert_eq!(progress(&mut server, &format!("\"{long}\"")), Ok(()), "too long to be followed");
}

#[test]
fn a_reason_leaves_with_its_cancel_also_when_the_call_settles_first() {
    for grace in [None, Some(Grace::Await)] {
        let mut client = host(Dialect::MCP, Role::Client);
        let call = client.sent_call_with("work", CallOptions::default().grace(grace));
        client.conn.cancel_because(call, Cause::Caller, Some("a \"b\""), client.now);
        assert!(client.sent()[0].contains(r#""reason":"a \"b\"""#));
    }
}

// Early cancels

#[test]
fn g03_an_early_cancel_marks_its_request_before_it_is_delivered() {
    let dialect = Dialect::MCP_2025_06_18_HTTP;
    let config = Config::server(dialect);
    let mut server: Connection<String, u32> = Connection::new(config);
    let now = Timestamp::ZERO;
    assert!(server.receive(cancelled("\"a\"").as_bytes(), now).is_none());
    let message = request("\"\\u0061\"", "work");
    let event = server.receive(message.as_bytes(), now).map(Event::into_owned);
    let (request, _) = server.machine().requests().next().unwrap();
    let phase = server.machine().request_phase(request);
    assert_eq!(phase, Some(protocol_core::RequestPhase::Silenced), "before any event is polled");
    assert!(matches!(event, Some(Event::Request { .. })));
    assert!(matches!(server.poll_event(), Some(Event::Cancelled { .. })));
    assert!(server.poll_event().is_none());
}

#[test]
fn limits_early_cancels_forgets_the_oldest() {
    let mut server = with(Dialect::MCP_2025_06_18_HTTP, Role::Server, |config| {
        config.limits.early_cancels = 2;
    });
    for id in ["1", "2", "2", "3"] {
        assert!(server.receive(&cancelled(id)).is_empty());
    }
    let marked = ["1", "2", "3"].map(|id| server.receive(&request(id, "work")).len() == 2);
    assert_eq!(marked, [false, true, true]);

    let mut none = with(Dialect::MCP_2025_06_18_HTTP, Role::Server, |config| {
        config.limits.early_cancels = 0;
    });
    none.receive(&cancelled("1"));
    assert_eq!(none.receive(&request("1", "work")).len(), 1);
}

#[test]
fn g08_early_cancels_are_forgotten_in_their_order_though_one_of_them_met_its_request() {
    let mut server = with(Dialect::MCP_2025_06_18_HTTP, Role::Server, |config| {
        config.limits.early_cancels = 2;
    });
    server.receive(&cancelled("1"));
    server.receive(&cancelled("2"));
    assert_eq!(server.receive(&request("1", "work")).len(), 2);
    server.receive(&cancelled("3"));
    server.receive(&cancelled("4"));
    let marked = ["2", "3", "4"].map(|id| server.receive(&request(id, "work")).len() == 2);
    assert_eq!(marked, [false, true, true]);
}

#[test]
fn an_early_cancel_goes_with_a_request_that_is_refused() {
    let mut server = with(Dialect::MCP_2025_06_18_HTTP, Role::Server, |config| {
        config.limits.requests = 1;
    });
    let first = server.peer_requests("1");
    server.receive(&cancelled("2"));
    assert_eq!(server.receive(&request("2", "work")), ["violation too_many_requests 2"]);
    server.respond_ok(first);
    assert_eq!(server.receive(&request("2", "work")), ["request r2 2 work"]);
}

#[test]
fn an_early_cancel_of_what_can_not_be_cancelled_is_ignored() {
    let mut server = host(Dialect::MCP_2025_06_18_HTTP, Role::Server);
    server.receive(&cancelled("0"));
    assert_eq!(server.receive(&request("0", "initialize")), ["request r1 0 initialize"]);
}

// The end of input

#[test]
fn g05_what_the_end_of_input_left_running_is_cancelled_by_a_shutdown() {
    for how in [Shutdown::CancelAll, Shutdown::Abandon] {
        let mut dialect = Dialect::JSON_RPC;
        dialect.closed_stream = None;
        let mut server = host(dialect, Role::Server);
        server.peer_requests("1");
        assert_eq!(server.eof(), ["closed peer_gone"]);
        let events = server.shutdown(how);
        assert_eq!(events, [""; 0], "{how:?}: nothing is told after the end");
        let cause = server.conn.machine().request_cause(server.request(1));
        assert_eq!(cause, Some(Cause::Shutdown), "{how:?}");
    }
}

#[test]
fn g07_the_end_of_input_means_what_the_dialect_says() {
    for (closed_stream, events) in [
        (Some(Cause::PeerGone), vec!["cancelled r1 peer_gone", "closed peer_gone"]),
        (Some(Cause::Peer), vec!["cancelled r1 peer", "closed peer_gone"]),
        (None, vec!["closed peer_gone"]),
    ] {
        let mut dialect = Dialect::ACP_V1;
        dialect.closed_stream = closed_stream;
        let mut server = host(dialect, Role::Server);
        let request = server.peer_requests("1");
        assert_eq!(server.eof(), events);
        server.respond_ok(request);
        assert_eq!(server.sent(), [result("1", "null")], "answered all the same");
    }
}

#[test]
fn g07_a_peer_that_is_gone_asked_for_no_silence() {
    let mut dialect = Dialect::ACP_V1;
    dialect.response = ResponseRule::Silent;
    let mut server = host(dialect, Role::Server);
    let request = server.peer_requests("1");
    assert_eq!(server.eof(), ["cancelled r1 peer_gone", "closed peer_gone"]);
    server.respond_ok(request);
    assert_eq!(server.sent(), [result("1", "null")], "it may still be reading");
}

#[test]
fn g07_only_the_end_of_input_is_a_closed_stream() {
    let mut dialect = Dialect::ACP_V1;
    dialect.closed_stream = None;
    let mut server = with(dialect, Role::Server, |config| {
        config.limits.requests = 1;
        config.close_over_limit = true;
    });
    server.peer_requests("1");
    assert_eq!(
        server.receive(&request("2", "work")),
        ["violation too_many_requests 2", "cancelled r1 internal", "closed over_limit"]
    );
}

#[test]
fn g07_an_abandoned_connection_is_silent_also_after_the_end_of_input() {
    let mut server = host(Dialect::MCP_2025_06_18_HTTP, Role::Server);
    let request = server.peer_requests("1");
    server.eof();
    assert!(server.shutdown(Shutdown::Abandon).is_empty(), "Closed was the last event");
    let phase = server.conn.machine().request_phase(request);
    assert_eq!(phase, Some(protocol_core::RequestPhase::Silenced));
    server.respond_ok(request);
    assert!(server.sent().is_empty());
}

/// The peer of MCP asked for no silence: a cancellation of our own, a shutdown among them, has a response.

// Requests that the server ends

#[test]
fn end_request_gives_the_data_back_once_and_waits_its_turn() {
    let mut server = with(Dialect::MCP, Role::Server, |config| config.limits.unsent_bytes = 150);
    server.receive(&request("\"s\"", "subscriptions/listen"));
    let listen = server.request(1);
    *server.conn.request_data_mut(listen).unwrap() = 7;
    let options = CallOptions::default().parent(listen);
    let child = server.sent_call_with("roots/list", options);
    let fill = format!("[\"{}\"]", "x".repeat(60));
    server.conn.notify("m", Some(raw(&fill))).unwrap();
    let before = server.state();
    assert_eq!(server.conn.end_request(listen, Some("over")), Err(Refusal::OutboxFull));
    assert_eq!(server.state(), before, "a refusal changes nothing (G10)");
    server.sent();
    assert_eq!(server.events(), ["ready"]);
    assert_eq!(server.conn.end_request(listen, None), Ok(7));
    assert_eq!(server.conn.end_request(listen, None), Err(Refusal::AlreadyResponded));
    assert_eq!(server.respond(listen, Response::Cancelled), Err(Refusal::AlreadyResponded));
    assert_eq!(server.sent_with_kinds(), [(TransmitKind::Cancel, cancelled("\"s\""))]);
    assert!(server.conn.machine().call_phase(child).is_some(), "as an answer, it ends no calls");
    assert_eq!(
        server.receive(&result("1", "0")),
        ["settled roots/list result 0", "tree_settled r1"]
    );
}

#[test]
fn end_request_tells_nothing_to_the_peer_that_cancelled_it() {
    let mut server = host(Dialect::MCP, Role::Server);
    server.receive(&request("1", "subscriptions/listen"));
    server.receive(&cancelled("1"));
    let listen = server.request(1);
    assert_eq!(server.conn.end_request(listen, None), Ok(0));
    assert_eq!(server.sent(), [""; 0]);
}

#[test]
fn end_request_is_the_servers_and_of_the_listed_methods() {
    let end = |dialect, role, method| {
        let mut host = host(dialect, role);
        host.receive(&request("1", method));
        let request = host.request(1);
        host.conn.end_request(request, None)
    };
    let listen = "subscriptions/listen";
    assert_eq!(end(Dialect::MCP, Role::Server, listen), Ok(0));
    assert_eq!(end(Dialect::MCP, Role::Client, listen), Err(Refusal::NotOursToEnd));
    assert_eq!(end(Dialect::MCP, Role::Server, "tools/call"), Err(Refusal::NotOursToEnd));
    assert_eq!(end(Dialect::MCP_2025_11_25, Role::Server, listen), Err(Refusal::NotOursToEnd));
    assert_eq!(end(Dialect::MCP_HTTP, Role::Server, listen), Ok(0));
    let mut local = Dialect::MCP;
    local.cancel = CancelRule::Local;
    assert_eq!(end(local, Role::Server, listen), Err(Refusal::NoCancel));
}
