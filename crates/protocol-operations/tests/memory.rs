//! What the memory of a registry is, at its documented bound.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator that counts can't be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use protocol_core::Timestamp;
use protocol_operations::{CancelReason, Cleanup, Operations, Urgency};

/// Counts the bytes that are held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NOW: Timestamp = Timestamp::ZERO;

#[test]
fn g08_an_operation_takes_at_most_128_bytes_at_any_count() {
    let before = HELD.load(Relaxed);
    let mut operations: Operations<u64> = Operations::default();
    operations.declare("tool/call", Cleanup::Wanted).unwrap();
    let mut random = 1_u128;
    let mut worst = 0;
    for count in 1..=100_000 {
        random = random.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(0x9e37);
        let entropy = (random ^ random.rotate_right(64)).to_be_bytes();
        operations.register("tool/call", entropy, 7, NOW).unwrap();
        let held = HELD.load(Relaxed) - before;
        if count >= 1_000 {
            worst = worst.max(held / count);
        }
    }
    println!("at most {worst} bytes each, {} at 100,000", (HELD.load(Relaxed) - before) / 100_000);
    assert!(worst <= 128, "{worst}");
    let active = HELD.load(Relaxed);
    let graceful = Urgency::Graceful(Duration::from_secs(1));
    drop(operations.cancel_all(&CancelReason::Timeout, graceful, NOW));
    let stopping = (HELD.load(Relaxed) - active) / 100_000;
    println!("{stopping} more for one that is stopping");
    assert!(stopping <= 48, "{stopping}");
}
