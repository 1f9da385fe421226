//! Values on their way to the wire and from there.

use std::cell::Cell;
use std::mem;

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

/// A value as JSON, in a buffer of this thread that goes back to it: nothing is allocated for a value
/// that leaves at once.
pub(crate) struct Written {
    /// Invariant: one JSON value.
    buffer: Vec<u8>,
}

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Written {
    /// Writes a value.
    ///
    /// # Errors
    ///
    /// What serde says about the value.
    pub(crate) fn new(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        // Taken out while it is used: a value may make calls of its own while it is written.
        let mut written = Self { buffer: BUFFER.take() };
        written.buffer.clear();
        serde_json::to_writer(&mut written.buffer, value)?;
        Ok(written)
    }

    /// What was written.
    pub(crate) fn raw(&self) -> &RawValue {
        let text = std::str::from_utf8(&self.buffer).expect("serde_json writes UTF-8");
        protocol_core::trusted_raw_value(text)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.buffer.shrink_to(KEPT);
        BUFFER.set(mem::take(&mut self.buffer));
    }
}
