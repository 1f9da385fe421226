//! Counts the heap of each thread.
#![allow(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    /// Whether what is allocated is not counted.
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_ASIDE.get() {
            LIVE.set(LIVE.get().wrapping_add(layout.size()));
            PEAK.set(PEAK.get().max(LIVE.get()));
        }
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !IS_ASIDE.get() {
            LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        }
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A part of the heap: what this thread has allocated since it began, and not freed.
pub(crate) struct Heap {
    before: usize,
}

impl Heap {
    pub(crate) fn begin() -> Self {
        PEAK.set(LIVE.get());
        Self { before: LIVE.get() }
    }

    /// Its bytes now.
    pub(crate) fn live(&self) -> usize {
        LIVE.get().saturating_sub(self.before)
    }

    /// The most that it had since the last time that this was asked.
    pub(crate) fn peak(&self) -> usize {
        PEAK.replace(LIVE.get()).saturating_sub(self.before)
    }
}

/// Does something whose allocations are not counted. It must free all of them, and no others.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    IS_ASIDE.set(true);
    let done = work();
    IS_ASIDE.set(false);
    done
}
