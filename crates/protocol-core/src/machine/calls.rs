//! The table of our calls in flight.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::action::Settlement;
use super::consent::CancelRefusal;
use super::requests::RequestHandle;
use super::slots::Slots;
use super::table::CallPhase;
use crate::cause::Cause;
use crate::dialect::Grace;

/// Names one of our calls, for ever: a settled call's id never comes to mean another.
///
/// Ordered by when the call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// Counts calls from 1. Also the generation that makes a reused slot safe.
    serial: u64,
    slot: u32,
}

/// The largest id we put on the wire: above it, LSP servers go silent, panic or die.
const LAST_NUMBER: u64 = i32::MAX as u64;

impl CallId {
    /// The id on the wire: 1, 2, 3, … and after 2^31-1 from 1 again.
    #[must_use]
    pub const fn number(self) -> u32 {
        number_of(self.serial)
    }

    pub(crate) const fn slot(self) -> usize {
        self.slot as usize
    }

    /// The least id, for ranges.
    pub(crate) const MIN: Self = Self { serial: 0, slot: 0 };
}

const fn number_of(serial: u64) -> u32 {
    ((serial - 1) % LAST_NUMBER) as u32 + 1
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    serial: u64,
    pub(super) phase: CallPhase,
    /// What a local settlement would report. Invariant: the first cancel sets it and no later one
    /// changes it (B22); only the loss of the connection does.
    pub(super) ending: Option<(Settlement, Cause)>,
    pub(super) grace: Grace,
    /// Invariant: that request's entry exists and lists this call.
    pub(super) parent: Option<RequestHandle>,
    /// Why it can't be cancelled on the wire, if it can't.
    pub(super) refusal: Option<CancelRefusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Calls {
    entries: Slots<Call>,
    /// Invariant: holds each entry's number, and nothing else.
    by_number: BTreeMap<u32, u32>,
    /// The last serial that was given out.
    last: u64,
}

impl Calls {
    pub(super) const fn new() -> Self {
        Self { entries: Slots::new(), by_number: BTreeMap::new(), last: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id that the next call gets. Numbers still in flight after a wrap are skipped.
    pub(super) fn next_id(&self) -> CallId {
        let mut serial = self.last + 1;
        while self.by_number.contains_key(&number_of(serial)) {
            serial += 1;
        }
        CallId { serial, slot: self.entries.next_slot() }
    }

    /// Takes the next number for something that is no call.
    pub(super) fn take_number(&mut self) -> u32 {
        let id = self.next_id();
        self.last = id.serial;
        id.number()
    }

    pub(super) fn insert(&mut self, grace: Grace, parent: Option<RequestHandle>) -> CallId {
        let call = self.next_id();
        self.last = call.serial;
        self.by_number.insert(call.number(), call.slot);
        let slot = self.entries.insert(Call {
            serial: call.serial,
            phase: CallPhase::Queued,
            ending: None,
            grace,
            parent,
            refusal: None,
        });
        debug_assert_eq!(slot, call.slot);
        call
    }

    pub(super) fn get(&self, call: CallId) -> Option<&Call> {
        self.entries.get(call.slot).filter(|entry| entry.serial == call.serial)
    }

    pub(super) fn get_mut(&mut self, call: CallId) -> Option<&mut Call> {
        self.entries.get_mut(call.slot).filter(|entry| entry.serial == call.serial)
    }

    pub(super) fn remove(&mut self, call: CallId) -> Option<Call> {
        self.get(call)?;
        self.by_number.remove(&call.number());
        Some(self.entries.remove(call.slot))
    }

    /// The call in flight under this wire number.
    pub(super) fn by_number(&self, number: u32) -> Option<CallId> {
        let &slot = self.by_number.get(&number)?;
        let serial = self.entries.get(slot)?.serial;
        Some(CallId { serial, slot })
    }

    /// Whether a call ever had this wire number.
    pub(super) fn was_issued(&self, number: u32) -> bool {
        let number = u64::from(number);
        (1..=LAST_NUMBER).contains(&number) && number <= self.last
    }

    /// Every call in flight, in the order they were made.
    pub(super) fn in_order(&self) -> Vec<CallId> {
        let ids = self.entries.iter().map(|(slot, entry)| CallId { serial: entry.serial, slot });
        let mut ids: Vec<CallId> = ids.collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert_eq!(self.entries.len(), self.by_number.len(), "one number a call");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_at_31_bits_and_skip_those_in_flight() {
        let mut calls = Calls::new();
        let first = calls.insert(Grace::Await, None);
        assert_eq!(first.number(), 1);
        calls.last = LAST_NUMBER - 1;
        assert_eq!(calls.insert(Grace::Await, None).number(), 0x7fff_ffff);
        assert_eq!(calls.insert(Grace::Await, None).number(), 2);
        assert!(calls.get(first).is_some());
    }

    #[test]
    fn a_reused_slot_does_not_answer_to_the_old_id() {
        let mut calls = Calls::new();
        let old = calls.insert(Grace::Await, None);
        calls.remove(old);
        let new = calls.insert(Grace::Await, None);
        assert_eq!(old.slot, new.slot);
        assert!(calls.get(old).is_none() && calls.get(new).is_some());
        assert!(calls.remove(old).is_none());
    }
}
