//! The end of a connection: work that waits learns of it, whatever it was begun for.

use std::time::Duration;

use protocol_core::{Cause, CloseReason};
use protocol_router::{Context, Router};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::wire::{Far, against_far, cancel, notification, request, result};

/// The causes that work learned of.
type Causes = UnboundedSender<Cause>;

async fn learn(cx: &Context<Causes>) {
    let cause = cx.cancellation().cancelled().await;
    cx.state().send(cause).unwrap();
}

/// Serves work that waits for the marker of its context.
fn serve() -> (JoinHandle<CloseReason>, Far, UnboundedReceiver<Cause>) {
    let (incoming, far) = against_far();
    let (causes, learned) = unbounded_channel();
    let spawns = async |_: (usize,), cx: Context<Causes>| {
        let own = cx.clone();
        cx.spawn(async move {
            learn(&own).await;
            Ok(())
        });
        cx.spawn_with(async |own| {
            learn(&own).await;
            Ok(())
        });
        Ok(())
    };
    let router = Router::with_state(causes)
        .notification("waits", async |_: (usize,), cx| {
            learn(&cx).await;
            Ok(())
        })
        .notification("spawns", spawns)
        .request("spawns", spawns)
        .request("spawns and waits", async move |n: (usize,), cx| {
            spawns(n, cx.clone()).await?;
            cx.cancellation().cancelled().await;
            Ok(())
        });
    let served = tokio::spawn(async move { router.serve(&incoming).await });
    (served, far, learned)
}

/// Hangs up, and checks that `serve` ends once this much work has learned of it.
async fn ends(
    far: Far,
    served: JoinHandle<CloseReason>,
    learned: UnboundedReceiver<Cause>,
    work: usize,
) {
    assert_eq!(far.rest().await, [""; 0]);
    let served = tokio::time::timeout(Duration::from_secs(20), served);
    assert_eq!(served.await.expect("it waits for ever").unwrap(), CloseReason::PeerGone);
    assert_eq!(all(learned).await, vec![Cause::PeerGone; work]);
}

async fn all(mut learned: UnboundedReceiver<Cause>) -> Vec<Cause> {
    let mut causes = Vec::new();
    while let Some(cause) = learned.recv().await {
        causes.push(cause);
    }
    causes
}

#[tokio::test]
async fn a_notification_and_its_work_learn_of_a_hang_up() {
    let (served, mut far, learned) = serve();
    far.send(&[notification("waits", 1), notification("spawns", 2)]).await;
    ends(far, served, learned, 3).await;
}

#[tokio::test]
async fn work_of_a_request_that_is_answered_learns_of_a_hang_up() {
    let (served, mut far, learned) = serve();
    far.send(&[request(1, "spawns")]).await;
    far.expect(&[&result(1, "null")]).await;
    ends(far, served, learned, 2).await;
}

#[tokio::test]
async fn work_of_a_request_in_flight_learns_of_its_cancel() {
    let (served, mut far, mut learned) = serve();
    far.send(&[request(1, "spawns and waits"), cancel(1)]).await;
    far.expect(&[&result(1, "null")]).await;
    for _ in 0..2 {
        assert_eq!(learned.recv().await, Some(Cause::Peer));
    }
    ends(far, served, learned, 0).await;
}

/// While so many wait, nothing is taken out of the inbox.
#[tokio::test]
async fn a_hang_up_ends_notifications_that_hold_up_the_router() {
    let (served, mut far, learned) = serve();
    let waiting: Vec<_> = (0..70).map(|n| notification("waits", n)).collect();
    far.send(&waiting).await;
    ends(far, served, learned, 70).await;
}
