//! Values on their way to the wire.

use std::cell::Cell;

use serde::Serialize;
use serde_json::value::RawValue;

/// Buffers up to this size are kept for the next value.
const KEPT: usize = 64 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Hands a value over as JSON, in a buffer of this thread that goes back to it: nothing is allocated
/// for a value that leaves at once.
///
/// # Errors
///
/// What serde says about the value.
pub(crate) fn written<T>(
    value: &(impl Serialize + ?Sized),
    take: impl FnOnce(&RawValue) -> T,
) -> serde_json::Result<T> {
    // Taken out while it is used: a value may make calls of its own while it is written.
    let mut buffer = BUFFER.take();
    let taken = protocol_core::write_value(value, &mut buffer).map(take);
    buffer.shrink_to(KEPT);
    BUFFER.set(buffer);
    taken
}
