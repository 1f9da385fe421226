//! Calls: their outcomes, and the effects of their handles.

use std::sync::mpsc;

use protocol_async::{Arrival, CallError, SentRequest};
use protocol_core::{CallOptions, CancelOutcome, Cause, Grace, Refusal, Violation};

use super::{
    TICK, acp, against_far, cancel_line, cancelled_line, error_line, is_pending, notification,
    notification_line, request_line, result_line, run, spawn,
};
use crate::pipe::ENDLESS;

#[test]
fn g01_a_call_settles_with_its_result() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<Vec<u8>>("numbers", [7]);
        far.expect(r#"{"jsonrpc":"2.0","id":1,"method":"numbers","params":[7]}"#).await;
        far.send(&[&result_line(1, "[1,2]")]).await;
        assert_eq!(sent.await.unwrap(), [1, 2]);
    });
}

#[test]
fn g01_a_result_of_another_type_is_an_error_here_only() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<u8>("number", ());
        far.expect(&request_line(1, "number")).await;
        far.send(&[&result_line(1, "\"seven\"")]).await;
        assert!(matches!(sent.await, Err(CallError::InvalidResult { .. })));
    });
}

#[test]
fn g05_drop_cancels() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        drop(sent);
        far.expect(&cancel_line(1)).await;
        far.send(&[&cancelled_line(1), &notification_line("after")]).await;
        notification(&incoming, "after").await;
        assert_eq!(peer.in_flight(9), []);
    });
}

#[test]
fn g05_drop_after_the_response_is_routed_sends_nothing() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("quick", ());
        far.expect(&request_line(1, "quick")).await;
        far.send(&[&result_line(1, "null"), &notification_line("after")]).await;
        notification(&incoming, "after").await;
        drop(sent);
        peer.try_notify("end", ()).unwrap();
        far.expect(&notification_line("end")).await;
    });
}

#[test]
fn g05_cancel_sends_once_and_the_answer_is_still_awaited() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<u8>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        assert_eq!(sent.cancel(), CancelOutcome::Sent);
        assert_eq!(sent.cancellation_handle().cancel(), CancelOutcome::AlreadySent);
        far.expect(&cancel_line(1)).await;
        peer.try_notify("end", ()).unwrap();
        far.expect(&notification_line("end")).await;
        far.send(&[&result_line(1, "3")]).await;
        assert_eq!(sent.await.unwrap(), 3, "the result wins");
    });
}

#[test]
fn g05_a_confirmed_cancel_says_why() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<u8>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        sent.cancel();
        far.send(&[&cancelled_line(1)]).await;
        let Err(CallError::Cancelled { cause: Cause::Caller, error: Some(error) }) = sent.await
        else {
            panic!("it was cancelled and confirmed");
        };
        assert_eq!(error.code, -32800);
    });
}

#[test]
fn g01_a_local_failure_cannot_be_forged() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("forged", ());
        far.expect(&request_line(1, "forged")).await;
        far.send(&[&cancelled_line(1)]).await;
        // Nobody here cancelled it.
        assert!(matches!(sent.await, Err(CallError::Error(error)) if error.code == -32800));
    });
}

#[test]
fn g05_detach_sends_no_cancel() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        peer.call::<()>("slow", ()).detach();
        far.expect(&request_line(1, "slow")).await;
        peer.try_notify("end", ()).unwrap();
        far.expect(&notification_line("end")).await;
        assert_eq!(peer.in_flight(9).len(), 1);
        far.send(&[&result_line(1, "null"), &notification_line("after")]).await;
        notification(&incoming, "after").await;
        assert_eq!(peer.in_flight(9), []);
    });
}

#[test]
fn g05_cancellation_handles_keep_nothing_alive() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("slow", ());
        let handle = sent.cancellation_handle().clone();
        drop((peer, incoming));
        far.expect(&request_line(1, "slow")).await;
        assert_eq!(handle.cancel(), CancelOutcome::Sent, "the call keeps the connection");
        far.expect(&cancel_line(1)).await;
        far.send(&[&cancelled_line(1)]).await;
        sent.await.unwrap_err();
        assert_eq!(far.line().await, None, "the handle does not");
        assert_eq!(handle.cancel(), CancelOutcome::AlreadySettled);
    });
}

#[test]
fn g04_a_prepared_call_that_is_cancelled_before_is_never_sent() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let prepared = peer.prepare::<()>("never", (), CallOptions::default());
        let handle = prepared.cancellation_handle();
        assert_eq!(handle.cancel(), CancelOutcome::Withdrawn);
        assert_eq!(handle.cancel(), CancelOutcome::AlreadySettled);
        let outcome = prepared.publish().await;
        assert!(matches!(outcome, Err(CallError::Cancelled { cause: Cause::Caller, error: None })));
        drop(peer.prepare::<()>("dropped", (), CallOptions::default()));
        peer.try_notify("end", ()).unwrap();
        far.expect(&notification_line("end")).await;
    });
}

