//! The parts of the `rescind` command line.
#![forbid(unsafe_code)]

mod address;
pub mod call;
pub mod dialect;
pub mod relay;
pub mod serve;
mod socket;
pub mod step;
mod token;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

/// The exit code for wrong usage, as clap uses it.
pub const USAGE: u8 = 2;

/// Writes a line to standard error. Nobody may be reading it any more; that is no reason to stop.
pub fn note(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Reads a time from the command line.
fn duration(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => humantime::parse_duration(text).map_err(|error| format!("{error} (try 300ms or 2s)")),
    }
}

/// Reports wrong usage in one line on standard error.
#[must_use]
pub fn usage_error(error: impl Display) -> ExitCode {
    let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    note(format_args!("{style}error:{style:#} {error}"));
    ExitCode::from(USAGE)
}

/// Runs the examples of the README and of the guides, so that they stay true.
#[cfg(all(doctest, unix))]
mod documented {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../../docs/guide/async-runtime.md")]
    pub struct AsyncRuntime;
    #[doc = include_str!("../../../docs/guide/one-thread.md")]
    pub struct OneThread;
    #[doc = include_str!("../../../docs/guide/orderings.md")]
    pub struct Orderings;
    #[doc = include_str!("../../../docs/guide/own-driver.md")]
    pub struct OwnDriver;
    #[doc = include_str!("../../../docs/guide/tracing.md")]
    pub struct Tracing;
}
