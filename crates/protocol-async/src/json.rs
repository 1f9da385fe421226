//! Values on their way to the wire.

use std::cell::Cell;

use serde::Serialize;
use serde_json::value::RawValue;

/// Buffers up to this size are kept for the next value.
const KEPT: usize = 64 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes a value as JSON into a buffer of this thread, and lends it to `take`.
///
/// The buffer is used again, so nothing is allocated for a value that leaves at once.
///
/// # Errors
///
/// Fails as the value's `Serialize` does.
pub fn written<T>(
    value: &(impl Serialize + ?Sized),
    take: impl FnOnce(&RawValue) -> T,
) -> serde_json::Result<T> {
    // Taken out while it is used: a value may make calls of its own while it is written.
    let mut buffer = BUFFER.take();
    let taken = protocol_core::write_value(value, &mut buffer).map(take);
    // Cleared first, for nothing shrinks below what it holds.
    buffer.clear();
    buffer.shrink_to(KEPT);
    BUFFER.set(buffer);
    taken
}

#[cfg(test)]
mod tests {
    use heap::Heap;

    use super::*;

    #[test]
    fn a_value_that_leaves_at_once_allocates_nothing_unless_it_is_long() {
        let write = |value: &str| written(value, |json| json.get().len()).unwrap();
        let [short, long] = [1_000, 1 << 20].map(|bytes| "x".repeat(bytes));
        write(&short);
        let heap = Heap::of_thread();
        assert_eq!((write(&short), heap.peak()), (1_002, 0), "the room of the one before is there");
        write(&long);
        assert!(heap.held() <= KEPT, "{} bytes are kept", heap.held());
    }
}
