//! Markers by themselves.

use std::future::{pending, poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use protocol_async::Canceller;
use protocol_core::Cause;

use super::{Shared, acp, against_far, cancel_line, cancelled_line, request_line, run, spawn};
use crate::pipe::ENDLESS;

#[test]
fn b06_unless_cancelled_never_polls_work_that_is_cancelled_already() {
    run(async {
        let canceller = Canceller::new();
        canceller.cancel(Cause::Caller);
        let never = poll_fn(|_| -> Poll<()> { panic!("it is polled") });
        let stopped = canceller.marker().unless_cancelled(never).await.unwrap_err();
        assert_eq!(stopped.cause, Cause::Caller);
    });
}

#[test]
fn b23_unless_cancelled_gives_the_result_on_a_tie() {
    run(async {
        let canceller = Canceller::new();
        let marker = canceller.marker();
        let work = async {
            canceller.cancel(Cause::Caller);
            7
        };
        assert_eq!(marker.unless_cancelled(work).await, Ok(7));
        assert_eq!(marker.unless_cancelled(ready(7)).await.unwrap_err().cause, Cause::Caller);
    });
}

#[test]
fn b06_unless_cancelled_drops_the_work_before_it_returns() {
    run(async {
        let canceller = Canceller::new();
        let (alive, marker) = (Shared::new(()), canceller.marker());
        let held = alive.clone();
        let work = async move {
            canceller.cancel(Cause::Deadline);
            let _held = held;
            pending::<()>().await;
        };
        assert_eq!(marker.unless_cancelled(work).await.unwrap_err().cause, Cause::Deadline);
        assert_eq!(Shared::strong_count(&alive), 1);
    });
}

#[test]
fn g03_any_number_of_tasks_wait_for_one_marker() {
    run(async {
        let canceller = Canceller::new();
        let (told, count) = smol::channel::unbounded();
        for _ in 0..100 {
            let (marker, told) = (canceller.marker(), told.clone());
            spawn(async move {
                // One that stops waiting takes nobody's place.
                let mut impatient = marker.cancelled();
                poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut impatient).poll(cx)))
                    .await
                    .is_ready();
                drop(impatient);
                told.send(marker.cancelled().await).await.unwrap();
            });
        }
        canceller.cancel(Cause::Parent);
        canceller.cancel(Cause::Caller);
        for _ in 0..100 {
            assert_eq!(count.recv().await.unwrap(), Cause::Parent, "the first cause stays");
        }
    });
}

#[test]
fn g06_a_child_is_set_with_its_parent_and_not_the_other_way() {
    run(async {
        let parent = Canceller::new();
        let (child, other) = (parent.marker().child(), parent.marker().child());
        other.cancel(Cause::Deadline);
        assert!(!parent.marker().is_cancelled() && !child.marker().is_cancelled());
        let grandchild = child.marker().child().marker();
        parent.cancel(Cause::Peer);
        assert_eq!(child.marker().cancelled().await, Cause::Parent);
        assert_eq!(grandchild.cause(), Some(Cause::Parent));
        assert_eq!(other.marker().cause(), Some(Cause::Deadline));
        assert_eq!(parent.marker().child().marker().cause(), Some(Cause::Parent));
    });
}

/// A marker is kept by its only follower alone, together with the source that sets it.
#[test]
fn f33_a_follower_owns_its_source() {
    run(async {
        let from_outside = || {
            let (canceller, source) = (Canceller::new(), Arc::new(()));
            let kept = Arc::downgrade(&source);
            canceller.keep(source);
            (canceller.marker(), canceller.downgrade(), kept)
        };
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        let (marker, canceller, kept) = from_outside();
        let sent = peer.call::<()>("slow", ()).forward_cancellation_from(&marker);
        drop(marker);
        far.expect(&request_line(1, "slow")).await;
        assert!(kept.upgrade().is_some(), "the call keeps it");
        canceller.cancel(Cause::Internal);
        far.expect(&cancel_line(1)).await;
        far.send(&[&cancelled_line(1)]).await;
        sent.await.unwrap_err();
        assert!(kept.upgrade().is_none(), "until it is settled");

        let (told, seen) = smol::channel::unbounded();
        let (marker, canceller, kept) = from_outside();
        marker.on_cancel(move |cause| told.try_send(cause).unwrap()).forever();
        drop(marker);
        canceller.cancel(Cause::Internal);
        assert_eq!(seen.recv().await.unwrap(), Cause::Internal);
        assert!(kept.upgrade().is_none());

        let (marker, canceller, _kept) = from_outside();
        let child = marker.child();
        drop(marker);
        canceller.cancel(Cause::Internal);
        assert_eq!(child.marker().cause(), Some(Cause::Parent));
    });
}

/// The marker of a request, a child of it, and a follower of either that never ends.
#[test]
fn f90_followers_go_with_the_last_who_could_set_their_marker() {
    run(async {
        for follows_child in [false, true] {
            let kept = Arc::new(());
            let weak = Arc::downgrade(&kept);
            let canceller = Canceller::new();
            let marker = canceller.marker();
            let child = follows_child.then(|| marker.child());
            let followed = child.as_ref().map_or(marker, Canceller::marker);
            followed.on_cancel(move |_| drop(kept)).forever();
            drop((followed, child));
            assert!(weak.upgrade().is_some(), "it can still be set");
            drop(canceller);
            assert!(weak.upgrade().is_none(), "the child is followed: {follows_child}");
        }
    });
}

#[test]
fn g05_followers_run_once_and_can_be_undone() {
    run(async {
        let canceller = Canceller::new();
        let ran = Arc::new(AtomicUsize::new(0));
        let follow = || {
            let ran = ran.clone();
            canceller.marker().on_cancel(move |_| {
                ran.fetch_add(1, SeqCst);
            })
        };
        drop(follow());
        let _kept = follow();
        follow().forever();
        canceller.marker().on_cancel(|_| panic!("on purpose")).forever();
        follow().forever();
        assert_eq!(Arc::strong_count(&ran), 4, "what is undone is let go");
        canceller.cancel(Cause::Caller);
        canceller.cancel(Cause::Caller);
        assert_eq!(ran.load(SeqCst), 3, "one panics, and harms no other");
        drop(follow());
        assert_eq!(ran.load(SeqCst), 4, "too late to wait");
    });
}
