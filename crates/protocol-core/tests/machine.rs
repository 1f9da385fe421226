//! The machine alone: decisions without bytes, to search its state space; and what types promise.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::machine::{
    Action, Answer, CALL_TABLE, CallInput, CallPhase, CallStep, Machine, REQUEST_TABLE,
    RequestInput, RequestPhase, RequestRefusal, StrayResponse,
};
use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Config, Connection, Dialect, Event, Grace, Refusal,
    RequestHandle, Settlement, StreamConnection, Timestamp, WireId,
};

const NOW: Timestamp = Timestamp::ZERO;

fn machine() -> Machine {
    Machine::new(Config::client(Dialect::ACP_V1))
}

fn actions(machine: &mut Machine) -> Vec<Action> {
    std::iter::from_fn(|| machine.poll_action()).collect()
}

#[test]
fn each_input_gives_its_actions() {
    let mut machine = machine();
    let options = CallOptions::default();
    let call = machine.call(&options, NOW).unwrap();
    assert_eq!(actions(&mut machine), [Action::SendRequest { call, number: 1 }]);
    machine.transmitted(call);
    assert_eq!(machine.call_cause(call), None);
    assert_eq!(machine.cancel(call, Cause::Caller, NOW), CancelOutcome::Sent);
    assert_eq!(machine.call_cause(call), Some(Cause::Caller));
    assert_eq!(actions(&mut machine), [Action::SendCancel { call, number: 1 }]);
    assert_eq!(machine.receive_response(1, Answer::CancelError), Ok(call));
    let (settlement, cause) = (Settlement::Cancelled, Some(Cause::Caller));
    let completed = Action::CompleteCall { call, settlement, cause };
    assert_eq!(actions(&mut machine), [Action::Withdraw { call }, completed]);
    assert_eq!(machine.receive_response(1, Answer::Result), Err(StrayResponse::Duplicate));

    let id = WireId::from_token("7").unwrap();
    let request = machine.receive_request(id.clone()).unwrap();
    assert_eq!(machine.receive_request(id.clone()), Err(RequestRefusal::DuplicateId));
    assert_eq!(actions(&mut machine), [Action::Deliver { request }]);
    assert_eq!(machine.request_cause(request), None);
    machine.receive_cancel(&id, NOW);
    assert_eq!(machine.request_cause(request), Some(Cause::Peer));
    assert_eq!(actions(&mut machine), [Action::MarkCancelled { request, cause: Cause::Peer }]);
    machine.respond(request).unwrap();
    assert_eq!(actions(&mut machine), [Action::SendResponse { request }]);
    assert_eq!(machine.respond(request), Err(Refusal::AlreadyAnswered));
}

#[test]
fn equal_machines_hash_equally_and_a_clone_goes_its_own_way() {
    let hash = |machine: &Machine| {
        let mut hasher = DefaultHasher::new();
        machine.hash(&mut hasher);
        hasher.finish()
    };
    let mut one = machine();
    one.call(&CallOptions::default().timeout(core::time::Duration::from_secs(1)), NOW).unwrap();
    let mut other = one.clone();
    assert_eq!((&one, hash(&one)), (&other, hash(&other)));
    actions(&mut other);
    assert_ne!(one, other);
    actions(&mut one);
    assert_eq!((&one, hash(&one)), (&other, hash(&other)));
    // A call alone makes a difference, and so does a request, and how far one has come.
    let request = one.receive_request(WireId::from_token("7").unwrap()).unwrap();
    let call = one.call(&CallOptions::default(), NOW).unwrap();
    actions(&mut one);
    let [mut calls, mut serves, mut sent, mut cancelled] = [(); 4].map(|()| one.clone());
    calls.call(&CallOptions::default(), NOW).unwrap();
    serves.receive_request(WireId::from_token("8").unwrap()).unwrap();
    sent.transmitted(call);
    cancelled.cancel_request(request, Cause::Internal, NOW);
    for changed in [&mut calls, &mut serves, &mut sent, &mut cancelled] {
        actions(changed);
        assert_ne!(*changed, one);
        assert_ne!(hash(changed), hash(&one));
    }
}

