//! Makes the schedule of a failing seed as short as it can be.

use super::choices::Choices;
use super::executor::Simulation;
use super::fault::Problem;
use super::run::{Limits, Ran, run};

/// The steps that are taken in search of a shorter failure.
const STEPS: usize = 60_000;

/// Returns a schedule that fails in the same way, in as few steps and with as few unusual choices as were
/// found.
pub(super) fn shorten(schedule: Vec<u64>, first: &Problem, world: &dyn Fn(Simulation)) -> Vec<u64> {
    let mut shortener = Shortener { best: schedule, steps: usize::MAX, first, left: STEPS, world };
    // The schedule of the first run is the first to be beaten.
    shortener.attempt(shortener.best.clone());
    while shortener.left > 0 && shortener.pass() {}
    shortener.best
}

struct Shortener<'a> {
    /// The shortest schedule that fails so far, and the steps of its run.
    best: Vec<u64>,
    steps: usize,
    first: &'a Problem,
    /// The number of steps that may still be taken.
    left: usize,
    world: &'a dyn Fn(Simulation),
}

impl Shortener<'_> {
    /// Tries to do without each part of the schedule, large ones first. Returns whether it became shorter.
    fn pass(&mut self) -> bool {
        let mut is_shorter = false;
        let mut size = self.best.len();
        while size > 0 {
            let mut end = self.best.len();
            while end > 0 && self.left > 0 {
                let part = end.saturating_sub(size)..end;
                let (mut without, mut usual) = (self.best.clone(), self.best.clone());
                without.drain(part.clone());
                usual[part.clone()].fill(0);
                is_shorter |= self.attempt(without) || self.attempt(usual);
                end = part.start.min(self.best.len());
            }
            size /= 2;
        }
        is_shorter | self.lower()
    }

    /// Tries to make each unusual choice less so.
    fn lower(&mut self) -> bool {
        let mut is_shorter = false;
        for at in 0..self.best.len() {
            for less in [2, 1] {
                let mut lower = self.best.clone();
                let Some(choice) = lower.get_mut(at).filter(|choice| **choice > less) else {
                    continue;
                };
                *choice -= less;
                is_shorter |= self.left > 0 && self.attempt(lower);
            }
        }
        is_shorter
    }

    /// Runs a schedule, and keeps it if it is a shorter failure.
    fn attempt(&mut self, schedule: Vec<u64>) -> bool {
        let most = self.steps;
        let limits = Limits { open: usize::MAX, most, is_told: false };
        let Ran { problem, steps, world, .. } = run(Choices::of(schedule), limits, self.world);
        self.left = self.left.saturating_sub(steps.max(1));
        let schedule = world.choices.decided();
        let unusual = |schedule: &[u64]| schedule.iter().filter(|&&choice| choice != 0).count();
        let sum =
            |schedule: &[u64]| schedule.iter().map(|&choice| u128::from(choice)).sum::<u128>();
        let size =
            |steps, schedule: &[u64]| (steps, unusual(schedule), schedule.len(), sum(schedule));
        let is_shorter = problem.is_some_and(|problem| is_same(&problem, self.first))
            && size(steps, &schedule) < size(most, &self.best);
        if is_shorter {
            (self.best, self.steps) = (schedule, steps);
        }
        is_shorter
    }
}

/// Whether both are the same fault, but for numbers: a shorter run counts its requests otherwise.
fn is_same(problem: &Problem, first: &Problem) -> bool {
    let words = |what: &str| what.split(|it: char| it.is_ascii_digit()).collect::<String>();
    problem.fault == first.fault && words(&problem.what) == words(&first.what)
}
