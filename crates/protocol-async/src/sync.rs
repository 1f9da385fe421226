//! The synchronisation that orderings are searched over.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, Weak};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU8, Ordering};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, Weak};

use std::sync::PoisonError;

/// Locks, whatever happened to another thread: nothing of ours panics under a lock, and what a
/// host's trace does there leaves our state whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], where nobody else can have it.
pub(crate) fn get_mut<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}
