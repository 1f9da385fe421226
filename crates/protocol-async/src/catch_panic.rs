//! Calls of the host's own code.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the host's own code where a panic of it must harm nothing else. The panic hook reports the panic.
pub fn catch_panic(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
