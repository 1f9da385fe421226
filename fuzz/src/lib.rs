//! The work of each fuzz target on its bytes, as plain functions. `fuzz_targets/` fuzzes them, and
//! `tests/corpus.rs` replays them on the committed corpus.
//!
//! A target panics when a guarantee does not hold.
#![forbid(unsafe_code)]

mod answers;
mod bytes;
mod differential;
mod endpoint;
mod frames;
mod handler;
mod json;
mod messages;
mod operations;
pub mod pack;
mod peer;
mod relay;
mod schedule;
mod session;

pub use differential::differential;
pub use endpoint::{endpoint, endpoint_is_calm};
pub use frames::frames;
pub use handler::handler;
pub use messages::{held, messages};
pub use operations::operations;
pub use relay::relay;
pub use schedule::schedule;
pub use session::{session, session_is_calm};

/// A target's work on the bytes of one input.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 9] = [
    ("frames", frames),
    ("messages", messages),
    ("operations", operations),
    ("schedule", schedule),
    ("relay", relay),
    ("differential", differential),
    ("handler", handler),
    ("endpoint", endpoint),
    ("session", session),
];
