//! Subjects whose two ends are joined by a pipe and run by an executor.

use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::heap;
use crate::payload::{Payload, Size};
use crate::runtime::{Runtime, yield_now};
use crate::subject::{Cancelling, Hanging, Held, Laps, Subject};
use crate::wire::{Pipe, pipe};

/// One library on a byte stream.
pub trait Peer: 'static {
    /// The library and its version.
    const NAME: &'static str;
    /// The outcome of its cancelled requests.
    const CANCELLING: Cancelling;
    /// The executor that runs both ends.
    type Runtime: Runtime;
    /// Its calling side.
    type Client: Client;

    /// Serves `bench/echo` and `bench/hang` until the pipe ends, with room for so many requests.
    fn serve(pipe: Pipe, limit: usize) -> impl Future<Output = ()> + Send;

    /// Opens the calling side, with room for so many requests.
    fn connect(pipe: Pipe, limit: usize) -> impl Future<Output = Self::Client> + Send;
}

/// The calling side of a library.
pub trait Client: Clone + Send + Sync + 'static {
    /// A request in flight.
    type Sent: Send;

    /// Calls `bench/echo` and returns the payload of the response.
    fn echo(&self, payload: Payload) -> impl Future<Output = Payload> + Send;

    /// Calls `bench/hang`, and does not wait for its response.
    fn hang(&self, payload: Payload) -> impl Future<Output = Self::Sent> + Send;

    /// Cancels a request, and does not wait for its outcome.
    fn cancel(&self, sent: &mut Self::Sent) -> impl Future<Output = ()> + Send;

    /// Cancels each request; for libraries whose cancels wait for the write.
    fn cancel_all(&self, sent: &mut [Self::Sent]) -> impl Future<Output = ()> + Send {
        async move {
            for sent in sent {
                self.cancel(sent).await;
            }
        }
    }

    /// Waits for the outcome, and returns whether it reports that the request was cancelled.
    fn is_cancelled(&self, sent: Self::Sent) -> impl Future<Output = bool> + Send;
}

/// Both ends of a [`Peer`].
pub struct Linked<P: Peer> {
    client: P::Client,
    peer: PhantomData<P>,
}

impl<P: Peer> Subject for Linked<P> {
    const NAME: &'static str = P::NAME;
    const CANCELLING: Cancelling = P::CANCELLING;

    fn join(limit: usize) -> Self {
        let client = P::Runtime::block_on(async {
            let (near, far) = pipe();
            // It runs for as long as the process does.
            mem::forget(P::Runtime::spawn(P::serve(far, limit)));
            P::connect(near, limit).await
        });
        Self { client, peer: PhantomData }
    }

    fn echo(&mut self, width: usize, total: usize, payload: &Payload) {
        P::Runtime::block_on(async {
            if width == 1 {
                return echo(&self.client, total, payload).await;
            }
            let task = |_| {
                let (client, payload) = (self.client.clone(), payload.clone());
                P::Runtime::spawn(async move { echo(&client, total / width, &payload).await })
            };
            let tasks: Vec<_> = (0..width).map(task).collect();
            for task in tasks {
                task.await;
            }
        });
    }

    fn latencies(&mut self, times: usize, payload: &Payload) -> Vec<u64> {
        P::Runtime::block_on(async {
            let mut latencies = Vec::with_capacity(times);
            for _ in 0..times {
                let begun = clock::wall();
                echo(&self.client, 1, payload).await;
                latencies.push(clock::wall() - begun);
            }
            latencies
        })
    }

    fn cancel(&mut self, width: usize, laps: &mut Laps) {
        P::Runtime::block_on(async {
            let mut sent = Vec::with_capacity(width);
            while laps.begin() {
                let (begun, ended) = (Hanging::begun(), Hanging::ended());
                for _ in 0..width {
                    sent.push(self.client.hang(Size::Small.payload()).await);
                }
                until(|| Hanging::begun() == begun + width).await;
                assert_eq!(Hanging::ended(), ended, "handlers end only when they are cancelled");
                laps.all_run();
                self.client.cancel_all(&mut sent).await;
                for sent in sent.drain(..) {
                    let is_cancelled = self.client.is_cancelled(sent).await;
                    assert!(is_cancelled, "its caller is told that it was cancelled");
                }
                if P::CANCELLING == Cancelling::OneWay {
                    until(|| Hanging::ended() == ended + width).await;
                }
                laps.end();
                until(|| Hanging::ended() == ended + width).await;
            }
        });
    }

    /// Each end has a thread of its own, so that its heap is counted apart.
    fn hold(count: usize) -> Held {
        let (near, far) = pipe();
        let limit = count + 64;
        heap::set_counting(true);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let callee = thread::spawn(move || {
            P::Runtime::block_on(async {
                let before = heap::live();
                mem::forget(P::Runtime::spawn(P::serve(far, limit)));
                while stopped.try_recv().is_err() {
                    yield_now().await;
                    thread::yield_now();
                }
                heap::live() - before
            })
        });
        let caller = P::Runtime::block_on(async {
            let before = heap::live();
            let client = P::connect(near, limit).await;
            let begun = Hanging::begun();
            let mut sent = Vec::with_capacity(count);
            for index in 1..=count {
                sent.push(client.hang(Size::Small.payload()).await);
                // In step: what waits to be written or read is no state of a request.
                if index % 64 == 0 || index == count {
                    until(|| Hanging::begun() >= begun + index).await;
                }
            }
            let held = heap::live() - before;
            // Nobody waits for the cancel of so many.
            mem::forget((sent, client));
            held
        });
        stop.send(()).expect("the callee waits for it");
        let callee = callee.join().expect("the callee's panic is ours");
        Held { caller, callee, handle: size_of::<<P::Client as Client>::Sent>() }
    }
}

async fn echo(client: &impl Client, times: usize, payload: &Payload) {
    for _ in 0..times {
        let echoed = client.echo(payload.clone()).await;
        assert!(echoed == *payload, "what comes back is what was sent");
    }
}

/// Lets the others run until something has happened.
async fn until(has_happened: impl Fn() -> bool) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut since = None;
    let mut turns = 0_u32;
    while !has_happened() {
        yield_now().await;
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) {
            thread::yield_now();
            let since = since.get_or_insert_with(Instant::now);
            assert!(since.elapsed() < PATIENCE, "stuck: handlers neither begin nor end");
        }
    }
}
