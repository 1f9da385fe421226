//! A registry takes no more memory than its docs allow.

use std::time::Duration;

use heap::Heap;
use protocol_core::Timestamp;
use protocol_operations::{CancelReason, Cleanup, Operations, Urgency};

const NOW: Timestamp = Timestamp::ZERO;

#[test]
fn g08_an_operation_takes_at_most_128_bytes_at_any_count() {
    let heap = Heap::of_thread();
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
    let more = Heap::of_thread();
    let graceful = Urgency::Graceful(Duration::from_secs(1));
    drop(operations.cancel_all(&CancelReason::Timeout, graceful, NOW));
    let stopping = more.held() / 100_000;
    println!("{stopping} more for one that is stopping");
    assert!(stopping <= 48, "{stopping}");
}

#[test]
fn g08_a_kind_takes_at_most_140_bytes_and_its_name_at_any_count() {
    let mut operations: Operations<u64> = Operations::default();
    let names: Vec<String> = (0..1_000).map(|number| format!("kind {number:03}")).collect();
    let heap = Heap::of_thread();
    let mut worst = 0;
    for (count, name) in (1..).zip(&names) {
        operations.declare(name, Cleanup::Wanted).unwrap();
        if count >= 100 {
            worst = worst.max(heap.held() / count - name.len());
        }
    }
    println!("at most {worst} bytes and the name each, {} at 1,000", heap.held() / 1_000 - 8);
    assert!(worst <= 140, "{worst}");
}
