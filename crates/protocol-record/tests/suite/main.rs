//! Recordings, as they are written and read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod promises;
mod recording;
