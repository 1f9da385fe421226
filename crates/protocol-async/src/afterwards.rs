//! What is done once a connection's lock is released.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use smallvec::SmallVec;

use crate::cancellation::{Cancellation, FollowerKey, Told};
use crate::operations::CleanUp;
use crate::outcomes::{HandOver, RawOutcome};

/// Whom to tell, once the lock is released: whoever is told may take locks of its own. What one
/// message makes happen needs no allocation.
#[derive(Default)]
pub(crate) struct Afterwards(SmallVec<[Afterward; 2]>);

pub(crate) enum Afterward {
    Wake(Waker),
    Tell(Told),
    HandOver(HandOver, RawOutcome),
    CleanUp(CleanUp),
    /// Only to be dropped: a marker may own what the host gave it.
    Drop(Cancellation),
    /// As that: what the host is to be told may own something of its own.
    LetGo(Vec<FollowerKey>),
}

impl Afterwards {
    #[inline]
    pub(crate) fn push(&mut self, afterward: Afterward) {
        self.0.push(afterward);
    }

    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.push(Afterward::Wake(waker));
        }
    }

    pub(crate) fn let_go(&mut self, keys: Option<Vec<FollowerKey>>) {
        if let Some(keys) = keys {
            self.push(Afterward::LetGo(keys));
        }
    }

    /// Whether it is worth keeping, empty.
    pub(crate) fn is_roomy(&self) -> bool {
        const KEPT: usize = 1024;
        self.0.is_empty() && self.0.spilled() && self.0.capacity() <= KEPT
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
                Afterward::HandOver(hand_over, outcome) => contain(|| hand_over(outcome)),
                Afterward::CleanUp(clean_up) => clean_up.run(),
                Afterward::Drop(marker) => contain(|| drop(marker)),
                Afterward::LetGo(keys) => contain(|| drop(keys)),
            }
        }
    }
}

/// Runs the host's own code where a panic of it must harm nobody else (B33). The panic hook reports
/// it.
pub(crate) fn contain(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
