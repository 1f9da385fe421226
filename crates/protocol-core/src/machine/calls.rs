//! The table of our calls in flight.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::action::Settlement;
use super::consent::CancelRefusal;
use super::requests::{RequestHandle, RequestSlot};
use super::slots::Slots;
use super::table::CallPhase;
use crate::cause::Cause;
use crate::dialect::Grace;
use crate::index::{Index, Key};

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

    /// Whether another call had its number before.
    pub(super) const fn is_reissued(self) -> bool {
        self.serial > LAST_NUMBER
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
    /// Invariant: that request's entry exists and lists this call.
    pub(super) parent: Option<RequestSlot>,
    /// Why it can't be cancelled on the wire, if it can't.
    pub(super) refusal: Option<CancelRefusal>,
}

#[derive(Clone, Debug)]
pub(super) struct Calls {
    entries: Slots<Call>,
    /// Invariant: holds each entry's number, and nothing else.
    by_number: Index<u32>,
    /// The graces that are not the dialect's. Invariant: holds only calls in flight.
    graces: BTreeMap<CallId, Grace>,
    /// The last serial that was given out.
    last: u64,
}

impl Calls {
    pub(super) const fn new() -> Self {
        Self { entries: Slots::new(), by_number: Index::new(), graces: BTreeMap::new(), last: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id that the next call gets. Numbers still in flight after a wrap are skipped.
    pub(super) fn next_id(&self) -> CallId {
        let mut serial = self.last + 1;
        while serial > LAST_NUMBER && self.slot_of(number_of(serial)).is_some() {
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

    /// Makes an entry; `grace` is there if it is not the dialect's.
    pub(super) fn insert(&mut self, grace: Option<Grace>, parent: Option<RequestHandle>) -> CallId {
        let call = self.next_id();
        self.last = call.serial;
        self.by_number.insert(&call.number(), call.slot, numbers(&self.entries));
        if let Some(grace) = grace {
            self.graces.insert(call, grace);
        }
        let slot = self.entries.insert(Call {
            serial: call.serial,
            phase: CallPhase::Queued,
            ending: None,
            parent: parent.map(RequestHandle::in_its_slot),
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
        self.by_number.remove(&call.number(), call.slot, numbers(&self.entries));
        if !self.graces.is_empty() {
            self.graces.remove(&call);
        }
        Some(self.entries.remove(call.slot))
    }

    /// The grace that a call has of its own.
    pub(super) fn grace(&self, call: CallId) -> Option<Grace> {
        self.graces.get(&call).copied()
    }

    /// The call in flight under this wire number.
    pub(super) fn by_number(&self, number: u32) -> Option<CallId> {
        let slot = self.slot_of(number)?;
        let serial = self.entries.get(slot)?.serial;
        Some(CallId { serial, slot })
    }

    fn slot_of(&self, number: u32) -> Option<u32> {
        self.by_number.find(&number, numbers(&self.entries))
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

/// The wire number of the call in a slot.
fn numbers(entries: &Slots<Call>) -> impl Fn(u32) -> u32 {
    |slot| number_of(entries.get(slot).expect("the index holds no other slots").serial)
}

/// Wire numbers count.
impl Key for u32 {
    fn spread(&self) -> u64 {
        u64::from(*self)
    }
}

impl PartialEq for Calls {
    fn eq(&self, other: &Self) -> bool {
        // The index follows from the entries.
        (&self.entries, &self.graces, self.last) == (&other.entries, &other.graces, other.last)
    }
}

impl Eq for Calls {}

impl Hash for Calls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.entries, &self.graces, self.last).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::machine::{Answer, Machine, StrayResponse};
    use crate::{CallOptions, Config, Dialect, Timestamp};

    #[test]
    fn numbers_wrap_at_31_bits_and_skip_those_in_flight() {
        let mut calls = Calls::new();
        let first = calls.insert(None, None);
        assert_eq!(first.number(), 1);
        calls.last = LAST_NUMBER - 1;
        assert_eq!(calls.insert(None, None).number(), 0x7fff_ffff);
        assert_eq!(calls.insert(None, None).number(), 2);
        assert!(calls.get(first).is_some());
    }

    #[test]
    fn g12_a_number_that_is_issued_anew_is_no_longer_abandoned() {
        let mut machine = Machine::new(Config::client(Dialect::ACP_V1));
        let options = CallOptions::default().grace(Grace::Settle(Duration::ZERO));
        let first = machine.call(&options, Timestamp::ZERO).unwrap();
        while machine.poll_action().is_some() {}
        machine.transmitted(first);
        machine.cancel(first, Cause::Caller, Timestamp::ZERO);
        assert_eq!(machine.call_phase(first), None, "it is settled here");
        machine.calls.last = LAST_NUMBER;
        let second = machine.call(&CallOptions::default(), Timestamp::ZERO).unwrap();
        assert_eq!((first.number(), second.number()), (1, 1));
        while machine.poll_action().is_some() {}
        machine.transmitted(second);
        assert_eq!(machine.receive_response(1, Answer::Result), Ok(second));
        assert_eq!(machine.receive_response(1, Answer::Result), Err(StrayResponse::Duplicate));
    }

    #[test]
    fn a_reused_slot_does_not_answer_to_the_old_id() {
        let mut calls = Calls::new();
        let old = calls.insert(None, None);
        calls.remove(old);
        let new = calls.insert(None, None);
        assert_eq!(old.slot, new.slot);
        assert!(calls.get(old).is_none() && calls.get(new).is_some());
        assert!(calls.remove(old).is_none());
    }
}
