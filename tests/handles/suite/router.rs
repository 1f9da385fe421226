//! Routers: the handler of a message, the order of handlers, and the layers around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use protocol_async::{Failure, RpcError};
use protocol_core::Cause;
use protocol_router::{Method, Trouble};
use smol::channel::unbounded;
use smol::future::yield_now;

use super::{
    Router, Shared, acp, against_far, cancel_line, cancelled_line, error_line, notification_line,
    pair, request_line, result_line, run, spawn,
};
use crate::pipe::ENDLESS;

/// The server's `initialized` handler calls back, and the client's handler of that calls first.
#[test]
fn f36_a_notification_that_waits_for_the_peer_holds_up_nothing() {
    run(async {
        let ((client, client_incoming), (_server, server_incoming)) = pair();
        let (told, registered) = unbounded();
        spawn(async move {
            let router = Router::new()
                .notification("initialized", async move |(): (), cx| {
                    let registered = cx.call::<String>("client/register", ()).await;
                    told.try_send(registered).unwrap();
                    Ok(())
                })
                .notification("didOpen", async |(): (), _| Ok(()))
                .request("hover", async |(): (), _| Ok("hovered"));
            router.serve(&server_incoming).await;
        });
        spawn(async move {
            let router = Router::new().request("client/register", async |(): (), cx| {
                Ok(cx.call::<String>("hover", ()).await?)
            });
            router.serve(&client_incoming).await;
        });
        client.try_notify("initialized", ()).unwrap();
        client.try_notify("didOpen", ()).unwrap();
        assert_eq!(registered.recv().await.unwrap().unwrap(), "hovered");
    });
}

/// The same with a peer that the handler brought along, and with one that waits for room.
#[test]
fn f36_whatever_a_notification_waits_for_the_peer_with() {
    const FLOODS: usize = 1_000;
    run(async {
        let mut config = acp();
        config.limits.unsent_bytes = 1_000;
        let (peer, incoming, mut far) = against_far(config, 64);
        let own = peer.clone();
        spawn(async move {
            let router = Router::new()
                .notification("calls", async move |(): (), _| {
                    own.call::<()>("slow", ()).await?;
                    Ok(())
                })
                .notification("floods", async |(): (), cx| {
                    for _ in 0..FLOODS {
                        cx.notify("flood", ["x".repeat(500)]).await?;
                    }
                    Ok(())
                })
                .notification("ends", async |(): (), cx| {
                    cx.peer().closed().await;
                    Ok(())
                })
                .request("hover", async |(): (), _| Ok(1));
            router.serve(&incoming).await;
        });
        far.send(&[&notification_line("ends"), &request_line(0, "hover")]).await;
        far.expect(&result_line(0, "1")).await;
        far.send(&[&notification_line("calls"), &request_line(1, "hover")]).await;
        far.expect(&request_line(1, "slow")).await;
        far.expect(&result_line(1, "1")).await;
        far.send(&[&notification_line("floods"), &request_line(2, "hover")]).await;
        // It is answered although the flood has no room. Another thread may read it late.
        let mut floods = 0;
        while far.line().await.unwrap() != result_line(2, "1") {
            floods += 1;
        }
        assert!(floods < FLOODS, "{floods} came first");
    });
}

/// A peer that floods us with notifications and answers nothing makes only so many of them wait.
#[test]
fn f36_only_so_many_notifications_wait_for_the_peer_beside_the_others() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::with_state((AtomicUsize::new(0), AtomicUsize::new(0)))
                .on_trouble(|_| ())
                .notification("calls", async |(): (), cx| {
                    let (waiting, most) = cx.state();
                    most.fetch_max(waiting.fetch_add(1, SeqCst) + 1, SeqCst);
                    cx.call::<()>("slow", ()).await?;
                    waiting.fetch_sub(1, SeqCst);
                    Ok(())
                })
                .request("most", async |(): (), cx| Ok(cx.state().1.load(SeqCst)));
            router.serve(&incoming).await;
        });
        let calls = notification_line("calls");
        far.send(&[calls.as_str(); 100]).await;
        far.send(&[&request_line(1, "most")]).await;
        // 64 of them, and the one that stops the taking of arrivals.
        for id in 1..=65 {
            far.expect(&request_line(id, "slow")).await;
        }
        for id in 66..=100 {
            far.send(&[&result_line(id - 65, "null")]).await;
            far.expect(&request_line(id, "slow")).await;
        }
        far.send(&[&result_line(36, "null")]).await;
        far.expect(&result_line(1, "65")).await;
    });
}

