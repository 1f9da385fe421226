//! A hash index over the rows of a table that holds the keys itself.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::mem;

use crate::slot::growth;

/// A key of an [`Index`].
pub(crate) trait Key: Ord + Clone {
    /// Returns a hash of the key: consecutive numbers for keys that count up. Only the speed depends on it.
    fn hash(&self) -> u64;
}

/// Wire numbers count up.
impl Key for u32 {
    fn hash(&self) -> u64 {
        u64::from(*self)
    }
}

/// A hash table of slots, which takes four bytes each.
///
/// The keys stay in the caller's table, so every method takes a function from a slot to its key.
///
/// The hash has no secret, because the same inputs must give the same outputs (G10). So a peer can choose
/// ids that collide. But no key is more than [`REACH`] buckets from its home: one that finds no free
/// bucket there goes into a tree. The worst that such a peer gets is the tree's logarithm.
///
/// The index is never iterated, because its order means nothing. So it takes no part in the equality of
/// its table either.
#[derive(Clone)]
pub(crate) struct Index<K> {
    /// Invariant: at least a third is free, and none between a slot and the home of its key.
    buckets: Vec<u32>,
    /// The distance between the homes of consecutive keys, in 2^-64 of the table.
    ///
    /// It is about four buckets, so keys close in time are close in memory. It is not quite a whole
    /// number of times round the table, so each round of keys falls into the gaps of earlier ones.
    step: u64,
    /// The number of taken buckets.
    used: usize,
    /// The keys that found no free bucket within reach.
    overflow: BTreeMap<K, u32>,
}

const FREE: u32 = u32::MAX;
const REACH: usize = 32;

impl<K: Key> Index<K> {
    pub(crate) const fn new() -> Self {
        Self { buckets: Vec::new(), step: 0, used: 0, overflow: BTreeMap::new() }
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.used + self.overflow.len()
    }

    /// Returns the slot of a key.
    pub(crate) fn find<B: Borrow<K>>(&self, key: &K, key_of: impl Fn(u32) -> B) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        match self.search(key, |slot| key_of(slot).borrow() == key) {
            Some((_, slot)) if slot != FREE => Some(slot),
            _ => self.overflow.get(key).copied(),
        }
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert<B: Borrow<K>>(&mut self, key: &K, slot: u32, key_of: impl Fn(u32) -> B) {
        if (self.used + 1) * 3 > self.buckets.len() * 2 {
            self.grow(key_of);
        }
        self.put(key, slot);
    }