#[test]
fn g10_a_refused_command_leaves_the_machine_as_it_was() {
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.calls = 1;
    let mut machine = Machine::new(config);
    let request = machine.receive_request(WireId::from_token("7").unwrap()).unwrap();
    machine.respond(request).unwrap();
    machine.call(&CallOptions::default(), NOW).unwrap();
    actions(&mut machine);
    let before = machine.clone();
    let child = CallOptions::default().parent(request);
    assert_eq!(machine.call(&CallOptions::default(), NOW), Err(Refusal::TooManyCalls));
    assert_eq!(machine.call(&child, NOW), Err(Refusal::UnknownParent));
    assert_eq!(machine.respond(request), Err(Refusal::AlreadyAnswered));
    assert_eq!(machine, before);
}

#[test]
fn g10_a_token_is_taken_by_a_request_that_owes_its_answer_and_by_no_other() {
    let mut machine = Machine::new(Config::client(Dialect::ERLMCP));
    let token = |token| WireId::from_token(token).unwrap();
    let [answered, begun] =
        ["7", "8"].map(|id| machine.receive_request(WireId::from_token(id).unwrap()).unwrap());
    // Its call keeps it, though it is answered.
    machine.call(&CallOptions::default().parent(answered), NOW).unwrap();
    machine.respond(answered).unwrap();
    machine.begin_operation(begun, token("\"a\"")).unwrap();
    actions(&mut machine);
    let before = machine.clone();
    for request in [answered, begun] {
        let refused = machine.begin_operation(request, token("\"b\""));
        assert_eq!(refused, Err(Refusal::AlreadyAnswered));
    }
    assert_eq!(machine, before);
}

#[test]
fn g08_a_settled_call_leaves_nothing_of_its_options_behind() {
    let second = core::time::Duration::from_secs(1);
    let plain = CallOptions::default();
    let fancy = plain.grace(Grace::Settle(second)).timeout(second).hard_cap(second);
    let [after_plain, after_fancy] = [plain, fancy].map(|options| {
        let mut machine = machine();
        let call = machine.call(&options, NOW).unwrap();
        machine.transmitted(call);
        machine.receive_response(1, Answer::Result).unwrap();
        actions(&mut machine);
        machine
    });
    assert_eq!(after_plain, after_fancy);
}

// The tables

#[test]
fn g04_only_a_sent_call_ever_sends_a_cancel() {
    for phase in CallPhase::ALL {
        for input in CallInput::ALL {
            let sends = matches!(
                phase.on(input).step,
                CallStep::SendCancel | CallStep::SendCancelAndSettle
            );
            let is_cancel = matches!(input, CallInput::Cancel | CallInput::CancelNow);
            assert_eq!(sends, phase == CallPhase::Sent && is_cancel, "{phase:?} {input:?}");
        }
    }
}

#[test]
fn g01_every_step_that_settles_ends_the_call_and_no_other_does() {
    for transition in CALL_TABLE.iter().flatten() {
        let stays =
            matches!(transition.step, CallStep::Nothing | CallStep::Stray | CallStep::SendCancel);
        assert_eq!(transition.next.is_some(), stays, "{transition:?}");
    }
}

#[test]
fn g02_no_row_answers_twice() {
    for input in RequestInput::ALL {
        assert_eq!(RequestPhase::Answered.on(input).next, Some(RequestPhase::Answered));
    }
    assert_eq!(REQUEST_TABLE.iter().flatten().filter(|t| t.next.is_none()).count(), 0);
}

