//! Names for `rescind-router` and `rescind-testkit`, which need more of a connection than its handles.

use std::cell::Cell;

pub use crate::catch_panic::catch_panic;
pub use crate::json::written;
pub use crate::responder::ReturnSlot;
pub use crate::spans::RequestSpan;
pub use protocol_endpoint::{clip, clip_to};

thread_local! {
    static IS_MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Mutes what would be written on standard error by default, for what runs on this thread.
///
/// A simulation runs a host many times, and would write the same as often. Returns whether it was muted
/// before.
pub fn mute_standard_error(is_muted: bool) -> bool {
    IS_MUTED.replace(is_muted)
}

/// Returns whether nothing is written on standard error by default, from this thread.
#[must_use]
pub fn is_standard_error_muted() -> bool {
    IS_MUTED.get()
}
