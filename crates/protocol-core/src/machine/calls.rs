//! Our calls in flight: one row each.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use slab::Slab;

use super::action::{CancelRefusal, Settlement};
use super::table::CallPhase;
use super::timers::TimerReason;
use crate::cause::Cause;
use crate::dialect::Grace;
use crate::index::{Index, Key};
use crate::slot::{self, Slot};
use crate::time::Timestamp;

/// Names one of our calls, for ever: a settled call's id never comes to mean another.
///
/// Ordered by when the call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// The largest id we put on the wire: above it, LSP servers go silent, panic or die.
const LAST_NUMBER: u64 = i32::MAX as u64;

impl CallId {
    /// The id on the wire: 1, 2, 3, … and after 2^31-1 from 1 again.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u32 {
        if self.is_reissued() { ((self.0 - 1) % LAST_NUMBER) as u32 + 1 } else { self.0 as u32 }
    }

    /// Whether another call had its number before.
    pub(super) const fn is_reissued(self) -> bool {
        self.0 > LAST_NUMBER
    }

    /// The least id, for ranges.
    pub(super) const MIN: Self = Self(0);
}

/// One call in flight.
#[derive(Clone, Debug)]
pub(super) struct Call<C> {
    pub(super) id: CallId,
    /// The host's data.
    pub(super) data: C,
    /// Invariant: that request's row exists, and its calls are told to hold this one.
    pub(super) parent: Option<Slot>,
    pub(super) phase: CallPhase,
    /// What a local settlement would report. Invariant: the first cancel sets it and no later one
    /// changes it (B22); only the loss of the connection does.
    pub(super) ending: Option<(Settlement, Cause)>,
    /// Why it can't be cancelled on the wire, if it can't.
    pub(super) refusal: Option<CancelRefusal>,
    /// What few calls have. In a box, because most have nothing of it.
    pub(super) rare: Option<Box<Rare>>,
}

/// What few calls have.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Rare {
    pub(super) deadline: Option<Timestamp>,
    pub(super) idle: Option<Timestamp>,
    /// So long after progress its idle timeout is.
    pub(super) idle_after: Option<Duration>,
    pub(super) hard_cap: Option<Timestamp>,
    /// The grace that is its own, and not the dialect's.
    pub(super) grace: Option<Grace>,
    /// When its grace ends, once that has begun.
    pub(super) release: Option<Timestamp>,
    /// The number of its cancel, where that is a request, until it is answered.
    pub(super) cancel: Option<u32>,
}

impl Rare {
    /// The first of its timers to fire.
    fn next_timer(&self) -> Option<(Timestamp, TimerReason)> {
        [
            (self.deadline, TimerReason::Deadline),
            (self.idle, TimerReason::IdleTimeout),
            (self.hard_cap, TimerReason::HardCap),
            (self.release, TimerReason::Grace),
        ]
        .into_iter()
        .filter_map(|(due, reason)| Some((due?, reason)))
        .min()
    }
}

/// Where the row of a call is, for whoever has just found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// What a number on the wire names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A call.
    Call(Place),
    /// The cancel of a call.
    CancelOf(Place),
}

#[derive(Clone, Debug)]
pub(super) struct Calls<C> {
    rows: Slab<Call<C>>,
    /// Invariant: holds each row's number, and nothing else.
    by_number: Index<u32>,
    /// By the number of their cancels, the calls whose cancel is a request and was not answered yet.
    by_cancel: BTreeMap<u32, Place>,
    /// Invariant: holds the next timer of each row that has one, and nothing else.
    due: BTreeSet<(Timestamp, CallId, TimerReason)>,
    /// Boxes of settled calls, for the next ones.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<Rare>>,
    /// The last serial that was given out.
    last: u64,
}

impl<C> Calls<C> {
    /// So many boxes are kept for the next calls.
    pub(crate) const SPARE: usize = 64;

