//! The values that dialects are made of.

use alloc::borrow::Cow;
use core::mem;

/// A text of a dialect: a constant of a preset, or one that was read at run time.
pub(crate) type Text = Cow<'static, str>;

/// A list of a dialect: a constant of a preset, or one that was read at run time.
pub(crate) type List<T> = Cow<'static, [T]>;

/// Replaces a value without dropping it. The old value is a constant and owns no memory.
pub(super) const fn put<T>(place: &mut T, value: T) {
    mem::forget(mem::replace(place, value));
}
