//! What the memory of a registry is, at its documented bound.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use heap::Heap;
use protocol_core::Timestamp;
use protocol_operations::{CancelReason, Cleanup, Operations, Urgency};

const NOW: Timestamp = Timestamp::ZERO;

#[test]
fn g08_an_operation_takes_at_most_128_bytes_at_any_count() {
    let heap = Heap::of_process();
    let mut operations: Operations<u64> = Operations::default();
    operations.declare("tool/call", Cleanup::Wanted).unwrap();
    let mut random = 1_u128;
    let mut worst = 0;
    for count in 1..=100_000 {
        random = random.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(0x9e37);
        let entropy = (random ^ random.rotate_right(64)).to_be_bytes();
        operations.register("tool/call", entropy, 7, NOW).unwrap();
        let held = heap.held();
        if count >= 1_000 {
            worst = worst.max(held / count);
        }
    }
    println!("at most {worst} bytes each, {} at 100,000", heap.held() / 100_000);
    assert!(worst <= 128, "{worst}");
    let more = Heap::of_process();
    let graceful = Urgency::Graceful(Duration::from_secs(1));
    drop(operations.cancel_all(&CancelReason::Timeout, graceful, NOW));
    let stopping = more.held() / 100_000;
    println!("{stopping} more for one that is stopping");
    assert!(stopping <= 48, "{stopping}");
}
