//! The synchronisation that orderings are searched over.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, Weak};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU8, AtomicU32, Ordering};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, Weak};

use std::sync::PoisonError;

/// Locks, whatever happened to another thread. Nothing of ours panics under a lock, and a panic of a
/// host's callback leaves our state whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], for a mutex that nobody else can have.
pub(crate) fn get_mut<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}
