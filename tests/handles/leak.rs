//! After a million requests of which a third was cancelled, a third dropped and a third detached,
//! nothing is left: no entry in any table, and no heap.
//!
//! `cargo test --release -p rescind-handles-suite --test leak`; without `--release` it is fewer requests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the suite uses the rest")]
mod pipe;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures_util::future::{Either, join3, pending, select};
use heap::Heap;
use pipe::pipe;
use protocol_async::{Budgets, Cancellation, Canceller, Options, Peer, SentRequest, Timer};
use protocol_core::{Config, Dialect, Timestamp};
use protocol_router::Router;
use serde::de::IgnoredAny;

const REQUESTS: usize = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
const ROUND: usize = 1_000;

#[derive(Clone)]
struct Clock(Instant);

impl Timer for Clock {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    fn sleep_until(&self, _: Timestamp) -> Self::Sleep {
        // Only the grace of dropped calls, which are answered long before.
        std::future::pending()
    }
}

#[test]
fn g08_nothing_is_left_of_a_million_requests() {
    let (near_reader, far_writer) = pipe(64 << 10);
    let (far_reader, near_writer) = pipe(64 << 10);
    let clock = Clock(Instant::now());
    let (near, _near_incoming, near_driver) = protocol_async::connect(
        near_reader,
        near_writer,
        clock.clone(),
        Config::client(Dialect::ACP_V1),
    );
    // Two thirds of a million are cancelled in some seconds: more than a stranger may.
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.budgets = Budgets::UNLIMITED;
    let (far, far_incoming, far_driver) =
        protocol_async::connect(far_reader, far_writer, clock, options);
    let router = Router::new().request("echo", async |n: (usize,), _| Ok(n)).request(
        "slow",
        async |_: (usize,), cx| {
            cx.cancellation().unless_cancelled(pending::<()>()).await?;
            Ok(())
        },
    );
    let served = join3(near_driver, far_driver, router.serve(&far_incoming));
    let (before, after) = match block_on(select(pin!(client(&near, &far)), pin!(served))) {
        Either::Left((measured, _)) => measured,
        Either::Right(_) => panic!("the connection ended"),
    };
    println!("{REQUESTS} requests; live heap {before} bytes before, {after} after");
    assert!(after.abs_diff(before) * 100 <= before, "{before} bytes before, {after} after");
}

/// Says how much heap was live after the first rounds, and after the last.
async fn client(near: &Peer, far: &Peer) -> (usize, usize) {
    let heap = Heap::of_process();
    // One marker that outlives every call.
    let canceller = Canceller::new();
    let marker = canceller.marker();
    for _ in 0..10 {
        round(near, far, &marker).await;
    }
    let before = heap.held();
    for _ in 0..REQUESTS / ROUND {
        round(near, far, &marker).await;
    }
    (before, heap.held())
}

async fn round(near: &Peer, far: &Peer, marker: &Cancellation) {
    let calls: Vec<SentRequest<IgnoredAny>> = (0..ROUND)
        .map(|n| {
            let _child = marker.child();
            let method = if n % 3 == 2 { "echo" } else { "slow" };
            near.call(method, (n,)).forward_cancellation_from(marker)
        })
        .collect();
    near.flushed().await;
    let mut cancelled = Vec::new();
    for (n, call) in calls.into_iter().enumerate() {
        match n % 3 {
            0 => {
                call.cancel();
                cancelled.push(call);
            }
            1 => drop(call),
            _ => call.detach(),
        }
    }
    for call in cancelled {
        call.await.unwrap_err();
    }
    // The dropped and the detached ones are answered too.
    while !near.in_flight(1).is_empty() || !far.in_flight(1).is_empty() {
        yield_now().await;
    }
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        let parked = Instant::now();
        thread::park_timeout(Duration::from_secs(60));
        assert!(parked.elapsed() < Duration::from_secs(60), "nothing happens");
    }
}
