//! Values on their way to the wire and from there.

use std::cell::Cell;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Buffers up to this size are kept for the next value.
const KEPT: usize = 64 << 10;

/// Reads a value as `serde_json::from_str` does, without moving its reader twice.
pub(crate) fn read<'text, T: Deserialize<'text>>(text: &'text str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

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
