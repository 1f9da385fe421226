//! What each fuzz target does with its bytes, as plain functions: fuzzed by `fuzz_targets/`, and
//! replayed on the committed corpus by `tests/corpus.rs`.
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

/// What a target does with the bytes it is given.
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
