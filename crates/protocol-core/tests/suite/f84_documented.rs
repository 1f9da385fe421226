//! Documented behaviour that once differed from its documents: of time that goes back (F82), of revisions
//! and of the outbox (F84).

use crate::support::{Host, limited, millis, raw, request, result};
use protocol_core::machine::Machine;
use protocol_core::{
    CallId, CallOptions, CancelOutcome, CancelRefusal, CapabilityRule, Config, Connection, Dialect,
    Facts, Grace, Refusal, Response, Timestamp, WireId,
};

/// A timer counts from the latest time that the connection has seen (K3).
#[test]
fn f82_time_that_goes_back_fires_no_timer_early() {
    let (latest, earlier) = (1_000_000, 900_000);
    let options = CallOptions::default();
    let graceful = options.grace(Grace::Settle(millis(50)));
    type Start = fn(&mut Host, CallId);
    let nothing: Start = |_, _| ();
    for (options, start, told) in [
        (options.timeout(millis(50)), nothing, "settled m timed_out deadline"),
        (options.idle_timeout(millis(50)), nothing, "settled m timed_out idle_timeout"),
        (options.hard_cap(millis(50)), nothing, "settled m timed_out hard_cap"),
        (
            options.idle_timeout(millis(50)),
            |host, call| host.conn.progress(call, host.now),
            "settled m timed_out idle_timeout",
        ),
        (
            graceful,
            |host, call| assert_eq!(host.cancel(call), CancelOutcome::Sent),
            "settled m cancelled caller",
        ),
        (options, |host, call| host.conn.detach(call, host.now), "settled m timed_out dropped"),
    ] {
        let mut host = limited(|config| config.abandoned_grace = millis(50));
        host.now = Timestamp::from_millis(latest);
        assert_eq!(host.advance(0), [""; 0]);
        host.now = Timestamp::from_millis(earlier);
        let call = host.sent_call_with("m", options);
        start(&mut host, call);
        assert_eq!(host.next_timer().unwrap().0, latest + 50, "{told}");
        for now in [latest, latest + 49, earlier, 0] {
            host.now = Timestamp::from_millis(now);
            assert_eq!(host.advance(0), [""; 0], "{told} at {now}");
        }
        host.now = Timestamp::from_millis(latest + 50);
        assert_eq!(host.advance(0), [told]);
    }
}

#[test]
fn f82_the_time_of_a_machine_never_goes_back() {
    let mut machine: Machine<(), ()> = Machine::new(Config::client(Dialect::LSP_3_17));
    let (latest, earlier) = (Timestamp::from_millis(1_000_000), Timestamp::from_millis(900_000));
    machine.handle_timeout(latest);
    machine.handle_timeout(earlier);
    assert_eq!(machine.now(), latest);
    let options = CallOptions::default().timeout(millis(60_000));
    machine.call(&options).unwrap().commit(Facts::default(), (), earlier);
    assert_eq!(machine.poll_timeout().unwrap().0, latest + millis(60_000));
    machine.handle_timeout(latest);
    assert_eq!((machine.calls_in_flight(), machine.poll_action().is_none()), (1, true));
    machine.handle_timeout(latest + millis(60_000));
    assert_eq!(machine.calls_in_flight(), 0);
}

/// Returns a family that needs no consent, with two revisions that need it.
fn family() -> Dialect {
    let consent = |exchange: &'static str| {
        let mut revision = Dialect::MCP_2025_11_25;
        revision.capability = CapabilityRule::Declared {
            exchange: exchange.into(),
            client: vec!["c".into()].into(),
            server: vec!["s".into()].into(),
            later: None,
        };
        revision
    };
    let mut family = Dialect::MCP;
    family.revisions = vec![("x".into(), consent("hello")), ("y".into(), consent("greet"))].into();
    family
}

