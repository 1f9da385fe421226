//! Every order of a world's events, up to a bound.

use super::choices::Choices;
use super::executor::Simulation;
use super::report::{Failure, REPEATED};
use super::run::{Limits, Ran, run};
use super::tally::Tally;

/// The size of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Bound {
    steps: usize,
    schedules: u64,
}

impl Bound {
    /// In the first so many steps, everything that can happen next does, each in its own run. Then
    /// the run goes on with what is usual: tasks in the order they were woken, and the peer when none
    /// can go on. At most 100,000 runs; see [`schedules`](Self::schedules).
    pub const fn steps(steps: usize) -> Self {
        Self { steps, schedules: 100_000 }
    }

    /// At most so many runs.
    pub const fn schedules(self, most: u64) -> Self {
        Self { schedules: most, ..self }
    }
}

/// The figures of a search without a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Searched {
    /// The number of different runs.
    pub schedules: u64,
    /// Of so many: exactly, if every order was tried; else an estimate, by the number of choices
    /// along a few random runs.
    pub of: f64,
    /// Whether every order was tried, to the end. Only then is "no failure" a proof, of the runs that
    /// were not excused.
    pub is_exhausted: bool,
    /// The number of runs that were [excused](Simulation::excuse).
    pub excused: u64,
}

/// The number of random runs that the number of schedules is estimated by.
const PROBES: u64 = 100;

/// As [`every_order`](super::every_order).
///
/// # Errors
///
/// The failure with the fewest steps, if the bound leaves enough runs to find it; else a longer one.
pub fn try_every_order(bound: Bound, world: impl Fn(Simulation)) -> Result<Searched, Failure> {
    let tally = Tally::default();
    let mut search = Search { world: &world, left: bound.schedules, failure: None, tally };
    // A few steps first: what fails there fails soon, and nothing longer is of interest then.
    let mut open = bound.steps.min(8);
    loop {
        let (schedules, is_exhausted) = search.level(open);
        let runs = bound.schedules - search.left;
        if let Some((steps, given)) = &search.failure {
            // A shorter one may need a choice further on than any that was tried.
            let shorter = bound.steps.min(steps.saturating_sub(1));
            if open < shorter && search.left > 0 {
                open = shorter;
                continue;
            }
            let schedule = Choices::only(given.clone());
            return Err(Failure::of_schedule(schedule, runs, &world).expect(REPEATED));
        }
        if is_exhausted || open >= bound.steps || search.left == 0 {
            search.tally.judge()?;
            let (tried, excused) = (schedules as f64, search.tally.excused);
            let of = if is_exhausted { tried } else { estimate(&world).max(tried) };
            return Ok(Searched { schedules, of, is_exhausted, excused });
        }
        open = bound.steps.min(open * 2);
    }
}

struct Search<'a> {
    world: &'a dyn Fn(Simulation),
    /// So many runs may still be.
    left: u64,
    /// The shortest failure so far, and its choices.
    failure: Option<(usize, Vec<u64>)>,
    tally: Tally,
}

impl Search<'_> {
    /// Every order of the first so many steps, depth first. Once something fails, only what is shorter
    /// is of interest. Returns the number of runs, and whether they were all that there are.
    fn level(&mut self, open: usize) -> (u64, bool) {
        let (mut given, mut is_cut, mut schedules) = (Vec::new(), false, 0);
        loop {
            if self.left == 0 {
                return (schedules, false);
            }
            (self.left, schedules) = (self.left - 1, schedules + 1);
            let shorter = self.failure.as_ref().map(|(steps, _)| steps.saturating_sub(1));
            let limits = Limits { open, most: shorter.unwrap_or(usize::MAX), is_told: false };
            let ran = run(Choices::search(given), limits, self.world);
            self.tally.add(&ran);
            let Ran { problem, steps, is_redundant, world, .. } = ran;
            let choices = world.choices;
            schedules -= u64::from(is_redundant);
            if problem.is_some() {
                self.failure = Some((steps, choices.decided()));
            }
            is_cut |= choices.is_cut();
            match choices.next() {
                Some(next) => given = next,
                None => return (schedules, !is_cut),
            }
        }
    }
}

/// The mean of the products of choices along random runs, which is what the number of all runs is
/// expected to be (Knuth, 1975).
fn estimate(world: &dyn Fn(Simulation)) -> f64 {
    let limits = Limits { open: usize::MAX, most: 10_000, is_told: false };
    let of = |seed| run(Choices::probe(seed), limits, world).world.choices.product();
    (0..PROBES).map(of).sum::<f64>() / PROBES as f64
}
