//! Names for `protocol-router` alone, which needs more of a connection than its handles.

pub use crate::catch_panic::catch_panic;
pub use crate::json::written;
pub use crate::responder::ReturnSlot;
pub use crate::spans::RequestSpan;
pub use protocol_endpoint::{clip, clip_to};
