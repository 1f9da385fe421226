use alloc::format;
use alloc::string::ToString;
use core::time::Duration;

use super::*;

const START: Timestamp = Timestamp::ZERO;
const GRACE: Urgency = Urgency::Graceful(Duration::from_millis(100));

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn registry() -> Operations<&'static str, u32> {
    let mut operations = Operations::default();
    operations.declare("tool/call", Cleanup::Wanted).unwrap();
    operations.declare("resources/read", Cleanup::NotNeeded).unwrap();
    operations
}

fn register(operations: &mut Operations<&'static str, u32>, byte: u8) -> OperationId {
    operations.register("tool/call", [byte; 16], "worker", START).unwrap()
}

/// Cancels as a client does, at 5 ms.
fn cancel(operations: &mut Operations<&'static str, u32>, operation: OperationId) -> Step {
    operations
        .cancel(operation, CancelReason::ClientRequested, Urgency::Forced, at(5))
        .expect("it is live")
}

/// Asserts the invariants of the fields.
fn assert_invariants<T, P>(operations: &Operations<T, P>) {
    assert_eq!(operations.rows.len(), operations.by_token.len());
    let mut stopping = 0;
    for (slot, row) in &operations.rows {
        let id = operations.id(row.serial, slot as u32);
        assert_eq!(operations.find(row.token), Some(id));
        assert_eq!(row.reason.is_some(), row.status != Status::Active);
        let in_grace = operations.grace_ends.contains(&(row.grace_end, id));
        assert_eq!(in_grace, row.status == Status::Stopping);
        stopping += usize::from(in_grace);
    }
    assert_eq!(operations.grace_ends.len(), stopping);
    assert_eq!(operations.by_name.len(), operations.metrics.kinds.len());
    for kind in operations.metrics.kinds() {
        let ended_or_active = kind.active + kind.cancelled + kind.completed + kind.lost;
        assert_eq!(kind.registered, ended_or_active, "{kind:?}");
    }
}

#[test]
fn a_cancelled_operation_is_notified_stopped_and_cleaned_up_after_once() {
    let mut operations = registry();
    let operation = register(&mut operations, 1);
    assert_eq!(operations.check(operation), Ok(()));
    let steps = [(); 3].map(|()| cancel(&mut operations, operation));
    assert_eq!(steps, [Step::NotifyAndStop, Step::Nothing, Step::Nothing]);
    assert_eq!(operations.check(operation), Err(CheckError::Cancelled));
    assert_invariants(&operations);
    let ended = operations.finish(operation).unwrap();
    assert_eq!((ended.data, ended.cleanup), ("worker", Cleanup::Wanted));
    assert_eq!(ended.reason, Some(CancelReason::ClientRequested));
    assert_eq!(operations.check(operation), Err(CheckError::NotFound));
    assert_eq!(operations.finish(operation), Err(NotFound));
    assert_eq!(operations.worker_lost(operation), Err(NotFound));
    let again = operations.cancel(operation, CancelReason::Timeout, Urgency::Forced, START);
    assert_eq!(again, Err(NotFound));
    assert_invariants(&operations);
}

#[test]
fn only_cancelled_operations_of_a_kind_that_wants_it_are_cleaned_up_after() {
    let mut operations = registry();
    let plain = operations.register("resources/read", [1; 16], "plain", START).unwrap();
    let _ = cancel(&mut operations, plain);
    assert_eq!(operations.finish(plain).unwrap().cleanup, Cleanup::NotNeeded);
    let completed = register(&mut operations, 2);
    assert_eq!(operations.finish(completed).unwrap().cleanup, Cleanup::NotNeeded);
    // The kind may change its mind while an operation of it is under way.
    operations.declare("resources/read", Cleanup::Wanted).unwrap();
    let late = operations.register("resources/read", [1; 16], "late", START).unwrap();
    let _ = cancel(&mut operations, late);
    assert_eq!(operations.worker_lost(late).unwrap().cleanup, Cleanup::Wanted);
}

#[test]
fn the_row_of_an_operation_that_lost_its_worker_is_removed() {
    let mut operations = registry();
    let operation = register(&mut operations, 1);
    let token = operations.token(operation).unwrap();
    let ended = operations.worker_lost(operation).unwrap();
    assert_eq!((ended.token, ended.reason, ended.cleanup), (token, None, Cleanup::NotNeeded));
    assert_eq!((operations.find(token), operations.is_empty()), (None, true));
    let kind = &operations.metrics().kinds()[0];
    assert_eq!((kind.active, kind.lost, kind.completed), (0, 1, 0));
    assert_invariants(&operations);
}

