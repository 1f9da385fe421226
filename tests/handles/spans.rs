//! The spans and events that a subscriber of `tracing` sees, on tokio and on an executor made by
//! hand: docs/guide/tracing.md.
//!
//! Clocks stand still until nothing else happens, so durations are exact.

#![allow(clippy::duplicate_mod, reason = "the suite is compiled for each runtime")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the other suite uses more of it")]
mod far;
#[allow(dead_code, reason = "the other suite uses more of it")]
mod pipe;

#[path = "spans/by_hand.rs"]
mod by_hand;
#[path = "spans/on_tokio.rs"]
mod on_tokio;
#[path = "spans/recorder.rs"]
mod recorder;
