//! The work of a driver: it moves bytes, keeps time and sleeps in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use protocol_async::Failure;
use protocol_core::{CallOptions, Cause};

use super::{
    Router, Shared, TICK, acp, against_far, cancel_line, open, request_line, result_line, run,
    sleep, spawn,
};
use crate::far::Far;
use crate::pipe::{ENDLESS, pipe};

#[test]
fn b07_10_000_requests_and_cancels_in_one_write_with_the_peer_not_reading() {
    const MANY: u64 = 10_000;
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), 8);
        let (told, cancelled) = smol::channel::unbounded();
        let shared = Shared::new(told);
        spawn(async move {
            let router = Router::new().request("slow", async move |(): (), cx| {
                let cause = cx.cancellation().cancelled().await;
                shared.try_send(cause).unwrap();
                Err::<(), _>(Failure::Cancelled)
            });
            router.serve(&incoming).await;
        });
        let messages: Vec<String> = (1..=MANY)
            .map(|id| request_line(id, "slow"))
            .chain((1..=MANY).map(cancel_line))
            .collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        far.send(&messages).await;
        for _ in 0..MANY {
            assert_eq!(cancelled.recv().await.unwrap(), Cause::Peer);
        }
        // Nobody has read a byte yet, and a call of ours can still be made and withdrawn.
        assert_eq!(peer.in_flight(0), []);
        drop(peer.call::<()>("withdrawn", ()));
        for _ in 0..MANY {
            assert!(far.line().await.unwrap().contains("-32800"));
        }
    });
}

#[test]
fn g05_a_timer_is_armed_anew_when_an_earlier_one_comes() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let within = |time| CallOptions::default().timeout(time);
        let late = peer.call_with::<()>("late", (), within(Duration::from_secs(3_600)));
        far.expect(&request_line(1, "late")).await;
        sleep(TICK).await;
        for number in [2, 3] {
            let early = peer.call_with::<()>("early", (), within(TICK * 5));
            early.await.unwrap_err();
            far.expect(&request_line(number, "early")).await;
            far.expect(&cancel_line(number)).await;
            assert_eq!(peer.in_flight(9).len(), 1);
        }
        drop(late);
    });
}

/// One round trip costs a few polls of the driver, and then it sleeps.
#[test]
fn g03_an_idle_connection_is_not_polled() {
    run(async {
        let (far_reader, writer) = pipe(ENDLESS);
        let (reader, far_writer) = pipe(ENDLESS);
        let mut far = Far::new(far_reader, far_writer);
        let (peer, _incoming, driver) = open(reader, writer, acp().into());
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        spawn(async move {
            let mut driver = std::pin::pin!(driver);
            let driven = std::future::poll_fn(|cx| {
                counted.fetch_add(1, SeqCst);
                driver.as_mut().poll(cx)
            });
            driven.await.unwrap();
        });
        for id in 1..=10 {
            let sent = peer.call::<u8>("m", ());
            far.expect(&request_line(id, "m")).await;
            far.send(&[&result_line(id, "1")]).await;
            sent.await.unwrap();
        }
        sleep(TICK).await;
        let busy = polls.load(SeqCst);
        assert!(busy <= 1 + 10 * 2, "{busy} polls for 10 round trips");
        sleep(TICK).await;
        assert_eq!(polls.load(SeqCst), busy);
    });
}
