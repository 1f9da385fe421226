//! Attacks on the running program. Each has a limit on its cost: memory by the formula of G8, processor time, and
//! another client's waiting beside the figures without it (F31, F44 to F49, F71).
//!
//! The figures are those of a release build: `cargo test --release -p rescind-hostile-suite --test hostile -- --nocapture`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod bridge;
mod churn;
mod ends;
mod formula;
mod matrix;
mod program;
mod tls;
mod websocket;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One attack at a time: each is measured.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
