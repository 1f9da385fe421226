//! Running what is the host's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the host's own code where a panic of it must harm nobody else (B33). The panic hook reports
/// it.
pub(crate) fn contain(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
