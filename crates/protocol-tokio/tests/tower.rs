//! Middlewares of `tower` around requests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_async::{CallError, Failure, Peer, RpcError};
use protocol_core::{Cause, Config, Dialect};
use protocol_router::Router;
use protocol_tokio::tower::{Failed, layer};
use tokio::sync::Notify;
use tower::ServiceBuilder;
use tower::timeout::error::Elapsed;

/// Returns a client of a server with this router.
fn served(router: Router) -> Peer {
    let (near, far) = tokio::io::duplex(4 << 10);
    let (reader, writer) = tokio::io::split(far);
    let server = protocol_tokio::spawn(reader, writer, Config::server(Dialect::ACP_V1));
    tokio::spawn(async move { router.serve(&server.incoming).await });
    let (reader, writer) = tokio::io::split(near);
    protocol_tokio::spawn(reader, writer, Config::client(Dialect::ACP_V1)).peer
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_tower_ends_a_handler_and_the_host_is_told_why() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let middlewares = ServiceBuilder::new().timeout(Duration::from_secs(5)).into_inner();
    let peer = served(
        Router::new()
            .on_trouble(move |trouble| tell.lock().unwrap().push(trouble.to_string()))
            .layer(layer(middlewares))
            .request("add", async |(a, b): (i64, i64), _| Ok(a + b))
            .request("slow", async |(): (), _| {
                pending::<()>().await;
                Ok(())
            }),
    );
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    let CallError::Error(error) = peer.call::<()>("slow", ()).await.unwrap_err() else { panic!() };
    assert_eq!((error.code, &*error.message), (-32603, "internal error"));
    assert_eq!(
        *told.lock().unwrap(),
        [format!("the handler of \"slow\" failed: {}", Elapsed::new())]
    );
}

/// The host chooses the error that the peer gets for an error of a middleware.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_middleware_can_be_an_error_for_the_peer() {
    let told = |_: tower::BoxError| Failed(RpcError::new(-32001, "took too long").into());
    let middlewares =
        ServiceBuilder::new().map_err(told).timeout(Duration::from_secs(5)).into_inner();
    let peer =
        served(Router::new().layer(layer(middlewares)).request("slow", async |(): (), _| {
            pending::<()>().await;
            Ok(())
        }));
    let CallError::Error(error) = peer.call::<()>("slow", ()).await.unwrap_err() else { panic!() };
    assert_eq!((error.code, &*error.message), (-32001, "took too long"));
}

#[tokio::test(start_paused = true)]
async fn a_failure_passes_through_middlewares_as_it_is() {
    let middlewares = ServiceBuilder::new().timeout(Duration::from_secs(5)).into_inner();
    let peer = served(
        Router::new()
            .layer(layer(middlewares))
            .request("no", async |(): (), _| Err::<(), _>(RpcError::new(-7, "no").into()))
            .request("stop", async |(): (), cx| {
                cx.cancellation().cancelled().await;
                Err::<(), _>(Failure::Cancelled)
            }),
    );
    let CallError::Error(error) = peer.call::<()>("no", ()).await.unwrap_err() else { panic!() };
    assert_eq!((error.code, &*error.message), (-7, "no"));
    let sent = peer.call::<()>("stop", ());
    peer.flushed().await;
    sent.cancel();
    let stopped = sent.await.unwrap_err();
    assert!(matches!(stopped, CallError::Cancelled { cause: Cause::Caller, error: Some(_) }));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_tower_holds_over_all_requests_and_who_waits_can_be_cancelled() {
    let (at_work, most, go) = (AtomicUsize::new(0), AtomicUsize::new(0), Notify::new());
    let state = Arc::new((at_work, most, go));
    let middlewares = ServiceBuilder::new().concurrency_limit(2).into_inner();
    let router = Router::with_state(()).layer(layer(middlewares));
    let shared = state.clone();
    let peer = served(router.request("work", async move |(): (), _| {
        let (at_work, most, go) = &*shared;
        most.fetch_max(at_work.fetch_add(1, SeqCst) + 1, SeqCst);
        go.notified().await;
        at_work.fetch_sub(1, SeqCst);
        Ok(())
    }));
    let mut sent: Vec<_> = (0..5).map(|_| peer.call::<()>("work", ())).collect();
    peer.flushed().await;
    // It waits for its turn, and does not have to for the answer.
    let last = sent.pop().unwrap();
    last.cancel();
    assert!(matches!(last.await, Err(CallError::Cancelled { .. })));
    for sent in sent {
        state.2.notify_one();
        sent.await.unwrap();
    }
    assert_eq!(state.1.load(SeqCst), 2);
}
