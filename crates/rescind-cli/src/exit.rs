//! Exit codes of the program, apart from 0, and ends that come early.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::terminal::{Line, say};

/// An error response, or a failed server.
pub(crate) const ERROR: u8 = 1;
/// Wrong usage, as clap has it.
pub(crate) const USAGE: u8 = 2;
/// The call was cancelled, or given up.
pub(crate) const CANCELLED: u8 = 3;
/// The call timed out.
pub(crate) const TIMED_OUT: u8 = 4;
/// The connection was lost.
pub(crate) const LOST: u8 = 5;
/// The server could not be started or connected to.
pub(crate) const UNREACHABLE: u8 = 6;
/// Standard output can't be written.
pub(crate) const OUTPUT: u8 = 7;
/// Everything tested holds, but not all that has to was tested.
pub(crate) const INCOMPLETE: u8 = 8;

/// An early end of a command: its exit code, and the reason in one line, if there is anything to report.
#[derive(Debug)]
pub struct Exit {
    code: u8,
    pub(crate) why: Option<String>,
}

impl Exit {
    pub(crate) fn new(code: u8, why: impl Display) -> Self {
        Self { code, why: Some(why.to_string()) }
    }

    /// Ends a command whose reason is already printed, or that has none.
    pub(crate) const fn told(code: u8) -> Self {
        Self { code, why: None }
    }

    /// Ends a command that was used wrongly.
    pub fn usage(why: impl Display) -> Self {
        Self::new(USAGE, why)
    }

    /// Ends a command whose standard output can't be written.
    pub fn output(error: impl Display) -> Self {
        Self::new(OUTPUT, format_args!("standard output can't be written: {error}"))
    }

    /// Does the same for one that only shows a file: who closes the pipe, as `head` does, has seen enough.
    pub(crate) fn shown(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::told(0),
            _ => Self::output(error),
        }
    }

    /// Reports the reason on standard error, and returns the exit code.
    #[must_use]
    pub fn report(self) -> ExitCode {
        let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        if let Some(why) = self.why {
            say(Line::new().styled(style, "error:").text(format_args!(" {why}")));
        }
        self.code.into()
    }
}

/// A text by itself is what is wrong with the usage.
impl From<String> for Exit {
    fn from(why: String) -> Self {
        Self::usage(why)
    }
}

impl From<&str> for Exit {
    fn from(why: &str) -> Self {
        Self::usage(why)
    }
}
