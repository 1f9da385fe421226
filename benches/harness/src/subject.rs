//! The subject of a measurement: both ends of one library, however it is driven.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::clock;
use crate::payload::Payload;

/// The outcome of a cancelled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelling {
    /// Its response says that it was cancelled.
    Answered,
    /// Its handler learns of it over the wire; the peer never responds.
    OneWay,
    /// The library cannot cancel.
    Impossible,
}

/// Both ends of one library, joined.
pub trait Subject: Sized {
    /// The library and its version.
    const NAME: &'static str;
    /// The outcome of its cancelled requests.
    const CANCELLING: Cancelling;

    /// Joins two ends that let so many requests be in flight.
    fn join(limit: usize) -> Self;

    /// Makes so many echoes, `width` of them in flight at any time, and compares each.
    fn echo(&mut self, width: usize, total: usize, payload: &Payload);

    /// Returns the wall-clock nanoseconds of each of so many echoes, one at a time.
    fn latencies(&mut self, times: usize, payload: &Payload) -> Vec<u64> {
        let one = |_| {
            let begun = clock::wall();
            self.echo(1, 1, payload);
            clock::wall() - begun
        };
        (0..times).map(one).collect()
    }

    /// Begins `width` requests in each lap, whose handlers end only when they are cancelled. Waits
    /// until all handlers run, cancels all requests, and checks the outcome of each.
    fn cancel(&mut self, width: usize, laps: &mut Laps);

    /// Holds so many requests in flight on a connection of its own. Returns the heap that they take.
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
    /// Prepares so many laps by a clock.
    #[must_use]
    pub fn new(laps: usize, clock: fn() -> u64) -> Self {
        let room = || Vec::with_capacity(laps);
        Self { clock, left: laps, marks: Vec::with_capacity(3), cycles: room(), cancels: room() }
    }

    /// Begins the next lap. Returns false if there is none.
    pub fn begin(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.marks.clear();
        self.mark();
        true
    }

    /// Marks that all handlers run: the cancels follow.
    pub fn all_run(&mut self) {
        self.mark();
    }

    /// Ends the lap: every outcome is there.
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

/// The heap that requests in flight take, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The caller's share, its handles included.
    pub caller: i64,
    /// The callee's share, its waiting handlers included.
    pub callee: i64,
    /// The size of the handle that a caller holds, in bytes. It is part of the caller's share.
    pub handle: usize,
}

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Held by every handler that ends only when it is cancelled.
#[derive(Debug)]
pub struct Hanging(());

impl Hanging {
    /// Counts a handler that has begun.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> Self {
        BEGUN.fetch_add(1, Relaxed);
        Self(())
    }

    /// Runs a handler that never ends by itself.
    pub async fn forever() {
        let _hanging = Self::new();
        std::future::pending::<()>().await;
    }

    /// Returns the number of handlers that have begun.
    #[must_use]
    pub fn begun() -> usize {
        BEGUN.load(Relaxed)
    }

    /// Returns the number of handlers that have ended.
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
