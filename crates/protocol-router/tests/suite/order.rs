//! The order of handlers: they begin as the messages stand on the wire, and run beside each other from
//! their first wait on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_async::{Arrival, Peer, SentRequest};
use protocol_core::{CallOptions, Config, Dialect};
use protocol_router::Router;
use tokio::sync::Semaphore;

use crate::wire::{against_far, notification, request, result};

/// Notes what handlers do, in a row.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn f86_handlers_begin_in_the_order_of_the_wire_and_run_beside_after_a_wait() {
    let (incoming, mut far) = against_far();
    let (notes, gate) = (Notes::default(), Arc::new(Semaphore::new(0)));
    let (waiting, waited) = (notes.clone(), gate.clone());
    let (noted, quick) = (notes.clone(), notes.clone());
    let router = Router::new()
        .notification("waits", async move |(n,): (usize,), _| {
            waiting.note(format!("begins {n}"));
            waited.acquire().await.unwrap().forget();
            waiting.note(format!("ends {n}"));
            Ok(())
        })
        .notification("note", async move |(n,): (usize,), _| {
            noted.note(format!("notes {n}"));
            std::future::ready(()).await;
            noted.note(format!("noted {n}"));
            Ok(())
        })
        .request("quick", async move |(n,): (usize,), _| {
            quick.note(format!("quick {n}"));
            Ok(n)
        });
    let served = tokio::spawn(async move { router.serve(&incoming).await });
    far.send(&[
        notification("waits", 1),
        request(2, "quick"),
        notification("note", 3),
        notification("waits", 4),
        notification("note", 5),
        request(6, "quick"),
    ])
    .await;
    far.expect(&[&result(2, "2")]).await;
    far.expect(&[&result(6, "6")]).await;
    let expected = ["begins 1", "quick 2", "notes 3", "noted 3", "begins 4", "notes 5", "noted 5"];
    assert_eq!(notes.all()[..7], expected);
    assert_eq!(notes.all()[7..], ["quick 6"]);
    gate.add_permits(2);
    far.rest().await;
    served.await.unwrap();
    assert_eq!(notes.all()[8..], ["ends 1", "ends 4"]);
}

