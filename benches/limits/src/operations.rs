//! W8: the registry of operations, and markers.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use bench_harness::{clock, heap, report};
use protocol_async::Canceller;
use protocol_core::Timestamp;
use protocol_operations::{
    CancelReason, Cleanup, OperationId, OperationToken, Operations, Step, Urgency,
};

/// Operations that live meanwhile.
const LIVE: usize = 100_000;
/// Operations that come and go on top of them.
const SOME: usize = 10_000;
/// The kind of all of them.
const KIND: &str = "tools/call";
const NOW: Timestamp = Timestamp::ZERO;

/// A registry, and random bytes for its tokens.
struct Registry {
    operations: Operations<u32>,
    random: u128,
    live: Vec<OperationId>,
}

impl Registry {
    /// Creates a registry with so many kinds, of which the operations use the last.
    fn new(kinds: usize) -> Self {
        let mut operations = Operations::default();
        let names = (1..kinds).map(|number| format!("kind {number}")).chain([KIND.to_owned()]);
        for name in names {
            operations.declare(&name, Cleanup::NotNeeded).expect("there is room for that many");
        }
        let live = Vec::with_capacity(LIVE + SOME);
        Self { operations, random: 1, live }
    }

    /// Sixteen bytes of a generator that is no secret and costs next to nothing.
    fn entropy(&mut self) -> [u8; 16] {
        self.random = self.random.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(0x9e37);
        (self.random ^ self.random.rotate_right(64)).to_be_bytes()
    }

    fn register(&mut self, times: usize) {
        for _ in 0..times {
            let entropy = self.entropy();
            let registered = self.operations.register(KIND, entropy, 7, NOW);
            self.live.push(registered.expect("the token is new"));
        }
    }

    /// Cancels the last ones, and checks the step for each.
    fn cancel(&mut self, times: usize) {
        let first = self.live.len() - times;
        for &operation in &self.live[first..] {
            let reason = CancelReason::ClientRequested;
            let step = self.operations.cancel(operation, reason, Urgency::Forced, NOW);
            assert_eq!(step, Ok(Step::NotifyAndStop));
        }
    }

    fn finish(&mut self, times: usize) {
        for operation in self.live.drain(self.live.len() - times..) {
            assert_eq!(self.operations.finish(operation).map(|ended| ended.data), Ok(7));
        }
    }
}

/// Nanoseconds of each step of the least disturbed of some rounds.
#[derive(Default)]
struct Least(Vec<(&'static str, f64)>);

impl Least {
    fn time(&mut self, name: &'static str, steps: usize, work: impl FnOnce()) {
        let begun = clock::cpu();
        work();
        let cost = (clock::cpu() - begun) as f64 / steps as f64;
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, least)) => *least = least.min(cost),
            None => self.0.push((name, cost)),
        }
    }
}

/// Prints every figure.
pub(crate) fn speed(budget: Duration) {
    let mut registry = Registry::new(1);
    heap::set_counting(true);
    let before = heap::live();
    registry.register(LIVE);
    let held = heap::live() - before;
    heap::set_counting(false);

    let mut least = Least::default();
    let end = clock::wall() + 4 * budget.as_nanos() as u64;
    while clock::wall() < end {
        least.time("w8.register_ns", SOME, || registry.register(SOME));
        let tokens: Vec<OperationToken> = registry.live[LIVE..]
            .iter()
            .filter_map(|&operation| registry.operations.token(operation))
            .collect();
        least.time("w8.find_by_token_ns", SOME, || {
            for &token in &tokens {
                assert!(registry.operations.find(token).is_some());
            }
        });
        let operations = &registry.operations;
        least.time("w8.is_cancelled_ns", LIVE, || {
            for &operation in &registry.live[..LIVE] {
                black_box(operations.is_cancelled(operation));
            }
        });
        least.time("w8.check_ns", LIVE, || {
            for &operation in &registry.live[..LIVE] {
                black_box(operations.check(operation).is_ok());
            }
        });
        least.time("w8.cancel_ns", SOME, || registry.cancel(SOME));
        least.time("w8.finish_ns", SOME, || registry.finish(SOME));
    }
    markers(&mut least, end + 2 * budget.as_nanos() as u64);
    for (name, cost) in least.0 {
        report::figure("operations", name, cost);
    }
    report::figure("operations", "w8.bytes", held as f64 / LIVE as f64);
}

/// Measures the check that a handler makes inside its loops, beside the least that it could cost.
fn markers(least: &mut Least, end: u64) {
    const TIMES: usize = 1_000_000;
    let marker = Canceller::new().marker();
    let flag = AtomicU8::new(0);
    while clock::wall() < end {
        least.time("w8.marker_is_cancelled_ns", TIMES, || {
            (0..TIMES).for_each(|_| assert!(!black_box(&marker).is_cancelled()));
        });
        least.time("w8.relaxed_load_ns", TIMES, || {
            (0..TIMES).for_each(|_| assert!(black_box(&flag).load(Relaxed) == 0));
        });
    }
}

/// Runs so many whole lives on top of those that live, with so many kinds, and returns the
/// allocations of that.
pub(crate) fn some(kinds: usize, times: usize) -> u64 {
    let mut registry = Registry::new(kinds);
    registry.register(LIVE);
    let work = || {
        for _ in 0..times {
            registry.register(1);
            registry.cancel(1);
            registry.finish(1);
        }
    };
    heap::count(work).allocations
}
