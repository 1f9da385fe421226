//! The parts of the `rescind` command line.
// One call in `freed.rs` is unsafe.
#![deny(unsafe_code)]

mod address;
mod admission;
pub mod call;
pub mod conform;
mod connect;
mod credentials;
pub mod dialect;
mod ending;
pub mod exit;
pub mod export;
pub mod freed;
mod http;
mod http_client;
mod input;
mod lock;
mod noise;
pub mod pages;
pub mod process;
mod record;
pub mod relay;
pub mod replay;
pub mod serve;
mod socket;
#[cfg(unix)]
mod socket_file;
pub mod stats;
pub mod step;
pub mod terminal;
#[cfg(not(windows))]
mod tls;
#[cfg(windows)]
#[path = "tls_absent.rs"]
mod tls;
mod trace;
pub mod view;

use std::time::Duration;

pub use terminal::note;

/// Returns the name and the version of this program, as protocols tell them.
fn own_name() -> serde_json::Value {
    serde_json::json!({ "name": "rescind", "version": env!("CARGO_PKG_VERSION") })
}

/// Reads a duration of the command line: up to a century, which can be added to any time.
fn duration(text: &str) -> Result<Duration, String> {
    const CENTURY: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);
    match text {
        "0" => Ok(Duration::ZERO),
        _ => match humantime::parse_duration(text) {
            Ok(duration) if duration > CENTURY => Err("longer than a century".into()),
            Ok(duration) => Ok(duration),
            Err(error) => Err(format!("{error} (try 300ms or 2s)")),
        },
    }
}
