//! The machine alone: decisions without bytes, to search its state space; and what types promise.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::machine::{Action, Machine, RequestStep, ResponseKind};
use protocol_core::{
    CallId, CallOptions, CancelOutcome, Cause, Config, Connection, Dialect, Event, Facts, Grace,
    Handshake, Refusal, RequestHandle, RequestPhase, Settlement, Shutdown, StreamConnection,
    Timestamp, Violation, WireId,
};

const NOW: Timestamp = Timestamp::ZERO;

type Alone = Machine<&'static str, &'static str>;

fn machine() -> Alone {
    Machine::new(Config::server(Dialect::ACP_V1))
}

fn call(machine: &mut Alone, options: &CallOptions) -> Result<CallId, Refusal> {
    Ok(machine.call(options)?.commit(Facts::default(), "call", NOW))
}

fn receive(machine: &mut Alone, id: &str) -> Result<RequestHandle, Violation> {
    receive_with(machine, id, Facts::default())
}

fn receive_with(machine: &mut Alone, id: &str, facts: Facts) -> Result<RequestHandle, Violation> {
    let id = WireId::from_json(id).unwrap();
    machine.receive_request(Ok(id), &mut facts.into())
}

fn respond(machine: &mut Alone, request: RequestHandle) -> Result<&'static str, Refusal> {
    Ok(machine.respond(request)?.commit())
}

fn begin(machine: &mut Alone, request: RequestHandle, token: &str) -> Result<(), Refusal> {
    let token = WireId::from_json(token).unwrap();
    machine.begin_operation(request, token)?.commit();
    Ok(())
}

/// Receives a request that may start an operation.
fn start(machine: &mut Alone, id: &str) -> RequestHandle {
    let mut facts = Facts::default();
    facts.starts_operation = true;
    receive_with(machine, id, facts).unwrap()
}

fn actions(machine: &mut Alone) -> Vec<Action<&'static str>> {
    std::iter::from_fn(|| machine.poll_action()).collect()
}

