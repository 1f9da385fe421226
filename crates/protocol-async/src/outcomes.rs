//! What becomes of calls.

use std::collections::BTreeMap;
use std::mem;
use std::task::Waker;

use serde_json::value::RawValue;
use slab::Slab;

use crate::afterwards::{Afterward, Afterwards};
use crate::answer::CallError;
use crate::cancellation::FollowerKey;

/// What becomes of a call, as the peer wrote it. Errors are large and rare.
pub(crate) type RawOutcome = Result<Box<RawValue>, Box<CallError>>;

/// What is done with an outcome.
pub(crate) type HandOver = Box<dyn FnOnce(RawOutcome) + Send>;

/// As many outcomes get room for as many more, and above that for a quarter more: with many in flight
/// the difference is bytes for each.
const DOUBLED: usize = 1024;

/// The outcomes of one connection's calls, there already or still to come.
///
/// Whatever may run the host's own code when it is dropped is handed out, not dropped here: this is
/// behind the connection's lock.
#[derive(Default)]
pub(crate) struct Outcomes {
    progress: Slab<Progress>,
    /// The markers that cancel a call, by the index of its slot; let go when it settles. Apart from
    /// the others because mostly there are none.
    forwarded: BTreeMap<u32, Vec<FollowerKey>>,
}

/// Where the outcome of one call is. Invariant: whoever has it is the only one who waits, and gives it
/// up when the outcome was taken or is not wanted any more.
#[derive(Clone, Copy)]
pub(crate) struct Slot(u32);

impl Slot {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Default)]
enum Progress {
    /// In flight, and nobody has asked.
    #[default]
    InFlight,
    /// In flight, and a task waits.
    Awaited(Waker),
    /// In flight, and what is to be done with the outcome is settled.
    Handed(HandOver),
    /// In flight, and nobody wants to know.
    Unwanted,
    Settled(RawOutcome),
}

impl Outcomes {
    /// Expects one outcome more.
    pub(crate) fn expect_one(&mut self) -> Slot {
        let len = self.progress.len();
        if len == self.progress.capacity() && len >= DOUBLED {
            self.progress.reserve_exact(len / 4);
        }
        let slot = self.progress.insert(Progress::default());
        Slot(u32::try_from(slot).expect("memory ends long before 2^32 of them"))
    }

    /// Of a call that was refused.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.progress.remove(slot.index());
    }

    /// The outcome is there.
    pub(crate) fn settle(&mut self, slot: Slot, outcome: RawOutcome, after: &mut Afterwards) {
        if !self.forwarded.is_empty() {
            after.let_go(self.forwarded.remove(&slot.0));
        }
        let progress = &mut self.progress[slot.index()];
        match mem::take(progress) {
            Progress::InFlight => *progress = Progress::Settled(outcome),
            Progress::Awaited(waker) => {
                *progress = Progress::Settled(outcome);
                after.push(Afterward::Wake(waker));
            }
            Progress::Handed(hand_over) => {
                self.progress.remove(slot.index());
                after.push(Afterward::HandOver(hand_over, outcome));
            }
            Progress::Unwanted => {
                self.progress.remove(slot.index());
            }
            Progress::Settled(_) => unreachable!("the core settles a call once"),
        }
    }

    /// Waits for the outcome, which is not there yet; gives back a waker to be dropped.
    pub(crate) fn wait(&mut self, slot: Slot, waker: &Waker) -> Option<Waker> {
        match &mut self.progress[slot.index()] {
            // Mostly so, and then there is nothing to move out of the way.
            progress @ Progress::InFlight => {
                *progress = Progress::Awaited(waker.clone());
                None
            }
            Progress::Awaited(waiting) if waiting.will_wake(waker) => None,
            progress => progress.replace(Progress::Awaited(waker.clone())),
        }
    }

    /// Hands the outcome over once it is there, or gives both back if it is there already.
    pub(crate) fn hand_over(
        &mut self,
        slot: Slot,
        hand_over: HandOver,
    ) -> Result<Option<Waker>, (HandOver, RawOutcome)> {
        if self.is_settled(slot) {
            return Err((hand_over, self.take(slot)));
        }
        Ok(self.progress[slot.index()].replace(Progress::Handed(hand_over)))
    }

    /// Nobody wants to know any more; gives the outcome back if it is there already.
    pub(crate) fn leave(&mut self, slot: Slot) -> Result<Option<Waker>, RawOutcome> {
        if self.is_settled(slot) {
            return Err(self.take(slot));
        }
        Ok(self.progress[slot.index()].replace(Progress::Unwanted))
    }

    /// Keeps what cancels the call as long as it is in flight; then gives it back.
    pub(crate) fn keep(&mut self, slot: Slot, key: FollowerKey) -> Option<FollowerKey> {
        if self.is_settled(slot) {
            return Some(key);
        }
        self.forwarded.entry(slot.0).or_default().push(key);
        None
    }

    /// Whether the outcome is there.
    pub(crate) fn is_settled(&self, slot: Slot) -> bool {
        matches!(self.progress[slot.index()], Progress::Settled(_))
    }

    /// Takes the outcome, which is there.
    pub(crate) fn take(&mut self, slot: Slot) -> RawOutcome {
        match self.progress.remove(slot.index()) {
            Progress::Settled(outcome) => outcome,
            _ => unreachable!("whoever takes it has seen it"),
        }
    }
}

impl Progress {
    /// Gives back a waker to be dropped.
    fn replace(&mut self, progress: Self) -> Option<Waker> {
        match mem::replace(self, progress) {
            Self::Awaited(waker) => Some(waker),
            _ => None,
        }
    }
}
