//! The systems that can be searched.

use std::fmt;

use protocol_record::Mark;

use crate::guarantee::Broken;

/// Something whose orderings can be searched: it is in a state, and has choices.
pub trait System: Clone {
    /// One thing that can happen next. Its words tell it from all other choices of that state.
    /// They hold no `;`, which stands between two choices in the line that [`replay`](super::replay) reads.
    type Choice: fmt::Display;

    /// The names of its peers, for charts.
    const LANES: &'static [&'static str];

    /// Returns the choices for the next step, in an order that depends on the state alone.
    fn choices(&self) -> Vec<Self::Choice>;

    /// Returns whether fairness makes it happen sooner or later: delivery and answers, and nothing that
    /// anybody may leave undone.
    fn is_fair(&self, choice: &Self::Choice) -> bool;

    /// Makes a choice happen.
    ///
    /// # Errors
    ///
    /// The guarantee that does not hold then.
    fn take(&mut self, choice: &Self::Choice) -> Result<(), Broken>;

    /// Returns what waits for ever if only unfair choices are left.
    fn unsettled(&self) -> Option<Broken>;

    /// Tells this state from others, without its history.
    fn fingerprint(&self) -> u64;

    /// Keeps from now on all that happens, for a chart. By default it keeps nothing, because the choices may say all.
    fn record(&mut self) {}

    /// Takes the marks of everything that happened since the last time.
    fn take_marks(&mut self) -> Vec<Mark> {
        Vec::new()
    }
}
