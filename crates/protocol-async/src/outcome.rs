//! What becomes of one call.

use std::mem;
use std::task::{Poll, Waker};

use serde_json::value::RawValue;

use crate::answer::CallError;
use crate::sync::{Arc, Mutex, lock};

/// What becomes of a call, as the peer wrote it. Errors are large and rare.
pub(crate) type RawOutcome = Result<Box<RawValue>, Box<CallError>>;

/// What is done with an outcome.
pub(crate) type HandOver = Box<dyn FnOnce(RawOutcome) + Send>;

/// The place for one outcome. The connection has one half of it, as the call's data, and gives that up
/// with the outcome; whoever made the call has the other.
#[derive(Clone, Default)]
pub(crate) struct OutcomeCell(Arc<Mutex<Progress>>);

#[derive(Default)]
enum Progress {
    /// In flight, and nobody has asked.
    #[default]
    InFlight,
    /// In flight, and a task waits.
    Awaited(Waker),
    /// In flight, and what is to be done with the outcome is settled.
    Handed(HandOver),
    Settled(RawOutcome),
    /// Nobody wants to know, or somebody knows already.
    Over,
}

/// What is to be done, once nothing is locked, because a call has settled.
pub(crate) enum Sequel {
    Nothing,
    Wake(Waker),
    HandOver(HandOver, RawOutcome),
}

impl OutcomeCell {
    /// The outcome is there.
    pub(crate) fn settle(&self, outcome: RawOutcome) -> Sequel {
        let mut progress = lock(&self.0);
        match mem::replace(&mut *progress, Progress::Over) {
            Progress::Handed(then) => Sequel::HandOver(then, outcome),
            Progress::Over => Sequel::Nothing,
            Progress::Awaited(waker) => {
                *progress = Progress::Settled(outcome);
                Sequel::Wake(waker)
            }
            Progress::InFlight | Progress::Settled(_) => {
                *progress = Progress::Settled(outcome);
                Sequel::Nothing
            }
        }
    }

    /// Takes the outcome, or waits for it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<RawOutcome> {
        let mut progress = lock(&self.0);
        if matches!(&*progress, Progress::Awaited(waiting) if waiting.will_wake(waker)) {
            return Poll::Pending;
        }
        match mem::replace(&mut *progress, Progress::Over) {
            Progress::Settled(outcome) => Poll::Ready(outcome),
            before => {
                *progress = Progress::Awaited(waker.clone());
                // Dropping another task's waker may drop that task.
                drop(progress);
                drop(before);
                Poll::Pending
            }
        }
    }

    /// Hands the outcome over once it is there, or gives both back if it is there already.
    pub(crate) fn hand_over(&self, then: HandOver) -> Result<(), (HandOver, RawOutcome)> {
        let mut progress = lock(&self.0);
        match mem::replace(&mut *progress, Progress::Over) {
            Progress::Settled(outcome) => Err((then, outcome)),
            before => {
                *progress = Progress::Handed(then);
                drop(progress);
                drop(before);
                Ok(())
            }
        }
    }

    /// Nobody wants to know any more. Whether the outcome was still to come.
    pub(crate) fn leave(&self) -> bool {
        let before = mem::replace(&mut *lock(&self.0), Progress::Over);
        !matches!(before, Progress::Settled(_))
    }
}
