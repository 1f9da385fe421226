//! Every order of a world's events, up to a bound.

use super::choices::Choices;
use super::executor::Simulation;
use super::report::Failure;
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
#[must_use = "a search that is not exhausted has not tried every order"]
pub struct Searched {
    /// The number of different runs.
    pub schedules: u64,
    /// The number of runs that there are. It is exact if every order was tried. Otherwise it is an estimate, by the
    /// choices along a few random runs.
    pub of: f64,
    /// Whether every order was tried, to the end. Only then is "no failure" a proof, of the runs that
    /// were not excused. A replay has tried all that it was asked to.
    pub is_exhausted: bool,
    /// The number of runs that were [excused](Simulation::excuse).
    pub excused: u64,
}

/// The number of random runs that the number of schedules is estimated by.
const PROBES: u64 = 100;

/// Does as [`every_order`](super::every_order), whatever the environment says, and prints nothing.
///
/// # Errors
///
/// The failure with the fewest steps, if the bound leaves enough runs to find it; else a longer one.
pub fn try_every_order(bound: Bound, world: impl Fn(Simulation)) -> Result<Searched, Failure> {
    let tally = Tally::default();
    let mut search = Search { world: &world, bound, left: bound.schedules, found: None, tally };
    // A few steps first: what fails there fails soon, and nothing longer is of interest then.
    let mut open = bound.steps.min(8);
    let is_exhausted = loop {
        let is_exhausted = search.level(open);
        let next = match &search.found {
            // A shorter one may need a choice further on than any that was tried.
            Some(found) => bound.steps.min(found.steps.saturating_sub(1)),
            None if is_exhausted => open,
            None => bound.steps.min(open * 2),
        };
        if next <= open || search.left == 0 {
            break is_exhausted;
        }
        open = next;
    };
    let Tally { runs: schedules, excused, .. } = search.tally;
    let mut of = schedules as f64;
    if search.found.is_none() {
        search.tally.judge()?;
        if !is_exhausted {
            of = search.estimate().max(of);
        }
    }
    let Some(Found { failure, schedule, .. }) = search.found else {
        return Ok(Searched { schedules, of, is_exhausted, excused });
    };
    let replay = schedule.replay();
    Err(failure.again(schedule, replay, &world))
}

struct Search<'a> {
    world: &'a dyn Fn(Simulation),
    bound: Bound,
    /// The number of runs that may still be.
    left: u64,
    /// The shortest failure so far.
    found: Option<Found>,
    /// The account of the level that is searched.
    tally: Tally,
}

/// A failure, without its steps in words.
struct Found {
    failure: Failure,
    schedule: Choices,
    steps: usize,
}

impl Search<'_> {
    /// Tries every order of the first so many steps, depth first. Once something fails, only what is shorter
    /// is of interest. Returns whether the runs were all that there are.
    fn level(&mut self, open: usize) -> bool {
        let (mut given, mut is_cut) = (Vec::new(), false);
        self.tally.begin();
        while self.left > 0 {
            self.left -= 1;
            let shorter = self.found.as_ref().map(|found| found.steps.saturating_sub(1));
            let limits = Limits { open, most: shorter.unwrap_or(usize::MAX), is_told: false };
            let ran = run(Choices::search(given), limits, self.world);
            if !ran.is_redundant {
                self.tally.add(&ran);
            }
            let choices = self.take(ran);
            is_cut |= choices.is_cut();
            match choices.next() {
                Some(next) => given = next,
                None => return !is_cut,
            }
        }
        false
    }

    /// Keeps the failure of a run, unless a shorter one is known. Returns the choices of the run.
    fn take(&mut self, mut ran: Ran) -> Choices {
        let choices = std::mem::take(&mut ran.world.choices);
        let steps = ran.steps;
        if self.found.as_ref().is_none_or(|found| steps < found.steps) {
            let schedule = Choices::only(choices.decided());
            let runs = self.bound.schedules - self.left;
            if let Err(failure) = Failure::of(ran, runs, schedule.replay()) {
                self.found = Some(Found { failure, schedule, steps });
            }
        }
        choices
    }

    /// Returns the mean of the products of choices along random runs, which is what the number of all runs is
    /// expected to be (Knuth, 1975). A failure of such a run is kept too.
    fn estimate(&mut self) -> f64 {
        let limits = Limits { most: 10_000, ..Limits::WHOLE };
        let mut of = |seed| self.take(run(Choices::probe(seed), limits, self.world)).product();
        (0..PROBES).map(&mut of).sum::<f64>() / PROBES as f64
    }
}
