//! Values of the host's: each is a bomb that goes off when it is dropped inside a method of the endpoint.

use std::cell::Cell;
use std::thread::panicking;

use protocol_core::RequestHandle;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static ALIVE: Cell<usize> = const { Cell::new(0) };
}

/// A value that the host waits with.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: u32,
    _bomb: Bomb,
}

/// The mark of a request.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) request: RequestHandle,
    _bomb: Bomb,
}

#[derive(Debug)]
struct Bomb;

impl Waiter {
    pub(super) fn new(id: u32) -> Self {
        Self { id, _bomb: Bomb::new() }
    }
}

impl Mark {
    pub(super) fn new(request: RequestHandle) -> Self {
        Self { request, _bomb: Bomb::new() }
    }
}

impl Bomb {
    fn new() -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // The scene before may have ended in a panic.
        ALIVE.set(ALIVE.get().saturating_sub(1));
        assert!(!INSIDE.get() || panicking(), "F85: a value of the host's is dropped inside");
    }
}

/// Forgets what a scene before this one left when it panicked.
pub(super) fn begin() {
    INSIDE.set(false);
    ALIVE.set(0);
}

/// Returns the number of values that are somewhere.
pub(super) fn alive() -> usize {
    ALIVE.get()
}

/// Runs a method of the endpoint, in which no value is dropped.
pub(super) fn inside<R>(method: impl FnOnce() -> R) -> R {
    INSIDE.set(true);
    let done = method();
    INSIDE.set(false);
    done
}
