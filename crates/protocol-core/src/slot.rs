//! A place in a table.

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
/// does it, and then a quarter. With a million requests in flight the difference is tens of bytes for
/// each.
pub(crate) const fn growth(len: usize) -> usize {
    match len {
        0..16 => 16,
        16..1024 => len,
        _ => len / 4,
    }
}
