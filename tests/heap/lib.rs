//! The heap that a test holds, in bytes that were asked for. A crate that depends on this one has its allocator.
#![allow(unsafe_code, reason = "only an allocator sees every allocation")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

static LIVE_OF_ALL: AtomicIsize = AtomicIsize::new(0);
static PEAK_OF_ALL: AtomicIsize = AtomicIsize::new(0);
static TAKEN_OF_ALL: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN_OF_ALL.fetch_add(layout.size(), Relaxed);
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn count(bytes: isize) {
    let all = LIVE_OF_ALL.fetch_add(bytes, Relaxed) + bytes;
    PEAK_OF_ALL.fetch_max(all, Relaxed);
    // A thread that is ending has no cells any more.
    let _ = LIVE.try_with(|live| {
        if !IS_ASIDE.get() {
            live.set(live.get() + bytes);
            PEAK.set(PEAK.get().max(live.get()));
        }
    });
}

/// Does something whose allocations do not count for this thread. It must free all of them, and no others.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    IS_ASIDE.set(true);
    let done = work();
    IS_ASIDE.set(false);
    done
}

/// Returns the number of bytes that all threads have allocated so far, whether they were freed or not.
#[must_use]
pub fn taken() -> usize {
    TAKEN_OF_ALL.load(Relaxed)
}

/// A part of the heap: what was allocated since this began, less what was freed.
#[derive(Debug)]
pub struct Heap {
    before: isize,
    is_of_all: bool,
}

impl Heap {
    /// Begins a part of all that this thread allocates from now on. The peak of another such part ends here.
    #[must_use]
    pub fn of_thread() -> Self {
        PEAK.set(LIVE.get());
        Self { before: LIVE.get(), is_of_all: false }
    }

    /// Begins a part of all that any thread allocates from now on. The peak of another such part ends here.
    #[must_use]
    pub fn of_process() -> Self {
        let before = LIVE_OF_ALL.load(Relaxed);
        PEAK_OF_ALL.store(before, Relaxed);
        Self { before, is_of_all: true }
    }

    /// Its bytes now; 0 if more was freed than allocated.
    #[must_use]
    pub fn held(&self) -> usize {
        self.since(if self.is_of_all { LIVE_OF_ALL.load(Relaxed) } else { LIVE.get() })
    }

    /// The most bytes that it had at any moment.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.since(if self.is_of_all { PEAK_OF_ALL.load(Relaxed) } else { PEAK.get() })
    }

    fn since(&self, bytes: isize) -> usize {
        usize::try_from(bytes - self.before).unwrap_or(0)
    }
}
