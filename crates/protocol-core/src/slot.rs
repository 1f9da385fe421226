//! Row numbers of a table, and the way that tables grow.

use core::num::NonZeroU32;

use slab::Slab;

/// The number of a row. An `Option` of it takes four bytes too.
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

/// Returns the number of rows that a full table of `len` rows grows by.
///
/// A small table doubles, as `Vec` does. A large one grows by an eighth, which saves tens of bytes a
/// request when a million are in flight.
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

/// The rows that an empty table keeps room for. Up to this size a table doubles, which is cheap.
const KEPT: usize = 1024;

/// Frees the memory of a large table that is empty. Returns whether it did: the caller then frees the
/// table's index too.
#[inline]
pub(crate) fn give_back<T>(rows: &mut Slab<T>) -> bool {
    let frees = rows.is_empty() && rows.capacity() > KEPT;
    if frees {
        *rows = Slab::new();
    }
    frees
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