/// Every reachable state of one call and one request, by brute force: from each, no sequence of
/// inputs settles a call twice, sends a second cancel or answers a request twice.
#[test]
fn g01_g02_g04_hold_in_every_order_of_eight_inputs() {
    #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
    struct Seen {
        settled: usize,
        cancels: usize,
        answers: usize,
        marks: usize,
        closed: usize,
    }

    fn search(
        machine: &Machine,
        (call, request): (CallId, RequestHandle),
        seen: &Seen,
        depth: usize,
        visited: &mut BTreeSet<(u64, Seen, usize)>,
    ) {
        assert!(seen.settled <= 1 && seen.cancels <= 1 && seen.answers <= 1 && seen.marks <= 1);
        assert!(seen.closed <= 1);
        let in_flight = machine.calls_in_flight();
        assert_eq!(in_flight + seen.settled, 1, "in flight or settled");
        let mut hasher = DefaultHasher::new();
        machine.hash(&mut hasher);
        if depth == 0 || !visited.insert((hasher.finish(), seen.clone(), depth)) {
            return;
        }
        let id = WireId::from_token("7").unwrap();
        for input in 0..16 {
            let mut machine = machine.clone();
            match input {
                0 => machine.transmitted(call),
                1 => drop(machine.cancel(call, Cause::Caller, NOW)),
                2 => drop(machine.cancel(call, Cause::Dropped, NOW)),
                3 => machine.detach(call, NOW),
                4 => drop(machine.receive_response(1, Answer::Result)),
                5 => drop(machine.receive_response(1, Answer::Malformed)),
                6 => drop(machine.receive_response(1, Answer::CancelError)),
                7 => machine.handle_timeout(Timestamp::from_millis(5)),
                8 => machine.handle_timeout(Timestamp::from_millis(100_000)),
                9 => machine.receive_cancel(&id, NOW),
                10 => drop(machine.respond(request)),
                11 => machine.shutdown(protocol_core::Shutdown::Drain, NOW),
                12 => machine.shutdown(protocol_core::Shutdown::CancelAll, NOW),
                13 => machine.shutdown(protocol_core::Shutdown::Abandon, NOW),
                14 => machine.close(protocol_core::CloseReason::PeerGone, NOW),
                _ => machine.progress(call, Timestamp::from_millis(1)),
            }
            let mut seen = seen.clone();
            for action in actions(&mut machine) {
                let of_an_answer =
                    matches!(action, Action::SendResponse { .. } | Action::TreeSettled { .. });
                assert!(seen.closed == 0 || of_an_answer, "after the end: {action:?}");
                match action {
                    Action::CompleteCall { .. } => seen.settled += 1,
                    Action::SendCancel { .. } => seen.cancels += 1,
                    Action::SendResponse { .. } => seen.answers += 1,
                    Action::MarkCancelled { .. } => seen.marks += 1,
                    Action::Close { .. } => seen.closed += 1,
                    _ => {}
                }
            }
            search(&machine, (call, request), &seen, depth - 1, visited);
        }
    }

    let mut machine = machine();
    let request = machine.receive_request(WireId::from_token("7").unwrap()).unwrap();
    let options =
        CallOptions::default().parent(request).timeout(core::time::Duration::from_millis(5));
    let call = machine.call(&options, NOW).unwrap();
    actions(&mut machine);
    search(&machine, (call, request), &Seen::default(), 8, &mut BTreeSet::new());
}

// What types promise

#[test]
fn a_connection_can_go_to_another_thread_if_the_hosts_data_can() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Connection<(), ()>>();
    is_send_and_sync::<StreamConnection<(), ()>>();
    is_send_and_sync::<Machine>();
    is_send_and_sync::<Event<'static, ()>>();
    is_send_and_sync::<protocol_core::SendError<()>>();
}

#[test]
fn events_and_ids_are_small() {
    assert!(size_of::<Event<'_, ()>>() <= 128, "{}", size_of::<Event<'_, ()>>());
    assert_eq!(size_of::<CallId>(), 16);
    assert_eq!(size_of::<RequestHandle>(), 16);
    assert!(size_of::<Action>() <= 32);
}