/// A request finds everything done that a notification before it did until it first waited.
#[test]
fn f36_notifications_keep_their_order() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::with_state(AtomicUsize::new(0))
                .notification("add", async |n: (usize,), cx| {
                    cx.state().fetch_add(n.0, SeqCst);
                    for _ in 0..10 {
                        yield_now().await;
                    }
                    Ok(())
                })
                .request("sum", async |(): (), cx| Ok(cx.state().load(SeqCst)));
            router.serve(&incoming).await;
        });
        let add = |n| format!(r#"{{"jsonrpc":"2.0","method":"add","params":[{n}]}}"#);
        far.send(&[&add(1), &add(20), &request_line(1, "sum"), &add(300), &request_line(2, "sum")])
            .await;
        far.expect(&result_line(1, "21")).await;
        far.expect(&result_line(2, "321")).await;
    });
}

#[test]
fn f41_of_many_methods_each_has_its_own_handler_and_the_last_one() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = (0..500).fold(Router::new(), |router, n| {
                router.request(format!("m{n}"), async move |(): (), _| Ok(n))
            });
            let router = router.request("m7", async |(): (), _| Ok("another"));
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "m0"), &request_line(2, "m499"), &request_line(3, "m7")]).await;
        far.expect(&result_line(1, "0")).await;
        far.expect(&result_line(2, "499")).await;
        far.expect(&result_line(3, "\"another\"")).await;
    });
}

struct Add;

impl Method for Add {
    const NAME: &'static str = "add";
    type Params = (u32, u32);
    type Result = u32;
}

struct Log;

impl Method for Log {
    const NAME: &'static str = "log";
    type Params = (String,);
    type Result = ();
}

#[test]
fn f42_a_method_may_be_a_type() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, logged) = unbounded();
        spawn(async move {
            let router = Router::new()
                .on_request::<Add, _>(async |(a, b), _| Ok(a + b))
                .on_notification::<Log, _>(async move |(text,), _| {
                    told.try_send(text).unwrap();
                    Ok(())
                });
            router.serve(&incoming).await;
        });
        far.send(&[r#"{"jsonrpc":"2.0","method":"log","params":["said"]}"#]).await;
        assert_eq!(logged.recv().await.unwrap(), "said");
        far.send(&[r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[2,3]}"#]).await;
        far.expect(&result_line(1, "5")).await;
    });
}

/// The values that an `async move` closure captured are there at every request, across every
/// `await`.
#[test]
fn f42_handlers_have_what_they_captured_and_the_state() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let captured = Shared::new(AtomicUsize::new(10));
        spawn(async move {
            let router = Router::with_state(AtomicUsize::new(100)).request(
                "count",
                async move |(): (), cx| {
                    let count = captured.fetch_add(1, SeqCst);
                    yield_now().await;
                    Ok((count, captured.load(SeqCst), cx.state().fetch_add(1, SeqCst)))
                },
            );
            router.serve(&incoming).await;
        });
        for (id, result) in [(1, "[10,11,100]"), (2, "[11,12,101]")] {
            far.send(&[&request_line(id, "count")]).await;
            far.expect(&result_line(id, result)).await;
        }
    });
}