#[test]
fn g05_a_prepared_call_is_cancelled_after_it_is_published() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let prepared = peer.prepare::<()>("slow", (), CallOptions::default());
        let handle = prepared.cancellation_handle();
        let _sent = prepared.publish();
        far.expect(&request_line(1, "slow")).await;
        assert_eq!(handle.cancel(), CancelOutcome::Sent);
        far.expect(&cancel_line(1)).await;
    });
}

#[test]
fn g01_on_result_runs_once_whatever_happens() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let (outcomes, told) = mpsc::channel();
        for method in ["a", "b", "c"] {
            let outcomes = outcomes.clone();
            peer.call::<u8>(method, ()).on_result(move |outcome| outcomes.send(outcome).unwrap());
        }
        peer.call::<u8>("invalid", 1).on_result(move |outcome| outcomes.send(outcome).unwrap());
        for id in 1..=3 {
            far.expect(&request_line(id, ["a", "b", "c"][id as usize - 1])).await;
        }
        far.send(&[&result_line(1, "1"), &error_line(2, -1, "no")]).await;
        far.close();
        assert_eq!(far.line().await, None);
        let outcomes: Vec<_> = told.into_iter().collect();
        assert!(
            matches!(
                &outcomes[..],
                [
                    Err(CallError::Refused(Refusal::InvalidParams)),
                    Ok(1),
                    Err(CallError::Error(_)),
                    Err(CallError::ConnectionLost { cause: Cause::PeerGone, .. })
                ]
            ),
            "{outcomes:?}"
        );
    });
}

#[test]
fn b33_a_panicking_callback_harms_nobody_else() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        peer.call::<u8>("a", ()).on_result(|_| panic!("on purpose"));
        let sent = peer.call::<u8>("b", ());
        far.expect(&request_line(1, "a")).await;
        far.expect(&request_line(2, "b")).await;
        far.send(&[&result_line(1, "1"), &result_line(2, "2")]).await;
        assert_eq!(sent.await.unwrap(), 2);
    });
}

#[test]
fn b27_handles_are_dropped_on_any_thread_without_a_runtime() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        std::thread::spawn(move || drop(sent)).join().unwrap();
        far.expect(&cancel_line(1)).await;
    });
}

/// A call may be polled by one task and then by another: the last is woken.
#[test]
fn g01_a_call_is_polled_by_changing_tasks() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let mut sent = peer.call::<u8>("slow", ());
        let (to_second, second) = smol::channel::bounded::<SentRequest<u8>>(1);
        let (done, outcome) = smol::channel::bounded(1);
        spawn(async move {
            let sent = second.recv().await.unwrap();
            done.send(sent.await.unwrap()).await.unwrap();
        });
        assert!(is_pending(&mut sent).await);
        to_second.send(sent).await.unwrap();
        far.expect(&request_line(1, "slow")).await;
        far.send(&[&result_line(1, "4")]).await;
        assert_eq!(outcome.recv().await.unwrap(), 4);
    });
}

#[test]
fn b16_end_of_input_settles_every_call() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let calls: Vec<_> = (0..10).map(|_| peer.call::<()>("slow", ())).collect();
        far.close();
        for call in calls {
            let lost = call.await;
            assert!(matches!(lost, Err(CallError::ConnectionLost { cause: Cause::PeerGone, .. })));
        }
        assert!(incoming.receive().await.is_err());
        assert!(incoming.receive().await.is_err(), "and it stays so");
    });
}

#[test]
fn g05_a_deadline_frees_its_caller_though_the_peer_does_not_read() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), 1);
        peer.try_notify("bulk", ["x".repeat(100_000)]).unwrap();
        far.read().await;
        let sent = peer.call_with::<()>("slow", (), CallOptions::default().timeout(TICK));
        let outcome = sent.await;
        assert!(matches!(outcome, Err(CallError::TimedOut { cause: Cause::Deadline })));
    });
}

#[test]
fn g12_after_its_grace_a_cancelled_call_settles_here() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let patient = CallOptions::default().grace(Grace::Settle(TICK));
        let sent = peer.call_with::<()>("slow", (), patient);
        far.expect(&request_line(1, "slow")).await;
        sent.cancel();
        far.expect(&cancel_line(1)).await;
        let outcome = sent.await;
        assert!(matches!(outcome, Err(CallError::Cancelled { cause: Cause::Caller, error: None })));
        // The late response is nobody's fault, so it is no arrival. A second one is.
        far.send(&[&result_line(1, "null"), &result_line(1, "null")]).await;
        let second = incoming.receive().await.unwrap();
        let expected = Violation::DuplicateResponse;
        assert!(matches!(second, Arrival::Violation { violation, .. } if violation == expected));
    });
}
