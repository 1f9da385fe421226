//! An allocator that counts, where and while it is asked to.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ON: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The bytes that this thread allocated less those that it freed, while counting was on.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

#[inline]
fn took(bytes: usize, freed: usize) {
    if ON.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(bytes as u64, Relaxed);
        change(bytes as i64 - freed as i64);
    }
}

#[inline]
fn change(by: i64) {
    // Threads that are ending count no more.
    let _ = LIVE.try_with(|live| live.set(live.get() + by));
}

#[allow(unsafe_code, reason = "only an allocator sees every allocation")]
// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        took(size, layout.size());
        unsafe { System.realloc(place, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if ON.load(Relaxed) {
            change(-(layout.size() as i64));
        }
        unsafe { System.dealloc(place, layout) }
    }
}

/// The heap that some work allocated, on all threads.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The number of allocations; each growth counts.
    pub allocations: u64,
    /// The number of bytes, whether or not they were freed later.
    pub bytes: u64,
}

/// Counts the allocations of some work.
pub fn count(work: impl FnOnce()) -> Taken {
    let before = (ALLOCATIONS.load(Relaxed), BYTES.load(Relaxed));
    set_counting(true);
    work();
    set_counting(false);
    Taken {
        allocations: ALLOCATIONS.load(Relaxed) - before.0,
        bytes: BYTES.load(Relaxed) - before.1,
    }
}

/// Switches counting on or off, for all threads.
pub fn set_counting(on: bool) {
    ON.store(on, Relaxed);
}

/// Returns the bytes that this thread allocated while counting was on, and still holds.
#[must_use]
pub fn live() -> i64 {
    LIVE.with(Cell::get)
}

/// Does some work, and adds the bytes that it leaves allocated to one side's account.
pub fn adding_to<T>(account: &mut i64, work: impl FnOnce() -> T) -> T {
    let before = live();
    let done = work();
    *account += live() - before;
    done
}