#[test]
fn f42_layers_see_what_is_asked_and_answered_from_the_outside_in() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, seen) = unbounded();
        let (outer, inner) = (told.clone(), told.clone());
        spawn(async move {
            let router = Router::new()
                .on_trouble(|_| ())
                .after(move |served| {
                    let params = served.cx.params().map(|params| params.get().to_owned());
                    outer.try_send(format!("{} {params:?}", served.cx.method())).unwrap();
                    outer.try_send(served.to_string()).unwrap();
                })
                .before(|cx| match cx.method().as_str() {
                    "forbidden" => Err(RpcError::new(-5, "no").into()),
                    _ => Ok(()),
                })
                .layer(async move |cx, next| {
                    inner.try_send(format!("begins {}", cx.method())).unwrap();
                    let answer = next.run(cx).await;
                    inner.try_send(format!("ends {}", answer.is_ok())).unwrap();
                    answer
                })
                .request("echo", async |n: (u32,), _| Ok(n))
                .request("forbidden", async |(): (), _| Ok(1))
                .request("panics", async |(): (), _| -> Result<(), Failure> {
                    panic!("on purpose")
                });
            router.serve(&incoming).await;
        });
        let next = async || seen.recv().await.unwrap();
        far.send(&[r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":[7]}"#]).await;
        far.expect(&result_line(1, "[7]")).await;
        assert_eq!((next().await, next().await), ("begins echo".into(), "ends true".into()));
        assert_eq!(next().await, "echo Some(\"[7]\")");
        let served = next().await;
        assert!(
            served.starts_with("\"echo\" took ") && served.ends_with("s: a result"),
            "{served}"
        );

        far.send(&[&request_line(2, "forbidden")]).await;
        far.expect(&error_line(2, -5, "no")).await;
        assert_eq!(next().await, "forbidden None");
        assert!(next().await.ends_with(": error -5"));

        far.send(&[&request_line(3, "panics")]).await;
        far.expect(&error_line(3, -32603, r#"the handler of \"panics\" panicked"#)).await;
        assert_eq!((next().await, next().await), ("begins panics".into(), "ends false".into()));
        next().await;
        assert!(next().await.ends_with(": the handler of \"panics\" panicked"));

        far.send(&[&request_line(4, "unknown")]).await;
        far.expect(&error_line(4, -32601, "method not found")).await;
        assert_eq!(next().await, "begins unknown");
    });
}

#[test]
fn f42_of_limited_requests_the_others_wait_and_can_be_cancelled() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let running = Arc::new(AtomicUsize::new(0));
        let (go, gone) = unbounded::<()>();
        spawn(async move {
            let router = Router::new().limit(2).request("work", async move |(): (), _| {
                assert!(running.fetch_add(1, SeqCst) < 2);
                gone.recv().await.unwrap();
                running.fetch_sub(1, SeqCst);
                Ok(1)
            });
            router.serve(&incoming).await;
        });
        let requests: Vec<_> = (1..=4).map(|id| request_line(id, "work")).collect();
        let requests: Vec<_> = requests.iter().map(String::as_str).collect();
        far.send(&requests).await;
        far.send(&[&cancel_line(3)]).await;
        far.expect(&cancelled_line(3)).await;
        for _ in 0..3 {
            go.try_send(()).unwrap();
        }
        for _ in 0..3 {
            assert!(far.line().await.unwrap().contains(r#""result":1"#));
        }
    });
}

#[test]
fn f42_more_handlers_than_there_may_be_are_refused_and_told() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, troubles) = unbounded();
        spawn(async move {
            let router = Router::new()
                .at_most(1)
                .on_trouble(move |trouble| told.try_send(trouble.to_string()).unwrap())
                .request("work", async |(): (), cx| {
                    Ok(cx.cancellation().cancelled().await.as_str())
                });
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "work"), &request_line(2, "work")]).await;
        let message = "The request was refused: too many are being served";
        far.expect(&error_line(2, -32800, message)).await;
        let trouble = troubles.recv().await.unwrap();
        assert_eq!(trouble, "too many requests at the same time: \"work\" was refused");
        far.send(&[&cancel_line(1)]).await;
        far.expect(&result_line(1, &format!("{:?}", Cause::Peer.as_str()))).await;
        far.send(&[&request_line(3, "work"), &cancel_line(3)]).await;
        far.expect(&result_line(3, &format!("{:?}", Cause::Peer.as_str()))).await;
    });
}

