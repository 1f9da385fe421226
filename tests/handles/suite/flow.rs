//! Writing: the queue, the messages that overtake it, and those that have no room.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Wake};
use std::time::Duration;

use protocol_async::{Arrival, Direction, Options, Phase};
use protocol_core::{CancelOutcome, Cause, CloseReason, Refusal, Shutdown};
use serde_json::value::RawValue;

use super::{
    DRIVER, Driver, TICK, acp, against_far, cancel_line, is_pending, notification,
    notification_line, open, request, request_line, result_line, run, sleep,
};
use crate::far::Far;
use crate::pipe::{ENDLESS, pipe};

const BULK: usize = 200_000;

/// One message so long that it is being written as soon as the far end has read some of it.
async fn block(peer: &protocol_async::Peer, far: &mut Far) {
    peer.try_notify("bulk", ["x".repeat(BULK)]).unwrap();
    far.read().await;
}

/// Polls a future that is not ready; says later whether it was woken.
fn wait(future: &mut (impl Future + Unpin)) -> Arc<AtomicBool> {
    struct Flag(Arc<AtomicBool>);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }

    let woken = Arc::new(AtomicBool::new(false));
    let waker = Arc::new(Flag(woken.clone())).into();
    assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
    woken
}

#[test]
fn g04_a_call_that_has_not_left_is_withdrawn() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), 64);
        block(&peer, &mut far).await;
        let sent = peer.call::<()>("never", ());
        assert_eq!(sent.cancel(), CancelOutcome::Withdrawn);
        drop(peer.call::<()>("dropped", ()));
        peer.try_notify("end", ()).unwrap();
        assert!(far.line().await.unwrap().contains("bulk"));
        far.expect(&notification_line("end")).await;
        assert!(sent.await.unwrap_err().to_string().contains("cancelled"));
    });
}

#[test]
fn g04_a_cancel_overtakes_queued_bulk() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), 64);
        let sent = peer.call::<()>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        block(&peer, &mut far).await;
        peer.try_notify("more", ["x".repeat(BULK)]).unwrap();
        sent.cancel();
        assert!(far.line().await.unwrap().contains("bulk"));
        far.expect(&cancel_line(1)).await;
        assert!(far.line().await.unwrap().contains("more"));
    });
}

#[test]
fn g04_flushed_is_told_when_what_was_queued_is_withdrawn() {
    if DRIVER == Driver::Threads {
        return; // They would write what is to be withdrawn.
    }
    run(async {
        let (_far_reader, writer) = pipe(ENDLESS);
        let (reader, _far_writer) = pipe(ENDLESS);
        // Nobody drives it: nothing is ever written.
        let (peer, _incoming, _driver) = open(reader, writer, acp().into());
        let sent = peer.call::<()>("never", ());
        let mut flushed = peer.flushed();
        let woken = wait(&mut flushed);
        assert_eq!(sent.cancel(), CancelOutcome::Withdrawn);
        assert!(woken.load(SeqCst));
        flushed.await;
    });
}

#[test]
fn g05_flushed_is_told_when_everything_is_abandoned() {
    run(async {
        let (peer, _incoming, _far) = against_far(acp(), 64);
        let _cork = peer.cork();
        peer.try_notify("staged", ()).unwrap();
        let mut flushed = peer.flushed();
        let woken = wait(&mut flushed);
        peer.shutdown(Shutdown::Abandon);
        assert!(woken.load(SeqCst));
        flushed.await;
    });
}

#[test]
fn g08_ready_after_outbox_full() {
    run(async {
        let mut config = acp();
        config.limits.unsent_bytes = 1_000;
        let (peer, _incoming, mut far) = against_far(config, 64);
        peer.try_notify("x", ["x".repeat(900)]).unwrap();
        far.read().await;
        // It has left the outbox, and hangs in the pipe.
        let long = ["y".repeat(600)];
        peer.try_notify("y", ["y".repeat(400)]).unwrap();
        assert_eq!(peer.try_notify("y", &long), Err(Refusal::OutboxFull));
        assert_eq!(peer.try_notify("z", ["z".repeat(2_000)]), Err(Refusal::TooLarge));
        let mut ready = peer.ready();
        assert!(is_pending(&mut ready).await, "half empty is not enough for this one");
        far.line().await.unwrap();
        ready.await;
        peer.try_notify("y", &long).unwrap();
        far.line().await.unwrap();
        far.line().await.unwrap();
        peer.flushed().await;
    });
}

