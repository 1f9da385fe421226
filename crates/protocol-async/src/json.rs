//! Values on their way to the wire.

use std::cell::Cell;

use serde::Serialize;
use serde_json::value::RawValue;

/// Buffers up to this size are kept for the next value.
const KEPT: usize = 64 << 10;

/// Writes a value as JSON and hands that on, in a buffer of this thread: nothing is allocated for a
/// value that leaves at once.
///
/// # Errors
///
/// What serde says about the value.
pub(crate) fn written<R>(
    value: &(impl Serialize + ?Sized),
    hand_on: impl FnOnce(&RawValue) -> R,
) -> serde_json::Result<R> {
    thread_local! {
        static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // Taken out while it is used: a value may make calls of its own while it is written.
    let mut buffer = BUFFER.take();
    buffer.clear();
    let done = serde_json::to_writer(&mut buffer, value).map(|()| {
        let text = std::str::from_utf8(&buffer).expect("serde_json writes UTF-8");
        hand_on(protocol_core::trusted_raw_value(text))
    });
    buffer.shrink_to(KEPT);
    BUFFER.set(buffer);
    done
}
