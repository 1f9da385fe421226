//! Attacks on a JSON-RPC server that listens on a socket or reads its standard input. They measure the cost to it and
//! to its other clients.
//!
//! The suite of this package runs them on `rescind`, with bounds. The program `attack` runs them on any server, and
//! reports only the cost of each.
#![cfg(target_os = "linux")]

pub mod attacks;
pub mod beside;
pub mod command;
pub mod hosting;
pub mod process;
pub mod stream;
pub mod wire;

use std::time::Duration;

/// Longer than anything takes on a loaded machine: a longer wait would never end.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// So many bytes.
pub const KIB: usize = 1 << 10;
/// So many bytes.
pub const MIB: usize = 1 << 20;

/// Formats bytes as MiB, for people.
#[must_use]
pub fn mib(bytes: usize) -> String {
    format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB)
}
