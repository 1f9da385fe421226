//! What is measured: both ends of one library, however it is driven.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::clock;
use crate::payload::Payload;

/// What becomes of a request that is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelling {
    /// Its answer says so.
    Answered,
    /// Its handler is told over the wire; the peer never answers it.
    OneWay,
    /// The library cannot cancel.
    Impossible,
}

/// Both ends of one library, joined.
pub trait Subject: Sized {
    /// The library and its version.
    const NAME: &'static str;
    /// How it cancels.
    const CANCELLING: Cancelling;

    /// Joins two ends that let so many requests be in flight.
    fn join(limit: usize) -> Self;

    /// So many echoes, `width` of them in flight at any time; compares each.
    fn echo(&mut self, width: usize, total: usize, payload: &Payload);

    /// The wall-clock nanoseconds of each of so many echoes, one at a time.
    fn latencies(&mut self, times: usize, payload: &Payload) -> Vec<u64> {
        let one = |_| {
            let begun = clock::wall();
            self.echo(1, 1, payload);
            clock::wall() - begun
        };
        (0..times).map(one).collect()
    }

    /// For each lap: begins `width` requests whose handlers end only when they are cancelled,
    /// waits until all handlers run, cancels them all, and checks what becomes of each.
    fn cancel(&mut self, width: usize, laps: &mut Laps);

    /// Holds so many requests in flight on a connection of its own, and says what they take.
    fn hold(count: usize) -> Held;
}

/// Looks at a clock three times each lap.
pub struct Laps {
    clock: fn() -> u64,
    left: usize,
    marks: Vec<u64>,
    /// From the first request to the last outcome of each lap, in nanoseconds.
    pub cycles: Vec<u64>,
    /// From the first cancel to the last outcome of each lap, in nanoseconds.
    pub cancels: Vec<u64>,
}

impl Laps {
    /// So many laps by a clock.
    #[must_use]
    pub fn new(laps: usize, clock: fn() -> u64) -> Self {
        let room = || Vec::with_capacity(laps);
        Self { clock, left: laps, marks: Vec::with_capacity(3), cycles: room(), cancels: room() }
    }

    /// Whether there is another lap.
    pub fn begin(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.marks.clear();
        self.mark();
        true
    }

    /// All handlers run: what follows is the cancelling.
    pub fn all_run(&mut self) {
        self.mark();
    }

    /// Every outcome is there.
    pub fn end(&mut self) {
        self.mark();
        if let [begun, running, ended] = self.marks[..] {
            self.cycles.push(ended - begun);
            self.cancels.push(ended - running);
        }
    }

    fn mark(&mut self) {
        self.marks.push((self.clock)());
    }
}

/// What requests in flight take from the heap, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// On the caller's side, its handles included.
    pub caller: i64,
    /// On the callee's side, its waiting handlers included.
    pub callee: i64,
    /// The size of the handle that a caller holds, in bytes of the caller's.
    pub handle: usize,
}

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Held by every handler that ends only when it is cancelled.
#[derive(Debug)]
pub struct Hanging(());

impl Hanging {
    /// The handler runs.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> Self {
        BEGUN.fetch_add(1, Relaxed);
        Self(())
    }

    /// A handler that never ends by itself.
    pub async fn forever() {
        let _hanging = Self::new();
        std::future::pending::<()>().await;
    }

    /// How many handlers have begun.
    #[must_use]
    pub fn begun() -> usize {
        BEGUN.load(Relaxed)
    }

    /// How many handlers have ended.
    #[must_use]
    pub fn ended() -> usize {
        ENDED.load(Relaxed)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Relaxed);
    }
}
