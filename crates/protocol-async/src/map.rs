//! Maps by ids of our own.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map has at most so much room for each entry, counted while it moves to a larger one.
pub(crate) const MAP: usize = 4;

/// A map by ids of our own.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Gives room back once little of it is needed: what a burst took is not kept for ever.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut Map<K, V>) {
    /// Room for so many is always kept.
    const KEPT: usize = 256;

    if map.capacity() > KEPT && map.len() < map.capacity() / 8 {
        map.shrink_to((2 * map.len()).max(KEPT / 2));
    }
}

/// Hashes ids of calls: they are our own numbers, one after another, so nobody can make them collide.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        /// 2^64 by the golden ratio.
        const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = number.wrapping_mul(STRIDE);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
