//! The registry of operations.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documented;
mod memory;
mod wire;