#[test]
fn f84_a_revision_with_another_rule_of_consent_begins_without_any() {
    let settled = |revision: &str| format!(r#"{{"protocolVersion":"{revision}"}}"#);
    let consent = |host: &mut Host, exchange: &str| {
        let declared = Some(raw(r#"{"c":true}"#));
        let call = host.try_call_with(exchange, declared, CallOptions::default()).unwrap();
        host.sent();
        host.receive(&result(&call.number().to_string(), r#"{"s":true}"#));
    };
    let negotiate = |host: &mut Host, revision: &str| {
        let call = host.sent_call("initialize");
        host.receive(&result(&call.number().to_string(), &settled(revision)));
    };
    let refused = CancelOutcome::Refused(CancelRefusal::BeforeExchange);
    let mut client = Host::new(Config::client(family()));
    let call = client.sent_call("m");
    assert_eq!(client.cancel(call), CancelOutcome::Sent, "the family needs none");
    negotiate(&mut client, "x");
    let call = client.sent_call("m");
    assert_eq!(client.cancel(call), refused);
    client.receive(&request("7", "m"));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(client.receive(cancel), [""; 0], "the peer has no consent either");
    consent(&mut client, "greet");
    assert_eq!(client.cancel(call), refused, "that is the exchange of another revision");
    consent(&mut client, "hello");
    client.sent();
    assert_eq!(client.cancel(call), CancelOutcome::Sent);
    assert_eq!(client.events(), ["settled m cancelled caller"]);
    assert_eq!(client.receive(cancel), ["cancelled r1 peer"]);
    // The same rule keeps its consent, and another one has none.
    negotiate(&mut client, "x");
    let call = client.sent_call("m");
    assert_eq!(client.cancel(call), CancelOutcome::Sent);
    negotiate(&mut client, "y");
    let call = client.sent_call("m");
    assert_eq!(client.cancel(call), refused);

    // And so it is on the side that responds to the exchange.
    let mut server = Host::new(Config::server(family()));
    server.receive(&request("1", "initialize"));
    let exchange = server.request(1);
    server.respond(exchange, Response::Result(raw(&settled("x")))).unwrap();
    server.sent();
    let call = server.sent_call("elicitation/create");
    assert_eq!(server.cancel(call), refused);
}

#[test]
fn f84_poll_transmit_appends_and_a_long_message_replaces_an_empty_buffer() {
    let mut conn: Connection<u8> = Connection::new(Config::client(Dialect::ACP_V1));
    let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
    let empty = r#"{"jsonrpc":"2.0","method":"m","params":}"#.len();
    for (before, len, is_replaced) in [
        ("", 1_000, false),
        ("", (4 << 10) - 1, false),
        ("", 4 << 10, true),
        ("before", 4 << 10, false),
        ("before", 1 << 20, false),
    ] {
        conn.notify("m", Some(raw(&long(len - empty)))).unwrap();
        let mut out = Vec::with_capacity(2 << 20);
        out.extend_from_slice(before.as_bytes());
        let buffer = (out.as_ptr(), out.capacity());
        let transmit = conn.poll_transmit(&mut out).unwrap();
        assert_eq!((transmit.start, transmit.len), (before.len(), len));
        assert!(out.starts_with(before.as_bytes()), "it appends");
        assert!(transmit.message(&out).ends_with(b"x\"]}"));
        assert_eq!((out.as_ptr(), out.capacity()) != buffer, is_replaced, "{before:?} {len}");
    }
}

#[test]
fn f84_a_small_refused_message_waits_for_its_own_room() {
    let empty = r#"{"jsonrpc":"2.0","method":"m","params":}"#.len();
    let of = |bytes: usize| format!("[{}]", "1".repeat(bytes - empty - 2));
    let notify = |host: &mut Host, bytes| host.conn.notify("m", Some(raw(&of(bytes))));
    for order in [[50, 900], [900, 50]] {
        let mut host = limited(|config| config.limits.unsent_bytes = 1_000);
        for _ in 0..10 {
            notify(&mut host, 100).unwrap();
        }
        for bytes in order {
            assert_eq!(notify(&mut host, bytes), Err(Refusal::OutboxFull));
        }
        host.send_one();
        assert_eq!(host.events(), ["ready"], "100 bytes are enough for the small one");
        notify(&mut host, 50).unwrap();
        assert_eq!(notify(&mut host, 900), Err(Refusal::OutboxFull));
        for _ in 0..8 {
            host.send_one();
            assert_eq!(host.events(), [""; 0], "the other one has no room yet");
        }
        host.send_one();
        assert_eq!(host.events(), ["ready"]);
        notify(&mut host, 900).unwrap();
    }
}

/// No message ever has a place in such an outbox, so waiting for one would never end.
#[test]
fn f84_where_no_message_may_wait_each_is_too_large() {
    let mut host = limited(|config| config.limits.unsent_messages = 0);
    let request = host.peer_requests("7");
    let before = host.state();
    assert_eq!(host.conn.notify("m", None), Err(Refusal::TooLarge));
    assert_eq!(host.try_call("m", CallOptions::default()), Err(Refusal::TooLarge));
    let id = WireId::from_json("7").unwrap();
    assert_eq!(host.conn.send_cancel_request(&id), Err(Refusal::TooLarge));
    assert_eq!(host.respond(request, Response::Result(raw("1"))), Err(Refusal::TooLarge));
    assert_eq!((host.state(), host.events(), host.sent()), (before, vec![], vec![]));
    assert_eq!(host.conn.release_request(request), Ok(0), "only a release ends it");
    assert_eq!(host.in_flight(), (0, 0));
}