#[test]
fn an_operation_that_has_ended_is_not_found_by_its_token_or_its_old_id() {
    let mut operations = registry();
    let old = register(&mut operations, 1);
    let token = operations.token(old).unwrap();
    assert_eq!(operations.find(token), Some(old));
    let _ = operations.finish(old).unwrap();
    assert_eq!(operations.find(token), None);
    // It has the same slot and even the same token, and is another operation all the same.
    let new = register(&mut operations, 1);
    assert_eq!(old.slot, new.slot);
    assert_eq!(operations.finish(old), Err(NotFound));
    assert_eq!((operations.data(old), operations.data(new)), (None, Some(&"worker")));
    assert_eq!(operations.find(token), Some(new));
}

#[test]
fn a_graceful_cancel_is_forced_after_its_grace_period() {
    let mut operations = registry();
    let (slow, quick) = (register(&mut operations, 1), register(&mut operations, 2));
    for operation in [slow, quick] {
        let step = operations.cancel(operation, CancelReason::Timeout, GRACE, at(10));
        assert_eq!(step, Ok(Step::Notify));
        let again = operations.cancel(operation, CancelReason::Timeout, GRACE, at(20));
        assert_eq!(again, Ok(Step::Nothing), "the grace period is granted once");
    }
    assert_eq!(operations.info(slow, at(10)).unwrap().status, Status::Stopping);
    assert_invariants(&operations);
    let _ = operations.finish(quick).unwrap();
    assert_eq!(operations.poll_timeout(), Some(at(110)));
    assert_eq!(operations.handle_timeout(at(109)), None);
    assert_eq!(operations.handle_timeout(at(110)), Some(slow));
    assert_eq!(operations.handle_timeout(at(110)), None);
    assert_eq!(operations.poll_timeout(), None);
    assert_eq!(operations.info(slow, at(110)).unwrap().status, Status::Cancelled);
    assert_invariants(&operations);
}

#[test]
fn a_forced_cancel_hastens_a_graceful_one_and_keeps_its_reason() {
    let mut operations = registry();
    let operation = register(&mut operations, 1);
    let _ = operations.cancel(operation, CancelReason::Timeout, GRACE, START).unwrap();
    assert_eq!(cancel(&mut operations, operation), Step::Stop);
    let info = operations.info(operation, at(7)).unwrap();
    assert_eq!((info.status, info.reason), (Status::Cancelled, Some(&CancelReason::Timeout)));
    assert_eq!(operations.poll_timeout(), None);
    assert_invariants(&operations);
}

#[test]
fn a_grace_period_of_zero_is_a_forced_cancel() {
    let mut operations = registry();
    let operation = register(&mut operations, 1);
    let none = Urgency::Graceful(Duration::ZERO);
    let step = operations.cancel(operation, CancelReason::Timeout, none, START);
    assert_eq!((step, operations.poll_timeout()), (Ok(Step::NotifyAndStop), None));
}

#[test]
fn operations_that_are_cut_short_return_their_partial_result() {
    let mut operations = registry();
    let keep = |operations: &mut Operations<_, _>, operation| {
        assert_eq!(operations.keep_partial(operation, 1), Ok(None));
        assert_eq!(operations.keep_partial(operation, 2), Ok(Some(1)));
    };
    let cancelled = register(&mut operations, 1);
    keep(&mut operations, cancelled);
    let _ = cancel(&mut operations, cancelled);
    assert_eq!(operations.keep_partial(cancelled, 3), Ok(Some(2)), "the unit in hand");
    assert_eq!(operations.worker_lost(cancelled).unwrap().partial, Some(3));
    assert_eq!(operations.keep_partial(cancelled, 4), Err(NotFound));

    let lost = register(&mut operations, 2);
    keep(&mut operations, lost);
    assert_eq!(operations.worker_lost(lost).unwrap().partial, Some(2));

    let completed = register(&mut operations, 3);
    keep(&mut operations, completed);
    assert_eq!(operations.finish(completed).unwrap().partial, None, "it has a whole result");
    assert_eq!(operations.metrics().partial_results(), 2);
}

#[test]
fn f09_a_kind_of_another_registry_is_refused() {
    let mut one = registry();
    let mut other: Operations<&str> = Operations::default();
    other.declare("prompts/get", Cleanup::Wanted).unwrap();
    let _ = other.register("prompts/get", [1; 16], "data", START).unwrap();
    for kind in ["prompts/get", "", "TOOL/CALL"] {
        let refused = one.register(kind, [1; 16], "data", START).unwrap_err();
        assert_eq!((refused.problem, refused.data), (RegisterProblem::UnknownKind, "data"));
        let why = core::error::Error::source(&refused).unwrap().to_string();
        assert_eq!(why, "the registry does not know that kind of operation");
    }
    assert!(one.is_empty());
}

