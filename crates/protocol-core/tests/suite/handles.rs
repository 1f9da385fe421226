//! Handles name what they name on one connection, and nothing on any other (F77).

use crate::support;

use protocol_core::machine::Machine;
use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Config, Dialect, Facts, Refusal, RequestHandle,
    Response, Timestamp, WireId,
};
use support::{Host, fingerprint, millis, raw, request, result};

const NOW: Timestamp = Timestamp::ZERO;

/// Returns a host whose connection has this number, with one request and one call in flight, and nothing
/// unsent.
fn numbered(mut config: Config, number: u32) -> (Host, RequestHandle, CallId) {
    config.connection = number;
    let mut host = Host::new(config);
    let request = host.peer_requests("1");
    let call = host.sent_call_with("slow", CallOptions::default().idle_timeout(millis(1_000)));
    (host, request, call)
}

/// Tries everything that takes a handle with those of another connection.
fn try_all(host: &mut Host, request: RequestHandle, call: CallId) {
    let gone = Err(Refusal::AlreadyResponded);
    assert_eq!(host.respond(request, Response::Result(raw("1"))), gone);
    assert_eq!(host.respond(request, Response::Cancelled), gone);
    assert_eq!(host.conn.end_request(request, Some("why")), gone);
    assert_eq!(host.conn.release_request(request), gone);
    assert_eq!(host.conn.begin_operation(request, [7; 16]), Err(Refusal::AlreadyResponded));
    for cause in [Cause::Internal, Cause::Peer] {
        host.conn.cancel_request(request, cause, host.now);
    }
    let nested = host.try_call("nested", CallOptions::default().parent(request));
    assert_eq!(nested, Err(Refusal::UnknownParent));
    for cause in [Cause::Caller, Cause::Dropped] {
        assert_eq!(host.cancel_for(call, cause), CancelOutcome::AlreadySettled);
    }
    let outcome = host.conn.cancel_because(call, Cause::Caller, Some("why"), host.now);
    assert_eq!(outcome, CancelOutcome::AlreadySettled);
    host.conn.detach(call, host.now);
    host.conn.progress(call, host.now);
    assert_eq!(host.conn.request_data_mut(request), None);
    assert_eq!(host.conn.call_data_mut(call), None);
    assert_eq!(host.conn.operation(request), None);
    let machine = host.conn.machine();
    assert_eq!((machine.request_phase(request), machine.call_phase(call)), (None, None));
    assert_eq!((machine.request_cause(request), machine.call_cause(call)), (None, None));
    assert_eq!((machine.request_id(request), machine.call_refusal(call)), (None, None));
}

#[test]
fn f77_a_handle_of_another_connection_is_refused() {
    for (dialect, role) in [
        (Dialect::LSP_3_17, Config::server as fn(Dialect) -> Config),
        (Dialect::ACP_V1, Config::server),
        (Dialect::JSON_RPC, Config::client),
        (Dialect::MCP_2025_11_25, Config::client),
        // Here the server may end a request, and there a request may go on as an operation.
        (Dialect::MCP_2026_07_28, Config::server),
        (Dialect::ERLMCP, Config::server),
    ] {
        let (mut host, own_request, own_call) = numbered(role(dialect.clone()), 1);
        let (_, request, call) = numbered(role(dialect), 2);
        assert_eq!(own_request.number(), request.number(), "both are the first on their side");
        assert_eq!(own_call.number(), call.number());
        assert!(own_request != request && own_call != call);
        // An idle timeout that is restarted by a foreign call would show in the state.
        host.now = host.now + millis(10);
        let (before, timer) = (host.state(), host.next_timer());
        try_all(&mut host, request, call);
        assert_eq!((host.state(), host.next_timer()), (before, timer));
        assert_eq!((host.sent(), host.events()), (vec![], vec![]), "nothing is on the wire");
        // Those of its own still name what they named.
        assert_eq!(host.respond(own_request, Response::Result(raw("1"))), Ok(0));
        assert_eq!(host.receive(&result("1", "2")), ["settled slow result 2"]);
        assert_eq!(host.in_flight(), (0, 0));
    }
}

#[test]
fn f77_only_the_low_20_bits_of_a_number_tell_connections_apart() {
    let on = |number| numbered(Config::server(Dialect::ACP_V1), number);
    let [first, next, last, round] = [0, 1, (1 << 20) - 1, 1 << 20].map(on);
    assert!(first.1 < next.1 && next.1 < last.1, "handles have the order of their connections");
    assert!(first.2 < next.2 && next.2 < last.2);
    assert_eq!((first.1, first.2), (round.1, round.2));
    let (mut host, request, call) = last;
    assert_eq!((request.number(), call.number()), (1, 1), "no connection number is on the wire");
    assert_eq!(host.cancel(call), CancelOutcome::Sent);
    assert_eq!(host.sent(), [support::cancel("1")]);
    host.respond_ok(request);
    assert_eq!(host.sent(), [result("1", "null")]);
}

#[test]
fn f77_a_machine_refuses_the_handles_of_another_one() {
    let numbered = |number| {
        let mut config = Config::server(Dialect::ACP_V1);
        config.connection = number;
        let mut machine: Machine<&str, u8> = Machine::new(config);
        let id = WireId::from_json("1").unwrap();
        let request = machine.receive_request(Ok(id), &mut Facts::default().into()).unwrap();
        let options = CallOptions::default();
        let call = machine.call(&options).unwrap().commit(Facts::default(), "data", NOW);
        machine.transmitted(call.number());
        (machine, request, call)
    };
    let (mut machine, ..) = numbered(1);
    let (_, request, call) = numbered(2);
    let before = fingerprint(&machine);
    let token = WireId::from_json("\"t\"").unwrap();
    assert_eq!(machine.respond(request).err(), Some(Refusal::AlreadyResponded));
    assert_eq!(machine.end_request(request).err(), Some(Refusal::AlreadyResponded));
    assert_eq!(machine.release_request(request).err(), Some(Refusal::AlreadyResponded));
    assert_eq!(machine.begin_operation(request, token).err(), Some(Refusal::AlreadyResponded));
    machine.cancel_request(request, Cause::Internal, NOW);
    assert!(!machine.withholds_response(request));
    let options = CallOptions::default().parent(request);
    assert_eq!(machine.call(&options).err(), Some(Refusal::UnknownParent));
    assert_eq!(machine.cancel(call, Cause::Caller, NOW), CancelOutcome::AlreadySettled);
    machine.receive_end(call);
    machine.detach(call, NOW);
    machine.progress(call, NOW);
    assert!(machine.poll_action().is_none());
    assert_eq!(fingerprint(&machine), before);
}

/// A handle of a reused slot has a serial of its own, also on one connection.
#[test]
fn f77_a_handle_of_the_same_connection_outlives_what_it_named() {
    let (mut host, first, _) = numbered(Config::server(Dialect::ACP_V1), 1);
    host.respond_ok(first);
    host.receive(&request("1", "work"));
    assert_eq!(host.respond(first, Response::Cancelled), Err(Refusal::AlreadyResponded));
    assert_eq!(host.in_flight(), (1, 1));
}
