//! The end of a connection, from our side.

use protocol_async::{CallError, Options};
use protocol_core::{CallOptions, Cause, CloseReason, Refusal, Shutdown};

use super::{
    DRIVER, Driver, acp, against_far, cancel_line, cancelled_line, notification_line, open,
    request, request_line, result_line, run, spawn,
};
use crate::far::Far;
use crate::pipe::{ENDLESS, pipe};

#[test]
fn g05_draining_finishes_what_is_in_flight_and_sends_no_cancels() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<u8>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        peer.shutdown(Shutdown::Drain);
        let refused = peer.call::<()>("late", ()).await;
        assert!(matches!(refused, Err(CallError::Refused(Refusal::ShuttingDown))));
        far.send(&[&result_line(1, "5")]).await;
        assert_eq!(sent.await.unwrap(), 5);
        assert_eq!(far.line().await, None);
        assert_eq!(incoming.receive().await.unwrap_err(), CloseReason::Shutdown);
    });
}

#[test]
fn g05_cancel_all_cancels_both_ways() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("ours", ());
        far.expect(&request_line(1, "ours")).await;
        far.send(&[&request_line(9, "theirs")]).await;
        let (_, responder) = request(&incoming).await;
        peer.shutdown(Shutdown::CancelAll);
        assert_eq!(responder.cancellation().cancelled().await, Cause::Shutdown);
        far.expect(&cancel_line(1)).await;
        drop(responder);
        far.expect(&cancelled_line(9)).await;
        far.send(&[&cancelled_line(1)]).await;
        let outcome = sent.await;
        assert!(matches!(outcome, Err(CallError::Cancelled { cause: Cause::Shutdown, .. })));
        assert_eq!(far.line().await, None);
    });
}

#[test]
fn g05_abandoning_ends_at_once_though_the_peer_does_not_read() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), 8);
        far.send(&[&request_line(9, "theirs")]).await;
        let (_, responder) = request(&incoming).await;
        let sent = peer.call::<()>("ours", ["x".repeat(1_000)]);
        far.read().await;
        peer.shutdown(Shutdown::Abandon);
        let outcome = sent.await;
        assert!(matches!(outcome, Err(CallError::ConnectionLost { cause: Cause::Shutdown, .. })));
        assert_eq!(responder.cancellation().cause(), Some(Cause::Shutdown));
        assert_eq!(incoming.receive().await.unwrap_err(), CloseReason::Shutdown);
        peer.flushed().await;
        while far.read().await {}
    });
}

#[test]
fn g07_dropping_every_handle_ends_the_connection_once_all_is_written() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), 8);
        peer.try_notify("last", ()).unwrap();
        drop((peer.clone(), incoming));
        drop(peer);
        far.expect(&notification_line("last")).await;
        assert_eq!(far.line().await, None);
    });
}

/// Once nothing is in flight, a peer that reads no more is waited for no longer than patience lasts.
#[test]
fn g08_a_peer_that_reads_no_more_does_not_keep_the_connection() {
    run(async {
        let mut options = Options::new(acp());
        options.patience = super::TICK;
        let (far_reader, writer) = pipe(8);
        let (reader, _far_writer) = pipe(ENDLESS);
        let (peer, incoming, driver) = open(reader, writer, options);
        peer.try_notify("last", ["x".repeat(1_000)]).unwrap();
        drop((peer, incoming));
        driver.await.unwrap();
        drop(far_reader);
    });
}

#[test]
fn g07_dropping_the_driver_settles_everything() {
    if DRIVER == Driver::Threads {
        return; // Nobody can drop them.
    }
    run(async {
        let (far_reader, writer) = pipe(ENDLESS);
        let (reader, far_writer) = pipe(ENDLESS);
        let mut far = Far::new(far_reader, far_writer);
        let (peer, incoming, driver) = open(reader, writer, acp().into());
        let (stop, stopped) = smol::channel::bounded::<()>(1);
        spawn(async move {
            let stop = async { stopped.recv().await.map_or(Ok(()), Ok) };
            smol::future::or(driver, stop).await.unwrap();
        });
        far.send(&[&request_line(9, "theirs")]).await;
        let (_, responder) = request(&incoming).await;
        let sent = peer.call::<()>("slow", ());
        let (told, outcome) = smol::channel::bounded(1);
        let other = peer.call_with::<()>("other", (), CallOptions::default());
        other.on_result(move |outcome| told.try_send(outcome.is_err()).unwrap());
        far.expect(&request_line(1, "slow")).await;
        stop.send(()).await.unwrap();
        let lost = sent.await;
        assert!(matches!(lost, Err(CallError::ConnectionLost { cause: Cause::Shutdown, .. })));
        assert!(outcome.recv().await.unwrap());
        assert_eq!(responder.cancellation().cancelled().await, Cause::Shutdown);
        responder.cast::<u8>().respond(1);
        peer.flushed().await;
        assert_eq!(peer.try_notify("late", ()), Err(Refusal::Closed));
        assert_eq!(incoming.receive().await.unwrap_err(), CloseReason::Shutdown);
    });
}
