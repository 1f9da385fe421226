//! The parts of the `rescind` command line.
// One call in `freed.rs` is unsafe.
#![deny(unsafe_code)]

mod address;
mod admission;
pub mod call;
pub mod conform;
mod connect;
pub mod dialect;
mod ending;
mod exit;
pub mod export;
pub mod freed;
mod http;
mod http_client;
mod input;
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
mod token;
mod trace;
pub mod view;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

pub use terminal::note;
use terminal::{Line, say};

/// Reports wrong usage in one line on standard error.
#[must_use]
pub fn usage_error(error: impl Display) -> ExitCode {
    failure(exit::USAGE, error)
}

/// Reports in one line that standard output can't be written.
#[must_use]
pub fn output_error(error: impl Display) -> ExitCode {
    failure(exit::OUTPUT, format_args!("standard output can't be written: {error}"))
}

/// The same where it only shows what is in a file: whoever closes the pipe, as `head` does, has seen enough.
pub(crate) fn shown_error(error: io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => output_error(error),
    }
}

/// Reports an error in one line, and gives the exit code for it.
pub(crate) fn failure(code: u8, error: impl Display) -> ExitCode {
    let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    say(Line::new().styled(style, "error:").text(format_args!(" {error}")));
    ExitCode::from(code)
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
