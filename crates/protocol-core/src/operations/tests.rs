use alloc::string::ToString;
use alloc::vec::Vec;
use core::iter::from_fn;

use super::*;

const START: Timestamp = Timestamp::ZERO;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn registry() -> (Operations<&'static str>, KindId) {
    let mut operations = Operations::new(OperationLimits::default());
    let kind = operations.kind("tool/call", Cleanup::Wanted);
    (operations, kind)
}

fn events<T>(operations: &mut Operations<T>) -> Vec<OperationEvent> {
    from_fn(|| operations.poll_event()).collect()
}

fn cancel(operations: &mut Operations<&'static str>, operation: OperationId) {
    operations
        .cancel(operation, CancelReason::ClientRequested, Urgency::Forced, at(5))
        .expect("it is live");
}

#[test]
fn a_cancelled_operation_is_told_cleaned_up_and_stopped_once() {
    let (mut operations, kind) = registry();
    let operation = operations.register(kind, [1; 16], "worker", START).unwrap();
    let token = operations.token(operation).unwrap();
    assert_eq!(operations.check(operation), Ok(()));
    for _ in 0..3 {
        cancel(&mut operations, operation);
    }
    let reason = CancelReason::ClientRequested;
    assert_eq!(
        events(&mut operations),
        [
            OperationEvent::Cancelled { operation, token, reason: reason.clone() },
            OperationEvent::Cleanup { operation, token, kind, reason },
            OperationEvent::Stop { operation },
        ]
    );
    assert_eq!(operations.check(operation), Err(CheckError::Cancelled));
    assert_eq!(operations.finish(operation), Ok("worker"));
    assert_eq!(operations.check(operation), Err(CheckError::NotFound));
    assert_eq!(
        operations.cancel(operation, CancelReason::Timeout, Urgency::Forced, START),
        Err(NotFound)
    );
}

#[test]
fn a_finished_operation_is_not_found_by_its_token_or_its_old_id() {
    let (mut operations, kind) = registry();
    let old = operations.register(kind, [1; 16], "old", START).unwrap();
    let token = operations.token(old).unwrap();
    operations.finish(old).unwrap();
    assert_eq!(operations.find(token), None);
    let new = operations.register(kind, [2; 16], "new", START).unwrap();
    assert_eq!(old.slot, new.slot);
    assert_eq!(operations.finish(old), Err(NotFound));
    assert_eq!(operations.finish(new), Ok("new"));
    assert_eq!(events(&mut operations), []);
}

#[test]
fn a_graceful_cancel_lets_the_unit_in_hand_finish_and_is_forced_after_its_grace() {
    let (mut operations, kind) = registry();
    let graceful = Urgency::Graceful(Duration::from_millis(100));
    let slow = operations.register(kind, [1; 16], "slow", START).unwrap();
    let quick = operations.register(kind, [2; 16], "quick", START).unwrap();
    for operation in [slow, quick] {
        operations.cancel(operation, CancelReason::Timeout, graceful, at(10)).unwrap();
    }
    let stops = |events: Vec<OperationEvent>| {
        let stops = events.into_iter().filter(|event| matches!(event, OperationEvent::Stop { .. }));
        stops.collect::<Vec<_>>()
    };
    assert_eq!(stops(events(&mut operations)), []);
    assert_eq!(operations.info(slow, at(10)).unwrap().status, Status::Stopping);
    operations.finish(quick).unwrap();
    assert_eq!(operations.poll_timeout(), Some(at(110)));
    operations.handle_timeout(at(109));
    assert_eq!(stops(events(&mut operations)), []);
    operations.handle_timeout(at(110));
    assert_eq!(stops(events(&mut operations)), [OperationEvent::Stop { operation: slow }]);
    assert_eq!(operations.poll_timeout(), None);
}

#[test]
fn a_forced_cancel_hastens_a_graceful_one_and_keeps_its_reason() {
    let (mut operations, kind) = registry();
    let operation = operations.register(kind, [1; 16], "worker", START).unwrap();
    let graceful = Urgency::Graceful(Duration::from_secs(1));
    operations.cancel(operation, CancelReason::Timeout, graceful, START).unwrap();
    cancel(&mut operations, operation);
    assert_eq!(events(&mut operations).len(), 3);
    let info = operations.info(operation, at(7)).unwrap();
    assert_eq!((info.status, info.reason), (Status::Cancelled, Some(&CancelReason::Timeout)));
    assert_eq!(operations.poll_timeout(), None);
}

