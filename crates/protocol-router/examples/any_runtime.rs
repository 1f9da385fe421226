//! No runtime at all: an executor and a timer of one's own are enough.
//!
//! `cargo run -p rescind-router --example any_runtime`

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures_util::future::{join3, select};
use protocol_async::{CallError, Peer, Timer};
use protocol_core::{CallOptions, Config, Dialect, Timestamp};
use protocol_router::LocalRouter;

/// Runs one future: polls it, and parks the thread while it waits.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Arc::new(Unpark(thread::current())).into();
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// The timer: a thread for each sleep.
#[derive(Clone)]
struct ThreadTimer(Instant);

struct Sleep(Instant);

impl Timer for ThreadTimer {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        Sleep(self.0 + due.since(Timestamp::ZERO))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        thread::spawn(move || {
            thread::sleep(left);
            waker.wake();
        });
        Poll::Pending
    }
}

fn main() {
    let timer = ThreadTimer(Instant::now());
    let (client_side, server_side) =
        (Config::client(Dialect::ACP_V1), Config::server(Dialect::ACP_V1));
    let (near_reader, far_writer) = piper::pipe(1 << 10);
    let (far_reader, near_writer) = piper::pipe(1 << 10);
    let (peer, _incoming, near) =
        protocol_async::connect(near_reader, near_writer, timer.clone(), client_side);
    let (_peer, incoming, far) =
        protocol_async::connect(far_reader, far_writer, timer, server_side);

    // One thread runs it all, so handlers may share what is not `Send`.
    let greeting = Rc::new(String::from("hello"));
    let router = LocalRouter::new()
        .request("greet", async move |(name,): (String,), _| Ok(format!("{greeting}, {name}")))
        .request("sleep", async |(): (), cx| {
            cx.cancellation().unless_cancelled(pending::<()>()).await?;
            Ok(())
        });
    let connections = join3(near, far, router.serve(&incoming));
    block_on(select(pin!(client(peer)), pin!(connections)));
}

async fn client(peer: Peer) {
    let greeting: Result<String, CallError> = peer.call("greet", ["you"]).await;
    println!("greet: {greeting:?}");

    let soon = CallOptions::default().timeout(Duration::from_millis(50));
    println!("sleep: {:?}", peer.call_with::<()>("sleep", (), soon).await);

    let sleeping = peer.call::<()>("sleep", ());
    peer.flushed().await;
    println!("cancel: {:?}", sleeping.cancel());
    println!("sleep: {:?}", sleeping.await);
}
