//! A place in a table, and how tables grow.

use core::num::NonZeroU32;

use slab::Slab;

/// The number of a place, in four bytes also where there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    pub(crate) fn new(slot: usize) -> Self {
        let number = u32::try_from(slot).ok().and_then(|slot| NonZeroU32::MIN.checked_add(slot));
        Self(number.expect("limits keep every table under 2^32 entries"))
    }

    pub(crate) const fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The room for more that a table gets which holds so many: as much again while it is small, as `Vec`
/// does it, and then an eighth. With a million requests in flight the difference is tens of bytes for
/// each.
pub(crate) const fn growth(len: usize) -> usize {
    match len {
        0..16 => 16,
        16..1024 => len,
        _ => len / 8,
    }
}

/// Makes room for one more row.
pub(crate) fn make_room<T>(rows: &mut Slab<T>) {
    if rows.len() == rows.capacity() {
        assert!(rows.len() < u32::MAX as usize, "limits keep every table under 2^32 rows");
        rows.reserve_exact(growth(rows.len()));
    }
}

/// An empty table keeps room for so many rows: up to there it doubles as it grows, which is cheap.
const KEPT: usize = 1024;

/// Gives back the room of a large table that is empty. Says whether it did: then its index is to go too.
pub(crate) fn give_back<T>(rows: &mut Slab<T>) -> bool {
    let is_left = rows.is_empty() && rows.capacity() > KEPT;
    if is_left {
        *rows = Slab::new();
    }
    is_left
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn g08_a_table_grows_by_as_much_and_later_by_an_eighth() {
        let (mut rows, mut rooms) = (Slab::new(), Vec::new());
        for number in 0..100_000 {
            make_room(&mut rows);
            rows.insert(number);
            let (len, room) = (rows.len(), rows.capacity());
            rooms.push(room);
            assert!(room <= len + (len / 8).max(1024), "{room} for {len}");
        }
        rooms.dedup();
        assert!(rooms.len() <= 48, "moved {} times", rooms.len());
    }
}
