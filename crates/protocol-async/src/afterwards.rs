//! What is done once a connection's lock is released.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use smallvec::SmallVec;

use crate::cancellation::Told;
use crate::hub::RequestEntry;
use crate::sent::{CallSlot, RawOutcome};
use crate::sync::Arc;

/// Whom to tell, once the lock is released: whoever is told may take locks of its own. What one
/// message makes happen needs no allocation.
#[derive(Default)]
pub(crate) struct Afterwards {
    pub(crate) wakers: SmallVec<[Waker; 2]>,
    pub(crate) told: SmallVec<[Told; 1]>,
    pub(crate) settled: SmallVec<[(Arc<CallSlot>, RawOutcome); 1]>,
    /// Only to be dropped: a marker may own what the host gave it.
    pub(crate) answered: SmallVec<[RequestEntry; 1]>,
}

impl Afterwards {
    #[inline]
    pub(crate) fn run(&mut self) {
        let Self { wakers, told, settled, answered } = self;
        // Most commands make nothing happen.
        if wakers.len() + told.len() + settled.len() + answered.len() > 0 {
            self.tell();
        }
    }

    fn tell(&mut self) {
        for told in self.told.drain(..) {
            told.tell();
        }
        for (slot, outcome) in self.settled.drain(..) {
            slot.settle(outcome);
        }
        for waker in self.wakers.drain(..) {
            contain(|| waker.wake());
        }
        for entry in self.answered.drain(..) {
            contain(|| drop(entry));
        }
    }
}

/// Runs the host's own code where a panic of it must harm nobody else (B33). The panic hook reports
/// it.
pub(crate) fn contain(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
