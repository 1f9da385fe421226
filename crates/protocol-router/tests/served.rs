//! Layers see each request, and nothing is left when a router serves no more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod wire;

use std::sync::{Arc, Mutex, mpsc};

use protocol_core::Cause;
use protocol_router::{Context, Router};
use tokio::sync::oneshot;

use wire::{against_far, cancel, request};

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
