//! A place in a table.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// The number of a place, in four bytes also where there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Puts a value into its slot.
#[inline]
pub(crate) fn put<T>(slots: &mut Vec<Option<T>>, slot: usize, value: T) {
    if slots.len() <= slot {
        make_room(slots, slot);
    }
    slots[slot] = Some(value);
}

fn make_room<T>(slots: &mut Vec<Option<T>>, slot: usize) {
    if slots.capacity() <= slot {
        slots.reserve_exact(slot + growth(slot) - slots.len());
    }
    slots.resize_with(slot + 1, || None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_a_table_grows_by_as_much_and_later_by_an_eighth() {
        let (mut slots, mut rooms) = (Vec::new(), Vec::new());
        for slot in 0..100_000 {
            put(&mut slots, slot, slot);
            let (len, room) = (slots.len(), slots.capacity());
            rooms.push(room);
            assert!(len == slot + 1 && room <= len + (len / 8).max(1024), "{room} for {len}");
        }
        rooms.dedup();
        assert!(rooms.len() <= 48, "moved {} times", rooms.len());
        assert!(slots.iter().flatten().copied().eq(0..100_000));
        put(&mut slots, 7, 0);
        assert_eq!((slots.len(), slots[7]), (100_000, Some(0)));
    }
}