#[test]
fn f77_an_id_of_another_registry_is_refused() {
    let mut ours: Operations<&str, u32> = Operations::new(Limits::default(), 1);
    let mut theirs: Operations<&str, u32> = Operations::new(Limits::default(), 2);
    let [own, foreign] = [&mut ours, &mut theirs].map(|operations| {
        operations.declare("tool/call", Cleanup::Wanted).unwrap();
        register(operations, 1)
    });
    assert_eq!((own.serial, own.slot), (foreign.serial, foreign.slot));
    assert_eq!(ours.check(foreign), Err(CheckError::NotFound));
    assert_eq!((ours.data(foreign), ours.token(foreign)), (None, None));
    assert_eq!(ours.data_mut(foreign), None);
    assert_eq!(ours.info(foreign, START), None);
    assert_eq!(ours.keep_partial(foreign, 1), Err(NotFound));
    let step = ours.cancel(foreign, CancelReason::ClientRequested, Urgency::Forced, START);
    assert_eq!(step, Err(NotFound));
    assert_eq!(ours.finish(foreign), Err(NotFound));
    assert_eq!(ours.worker_lost(foreign), Err(NotFound));
    assert_eq!((ours.check(own), theirs.check(foreign)), (Ok(()), Ok(())));
    assert_eq!(ours.list(START).next().unwrap().operation, own);
    assert_eq!(size_of::<OperationId>(), 16, "the number fills what alignment had left");
}

/// A registration reaches its kind through the index, so other kinds cost it no time. A search
/// through the names would stop at the first one.
#[test]
fn f81_a_kind_is_found_without_a_search_through_the_others() {
    let mut operations: Operations<&str, u32> = Operations::default();
    for number in 0..1_000 {
        operations.declare(&format!("kind {number}"), Cleanup::NotNeeded).unwrap();
    }
    // The first is the one that is compared before the index is searched.
    for kind in &mut operations.metrics.kinds[1..] {
        kind.name = "kind 999".into();
    }
    let _ = operations.register("kind 999", [1; 16], "worker", START).unwrap();
    let registered = operations.metrics.kinds.iter().position(|kind| kind.registered == 1);
    assert_eq!(registered, Some(999));
}

#[test]
fn f81_the_latest_kind_is_found_without_the_index_and_any_other_with_it() {
    let mut operations: Operations<&str> = Operations::default();
    let kinds = ["a", "b", "c"];
    for kind in kinds {
        operations.declare(kind, Cleanup::NotNeeded).unwrap();
    }
    for (byte, kind) in (0..).zip(["a", "b", "b", "c", "b", "a"]) {
        let _ = operations.register(kind, [byte; 16], kind, START).unwrap();
    }
    let registered = kinds.map(|name| {
        let kind = operations.metrics().kinds().iter().find(|kind| &*kind.name == name);
        kind.map(|kind| kind.registered)
    });
    assert_eq!(registered, [Some(2), Some(3), Some(1)]);
    assert!(operations.list(START).all(|info| operations.data(info.operation) == Some(&info.kind)));
    operations.by_name.clear();
    assert!(operations.register("a", [7; 16], "a", START).is_ok());
    assert!(operations.register("b", [8; 16], "b", START).is_err());
}

#[test]
fn f09_kinds_over_the_limit_are_refused() {
    let limits = Limits { kinds: 1, ..Limits::default() };
    let mut operations: Operations<()> = Operations::new(limits, 0);
    assert_eq!(operations.declare("a", Cleanup::NotNeeded), Ok(()));
    assert_eq!(operations.declare("b", Cleanup::NotNeeded), Err(TooManyKinds));
    assert_eq!(operations.declare("a", Cleanup::Wanted), Ok(()), "it is known already");
    // However high the limit is, places of kinds are 16 bits.
    let limits = Limits { kinds: usize::MAX, ..Limits::default() };
    let mut operations: Operations<()> = Operations::new(limits, 0);
    operations.metrics.kinds = (0..1 << 16).map(|_| Kind::new("k", Cleanup::NotNeeded)).collect();
    assert_eq!(operations.declare("b", Cleanup::NotNeeded), Err(TooManyKinds));
}

