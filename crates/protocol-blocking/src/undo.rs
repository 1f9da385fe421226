//! The steps that undo what a request has done.

use std::fmt;
use std::time::{Duration, Instant};

use protocol_async::hooks::UndoStack;
use protocol_async::{Failure, UndoLimits};

/// A step that undoes what a request has done or is about to do; see [`Responder::undo_with`](crate::Responder::undo_with).
pub struct Undo {
    pub(crate) step: Box<Step>,
    pub(crate) time: Option<Duration>,
}

type Step = dyn FnOnce(Instant) -> Result<(), Failure>;

impl Undo {
    /// Returns a step, which gets the time at which it should be done.
    #[must_use]
    pub fn new(step: impl FnOnce(Instant) -> Result<(), Failure> + 'static) -> Self {
        Self { step: Box::new(step), time: None }
    }

    /// Sets the time that the step has, in place of [`UndoLimits::time`](protocol_async::UndoLimits::time).
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { time: Some(time), ..self }
    }
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undo").field("time", &self.time).finish_non_exhaustive()
    }
}

/// The steps that undo one request, and their bounds.
#[derive(Debug, Default)]
pub struct Undoing {
    pub(crate) stack: UndoStack<Undo>,
    pub(crate) limits: UndoLimits,
}
