//! The steps that undo a piece of work, their bounds, and the reports of their ends.
//!
//! A step is a value of the host's, which nothing here runs or drops. The end of the work returns its steps.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::time::Duration;

use crate::failure::{Failure, Panicked};

/// The bounds of the steps that undo one request, notification or piece of work beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndoLimits {
    /// The most steps of one piece of work. The default is 64.
    pub steps: usize,
    /// The time that one step has if it names none. The default is 10 seconds.
    ///
    /// A connection that ends waits for all steps, each of which may take its time.
    pub time: Duration,
}

impl Default for UndoLimits {
    fn default() -> Self {
        Self { steps: 64, time: Duration::from_secs(10) }
    }
}

/// The reason why a step was not kept. It will never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndoRefused {
    /// The work has as many steps as [`UndoLimits::steps`] allows.
    TooMany,
    /// The work is over, or can't be undone.
    Over,
}

/// A stack of steps that undo what some work has done so far.
#[derive(Debug)]
pub struct UndoStack<T> {
    /// The steps with the time that each has, in the order of their registration. `None` once the work is over.
    steps: Option<Vec<(T, Duration)>>,
}

/// The outcome of one step that was to undo some work.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undone {
    /// The count of registrations up to this one. The highest number runs first.
    pub number: usize,
    /// The end of the step.
    pub end: UndoEnd,
}

/// The end of a step that was to undo some work.
#[derive(Debug)]
#[non_exhaustive]
pub enum UndoEnd {
    /// The step is done.
    Ran,
    /// The step failed, for this reason.
    Failed(Failure),
    /// The step panicked.
    Panicked,
    /// The step was not done when its time was over.
    OutOfTime,
    /// The step did not run, or not to its end, because its server was dropped.
    Dropped,
}

impl<T> UndoStack<T> {
    /// Returns a stack without steps.
    #[must_use]
    pub const fn new() -> Self {
        Self { steps: Some(Vec::new()) }
    }

    /// Registers a step, with the time that it has.
    ///
    /// # Errors
    ///
    /// Returns the step with the reason if it is not kept.
    pub fn push(
        &mut self,
        step: T,
        time: Option<Duration>,
        limits: UndoLimits,
    ) -> Result<(), (UndoRefused, T)> {
        let Some(steps) = &mut self.steps else { return Err((UndoRefused::Over, step)) };
        if steps.len() >= limits.steps {
            return Err((UndoRefused::TooMany, step));
        }
        steps.push((step, time.unwrap_or(limits.time)));
        Ok(())
    }

    /// Ends the work, and takes its steps, each with the time that it has. The first end counts: a later one finds none.
    ///
    /// Work that failed runs them from the last to the first: the number of a step is its place, from one. Work that
    /// succeeded drops them.
    pub fn end(&mut self) -> Vec<(T, Duration)> {
        self.steps.take().unwrap_or_default()
    }
}

impl<T> Default for UndoStack<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl Undone {
    /// Returns the outcome of the step with this number.
    #[must_use]
    pub const fn new(number: usize, end: UndoEnd) -> Self {
        Self { number, end }
    }

    /// Returns the outcome of a step that returned, or whose panic is its failure.
    #[must_use]
    pub fn of(number: usize, done: Result<(), Failure>) -> Self {
        let end = match done {
            Ok(()) => UndoEnd::Ran,
            Err(Failure::Internal(internal)) if internal.reason().is::<Panicked>() => {
                UndoEnd::Panicked
            }
            Err(failure) => UndoEnd::Failed(failure),
        };
        Self { number, end }
    }

    /// Returns whether the step is done.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.end, UndoEnd::Ran)
    }
}

/// Writes nothing of the reason of a failure, which may quote anything.
impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match &self.end {
            UndoEnd::Ran => "is done",
            UndoEnd::Failed(Failure::Cancelled) => "was cancelled",
            UndoEnd::Failed(_) => "failed",
            UndoEnd::Panicked => "panicked",
            UndoEnd::OutOfTime => "ran out of time",
            UndoEnd::Dropped => "was dropped",
        };
        write!(f, "undo step {} {end}", self.number)
    }
}

impl fmt::Display for UndoRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => "the work has too many undo steps (limits.steps)",
            Self::Over => "the work is over, or can't be undone",
        })
    }
}

impl Error for UndoRefused {}

impl From<UndoRefused> for Failure {
    fn from(refused: UndoRefused) -> Self {
        Self::internal(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UndoLimits = UndoLimits { steps: 3, time: Duration::from_secs(2) };

    fn stack(steps: &[u8]) -> UndoStack<u8> {
        let mut stack = UndoStack::new();
        steps.iter().for_each(|&step| stack.push(step, None, LIMITS).expect("there is room"));
        stack
    }

    #[test]
    fn the_steps_are_taken_once_with_the_time_that_each_has() {
        let mut stack = stack(b"ab");
        stack.push(b'c', Some(Duration::from_secs(7)), LIMITS).expect("there is room");
        let own = Duration::from_secs(7);
        assert_eq!(stack.end(), [(b'a', LIMITS.time), (b'b', LIMITS.time), (b'c', own)]);
        assert_eq!(stack.end(), [], "a second end finds nothing");
    }

    #[test]
    fn a_step_over_the_limit_or_after_the_end_comes_back() {
        let mut stack = stack(&[1, 2, 3]);
        assert_eq!(stack.push(4, None, LIMITS), Err((UndoRefused::TooMany, 4)));
        assert_eq!(stack.end().len(), 3, "the others stay");
        assert_eq!(stack.push(5, None, LIMITS), Err((UndoRefused::Over, 5)));
        assert_eq!(stack.end(), []);
    }

    #[test]
    fn the_default_is_64_steps_of_10_seconds() {
        let limits = UndoLimits::default();
        assert_eq!((limits.steps, limits.time), (64, Duration::from_secs(10)));
    }
}
