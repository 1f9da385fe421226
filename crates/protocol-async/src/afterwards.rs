//! What is done once a connection's lock is released.

use std::task::Waker;

use smallvec::SmallVec;

use crate::cancellation::{Cancellation, Told};
use crate::contain::contain;
use crate::operations::CleanUp;
use crate::outcome::{HandOver, RawOutcome};
use crate::spans::Seen;

/// Whom to tell, once the lock is released: whoever is told may take locks of its own. What one
/// message makes happen needs no allocation.
#[derive(Default)]
pub(crate) struct Afterwards(SmallVec<[Afterward; 2]>);

pub(crate) enum Afterward {
    Wake(Waker),
    Tell(Told),
    HandOver(HandOver, RawOutcome),
    CleanUp(CleanUp),
    /// For whoever listens to spans.
    Show(Box<Seen>),
    /// Only to be dropped: a marker may own what the host gave it.
    Drop(Cancellation),
}

impl Afterwards {
    #[inline]
    pub(crate) fn push(&mut self, afterward: Afterward) {
        self.0.push(afterward);
    }

    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        wakers.into_iter().for_each(|waker| self.push(Afterward::Wake(waker)));
    }

    #[inline]
    pub(crate) fn show(&mut self, seen: Option<Box<Seen>>) {
        if let Some(seen) = seen {
            self.push(Afterward::Show(seen));
        }
    }

    #[inline]
    pub(crate) fn run(&mut self) {
        // Most commands make nothing happen.
        if !self.0.is_empty() {
            self.run_all();
        }
    }

    fn run_all(&mut self) {
        for afterward in self.0.drain(..) {
            match afterward {
                Afterward::Wake(waker) => contain(|| waker.wake()),
                Afterward::Tell(told) => told.tell(),
                Afterward::HandOver(then, outcome) => then.give(outcome),
                Afterward::CleanUp(clean_up) => clean_up.run(),
                Afterward::Show(seen) => contain(|| seen.tell()),
                Afterward::Drop(marker) => contain(|| drop(marker)),
            }
        }
    }
}
