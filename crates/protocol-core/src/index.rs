//! From keys to slots of a table that holds the keys itself.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::mem;

use crate::slot::growth;

/// What an [`Index`] finds slots by.
pub(crate) trait Key: Ord + Clone {
    /// A hash: honest keys that count are in a row. Nothing depends on it but time.
    fn spread(&self) -> u64;
}

/// A hash table of slots, four bytes each: the keys stay in the caller's table, and every method is
/// told how to find those of the slots that it holds.
///
/// Hashing has no secret, for the same inputs give the same outputs (G10); so a peer that picks its
/// ids can make them collide. But no key is further than [`REACH`] places from where it
/// points: one that finds no free place there goes into a tree. So the worst that such a peer gets is
/// the tree's logarithm.
///
/// Never iterated: its order means nothing. So it is no part of its table's equality either.
#[derive(Clone)]
pub(crate) struct Index<K> {
    /// Invariant: at least a third of it is free, and no free place is between a slot and the place
    /// that its key points to.
    places: Vec<u32>,
    /// How far from each other keys in a row point, in 2^-64 of the table: about four places, and not
    /// quite a whole number of times round the table. So keys near each other in time are near each
    /// other in memory, and each round points to the gaps that those before left.
    stride: u64,
    /// How many places are taken.
    used: usize,
    /// The keys that found no free place within reach.
    crowded: BTreeMap<K, u32>,
}

const FREE: u32 = u32::MAX;
const REACH: usize = 32;

impl<K: Key> Index<K> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), stride: 0, used: 0, crowded: BTreeMap::new() }
    }

    /// How many keys it holds.
    pub(crate) fn len(&self) -> usize {
        self.used + self.crowded.len()
    }

    /// The slot of a key.
    pub(crate) fn find<B: Borrow<K>>(&self, key: &K, key_of: impl Fn(u32) -> B) -> Option<u32> {
        match self.place_of(key, |slot| key_of(slot).borrow() == key) {
            Some((_, slot)) => Some(slot),
            None if self.crowded.is_empty() => None,
            None => self.crowded.get(key).copied(),
        }
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert<B: Borrow<K>>(&mut self, key: &K, slot: u32, key_of: impl Fn(u32) -> B) {
        if (self.used + 1) * 3 > self.places.len() * 2 {
            self.grow(key_of);
        }
        self.put(key, slot);
    }

    /// Removes a key; `key_of` is not asked for that of `slot`.
    pub(crate) fn remove<B: Borrow<K>>(&mut self, key: &K, slot: u32, key_of: impl Fn(u32) -> B) {
        let Some((mut hole, _)) = self.place_of(key, |other| other == slot) else {
            self.crowded.remove(key);
            return;
        };
        self.used -= 1;
        // Move back what would be cut off from its home by the hole: nothing beyond reach of it.
        let mut place = self.next(hole);
        let mut from_hole = 1;
        while self.places[place] != FREE && from_hole < REACH {
            let home = self.home(key_of(self.places[place]).borrow());
            let from_home =
                if home <= place { place - home } else { place + self.places.len() - home };
            if from_home >= from_hole {
                self.places[hole] = self.places[place];
                hole = place;
                from_hole = 0;
            }
            place = self.next(place);
            from_hole += 1;
        }
        self.places[hole] = FREE;
    }

    fn home(&self, key: &K) -> usize {
        let turn = key.spread().wrapping_mul(self.stride);
        (((turn >> 32) * self.places.len() as u64) >> 32) as usize
    }

    fn next(&self, place: usize) -> usize {
        if place + 1 == self.places.len() { 0 } else { place + 1 }
    }

    /// The place within reach of a key's home whose slot `is` the right one, and that slot.
    fn place_of(&self, key: &K, is: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        if self.used == 0 {
            return None;
        }
        let mut place = self.home(key);
        for _ in 0..REACH {
            match self.places[place] {
                FREE => return None,
                slot if is(slot) => return Some((place, slot)),
                _ => place = self.next(place),
            }
        }
        None
    }

    fn put(&mut self, key: &K, slot: u32) {
        let mut place = self.home(key);
        for _ in 0..REACH {
            if self.places[place] == FREE {
                self.places[place] = slot;
                self.used += 1;
                return;
            }
            place = self.next(place);
        }
        self.crowded.insert(key.clone(), slot);
    }

    fn grow<B: Borrow<K>>(&mut self, key_of: impl Fn(u32) -> B) {
        let len = self.places.len();
        // More than other tables, for every key is hashed anew.
        let len = len + growth(len).max(len / 4);
        let places = mem::replace(&mut self.places, vec![FREE; len]);
        // The golden ratio is what leaves the widest gaps, however many rounds there are.
        self.stride = u64::MAX / (len as u64 / 4 * 1000 + 618) * 1000;
        let crowded = mem::take(&mut self.crowded);
        self.used = 0;
        for slot in places.into_iter().filter(|&slot| slot != FREE) {
            self.put(key_of(slot).borrow(), slot);
        }
        for (key, slot) in crowded {
            self.put(&key, slot);
        }
    }
}

/// Shows no keys: the token of an operation is one, and a secret.
impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.used + self.crowded.len();
        f.debug_struct("Index").field("len", &len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;

    /// Of few different homes, so that they collide all the time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Colliding(u32);

    impl Key for Colliding {
        fn spread(&self) -> u64 {
            u64::from(self.0 % 5)
        }
    }

    /// The same, at the end of the table and over it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct CollidingLast(u32);

    impl Key for CollidingLast {
        fn spread(&self) -> u64 {
            u64::from(self.0 % 5).wrapping_neg()
        }
    }

    /// Puts keys in and out at random, and compares with a map after each step.
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
        assert!(agrees_with_a_map(200, |number| number).crowded.is_empty());
        agrees_with_a_map(20, |number| number);
        agrees_with_a_map(60, CollidingLast);
    }

    /// How far from home keys that count are, on average, after each of them was removed that many
    /// times that many were there, in any order.
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
        assert!(index.crowded.len() <= in_flight / 1_000);
        let len = index.places.len();
        let taken = index.places.iter().enumerate().filter(|(_, slot)| **slot != FREE);
        let sum: usize = taken.map(|(place, slot)| (place + len - index.home(slot)) % len).sum();
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
        assert!(index.used <= 5 * 4 + REACH && !index.crowded.is_empty());
        assert!(index.places.len() <= 128);
    }

    #[test]
    fn f10_no_key_is_shown_and_none_of_the_tree_either() {
        let index = agrees_with_a_map(200, Colliding);
        assert!(!index.crowded.is_empty());
        assert_eq!(
            alloc::format!("{index:?}"),
            alloc::format!("Index {{ len: {}, .. }}", index.len())
        );
    }

    #[test]
    fn g08_keys_in_the_tree_are_found_when_the_table_has_grown() {
        let mut index = Index::new();
        // All have the same home, so that only so many find a place near it.
        (0..40)
            .for_each(|slot| index.insert(&Colliding(slot * 5), slot, |slot| Colliding(slot * 5)));
        let crowded = index.crowded.len();
        index.grow(|slot| Colliding(slot * 5));
        assert!(crowded > 0 && index.crowded.len() == crowded);
        for slot in 0..40 {
            assert_eq!(index.find(&Colliding(slot * 5), |slot| Colliding(slot * 5)), Some(slot));
        }
    }
}
