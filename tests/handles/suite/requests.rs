//! Requests: handlers, their cancels, and every way not to answer.

use std::error::Error;

use protocol_async::Failure;
use protocol_core::Cause;
use protocol_router::{Claim, Trouble};

use super::{
    Router, Shared, acp, against_far, cancel_line, cancelled_line, error_line, is_pending,
    notification, notification_line, request, request_line, result_line, run, spawn,
};
use crate::pipe::ENDLESS;

#[test]
fn b06_a_handler_awaits_its_own_cancellation_inline() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let served = Shared::new(());
        spawn(async move {
            let router = Router::new().request("slow", async move |(): (), cx| {
                let _shared = served.clone();
                assert_eq!(cx.cancellation().cancelled().await, Cause::Peer);
                Err::<(), _>(Failure::Cancelled)
            });
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "slow")]).await;
        far.send(&[&cancel_line(1)]).await;
        far.expect(&cancelled_line(1)).await;
    });
}

#[test]
fn b09_cancel_in_the_same_read() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[&request_line(1, "slow"), &cancel_line(1)]).await;
        let (_, responder) = request(&incoming).await;
        if !responder.is_cancelled() {
            // Another thread was quicker than the driver.
            assert_eq!(responder.cancellation().cancelled().await, Cause::Peer);
        }
        let stopped = responder.cancellation().unless_cancelled(async { 1_u8 }).await;
        responder.cast().respond_with_result(stopped);
        far.expect(&cancelled_line(1)).await;
    });
}

#[test]
fn b10_a_cancel_after_the_answer_changes_nothing() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[&request_line(1, "quick")]).await;
        let (_, responder) = request(&incoming).await;
        let marker = responder.cancellation();
        responder.cast().respond("done");
        far.expect(&result_line(1, "\"done\"")).await;
        far.send(&[&cancel_line(1), &notification_line("after")]).await;
        notification(&incoming, "after").await;
        assert!(!marker.is_cancelled());
    });
}

#[test]
fn b33_panicking_handler() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::new()
                .request("waits", async |(): (), cx| {
                    cx.cancellation().cancelled().await;
                    Ok(String::from("stopped"))
                })
                .request("panics", async |(): (), _| {
                    if true {
                        panic!("on purpose");
                    }
                    Ok(())
                })
                .request("hostile", async |(): (), _| Ok(Hostile))
                .notification("log", async |(): (), _| panic!("on purpose"))
                .observe(|notification| {
                    assert_ne!(notification.method, "observed", "on purpose");
                    Claim::Pass
                });
            router.serve(&incoming).await;
        });
        far.send(&[
            &request_line(1, "waits"),
            &request_line(2, "panics"),
            &request_line(3, "hostile"),
            &notification_line("log"),
            &notification_line("observed"),
            &request_line(4, "panics"),
        ])
        .await;
        for (id, method) in [(2, "panics"), (3, "hostile"), (4, "panics")] {
            let message = format!(r#"the handler of \"{method}\" panicked"#);
            far.expect(&error_line(id, -32603, &message)).await;
        }
        far.send(&[&cancel_line(1)]).await;
        far.expect(&result_line(1, "\"stopped\"")).await;
    });
}

/// A result that can't be written.
struct Hostile;

impl serde::Serialize for Hostile {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("on purpose")
    }
}

#[test]
fn f21_the_host_is_told_why_params_do_not_fit_and_the_peer_only_where() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let by_hand = incoming.clone();
        let (told, reasons) = smol::channel::unbounded();
        let log = |method: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":["hunter2"]}}"#)
        };
        far.send(&[&request_with(1, "taken", r#"["hunter2"]"#)]).await;
        // A host that serves by hand has the reason in hand.
        let (taken, responder) = request(&by_hand).await;
        let invalid = taken.params::<(u64,)>().unwrap_err();
        assert!(invalid.source().unwrap().to_string().contains("hunter2"));
        assert!(!format!("{invalid} {invalid:?}").contains("hunter2"), "it may be logged");
        responder.respond_with_failure(invalid);
        far.expect(&error_line(1, -32602, r#"invalid params of \"taken\", at line 1 column 10"#))
            .await;

        spawn(async move {
            let router = Router::new()
                .on_trouble(move |trouble| {
                    let Trouble::InvalidParams(invalid) = trouble else { return };
                    let reason = invalid.reason().to_string();
                    told.try_send(format!("{}: {reason}", invalid.method())).unwrap();
                    panic!("on purpose");
                })
                .request("add", async |(a, b): (u64, u64), _| Ok(a + b))
                .notification("log", async |(_,): (u64,), _| Ok(()));
            router.serve(&incoming).await;
        });
        let expected = "add: invalid type: string \"hunter2\", expected u64 at line 1 column 10";
        far.send(&[&request_with(2, "add", r#"["hunter2"]"#), &log("log"), &log("add")]).await;
        far.expect(&error_line(2, -32602, r#"invalid params of \"add\", at line 1 column 10"#))
            .await;
        far.send(&[&request_with(3, "add", "[1,2]")]).await;
        far.expect(&result_line(3, "3")).await;
        // Neither of params that fit, nor of a notification that nobody serves.
        let told: Vec<_> = std::iter::from_fn(|| reasons.try_recv().ok()).collect();
        assert_eq!(told, [expected.to_owned(), expected.replace("add", "log")]);
    });
}

fn request_with(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

#[test]
fn b17_end_of_input_marks_every_request() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[&request_line(1, "a"), &request_line(2, "b")]).await;
        let ((_, first), (_, second)) = (request(&incoming).await, request(&incoming).await);
        far.close();
        assert_eq!(first.cancellation().cancelled().await, Cause::PeerGone);
        assert_eq!(second.cancellation().cancelled().await, Cause::PeerGone);
        // The peer may still be reading.
        first.cast().respond(1);
        drop(second);
        far.expect(&result_line(1, "1")).await;
        far.expect(&cancelled_line(2)).await;
        assert_eq!(far.line().await, None);
    });
}

#[test]
fn g02_a_dropped_responder_answers() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[&request_line(1, "a"), &request_line(2, "b"), &cancel_line(2)]).await;
        let ((_, first), (_, second)) = (request(&incoming).await, request(&incoming).await);
        second.cancellation().cancelled().await;
        drop(first);
        far.expect(&error_line(1, -32603, "no response from the handler of a")).await;
        drop(second);
        far.expect(&cancelled_line(2)).await;
    });
}