#[test]
fn a_token_is_refused_twice_and_a_full_registry_gives_the_data_back() {
    let limits = OperationLimits { operations: 2 };
    let mut operations = Operations::new(limits);
    let kind = operations.kind("k", Cleanup::NotNeeded);
    operations.register(kind, [1; 16], 1, START).unwrap();
    let again = operations.register(kind, [1; 16], 2, START).unwrap_err();
    assert_eq!((again.reason, again.data), (RegisterProblem::TokenInUse, 2));
    operations.register(kind, [3; 16], 3, START).unwrap();
    let full = operations.register(kind, [4; 16], 4, START).unwrap_err();
    assert_eq!((full.reason, full.data), (RegisterProblem::TooMany, 4));
}

#[test]
fn tokens_are_hexadecimal_and_secret_in_logs() {
    let token = OperationToken::from_bytes(*b"Ref.0.1.0.123456");
    assert_eq!(token.to_string(), "5265662E302E312E302E313233343536");
    assert_eq!(token.to_string().to_lowercase().parse(), Ok(token));
    assert_eq!(alloc::format!("{token:?}"), "OperationToken(5265…)");
    for text in ["", "52", "+265662E302E312E302E313233343536", "5265662E302E312E302E31323334353G"] {
        assert_eq!(text.parse::<OperationToken>(), Err(InvalidToken), "{text}");
    }
}

#[test]
fn shutdown_cancels_all_in_order_and_the_list_says_why() {
    let (mut operations, kind) = registry();
    for entropy in 1..=3 {
        operations.register(kind, [entropy; 16], "w", at(u64::from(entropy))).unwrap();
    }
    operations.cancel_all(&CancelReason::ServerShutdown, Urgency::Forced, at(10));
    let list: Vec<_> = operations
        .list(at(10))
        .map(|(_, info)| (info.kind, info.duration, info.status.as_str(), info.reason.cloned()))
        .collect();
    let why = Some(CancelReason::ServerShutdown);
    let expected =
        [9, 8, 7].map(|ms| ("tool/call", Duration::from_millis(ms), "cancelled", why.clone()));
    assert_eq!(list, expected);
}

#[test]
fn metrics_count_by_type_reason_and_duration() {
    let (mut operations, kind) = registry();
    let ids: Vec<_> = (1..=4)
        .map(|entropy| operations.register(kind, [entropy; 16], "w", START).unwrap())
        .collect();
    let error = CancelReason::Error("disk \"full\"".into());
    operations.cancel(ids[0], error.clone(), Urgency::Forced, at(40)).unwrap();
    operations.cancel(ids[1], CancelReason::Timeout, Urgency::Forced, at(700)).unwrap();
    operations.finish(ids[2]).unwrap();
    let metrics = operations.metrics();
    assert_eq!((metrics.active(), metrics.cancelled(), metrics.cancelled_for(&error)), (1, 2, 1));
    assert_eq!(metrics.durations_sum(), Duration::from_millis(740));
    let text = operations.prometheus();
    for line in [
        "rescind_operations_active{type=\"tool/call\"} 1",
        "rescind_operations_registered_total{type=\"tool/call\"} 4",
        "rescind_operations_cancelled_total{reason=\"timeout\"} 1",
        "rescind_operation_duration_before_cancel_seconds_bucket{le=\"0.050\"} 1",
        "rescind_operation_duration_before_cancel_seconds_bucket{le=\"1.000\"} 2",
        "rescind_operation_duration_before_cancel_seconds_bucket{le=\"+Inf\"} 2",
        "rescind_operation_duration_before_cancel_seconds_sum 0.74",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn names_in_metrics_are_escaped_as_prometheus_asks() {
    let mut operations: Operations<()> = Operations::new(OperationLimits::default());
    operations.kind("a\"b\\c\nd", Cleanup::NotNeeded);
    let line = r#"rescind_operations_active{type="a\"b\\c\nd"} 0"#;
    assert!(operations.prometheus().lines().any(|other| other == line));
}

#[test]
fn an_operation_takes_at_most_128_bytes() {
    // The entry, and at most three places of the index that is at least a third full.
    assert!(size_of::<Entry<u64>>() + 3 * 4 <= 128, "{}", size_of::<Entry<u64>>());
}
