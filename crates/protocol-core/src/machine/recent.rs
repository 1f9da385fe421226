//! A bounded memory of ids.

use core::hash::{Hash, Hasher};

use slab::Slab;

use crate::index::{Index, Key};
use crate::slot::{self, Slot};

/// Remembers a value for each of the ids put in last, and forgets the oldest first (G12, B19).
///
/// An operation takes the same time however many ids there are.
#[derive(Clone, Debug)]
pub(super) struct RecentIds<K, V> {
    entries: Slab<Entry<K, V>>,
    /// Invariant: it holds the id of each entry, and nothing else.
    by_id: Index<K>,
    oldest: Option<Slot>,
    newest: Option<Slot>,
}

#[derive(Clone, Debug)]
struct Entry<K, V> {
    id: K,
    value: V,
    /// The entries put in just before and just after it.
    older: Option<Slot>,
    newer: Option<Slot>,
}

impl<K: Key, V> RecentIds<K, V> {
    pub(super) const fn new() -> Self {
        Self { entries: Slab::new(), by_id: Index::new(), oldest: None, newest: None }
    }

    /// Remembers an id as the newest, and at most `limit` in all.
    pub(super) fn insert(&mut self, id: K, value: V, limit: usize) {
        self.take(&id);
        slot::make_room(&mut self.entries);
        let entry = Entry { id, value, older: self.newest, newer: None };
        let slot = Slot::new(self.entries.insert(entry));
        match self.newest.replace(slot) {
            Some(before) => self.entries[before.get()].newer = Some(slot),
            None => self.oldest = Some(slot),
        }
        let id = ids(&self.entries);
        self.by_id.insert(id(slot.get() as u32), slot.get() as u32, &id);
        drop(id);
        if let Some(oldest) = self.oldest.filter(|_| self.entries.len() > limit) {
            self.remove(oldest);
        }
    }

    pub(super) fn get(&self, id: &K) -> Option<&V> {
        Some(&self.entries[self.find(id)?.get()].value)
    }

    pub(super) fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        let slot = self.find(id)?;
        Some(&mut self.entries[slot.get()].value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets an id, and returns its value.
    #[inline]
    pub(super) fn take(&mut self, id: &K) -> Option<V> {
        let slot = self.find(id)?;
        Some(self.remove(slot))
    }

    #[inline]
    fn find(&self, id: &K) -> Option<Slot> {
        // Most of the time there is nothing to remember.
        let found = (!self.is_empty()).then(|| self.by_id.find(id, ids(&self.entries)))?;
        found.map(|slot| Slot::new(slot as usize))
    }

    fn remove(&mut self, slot: Slot) -> V {
        let Entry { id, value, older, newer } = self.entries.remove(slot.get());
        match older {
            Some(older) => self.entries[older.get()].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.entries[newer.get()].older = older,
            None => self.newest = older,
        }
        self.by_id.remove(&id, slot.get() as u32, ids(&self.entries));
        if slot::give_back(&mut self.entries) {
            self.by_id = Index::new();
        }
        value
    }
}

/// Returns how to find the id of the entry in a slot.
fn ids<'t, K, V>(entries: &'t Slab<Entry<K, V>>) -> impl Fn(u32) -> &'t K {
    |slot| &entries[slot as usize].id
}

/// Hashes the ids in their order.
impl<K: Hash, V: Hash> Hash for RecentIds<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.len().hash(state);
        let mut next = self.oldest;
        while let Some(slot) = next {
            let entry = &self.entries[slot.get()];
            (&entry.id, &entry.value).hash(state);
            next = entry.newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g12_the_memory_is_bounded_and_forgets_the_oldest() {
        let mut recent = RecentIds::new();
        for id in 1..=3 {
            recent.insert(id, (), 2);
        }
        assert_eq!([1, 2, 3].map(|id| recent.get(&id).is_some()), [false, true, true]);
        recent.insert(2, (), 2);
        recent.insert(4, (), 2);
        assert_eq!([2, 3, 4].map(|id| recent.get(&id).is_some()), [true, false, true]);
        assert_eq!((recent.entries.len(), recent.by_id.len()), (2, 2));
    }

    #[test]
    fn what_is_taken_is_forgotten_and_no_other() {
        let mut recent = RecentIds::new();
        recent.insert(1, 'a', 2);
        recent.insert(2, 'b', 2);
        assert_eq!((recent.take(&1), recent.take(&1)), (Some('a'), None));
        recent.insert(3, 'c', 2);
        assert_eq!((recent.get(&2), recent.get(&3)), (Some(&'b'), Some(&'c')));
        assert_eq!([recent.take(&3), recent.take(&2)], [Some('c'), Some('b')]);
        recent.insert(4, 'd', 2);
        assert_eq!((recent.get(&4), recent.oldest), (Some(&'d'), recent.newest));
    }
}