/// An answer is never refused: it waits for room.
#[test]
fn g02_answers_wait_for_room() {
    run(async {
        let mut config = acp();
        config.limits.unsent_bytes = 1_000;
        let (peer, incoming, mut far) = against_far(config, 64);
        far.send(&[&request_line(1, "a"), &request_line(2, "b")]).await;
        let ((_, first), (_, second)) = (request(&incoming).await, request(&incoming).await);
        peer.try_notify("x", ["x".repeat(900)]).unwrap();
        far.read().await;
        peer.try_notify("y", ["y".repeat(900)]).unwrap();
        first
            .cast::<[u8; 100]>()
            .answer(Ok(serde_json::value::to_raw_value(&"1".repeat(500)).unwrap()));
        second.cast::<&str>().respond("2");
        for expected in ["xxx", "yyy", "111", "\"2\""] {
            assert!(far.line().await.unwrap().contains(expected));
        }
    });
}

#[test]
fn f03_answers_wait_for_room_after_the_end_of_input_too() {
    run(async {
        let mut config = acp();
        config.limits.unsent_bytes = 60_000;
        let (_peer, incoming, mut far) = against_far(config, 8);
        let result = format!("\"{}\"", "x".repeat(50_000));
        for id in 1..=6 {
            far.send(&[&request_line(id, "big")]).await;
            let (_, responder) = request(&incoming).await;
            responder.answer(Ok(RawValue::from_string(result.clone()).unwrap()));
        }
        far.close();
        assert!(matches!(incoming.receive().await, Err(CloseReason::PeerGone)));
        for id in 1..=6 {
            far.expect(&result_line(id, &result)).await;
        }
    });
}

#[test]
fn g11_a_cork_makes_one_write_of_many_messages() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let cork = peer.cork();
        let sent = peer.call::<()>("slow", ());
        for _ in 0..1_000 {
            peer.try_notify("x", ()).unwrap();
        }
        assert_eq!(sent.cancel(), CancelOutcome::Sent, "it counts as sent");
        assert_eq!(far.writes(), 0);
        drop(cork);
        far.expect(&request_line(1, "slow")).await;
        for _ in 0..1_000 {
            far.expect(&notification_line("x")).await;
        }
        far.expect(&cancel_line(1)).await;
        assert_eq!(far.writes(), 1);
    });
}

#[test]
fn g08_a_cork_holds_no_more_back_than_the_outbox_would() {
    run(async {
        let mut config = acp();
        config.limits.unsent_bytes = 1_000;
        let (peer, _incoming, mut far) = against_far(config, ENDLESS);
        let _cork = peer.cork();
        for _ in 0..40 {
            while peer.try_notify("x", ["x".repeat(100)]).is_err() {
                peer.ready().await;
            }
        }
        far.line().await.unwrap();
    });
}

#[test]
fn g08_what_nobody_takes_is_counted_and_requests_are_refused() {
    run(async {
        let mut options = Options::new(acp());
        options.inbox_bytes = 1_000;
        let (_peer, incoming, mut far) = against_far(options, ENDLESS);
        let many = vec![notification_line("x"); 100];
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        far.send(&many).await;
        far.send(&[&request_line(1, "refused")]).await;
        assert!(far.line().await.unwrap().contains("-32800"), "the dialect's overload code");
        let (mut taken, mut missed) = (0, 0);
        while taken + missed < 100 {
            match incoming.receive().await.unwrap() {
                Arrival::Notification(_) => taken += 1,
                Arrival::Missed { count } => missed += count,
                other => panic!("{other:?}"),
            }
        }
        assert!(taken > 0 && missed > 0 && taken < 20);
        far.send(&[&notification_line("after")]).await;
        notification(&incoming, "after").await;
    });
}

#[test]
fn g03_what_is_in_flight_is_listed_both_ways() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("ours", ());
        far.expect(&request_line(1, "ours")).await;
        far.send(&[&request_line(7, "theirs"), &cancel_line(7)]).await;
        let (_, _responder) = request(&incoming).await;
        sent.cancel();
        sleep(TICK).await;
        let listed = peer.in_flight(9);
        let [call, request] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((call.direction, call.number, &*call.method), (Direction::Call, 1, "ours"));
        assert_eq!((call.phase, call.cause), (Phase::Cancelling, Some(Cause::Caller)));
        assert_eq!((request.direction, &*request.method), (Direction::Request, "theirs"));
        assert_eq!((request.phase, request.cause), (Phase::Cancelled, Some(Cause::Peer)));
        assert!(call.age >= TICK && call.age < TICK + Duration::from_secs(60));
        assert_eq!(peer.in_flight(0), []);
    });
}