/// Handlers that waited go on between those that begin, and do not change their order.
#[tokio::test]
async fn f86_handlers_that_are_woken_at_once_change_no_order() {
    let (incoming, mut far) = against_far();
    let notes = Notes::default();
    let (noted, quick) = (notes.clone(), notes.clone());
    let router = Router::with_state(Semaphore::new(0))
        .notification("waits", async move |_: (usize,), cx| {
            cx.state().acquire().await.unwrap().forget();
            Ok(())
        })
        .notification("note", async move |(n,): (usize,), _| {
            noted.note(n.to_string());
            Ok(())
        })
        .request("quick", async move |(n,): (usize,), cx| {
            quick.note(n.to_string());
            if n == 3 {
                cx.state().add_permits(3);
            }
            Ok(n)
        });
    tokio::spawn(async move { router.serve(&incoming).await });
    let mut messages: Vec<_> = (0..3).map(|n| notification("waits", n)).collect();
    for n in (3..11).step_by(2) {
        messages.extend([request(n, "quick"), notification("note", n + 1)]);
    }
    far.send(&messages).await;
    for n in (3..11).step_by(2) {
        far.expect(&[&result(n, &n.to_string())]).await;
    }
    far.rest().await;
    assert_eq!(notes.all(), (3..11).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Passes notifications on from one connection to another by a router, and checks that they arrive in
/// order. The last peer takes them in gusts, so room is scarce if `unsent_bytes` is small.
async fn passed_on(count: u64, unsent_bytes: usize) {
    let mut config = Config::client(Dialect::LSP_3_17);
    config.limits.unsent_bytes = unsent_bytes;
    let connect = |config: Config| {
        let (near, far) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(near);
        let near = protocol_tokio::spawn(reader, writer, config);
        let (reader, writer) = tokio::io::split(far);
        (near, protocol_tokio::spawn(reader, writer, Config::server(Dialect::LSP_3_17)))
    };
    let (client, front) = connect(Config::client(Dialect::LSP_3_17));
    let (back, server) = connect(config);
    let to = back.peer.clone();
    tokio::spawn(async move {
        let router = Router::new().notification("didChange", async move |n: (u64,), _| {
            Ok(to.notify("didChange", n).await?)
        });
        router.serve(&front.incoming).await
    });
    let sending = client.peer.clone();
    tokio::spawn(async move {
        for n in 0..count {
            sending.notify("didChange", [n]).await.unwrap();
        }
    });
    for expected in 0..count {
        let received = tokio::time::timeout(Duration::from_secs(20), server.incoming.receive());
        let Arrival::Notification(change) = received.await.expect("it hangs").unwrap() else {
            continue;
        };
        assert_eq!(change.params::<(u64,)>().unwrap().0, expected);
        if expected % 50 == 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

#[tokio::test]
async fn f86_notifications_are_passed_on_in_order() {
    passed_on(5_000, 8 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f86_notifications_are_passed_on_in_order_by_threads() {
    passed_on(5_000, 8 << 20).await;
}

#[tokio::test]
async fn f86_notifications_are_passed_on_in_order_where_room_is_scarce() {
    passed_on(5_000, 8 << 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f86_notifications_are_passed_on_in_order_by_threads_where_room_is_scarce() {
    passed_on(20_000, 8 << 10).await;
}

/// The server's `initialized` handler calls back, the client's handler of that calls first, and the call
/// is awaited by a task of its own.
#[tokio::test]
async fn f87_a_call_that_is_awaited_by_another_task_holds_up_nothing() {
    let (near, far) = tokio::io::duplex(64 << 10);
    let connect = |stream, config: Config| {
        let (reader, writer) = tokio::io::split(stream);
        protocol_tokio::spawn(reader, writer, config)
    };
    let server = connect(far, Config::server(Dialect::LSP_3_17));
    let client = connect(near, Config::client(Dialect::LSP_3_17));
    let (told, configured) = tokio::sync::oneshot::channel();
    let told = Arc::new(Mutex::new(Some(told)));
    tokio::spawn(async move {
        let router = Router::new().request("ask", async |(): (), _| Ok(1)).notification(
            "initialized",
            async move |(): (), cx| {
                let call: SentRequest<u32> = cx.call("workspace/configuration", ());
                let got = tokio::spawn(call).await.unwrap();
                told.lock().unwrap().take().unwrap().send(got).unwrap();
                Ok(())
            },
        );
        router.serve(&server.incoming).await
    });
    let peer: Peer = client.peer.clone();
    tokio::spawn(async move {
        let router = Router::new().request("workspace/configuration", async |(): (), cx| {
            Ok(cx.call::<u32>("ask", ()).await?)
        });
        router.serve(&client.incoming).await
    });
    peer.notify("initialized", ()).await.unwrap();
    let soon = Duration::from_secs(20);
    let configured = tokio::time::timeout(soon, configured).await.expect("it hangs");
    assert_eq!(configured.unwrap().unwrap(), 1);
    let options = CallOptions::default().timeout(soon);
    assert_eq!(peer.call_with::<u32>("ask", (), options).await.unwrap(), 1);
}

/// A notification that waits for something of the host's own, which a later request brings.
#[tokio::test]
async fn f87_no_guess_is_made_about_what_a_handler_waits_for() {
    let (incoming, mut far) = against_far();
    let router = Router::with_state(Semaphore::new(0))
        .notification("waits", async |_: (usize,), cx| {
            cx.state().acquire().await.unwrap().forget();
            Ok(cx.notify("went on", ()).await?)
        })
        .request("brings", async |_: (usize,), cx| {
            cx.state().add_permits(1);
            Ok(())
        });
    tokio::spawn(async move { router.serve(&incoming).await });
    far.send(&[notification("waits", 0), request(1, "brings")]).await;
    far.expect(&[&result(1, "null")]).await;
    far.expect(&["went on"]).await;
}

/// Each request is done before the one that waited longest has been polled again.
#[tokio::test]
async fn f86_a_limit_lets_requests_through_in_the_order_of_the_wire() {
    let (incoming, mut far) = against_far();
    let notes = Notes::default();
    let note = notes.clone();
    let router = Router::with_state(Semaphore::new(0))
        .request("work", async move |(n,): (usize,), cx| {
            note.note(n.to_string());
            if n < 3 {
                cx.state().acquire().await.unwrap().forget();
            }
            Ok(n)
        })
        .limit(2)
        .notification("open", async |(n,): (usize,), cx| {
            cx.state().add_permits(n);
            Ok(())
        });
    tokio::spawn(async move { router.serve(&incoming).await });
    let mut messages: Vec<_> = (1..6).map(|n| request(n, "work")).collect();
    messages.push(notification("open", 2));
    messages.extend((6..20).map(|n| request(n, "work")));
    far.send(&messages).await;
    for _ in 1..20 {
        far.line().await;
    }
    assert_eq!(notes.all(), (1..20).map(|n| n.to_string()).collect::<Vec<_>>());
}