    /// Removes a key. `key_of` is not called with `slot`, whose key may be gone.
    pub(crate) fn remove<B: Borrow<K>>(&mut self, key: &K, slot: u32, key_of: impl Fn(u32) -> B) {
        let Some((mut hole, _)) = self.search(key, |it| it == slot).filter(|it| it.1 == slot)
        else {
            self.overflow.remove(key);
            return;
        };
        self.used -= 1;
        // Slots that the hole would cut off from their homes move back. None is beyond reach of it.
        let len = self.buckets.len();
        let distance = |from, to| if from <= to { to - from } else { to + len - from };
        let mut at = self.next(hole);
        while self.buckets[at] != FREE && distance(hole, at) < REACH {
            let home = self.home(key_of(self.buckets[at]).borrow());
            if distance(home, at) >= distance(hole, at) {
                self.buckets[hole] = self.buckets[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.buckets[hole] = FREE;
    }

    /// Returns the bucket where the search for a key begins.
    fn home(&self, key: &K) -> usize {
        let turn = key.hash().wrapping_mul(self.step);
        (((turn >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Returns the first bucket within reach of a key's home that is free or whose slot `matches`, and
    /// its content.
    fn search(&self, key: &K, matches: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mut bucket = self.home(key);
        for _ in 0..REACH {
            let slot = self.buckets[bucket];
            if slot == FREE || matches(slot) {
                return Some((bucket, slot));
            }
            bucket = self.next(bucket);
        }
        None
    }

    fn put(&mut self, key: &K, slot: u32) {
        if let Some((bucket, _)) = self.search(key, |_| false) {
            self.buckets[bucket] = slot;
            self.used += 1;
        } else {
            self.overflow.insert(key.clone(), slot);
        }
    }

    fn grow<B: Borrow<K>>(&mut self, key_of: impl Fn(u32) -> B) {
        let len = self.buckets.len();
        // It grows by more than other tables do, because growing hashes every key anew.
        let len = len + growth(len).max(len / 4);
        // The golden ratio leaves the widest gaps, after any number of rounds.
        let step = u64::MAX / (len as u64 / 4 * 1000 + 618) * 1000;
        let old = mem::replace(self, Self { buckets: vec![FREE; len], step, ..Self::new() });
        for slot in old.buckets.into_iter().filter(|&slot| slot != FREE) {
            self.put(key_of(slot).borrow(), slot);
        }
        for (key, slot) in old.overflow {
            self.put(&key, slot);
        }
    }
}

/// Shows no keys, because the token of an operation is a key and a secret.
impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.used + self.overflow.len();
        f.debug_struct("Index").field("len", &len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;

    /// A key with one of five homes, so that it collides all the time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Colliding(u32);

    impl Key for Colliding {
        fn hash(&self) -> u64 {
            u64::from(self.0 % 5)
        }
    }

    /// A key with one of five homes at the end of the table, which continues at its beginning.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct CollidingLast(u32);

    impl Key for CollidingLast {
        fn hash(&self) -> u64 {
            u64::from(self.0 % 5).wrapping_neg()
        }
    }

    /// Inserts and removes keys at random, and compares with a map after each step.
    fn agrees_with_a_map<K: Key>(keys: u32, key: impl Fn(u32) -> K) -> Index<K> {
        let (mut index, mut model) = (Index::new(), BTreeMap::new());
        let mut random = 1_u32;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let number = random % keys;
            if model.remove(&number).is_some() {
                index.remove(&key(number), number, |slot| {
                    assert_ne!(slot, number, "a removed key may be gone");
                    key(slot)
                });
            } else {
                model.insert(number, ());
                index.insert(&key(number), number, &key);
            }
            let number = random / 7 % keys;
            let found = index.find(&key(number), &key);
            assert_eq!(found, model.contains_key(&number).then_some(number));
            assert_eq!(index.len(), model.len());
        }
        index
    }

    #[test]
    fn it_agrees_with_a_map() {
        assert!(agrees_with_a_map(200, |number| number).overflow.is_empty());
        agrees_with_a_map(20, |number| number);
        agrees_with_a_map(60, CollidingLast);
    }

    /// Returns the average distance from home of keys that count up, while older ones are removed in the
    /// order that `picked` says.
    fn distance(in_flight: usize, picked: impl Fn(usize) -> usize) -> f64 {
        let (mut index, mut keys) = (Index::new(), VecDeque::new());
        for key in 0..in_flight as u32 * 20 {
            index.insert(&key, key, |slot| slot);
            keys.push_back(key);
            if keys.len() > in_flight {
                keys.swap(0, picked(key as usize) % in_flight);
                let done = keys.pop_front().expect("there are some");
                index.remove(&done, done, |slot| slot);
            }
        }
        assert!(index.overflow.len() <= in_flight / 1_000);
        let len = index.buckets.len();
        let taken = index.buckets.iter().enumerate().filter(|(_, slot)| **slot != FREE);
        let sum: usize = taken.map(|(bucket, slot)| (bucket + len - index.home(slot)) % len).sum();
        sum as f64 / in_flight as f64
    }

    #[test]
    fn keys_that_count_are_near_where_they_point() {
        for in_flight in [1, 10, 100, 1_000, 1_300, 10_000, 11_000, 12_000] {
            let (in_order, at_random) = (|_| 0, |key: usize| key.wrapping_mul(0x9e37_79b9) >> 7);
            assert!(distance(in_flight, in_order) < 0.2, "{in_flight} in order");
            assert!(distance(in_flight, at_random) < 0.5, "{in_flight} at random");
        }
    }

    #[test]
    fn g08_keys_that_collide_are_found_in_the_tree() {
        let index = agrees_with_a_map(200, Colliding);
        assert!(index.used <= 5 * 4 + REACH && !index.overflow.is_empty());
        assert!(index.buckets.len() <= 128);
    }

    #[test]
    fn f10_no_key_is_shown_and_none_of_the_tree_either() {
        let index = agrees_with_a_map(200, Colliding);
        assert!(!index.overflow.is_empty());
        assert_eq!(
            alloc::format!("{index:?}"),
            alloc::format!("Index {{ len: {}, .. }}", index.len())
        );
    }

    #[test]
    fn g08_keys_in_the_tree_are_found_when_the_table_has_grown() {
        let mut index = Index::new();
        // All have the same home, and only so many find a bucket near it.
        (0..40)
            .for_each(|slot| index.insert(&Colliding(slot * 5), slot, |slot| Colliding(slot * 5)));
        let overflow = index.overflow.len();
        index.grow(|slot| Colliding(slot * 5));
        assert!(overflow > 0 && index.overflow.len() == overflow);
        for slot in 0..40 {
            assert_eq!(index.find(&Colliding(slot * 5), |slot| Colliding(slot * 5)), Some(slot));
        }
    }
}
