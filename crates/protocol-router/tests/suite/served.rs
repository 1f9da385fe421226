//! Layers see each request, and nothing is left when a router serves no more.

use std::panic::panic_any;
use std::sync::{Arc, Mutex, mpsc};

use protocol_async::Failure;
use protocol_core::Cause;
use protocol_router::{Context, Router};
use tokio::sync::oneshot;

use crate::wire::{against_far, cancel, notification, request};

#[tokio::test]
async fn f42_a_layer_sees_why_a_request_was_cancelled() {
    let (incoming, mut far) = against_far();
    let (causes, seen) = mpsc::channel();
    let router = Router::new()
        .after(move |served| causes.send(served.cause()).unwrap())
        .request("work", async |_: (usize,), cx| Ok(cx.cancellation().cancelled().await.as_str()))
        .request("quick", async |_: (usize,), _| Ok(7));
    tokio::spawn(async move { router.serve(&incoming).await });
    far.send(&[request(1, "work"), cancel(1)]).await;
    far.expect(&[r#""id":1"#]).await;
    far.send(&[request(2, "quick")]).await;
    far.expect(&[r#""id":2"#]).await;
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [Some(Cause::Peer), None]);
}

#[tokio::test]
async fn g08_work_that_was_never_begun_is_dropped_with_who_serves() {
    let (incoming, mut far) = against_far();
    let (contexts, seen) = oneshot::channel::<Context>();
    let contexts = Arc::new(Mutex::new(Some(contexts)));
    let router = Router::new().request("work", async move |_: (usize,), cx| {
        let contexts = contexts.lock().unwrap().take().unwrap();
        assert!(contexts.send(cx).is_ok());
        Ok(7)
    });
    let served = tokio::spawn(async move { router.serve(&incoming).await });
    far.send(&[request(1, "work")]).await;
    let (cx, alive) = (seen.await.unwrap(), Arc::new(()));
    let held = alive.clone();
    cx.spawn(async move {
        drop(held);
        Ok(())
    });
    assert_eq!(Arc::strong_count(&alive), 2);
    served.abort();
    assert!(served.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&alive), 1, "though its context is still held");
    cx.spawn(async move {
        drop(alive);
        Ok(())
    });
}

/// An error and the value of a panic, whose destructor panics.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as the test wants");
    }
}

impl std::fmt::Display for Bomb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bomb")
    }
}

impl std::error::Error for Bomb {}

#[tokio::test]
async fn b33_a_destructor_that_panics_harms_no_other_request() {
    let (incoming, mut far) = against_far();
    let (undone, seen) = mpsc::channel();
    let router = Router::new()
        .at_most(1)
        .on_trouble(move |trouble| {
            if let protocol_router::Trouble::Undone { undone: step, .. } = trouble {
                undone.send(step.to_string()).unwrap();
            }
        })
        .request("fails", async |_: (usize,), _| Err::<(), _>(Failure::internal(Bomb)))
        .request("panics", async |_: (usize,), _| {
            panic_any(Bomb);
            #[allow(unreachable_code, reason = "the type of the handler")]
            Ok(())
        })
        .request("waits and fails", async |_: (usize,), _| {
            tokio::task::yield_now().await;
            Err::<(), _>(Failure::internal(Bomb))
        })
        .request("undoes", async |_: (usize,), cx| {
            for _ in 0..2 {
                cx.undo_with(async { Err(Failure::internal(Bomb)) })?;
            }
            Err::<(), _>(Failure::internal(Bomb))
        })
        .notification("panics", async |_: (usize,), _| {
            tokio::task::yield_now().await;
            panic_any(Bomb)
        });
    tokio::spawn(async move { router.serve(&incoming).await });
    for round in 0..3 {
        let methods = ["fails", "panics", "waits and fails", "undoes"];
        for (id, method) in (4 * round..).zip(methods) {
            far.send(&[notification("panics", id), request(id, method)]).await;
            far.expect(&[&format!(r#""id":{id},"#), "-32603"]).await;
        }
        let steps: Vec<_> = seen.try_iter().collect();
        assert_eq!(steps, ["undo step 2 failed", "undo step 1 failed"]);
    }
}
