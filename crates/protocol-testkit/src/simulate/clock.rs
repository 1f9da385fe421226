//! Time, where a runtime has a clock of its own.

use std::time::Duration;

/// A runtime whose clock moves only with the world's.
pub(super) trait Clock {
    /// Does some work in the runtime's context. Then the runtime's own tasks go on until none can.
    fn run(&self, work: &mut dyn FnMut());

    /// Lets time pass until a task of the world can go on, but no longer than that. Says how long.
    fn pass(&self, most: Duration) -> Duration;

    /// Returns the number of tasks of its own.
    fn tasks(&self) -> usize;
}
