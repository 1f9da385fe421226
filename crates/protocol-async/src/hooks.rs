//! Names for `rescind-router`, `rescind-blocking` and `rescind-testkit`, which need more of a connection
//! than its handles.

pub use crate::catch_panic::{catch_panic, run_handler, unless_it_panics};
pub use crate::json::written;
pub use crate::responder::ReturnSlot;
pub use crate::sleep::Sleep;
pub use crate::spans::RequestSpan;
pub use crate::trouble::{
    HandlerFailed, StandardError, is_standard_error_muted, mute_standard_error,
};
pub use protocol_endpoint::{UndoStack, clip};