/// Debug output shows at most the first two bytes of a token.
#[test]
fn f10_tokens_are_never_whole_in_debug_output() {
    let mut operations = registry();
    let entropy = *b"Ref.0.1.0.123456";
    let id = operations.register("tool/call", entropy, "worker", START).unwrap();
    let token = operations.token(id).unwrap();
    let refused = operations.register("tool/call", entropy, "worker", START).unwrap_err();
    let _ = operations.cancel(id, CancelReason::Timeout, GRACE, START).unwrap();
    let mut printed = format!("{operations:?} {operations:#?} {refused:?} {id:?}");
    printed += &format!("{:?} {:?}", operations.info(id, START), operations.list(START).count());
    printed += &format!("{:#?}", operations.finish(id).unwrap());
    let number = u128::from_be_bytes(entropy);
    let bytes = format!("{entropy:?}");
    let whole = [
        token.to_string(),
        token.to_string().to_lowercase(),
        number.to_string(),
        bytes.trim_matches(['[', ']']).into(),
        "82,\n".into(),
    ];
    for whole in whole {
        assert!(!printed.contains(&whole), "{whole} in {printed}");
    }
    assert!(printed.contains("5265…"), "{printed}");
}

#[test]
fn g08_a_token_is_refused_twice_and_a_full_registry_gives_the_data_back() {
    let limits = Limits { operations: 2, ..Limits::default() };
    let mut operations: Operations<u8> = Operations::new(limits, 0);
    operations.declare("k", Cleanup::NotNeeded).unwrap();
    let _ = operations.register("k", [1; 16], 1, START).unwrap();
    let again = operations.register("k", [1; 16], 2, START).unwrap_err();
    assert_eq!((again.problem, again.data), (RegisterProblem::TokenInUse, 2));
    let last = operations.register("k", [3; 16], 3, START).unwrap();
    let full = operations.register("k", [4; 16], 4, START).unwrap_err();
    assert_eq!((full.problem, full.data), (RegisterProblem::TooMany, 4));
    let _ = operations.cancel(last, CancelReason::Timeout, Urgency::Forced, START).unwrap();
    let full = operations.register("k", [4; 16], 4, START).unwrap_err();
    assert_eq!(full.problem, RegisterProblem::TooMany, "it has not ended");
    let _ = operations.finish(last).unwrap();
    assert!(operations.register("k", [4; 16], 4, START).is_ok());
    assert_invariants(&operations);
}

#[test]
fn a_shutdown_cancels_all_oldest_first_and_the_list_has_the_reasons() {
    let mut operations = registry();
    let ids = [9, 1, 5].map(|byte| {
        let started = at(u64::from(byte));
        operations.register("tool/call", [byte; 16], "w", started).unwrap()
    });
    let _ = operations.cancel(ids[1], CancelReason::Timeout, Urgency::Forced, at(10)).unwrap();
    let _ = operations.cancel(ids[2], CancelReason::Timeout, GRACE, at(10)).unwrap();
    let steps = operations.cancel_all(&CancelReason::ServerShutdown, Urgency::Forced, at(10));
    assert_eq!(steps, [(ids[0], Step::NotifyAndStop), (ids[2], Step::Stop)]);
    let list: Vec<_> = operations
        .list(at(10))
        .map(|info| (info.operation, info.duration.as_millis(), info.status.as_str(), info.reason))
        .collect();
    let expected = [
        (ids[0], 1, "cancelled", Some(&CancelReason::ServerShutdown)),
        (ids[1], 9, "cancelled", Some(&CancelReason::Timeout)),
        (ids[2], 5, "cancelled", Some(&CancelReason::Timeout)),
    ];
    assert_eq!(list, expected);
    assert!(operations.list(at(10)).all(|info| info.kind == "tool/call"));
    assert_invariants(&operations);
}