    pub(super) const fn new() -> Self {
        Self {
            rows: Slab::new(),
            by_number: Index::new(),
            by_cancel: BTreeMap::new(),
            due: BTreeSet::new(),
            spare: Vec::new(),
            last: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    // Numbers

    /// The id that the next call gets. Numbers still in flight after a wrap are skipped.
    pub(super) fn next_id(&self) -> CallId {
        let mut id = CallId(self.last + 1);
        while id.is_reissued() && self.named(id.number()).is_some() {
            id.0 += 1;
        }
        id
    }

    /// Takes the next number for a message that is no call: a cancel that is a request.
    pub(super) fn take_number(&mut self) -> CallId {
        let id = self.next_id();
        self.last = id.0;
        id
    }

    /// What this number names in flight.
    #[inline]
    pub(super) fn named(&self, number: u32) -> Option<Named> {
        match self.by_number.find(&number, numbers(&self.rows)) {
            Some(slot) => Some(Named::Call(Place(slot as usize))),
            None => self.by_cancel.get(&number).copied().map(Named::CancelOf),
        }
    }

    /// The last message of ours that got this wire number, if any did.
    pub(super) fn issued(&self, number: u32) -> Option<CallId> {
        let number = u64::from(number);
        let rounds = self.last.checked_sub(number)? / LAST_NUMBER;
        (1..=LAST_NUMBER).contains(&number).then_some(CallId(number + rounds * LAST_NUMBER))
    }

    /// Gives a call's cancel the next number.
    pub(super) fn number_cancel(&mut self, place: Place) -> u32 {
        let cancel = self.take_number().number();
        self.rare(place).cancel = Some(cancel);
        self.by_cancel.insert(cancel, place);
        cancel
    }

    /// The cancel of a call is answered, or will be nobody's: gives its number, if it had one.
    #[inline]
    pub(super) fn release_cancel(&mut self, place: Place) -> Option<u32> {
        if self.by_cancel.is_empty() {
            return None;
        }
        let cancel = self.row_mut(place).rare.as_mut()?.cancel.take()?;
        self.by_cancel.remove(&cancel);
        Some(cancel)
    }

    // Rows

    /// Makes the row of the next call.
    pub(super) fn insert(&mut self, call: Call<C>) -> Place {
        debug_assert_eq!(call.id, self.next_id(), "whoever makes a row asks for its id first");
        let id = call.id;
        self.last = id.0;
        slot::make_room(&mut self.rows);
        let slot = self.rows.insert(call);
        self.by_number.insert(&id.number(), slot as u32, numbers(&self.rows));
        Place(slot)
    }

    /// Where the row of a call is, unless it has settled.
    #[inline]
    pub(super) fn find(&self, call: CallId) -> Option<Place> {
        let slot = self.by_number.find(&call.number(), numbers(&self.rows))? as usize;
        (self.rows[slot].id == call).then_some(Place(slot))
    }

    pub(super) fn row(&self, place: Place) -> &Call<C> {
        &self.rows[place.0]
    }

    pub(super) fn row_mut(&mut self, place: Place) -> &mut Call<C> {
        &mut self.rows[place.0]
    }

    pub(super) fn get(&self, call: CallId) -> Option<&Call<C>> {
        self.find(call).map(|place| self.row(place))
    }

    pub(super) fn get_mut(&mut self, call: CallId) -> Option<&mut Call<C>> {
        self.find(call).map(|place| self.row_mut(place))
    }

    /// Removes a row, its number and its timers. Its cancel was released before.
    #[inline]
    pub(super) fn remove(&mut self, Place(slot): Place) -> Call<C> {
        let mut row = self.rows.remove(slot);
        self.by_number.remove(&row.id.number(), slot as u32, numbers(&self.rows));
        if let Some(mut rare) = row.rare.take() {
            debug_assert!(rare.cancel.is_none(), "its number would lead to another row");
            if let Some((due, reason)) = rare.next_timer() {
                self.due.remove(&(due, row.id, reason));
            }
            if self.spare.len() < Self::SPARE {
                *rare = Rare::default();
                self.spare.push(rare);
            }
        }
        if slot::give_back(&mut self.rows) {
            self.by_number = Index::new();
        }
        row
    }

    // What few have

    /// What few calls have, made now if this one had nothing of it.
    pub(super) fn rare(&mut self, place: Place) -> &mut Rare {
        let spare = &mut self.spare;
        self.rows[place.0].rare.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// Every call in flight, in the order they were made.
    pub(super) fn in_order(&self) -> Vec<CallId> {
        let mut ids: Vec<CallId> = self.rows.iter().map(|(_, row)| row.id).collect();
        ids.sort_unstable();
        ids
    }

    // Timers

    /// Changes the times of one call.
    pub(super) fn set_times(&mut self, place: Place, change: impl FnOnce(&mut Rare)) {
        let call = self.row(place).id;
        let rare = self.rare(place);
        let before = rare.next_timer();
        change(rare);
        let after = rare.next_timer();
        if let Some((due, reason)) = before {
            self.due.remove(&(due, call, reason));
        }
        if let Some((due, reason)) = after {
            self.due.insert((due, call, reason));
        }
    }

    /// The idle timeout of a call, if it has one, starts anew.
    pub(super) fn restart_idle_timeout(&mut self, call: CallId, now: Timestamp) {
        let Some(place) = self.find(call) else { return };
        if self.row(place).rare.is_some() {
            self.set_times(place, |rare| rare.idle = rare.idle_after.map(|after| now + after));
        }
    }

    /// The next timer to fire: by time, then in the order the calls were made.
    pub(super) fn next_timer(&self) -> Option<(Timestamp, CallId, TimerReason)> {
        self.due.first().copied()
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert_eq!(self.rows.len(), self.by_number.len(), "one number a call");
        debug_assert!(self.due.len() <= self.rows.len(), "one next timer a call");
        debug_assert!(self.by_cancel.len() <= self.rows.len(), "one cancel a call");
    }
}

/// The wire number of the call in a slot.
fn numbers<C>(rows: &Slab<Call<C>>) -> impl Fn(u32) -> u32 {
    |slot| rows[slot as usize].id.number()
}

/// Wire numbers count.
impl Key for u32 {
    fn spread(&self) -> u64 {
        u64::from(*self)
    }
}

/// The host's data tells no two states apart, and neither do slots, which no id shows.
impl<C> Hash for Calls<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut rows: Vec<&Call<C>> = self.rows.iter().map(|(_, row)| row).collect();
        rows.sort_unstable_by_key(|row| row.id);
        for Call { id, data: _, parent, phase, ending, refusal, rare } in rows {
            (id, parent, phase, ending, refusal, rare).hash(state);
        }
        self.last.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Action, Machine, ResponseKind};
    use crate::{CallOptions, Config, Dialect, Violation};

    fn insert(calls: &mut Calls<()>) -> CallId {
        let id = calls.next_id();
        calls.insert(Call {
            id,
            data: (),
            parent: None,
            phase: CallPhase::Queued,
            ending: None,
            refusal: None,
            rare: None,
        });
        id
    }

    #[test]
    fn numbers_wrap_at_31_bits_and_skip_all_those_in_flight() {
        let mut calls = Calls::new();
        let (first, second) = (insert(&mut calls), insert(&mut calls));
        assert_eq!((first.number(), second.number()), (1, 2));
        calls.last = LAST_NUMBER - 1;
        assert_eq!(insert(&mut calls).number(), 0x7fff_ffff);
        let cancel = calls.number_cancel(calls.find(first).unwrap());
        assert_eq!(cancel, 3, "1 and 2 are in flight");
        calls.last = 2 * LAST_NUMBER;
        assert_eq!(insert(&mut calls).number(), 4, "and so is the cancel 3");
        assert!(calls.get(first).is_some() && calls.get(second).is_some());
    }

    #[test]
    fn a_reissued_number_does_not_answer_to_the_old_id() {
        let mut calls = Calls::new();
        let old = insert(&mut calls);
        calls.remove(calls.find(old).unwrap());
        calls.last = LAST_NUMBER;
        let new = insert(&mut calls);
        assert_eq!(old.number(), new.number());
        assert!(calls.get(old).is_none() && calls.get(new).is_some());
        assert!(calls.find(old).is_none() && calls.find(new).is_some());
    }

    #[test]
    fn g12_nothing_is_remembered_of_the_last_call_of_a_reissued_number() {
        let mut machine = Machine::<(), ()>::new(Config::client(Dialect::JSON_RPC));
        let call = |machine: &mut Machine<(), ()>| {
            let id = machine.admit_call(&CallOptions::default()).unwrap();
            machine.call(id, &CallOptions::default(), None, (), Timestamp::ZERO);
            machine.transmitted(id.number());
            id
        };
        let answered =
            |machine: &mut Machine<(), ()>| machine.receive_response(1, ResponseKind::Result);
        let old = call(&mut machine);
        // It settles here, so that its answer would be late.
        let _ = machine.cancel(old, Cause::Dropped, Timestamp::ZERO);
        machine.handle_timeout(Timestamp::from_millis(u64::MAX / 2));
        assert!(machine.calls.get(old).is_none() && machine.past.get(&1).is_some());
        machine.calls.last = LAST_NUMBER;
        let new = call(&mut machine);
        assert_eq!(new.number(), old.number());
        assert!(matches!(answered(&mut machine), (Some(Action::Complete(_)), None)));
        assert_eq!(answered(&mut machine).1, Some(Violation::DuplicateResponse));
    }

    #[test]
    fn g12_the_last_message_of_a_number_is_told_from_those_before() {
        let mut calls = Calls::new();
        let first = insert(&mut calls);
        let second = calls.take_number();
        let issued = |calls: &Calls<()>| [0, 1, 2, 3].map(|number| calls.issued(number));
        assert_eq!(issued(&calls), [None, Some(first), Some(second), None]);
        calls.remove(calls.find(first).unwrap());
        calls.last = LAST_NUMBER;
        let again = insert(&mut calls);
        assert_eq!((again.number(), calls.issued(1)), (1, Some(again)));
        assert_eq!(issued(&calls)[2], Some(second));
    }

    #[test]
    fn g08_so_many_boxes_are_kept_for_the_next_calls() {
        let mut calls = Calls::new();
        let all: Vec<CallId> = (0..Calls::<()>::SPARE + 9).map(|_| insert(&mut calls)).collect();
        for (before, call) in all.into_iter().enumerate() {
            let place = calls.find(call).unwrap();
            calls.rare(place).idle_after = Some(Duration::from_secs(7));
            calls.remove(place);
            // Each call takes the box of the one before.
            assert_eq!(calls.spare.len(), 1, "after {before}");
            assert_eq!(calls.spare[0].idle_after, None, "nothing of it is left in the box");
        }
        let all: Vec<CallId> = (0..Calls::<()>::SPARE + 9).map(|_| insert(&mut calls)).collect();
        for call in &all {
            calls.rare(calls.find(*call).unwrap());
        }
        for call in all {
            calls.remove(calls.find(call).unwrap());
        }
        assert_eq!(calls.spare.len(), Calls::<()>::SPARE);
    }

    #[test]
    fn g08_a_row_is_small() {
        assert_eq!(size_of::<Call<()>>(), 24);
    }
}
