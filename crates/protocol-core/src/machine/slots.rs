//! A slab whose keys are 32 bits and which can be compared and hashed.

use core::hash::{Hash, Hasher};

use slab::Slab;

use crate::slot::growth;

#[derive(Clone, Debug)]
pub(super) struct Slots<T>(Slab<T>);

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self(Slab::new())
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(growth(self.0.len()));
        }
        u32::try_from(self.0.insert(value)).expect("limits keep the slab under 2^32 entries")
    }

    pub(super) fn next_slot(&self) -> u32 {
        u32::try_from(self.0.vacant_key()).expect("limits keep the slab under 2^32 entries")
    }

    pub(super) fn remove(&mut self, slot: u32) -> T {
        self.0.remove(slot as usize)
    }

    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.0.get(slot as usize)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.0.get_mut(slot as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.0.iter().map(|(slot, value)| (u32::try_from(slot).expect("see insert"), value))
    }
}

impl<T: PartialEq> PartialEq for Slots<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.vacant_key() == other.0.vacant_key() && self.0.iter().eq(other.0.iter())
    }
}

impl<T: Eq> Eq for Slots<T> {}

impl<T: Hash> Hash for Slots<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.vacant_key().hash(state);
        for entry in &self.0 {
            entry.hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::Call;
    use super::super::requests::Request;
    use super::*;

    #[test]
    fn g08_entries_are_small() {
        assert_eq!(size_of::<Call>(), 16);
        assert_eq!(size_of::<Request>(), 32);
    }

    #[test]
    fn g08_a_large_table_has_at_most_an_eighth_of_room_to_spare() {
        let (mut slots, mut rooms) = (Slots::new(), alloc::vec::Vec::new());
        for number in 0..100_000 {
            slots.insert(number);
            let (len, room) = (slots.0.len(), slots.0.capacity());
            rooms.push(room);
            assert!(room <= len + (len / 8).max(1024), "{room} for {len}");
        }
        rooms.dedup();
        assert!(rooms.len() <= 48, "moved {} times", rooms.len());
    }
}