#[test]
fn metrics_count_by_kind_reason_and_duration() {
    let mut operations = registry();
    let ids = [1, 2, 3, 4].map(|byte| register(&mut operations, byte));
    let error = CancelReason::Error("disk \"full\"".into());
    for _ in 0..2 {
        let _ = operations.cancel(ids[0], error.clone(), Urgency::Forced, at(40)).unwrap();
    }
    let _ = operations.cancel(ids[1], CancelReason::Timeout, Urgency::Forced, at(700)).unwrap();
    let _ = operations.finish(ids[2]).unwrap();
    let gone = operations.cancel(ids[2], CancelReason::ClientRequested, GRACE, at(700));
    assert_eq!(gone, Err(NotFound));
    let metrics = operations.metrics();
    assert_eq!((metrics.active(), metrics.cancelled()), (1, 2));
    assert_eq!((metrics.cancelled_for(&error), metrics.requests_for(&error)), (1, 2));
    assert_eq!(metrics.requests_for(&CancelReason::ClientRequested), 1);
    assert_eq!(metrics.durations_sum(), Duration::from_millis(740));
    let text = metrics.prometheus().to_string();
    for line in [
        "rescind_operations_active{type=\"tool/call\"} 1",
        "rescind_operations_registered_total{type=\"tool/call\"} 4",
        "rescind_operations_completed_total{type=\"tool/call\"} 1",
        "rescind_operations_cancelled_by_type_total{type=\"tool/call\"} 2",
        "rescind_operations_lost_total{type=\"resources/read\"} 0",
        "rescind_operation_cancels_requested_total{reason=\"client_requested\"} 1",
        "rescind_operations_cancelled_total{reason=\"client_requested\"} 0",
        "rescind_operations_cancelled_total{reason=\"timeout\"} 1",
        "rescind_operations_partial_results_total 0",
        "rescind_operation_duration_before_cancel_seconds_bucket{le=\"0.050\"} 1",
        "rescind_operation_duration_before_cancel_seconds_bucket{le=\"1.000\"} 2",
        "rescind_operation_duration_before_cancel_seconds_bucket{le=\"+Inf\"} 2",
        "rescind_operation_duration_before_cancel_seconds_sum 0.74",
        "rescind_operation_duration_before_cancel_seconds_count 2",
        "# TYPE rescind_operation_duration_before_cancel_seconds histogram",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn names_in_metrics_are_escaped_as_prometheus_asks() {
    let mut operations: Operations<()> = Operations::default();
    operations.declare("a\"b\\c\nd", Cleanup::NotNeeded).unwrap();
    let line = r#"rescind_operations_active{type="a\"b\\c\nd"} 0"#;
    assert!(operations.metrics().prometheus().to_string().lines().any(|other| other == line));
}

/// Random histories keep every invariant, and reach every transition that is possible.
#[test]
fn g10_any_order_of_calls_keeps_every_invariant() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let limits = Limits { operations: 20, ..Limits::default() };
    let mut operations: Operations<u64, u64> = Operations::new(limits, 0);
    operations.declare("tool/call", Cleanup::Wanted).unwrap();
    let mut known: Vec<(OperationId, u64)> = Vec::new();
    let mut cleaned = 0;
    let mut reached = BTreeSet::new();
    for step in 0..20_000 {
        let now = at(step);
        let Some(&(operation, data)) = known.get(next(known.len() as u64 + 4) as usize) else {
            let entropy = [next(30) as u8; 16];
            match operations.register("tool/call", entropy, step, now) {
                Ok(operation) => known.push((operation, step)),
                Err(refused) => assert_eq!(refused.data, step),
            }
            assert_invariants(&operations);
            continue;
        };
        let was_cancelled = operations.is_cancelled(operation);
        let status = operations.info(operation, now).map(|info| info.status);
        let mut reach = |input| reached.extend(status.map(|status| (status, input)));
        match next(6) {
            0 => {
                reach(Input::GracefulCancel);
                let _ = operations.cancel(operation, CancelReason::Timeout, GRACE, now);
            }
            1 => {
                reach(Input::ForcedCancel);
                let reason = CancelReason::ClientRequested;
                let _ = operations.cancel(operation, reason, Urgency::Forced, now);
            }
            2 => {
                while let Some(forced) = operations.handle_timeout(now) {
                    reached.insert((Status::Stopping, Input::GraceExpired));
                    assert!(operations.is_cancelled(forced));
                }
            }
            3 => {
                let _ = operations.keep_partial(operation, step);
            }
            end => {
                let ended = if end == 4 {
                    reach(Input::Finished);
                    operations.finish(operation)
                } else {
                    reach(Input::WorkerLost);
                    operations.worker_lost(operation)
                };
                if let Ok(ended) = ended {
                    assert_eq!(ended.data, data);
                    assert_eq!(ended.cleanup == Cleanup::Wanted, was_cancelled);
                    cleaned += u64::from(was_cancelled);
                }
                assert_eq!(operations.check(operation), Err(CheckError::NotFound));
            }
        }
        if known.len() > 40 {
            known.retain(|&(operation, _)| operations.data(operation).is_some());
        }
        assert_invariants(&operations);
    }
    let live = operations.list(START).filter(|info| info.status != Status::Active).count() as u64;
    assert!(cleaned > 1_000);
    let pairs =
        Status::ALL.iter().flat_map(|&status| Input::ALL.iter().map(move |&it| (status, it)));
    let possible = pairs.filter(|&(status, input)| status.on(input).step != Step::Impossible);
    assert!(possible.eq(reached), "every transition is reached, and none that is impossible");
    assert_eq!(operations.metrics().cancelled(), cleaned + live, "once for each");
}