fn fingerprint(machine: &Alone) -> u64 {
    let mut hasher = DefaultHasher::new();
    machine.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn each_input_queues_its_decision() {
    let mut machine = machine();
    let id = call(&mut machine, &CallOptions::default()).unwrap();
    machine.transmitted(1);
    assert_eq!(machine.call_cause(id), None);
    assert_eq!(machine.cancel(id, Cause::Caller, NOW), CancelOutcome::Sent);
    assert!(matches!(actions(&mut machine)[..], [Action::SendCancel { number: None, .. }]));
    assert_eq!(machine.call_cause(id), Some(Cause::Caller));
    // The cancel has not left, and never will.
    assert_eq!(machine.receive_response(1, ResponseKind::CancelError), None);
    let follows = actions(&mut machine);
    let [Action::Settle(done)] = &follows[..] else { panic!("{follows:?}") };
    assert!(done.is_unsent);
    let (settlement, cause) = (Settlement::Cancelled, Some(Cause::Caller));
    assert_eq!(
        (done.call, done.settlement, done.cause, done.data),
        (id, settlement, cause, "call")
    );
    let again = machine.receive_response(1, ResponseKind::Result);
    assert_eq!((again, actions(&mut machine).len()), (Some(Violation::DuplicateResponse), 0));

    let request = receive(&mut machine, "7").unwrap();
    assert_eq!(receive(&mut machine, "7"), Err(Violation::DuplicateId));
    assert_eq!(machine.request_cause(request), None);
    let met = machine.receive_cancel(&WireId::from_json("7").unwrap());
    assert_eq!(met, (Some(RequestStep::MarkCancelled), Some(request)));
    let follows = actions(&mut machine);
    let [Action::MarkCancelled { cause: Cause::Peer, .. }] = follows[..] else {
        panic!("{follows:?}")
    };
    assert_eq!(machine.request_cause(request), Some(Cause::Peer));
    assert_eq!(machine.respond(request).unwrap().step(), RequestStep::SendResponse);
    assert_eq!(respond(&mut machine, request), Ok(""));
    assert_eq!(respond(&mut machine, request), Err(Refusal::AlreadyResponded));
    assert!(actions(&mut machine).is_empty(), "no other call or request has an action");
}

#[test]
fn g06_what_follows_for_others_is_queued_behind() {
    let mut machine = machine();
    let request = receive(&mut machine, "7").unwrap();
    let options = CallOptions::default().parent(request);
    let [sent, queued] = [(); 2].map(|()| call(&mut machine, &options).unwrap());
    machine.transmitted(sent.number());
    machine.cancel_request(request, Cause::Internal, NOW);
    let follows = actions(&mut machine);
    assert!(
        matches!(
            &follows[..],
            [Action::MarkCancelled { .. }, Action::SendCancel { call, .. }, Action::Settle(done)]
                if *call == sent && done.call == queued && done.is_unsent
        ),
        "{follows:?}"
    );
    machine.cancel_request(request, Cause::Internal, NOW);
    assert!(actions(&mut machine).is_empty(), "it was marked before");
    respond(&mut machine, request).unwrap();
    assert!(actions(&mut machine).is_empty(), "a call is still in flight");
    assert_eq!(machine.receive_response(sent.number(), ResponseKind::Result), None);
    let follows = actions(&mut machine);
    assert!(matches!(follows[..], [Action::Settle(_), Action::TreeSettled { .. }]), "{follows:?}");
}

#[test]
fn f06_machines_with_the_same_fingerprint_go_on_alike() {
    let build = |order: [usize; 3]| {
        let mut machine = machine();
        let calls: Vec<_> =
            (0..4).map(|_| call(&mut machine, &CallOptions::default()).unwrap()).collect();
        for call in &calls {
            machine.transmitted(call.number());
        }
        for at in order {
            machine.receive_response(calls[at].number(), ResponseKind::Result);
            assert_eq!(actions(&mut machine).len(), 1);
        }
        machine
    };
    let (mut one, mut other) = (build([0, 1, 2]), build([1, 0, 2]));
    for _ in 0..3 {
        assert_eq!(fingerprint(&one), fingerprint(&other));
        let made = [&mut one, &mut other].map(|it| call(it, &CallOptions::default()).unwrap());
        assert_eq!(made[0], made[1], "an id holds no slot");
    }
}

#[test]
fn a_fingerprint_tells_what_makes_a_difference() {
    let mut one = machine();
    call(&mut one, &CallOptions::default().timeout(core::time::Duration::from_secs(1))).unwrap();
    assert_eq!(fingerprint(&one), fingerprint(&one.clone()));
    let request = receive(&mut one, "7").unwrap();
    let made = call(&mut one, &CallOptions::default()).unwrap();
    let [mut calls, mut serves, mut sent, mut cancelled] = [(); 4].map(|()| one.clone());
    call(&mut calls, &CallOptions::default()).unwrap();
    receive(&mut serves, "8").unwrap();
    sent.transmitted(made.number());
    cancelled.cancel_request(request, Cause::Internal, NOW);
    actions(&mut cancelled);
    for changed in [&calls, &serves, &sent, &cancelled] {
        assert_ne!(fingerprint(changed), fingerprint(&one));
    }
}

#[test]
fn g10_a_refused_command_leaves_the_machine_as_it_was() {
    let mut config = Config::server(Dialect::ACP_V1);
    config.limits.calls = 1;
    let mut machine = Machine::new(config);
    let request = receive(&mut machine, "7").unwrap();
    respond(&mut machine, request).unwrap();
    call(&mut machine, &CallOptions::default()).unwrap();
    let before = fingerprint(&machine);
    let child = CallOptions::default().parent(request);
    assert_eq!(call(&mut machine, &CallOptions::default()), Err(Refusal::TooManyCalls));
    assert_eq!(call(&mut machine, &child), Err(Refusal::UnknownParent));
    assert_eq!(respond(&mut machine, request), Err(Refusal::AlreadyResponded));
    assert_eq!(fingerprint(&machine), before);
}

#[test]
fn g10_a_token_is_taken_by_a_request_that_owes_its_answer_and_by_no_other() {
    let mut machine = Machine::new(Config::server(Dialect::ERLMCP));
    let [answered, begun, other] = ["7", "8", "9"].map(|id| start(&mut machine, id));
    // Its call keeps it, though it is answered.
    call(&mut machine, &CallOptions::default().parent(answered)).unwrap();
    respond(&mut machine, answered).unwrap();
    begin(&mut machine, begun, "\"a\"").unwrap();
    let before = fingerprint(&machine);
    for request in [answered, begun] {
        assert_eq!(begin(&mut machine, request, "\"b\""), Err(Refusal::AlreadyResponded));
    }
    assert_eq!(begin(&mut machine, other, "\"a\""), Err(Refusal::TokenInUse));
    assert_eq!(fingerprint(&machine), before);
}

#[test]
fn g03_a_cancel_that_came_early_is_judged_when_its_request_comes() {
    for (may_cancel, phase) in [(true, RequestPhase::Silenced), (false, RequestPhase::Running)] {
        let mut machine = Machine::new(Config::server(Dialect::MCP_2025_06_18_HTTP));
        let id = WireId::from_json("5").unwrap();
        assert_eq!(machine.receive_cancel(&id), (None, None));
        machine.set_consent(true, may_cancel);
        let request = receive(&mut machine, "5").unwrap();
        assert_eq!(machine.request_phase(request), Some(phase));
        assert_eq!(actions(&mut machine).len(), usize::from(may_cancel));
    }
}

#[test]
fn g10_before_the_session_is_open_a_machine_takes_what_opens_it_and_calls() {
    fn open(machine: &mut Alone, id: &str) -> Result<RequestHandle, Violation> {
        let mut facts = Facts::default();
        let mut handshake = Handshake::default();
        handshake.opens_session = true;
        facts.handshake = Some(handshake);
        receive_with(machine, id, facts)
    }

    let mut machine = Machine::new(Config::server(Dialect::ABP));
    assert_eq!(receive(&mut machine, "1"), Err(Violation::NotInitialized));
    call(&mut machine, &CallOptions::default()).unwrap();
    open(&mut machine, "1").unwrap();
    machine.open_session();
    receive(&mut machine, "2").unwrap();

    // Once it shuts down, that is what a request is refused for.
    let mut machine = Machine::new(Config::server(Dialect::ABP));
    machine.shutdown(Shutdown::Drain, NOW);
    assert_eq!(receive(&mut machine, "1"), Err(Violation::RequestAfterShutdown));
    machine.open_session();
    assert_eq!(open(&mut machine, "1"), Err(Violation::RequestAfterShutdown));
}

#[test]
fn f10_the_token_of_an_operation_is_never_shown() {
    let mut machine = Machine::new(Config::server(Dialect::ERLMCP));
    let tokens: Vec<String> = (1..=2_u128).map(|n| format!("\"{:032X}\"", n << 64)).collect();
    for (number, token) in tokens.iter().enumerate() {
        let request = start(&mut machine, &number.to_string());
        begin(&mut machine, request, token).unwrap();
        assert_eq!(machine.request_id(request), None);
    }
    let shown = format!("{machine:?} {machine:#?}");
    let secret = tokens.iter().find(|token| shown.contains(token.trim_matches('"')));
    assert_eq!(secret, None);
}

#[test]
fn g08_a_settled_call_leaves_nothing_of_its_options_behind() {
    let second = core::time::Duration::from_secs(1);
    let plain = CallOptions::default();
    let fancy = plain.grace(Grace::Settle(second)).timeout(second).hard_cap(second);
    let [after_plain, after_fancy] = [plain, fancy].map(|options| {
        let mut machine = machine();
        call(&mut machine, &options).unwrap();
        machine.transmitted(1);
        assert_eq!(machine.receive_response(1, ResponseKind::Result), None);
        assert_eq!((actions(&mut machine).len(), machine.poll_timeout()), (1, None));
        fingerprint(&machine)
    });
    assert_eq!(after_plain, after_fancy);
}

// Every order

/// Every reachable state of one call and one request is visited, by brute force. From none of them does a
/// sequence of inputs settle a call twice, send a second cancel or respond to a request twice.
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

    impl Seen {
        fn action(&mut self, action: Action<&'static str>) {
            let is_tree = matches!(action, Action::TreeSettled { .. });
            assert!(self.closed == 0 || is_tree, "after the end: {action:?}");
            match action {
                Action::Settle(_) => self.settled += 1,
                Action::SendCancel { .. } => self.cancels += 1,
                Action::MarkCancelled { .. } => self.marks += 1,
                Action::Close { .. } => self.closed += 1,
                _ => {}
            }
        }
    }

    fn search(
        machine: &Alone,
        (call, request): (CallId, RequestHandle),
        seen: &Seen,
        depth: usize,
        visited: &mut BTreeSet<(u64, Seen, usize)>,
    ) {
        assert!(seen.settled <= 1 && seen.cancels <= 1 && seen.answers <= 1 && seen.marks <= 1);
        assert!(seen.closed <= 1);
        let in_flight = machine.calls_in_flight();
        assert_eq!(in_flight + seen.settled, 1, "in flight or settled");
        if depth == 0 || !visited.insert((fingerprint(machine), seen.clone(), depth)) {
            return;
        }
        let id = WireId::from_json("7").unwrap();
        for input in 0..16 {
            let mut machine = machine.clone();
            let mut seen = seen.clone();
            match input {
                0 => machine.transmitted(1),
                1 => _ = machine.cancel(call, Cause::Caller, NOW),
                2 => _ = machine.cancel(call, Cause::Dropped, NOW),
                3 => machine.detach(call, NOW),
                4 => _ = machine.receive_response(1, ResponseKind::Result),
                5 => _ = machine.receive_response(1, ResponseKind::Malformed),
                6 => _ = machine.receive_response(1, ResponseKind::CancelError),
                7 => machine.handle_timeout(Timestamp::from_millis(5)),
                8 => machine.handle_timeout(Timestamp::from_millis(100_000)),
                9 => _ = machine.receive_cancel(&id),
                10 => seen.answers += usize::from(respond(&mut machine, request).is_ok()),
                11..=13 => {
                    let how = [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon];
                    machine.shutdown(how[input - 11], NOW);
                }
                14 => machine.close(protocol_core::CloseReason::PeerGone, NOW),
                _ => machine.progress(call, Timestamp::from_millis(1)),
            }
            actions(&mut machine).into_iter().for_each(|action| seen.action(action));
            search(&machine, (call, request), &seen, depth - 1, visited);
        }
    }

    let mut machine = machine();
    let request = receive(&mut machine, "7").unwrap();
    let options =
        CallOptions::default().parent(request).timeout(core::time::Duration::from_millis(5));
    let call = call(&mut machine, &options).unwrap();
    search(&machine, (call, request), &Seen::default(), 8, &mut BTreeSet::new());
}

// What types promise

#[test]
fn a_connection_can_go_to_another_thread_if_the_hosts_data_can() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Connection<(), ()>>();
    is_send_and_sync::<StreamConnection<(), ()>>();
    is_send_and_sync::<Alone>();
    is_send_and_sync::<Event<'static, ()>>();
    is_send_and_sync::<protocol_core::SendError<()>>();
}

#[test]
fn events_and_ids_are_small() {
    assert!(size_of::<Event<'_, ()>>() <= 128, "{}", size_of::<Event<'_, ()>>());
    assert_eq!(size_of::<CallId>(), 8);
    assert_eq!(size_of::<RequestHandle>(), 16);
    assert!(size_of::<Action<()>>() <= 32);
}
