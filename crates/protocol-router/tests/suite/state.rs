//! States that hold references to what lives for ever.

use std::collections::HashMap;

use protocol_async::{Failure, Peer};
use protocol_core::{Config, Dialect};
use protocol_router::{Context, Router};

use crate::wire::{against_far, notification, request, result};

type Peers = HashMap<&'static str, Peer>;

async fn forward(text: (usize,), cx: Context<Peers>) -> Result<usize, Failure> {
    let Some(peer) = cx.state().get("other") else { return Ok(0) };
    peer.notify("forwarded", text).await?;
    cx.notify("done", ()).await?;
    Ok(cx.state().len())
}

/// It compiles: what serves is `Send`, whatever lifetimes the state names.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn f94_a_state_may_hold_static_references() {
    let (near, _far) = tokio::io::duplex(1 << 10);
    let (reader, writer) = tokio::io::split(near);
    let other = protocol_tokio::spawn(reader, writer, Config::client(Dialect::ACP_V1)).peer;
    let (incoming, mut far) = against_far();
    let router = Router::with_state(Peers::from([("other", other)]))
        .layer(async move |cx, next| {
            let answer = next.run(cx.clone()).await;
            cx.notify("served", ()).await?;
            answer
        })
        .request("forward", forward)
        .request("closure", async |n: (usize,), cx| forward(n, cx).await)
        .notification("told", async |_: (usize,), cx| {
            let outer = cx.clone();
            cx.spawn(async move { Ok(outer.notify("spawned", ()).await?) });
            Ok(cx.notify("told", ()).await?)
        })
        .fallback(async |_, cx| Ok(cx.notify("fallback", ()).await?));
    let served = tokio::spawn(async move { router.serve(&incoming).await });
    far.send(&[request(1, "forward")]).await;
    for expected in ["done", "served", &result(1, "1")] {
        far.expect(&[expected]).await;
    }
    far.send(&[notification("told", 1), notification("unknown", 1)]).await;
    let told = [far.line().await, far.line().await, far.line().await].concat();
    assert!(["told", "spawned", "fallback"].iter().all(|name| told.contains(name)), "{told}");
    far.rest().await;
    served.await.unwrap();
}