#[test]
fn g02_a_request_can_be_cancelled_from_this_side() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[&request_line(1, "a")]).await;
        let (_, responder) = request(&incoming).await;
        responder.cancel();
        assert_eq!(responder.cancellation().cause(), Some(Cause::Internal));
        responder.respond_with_failure(Failure::Cancelled);
        far.expect(&cancelled_line(1)).await;
    });
}

#[test]
fn b12_requests_are_answered_when_nobody_serves() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[&request_line(1, "a"), &notification_line("x")]).await;
        let other = incoming.clone();
        drop(incoming);
        let (_, responder) = request(&other).await;
        drop(other);
        far.send(&[&request_line(2, "b")]).await;
        far.expect(&error_line(2, -32601, "nobody serves requests here")).await;
        responder.cast().respond(1);
        far.expect(&result_line(1, "1")).await;
        // Calling is another matter.
        let sent = peer.call::<u8>("c", ());
        far.expect(&request_line(1, "c")).await;
        far.send(&[&result_line(1, "3")]).await;
        assert_eq!(sent.await.unwrap(), 3);
    });
}

#[test]
fn b28_a_dropped_receive_loses_nothing() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        for round in 0..100 {
            let mut dropped = incoming.receive();
            assert!(is_pending(&mut dropped).await);
            let method = format!("n{round}");
            far.send(&[&notification_line(&method)]).await;
            // Woken for it by now, or not yet; gone before it is polled again.
            smol::future::yield_now().await;
            drop(dropped);
            notification(&incoming, &method).await;
        }
    });
}

#[test]
fn b03_an_answer_holds_nothing_of_the_params() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::new().request("add", async |(a, b): (i64, i64), _| Ok(a + b));
            router.serve(&incoming).await;
        });
        far.send(&[r#"{"jsonrpc":"2.0","id":1,"method":"add","params":["secret",2]}"#]).await;
        let answer = far.line().await.unwrap();
        assert!(answer.contains("-32602") && !answer.contains("secret"), "{answer}");
        far.send(&[&request_line(2, "unknown")]).await;
        far.expect(&error_line(2, -32601, "method not found")).await;
        far.send(&[r#"{"jsonrpc":"2.0","id":3,"method":"add","params":[1,2]}"#]).await;
        far.expect(&result_line(3, "3")).await;
    });
}

#[test]
fn g09_unhandled_protocol_notifications_are_ignored() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::new().request("ping", async |(): (), _| Ok(String::from("pong")));
            router.serve(&incoming).await;
        });
        far.send(&[&notification_line("$/unknown"), &cancel_line(77), &request_line(1, "ping")])
            .await;
        far.expect(&result_line(1, "\"pong\"")).await;
    });
}

#[test]
fn b08_a_notification_is_taken_ahead_of_its_turn() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.send(&[
            &notification_line("first"),
            &notification_line("session/cancel"),
            &request_line(1, "last"),
            &notification_line("wake"),
        ])
        .await;
        notification(&incoming, "first").await;
        while incoming.take_notification("wake").is_none() {
            smol::future::yield_now().await;
        }
        assert!(incoming.take_notification("session/cancel").is_some());
        assert!(incoming.take_notification("session/cancel").is_none());
        let (last, _responder) = request(&incoming).await;
        assert_eq!(last.method, "last");
    });
}

#[test]
fn g03_raw_cancels_are_seen_and_claimed_with_the_marker_already_set() {
    run(async {
        let mut config = acp();
        config.show_raw_cancels = true;
        let (_peer, incoming, mut far) = against_far(config, ENDLESS);
        let (told, seen) = smol::channel::unbounded();
        spawn(async move {
            let (markers, marker) = smol::channel::unbounded::<protocol_async::Cancellation>();
            let markers = Shared::new(markers);
            let router = Router::new()
                .request("slow", async move |(): (), cx| {
                    markers.try_send(cx.cancellation().clone()).unwrap();
                    cx.cancellation().cancelled().await;
                    Err::<(), _>(Failure::Cancelled)
                })
                .notification("$/cancel_request", async |_: serde_json::Value, _| {
                    panic!("it is claimed");
                })
                .observe(move |notification| {
                    if notification.method != "$/cancel_request" {
                        return Claim::Pass;
                    }
                    let set = marker.try_recv().is_ok_and(|marker| marker.is_cancelled());
                    told.try_send(set).unwrap();
                    Claim::Claimed
                });
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "slow"), &notification_line("go on"), &cancel_line(1)]).await;
        assert!(seen.recv().await.unwrap(), "the marker is set by then");
        far.expect(&cancelled_line(1)).await;
    });
}