/// Work beside a handler is no request, and neither is a notification that waits.
#[test]
fn f42_what_is_no_request_takes_no_place_of_one() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::new()
                .at_most(1)
                .on_trouble(|_| ())
                .notification("calls", async |(): (), cx| Ok(cx.call::<()>("slow", ()).await?))
                .request("begin", async |(): (), cx| {
                    let peer = cx.peer().clone();
                    cx.spawn(async move {
                        peer.closed().await;
                        Ok(())
                    });
                    Ok("begun")
                });
            router.serve(&incoming).await;
        });
        far.send(&[&notification_line("calls")]).await;
        far.expect(&request_line(1, "slow")).await;
        for id in 1..=3 {
            far.send(&[&request_line(id, "begin")]).await;
            far.expect(&result_line(id, "\"begun\"")).await;
        }
    });
}

/// Panics when it is cloned.
struct Fragile;

impl Clone for Fragile {
    fn clone(&self) -> Self {
        panic!("on purpose")
    }
}

/// The panics are not in a future, but in code that makes one, or that gets its outcome.
#[test]
fn b33_what_panics_before_and_after_a_handler_harms_nothing_else() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, troubles) = unbounded();
        let fragile = Fragile;
        spawn(async move {
            let router = Router::new()
                .on_trouble(move |trouble| {
                    if let Trouble::Failed { method, .. } = trouble {
                        told.try_send(method.to_string()).unwrap();
                    }
                })
                .after(|served| assert_ne!(served.cx.method().as_str(), "good", "on purpose"))
                .layer(|cx, next| {
                    assert_ne!(cx.method().as_str(), "layer", "on purpose");
                    next.run(cx)
                })
                .request("fragile", async move |(): (), _| {
                    let _captured = &fragile;
                    Ok(1)
                })
                .request("layer", async |(): (), _| Ok(1))
                .request("good", async |(): (), _| Ok(1))
                .fallback(|_, _| -> std::future::Ready<Result<(), Failure>> {
                    panic!("on purpose")
                });
            router.serve(&incoming).await;
        });
        for (id, method) in [(1, "layer"), (2, "fragile"), (3, "unknown")] {
            far.send(&[&request_line(id, method)]).await;
            let answer = far.line().await.unwrap();
            assert!(answer.contains("-32603"), "{answer}");
            assert_eq!(troubles.recv().await.unwrap(), method);
        }
        far.send(&[&notification_line("nobody's"), &request_line(4, "good")]).await;
        assert_eq!(troubles.recv().await.unwrap(), "nobody's");
        far.expect(&result_line(4, "1")).await;
    });
}

#[test]
fn f42_nothing_vanishes() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, troubles) = unbounded();
        spawn(async move {
            let router = Router::new()
                .on_trouble(move |trouble| {
                    if let Trouble::Failed { failure, .. } = trouble {
                        assert!(!failure.to_string().contains("secret"));
                    }
                    told.try_send(trouble.to_string()).unwrap();
                })
                .notification("fails", async |(): (), _| Err(std::io::Error::other("why").into()))
                .notification("refused", async |(): (), cx| {
                    Ok(cx.call::<()>("anything", ()).await?)
                });
            router.serve(&incoming).await;
        });
        far.send(&[
            // Neither a stop nor the end of an opening needs a handler.
            &notification_line("session/cancel"),
            &notification_line("initialized"),
            &notification_line("notifications/initialized"),
            &notification_line("unknown"),
            &notification_line("$/unknown"),
            &notification_line("fails"),
            r#"{"jsonrpc":"2.0","method":"fails","params":["secret"]}"#,
            "7",
            &request_line(1, "unknown"),
            &notification_line("refused"),
        ])
        .await;
        let next = async || troubles.recv().await.unwrap();
        assert_eq!(next().await, "nobody serves the notification \"unknown\"");
        assert_eq!(next().await, "the handler of \"fails\" failed: why");
        assert_eq!(next().await, "invalid params of \"fails\", at line 1 column 0");
        assert!(!next().await.is_empty(), "the violation");
        assert_eq!(next().await, "nobody serves the request \"unknown\"");
        // The request is answered; what names none is not, by a client (F61).
        far.line().await;
        far.expect(&request_line(1, "anything")).await;
        far.send(&[&error_line(1, -7, "no")]).await;
        assert_eq!(next().await, "work for \"refused\" failed with -7, which nobody is told");
    });
}
