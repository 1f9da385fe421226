//! A bounded memory of ids.

use alloc::collections::{BTreeMap, VecDeque};

/// Remembers something on each of the last ids that were put in; the oldest is forgotten first (G12,
/// B19).
#[derive(Clone, Debug, Hash)]
pub(super) struct RecentIds<K, V> {
    entries: BTreeMap<K, V>,
    /// The ids in the order they were put in. Invariant: holds each key of `entries` once, and
    /// nothing else.
    order: VecDeque<K>,
}

impl<K: Ord + Clone, V> RecentIds<K, V> {
    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Remembers an id as the newest, and at most `limit` in all.
    pub(super) fn insert(&mut self, id: K, with: V, limit: usize) {
        self.take(&id);
        self.entries.insert(id.clone(), with);
        self.order.push_back(id);
        if self.order.len() > limit {
            if let Some(oldest) = self.order.pop_front() {
                self.entries.remove(&oldest);
            }
        }
    }

    pub(super) fn get(&self, id: &K) -> Option<&V> {
        self.entries.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        self.entries.get_mut(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What was remembered of the id; it is forgotten now.
    #[inline]
    pub(super) fn take(&mut self, id: &K) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let with = self.entries.remove(id)?;
        self.order.retain(|other| other != id);
        Some(with)
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
        assert_eq!((recent.entries.len(), recent.order.len()), (2, 2));
    }

    #[test]
    fn what_is_taken_is_forgotten_and_no_other() {
        let mut recent = RecentIds::new();
        recent.insert(1, 'a', 2);
        recent.insert(2, 'b', 2);
        assert_eq!((recent.take(&1), recent.take(&1)), (Some('a'), None));
        recent.insert(3, 'c', 2);
        assert_eq!((recent.get(&2), recent.get(&3)), (Some(&'b'), Some(&'c')));
    }
}
