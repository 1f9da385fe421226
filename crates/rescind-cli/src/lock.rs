//! A lock that a panic does not poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what is whole at any time, even if somebody has panicked with it.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
