//! Clocks, and how often to look at them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CPU time that the whole process has used: system call, user and kernel.
#[must_use]
pub fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since some start; cheap enough for one look per request.
#[must_use]
pub fn wall() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The number of slices that some work is cut into. The least disturbed one is the cost of the
/// work: the machine is shared, and a disturbance only ever adds.
const SLICES: usize = 7;

/// Nanoseconds of CPU time of one step of some work that takes a number of steps, which takes
/// about so long in all.
pub fn cpu_per_step(budget: Duration, grain: usize, mut work: impl FnMut(usize)) -> f64 {
    work(grain);
    let begun = Instant::now();
    let mut warm = 0;
    while warm == 0 || begun.elapsed() < budget / 10 {
        work(grain);
        warm += grain;
    }
    let step = begun.elapsed().as_secs_f64() / warm as f64;
    let steps = budget.as_secs_f64() * 0.9 / SLICES as f64 / step;
    let steps = ((steps as usize) / grain).max(1) * grain;
    let slice = |_| {
        let begun = cpu();
        work(black_box(steps));
        (cpu() - begun) as f64 / steps as f64
    };
    (0..SLICES).map(slice).fold(f64::INFINITY, f64::min)
}

/// The value that a share of the others is below. Sorts them.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn percentile(values: &mut [u64], share: f64) -> f64 {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share) as usize] as f64
}
