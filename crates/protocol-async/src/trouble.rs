//! Trouble that nobody else learns of, as lines on standard error.

use std::cell::Cell;
use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, iter};

use protocol_endpoint::{CallError, Internal, Panicked, RpcError, clip, clip_to};

thread_local! {
    static IS_MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Mutes what would be written on standard error by default, for what runs on this thread.
///
/// A simulation runs a host many times, and would write the same as often. Returns whether it was muted
/// before.
pub fn mute_standard_error(is_muted: bool) -> bool {
    IS_MUTED.replace(is_muted)
}

/// Returns whether nothing is written on standard error by default, from this thread.
#[must_use]
pub fn is_standard_error_muted() -> bool {
    IS_MUTED.get()
}

/// Standard error, for a hundred lines of trouble.
///
/// The process that started this one may not be reading them, and a peer can make as much trouble as it
/// likes.
#[derive(Debug)]
pub struct StandardError {
    count: AtomicUsize,
    /// The name of the function that would get all trouble.
    instead: &'static str,
}

impl StandardError {
    const LINES: usize = 100;

    /// Returns a standard error without lines. The last line names the function that gets all trouble.
    #[must_use]
    pub const fn new(instead: &'static str) -> Self {
        Self { count: AtomicUsize::new(0), instead }
    }

    /// Writes a line, unless there were a hundred.
    pub fn write(&self, trouble: &dyn fmt::Display) {
        if is_standard_error_muted() {
            return;
        }
        let line = match self.count.fetch_add(1, Ordering::Relaxed) {
            0..Self::LINES => line(trouble),
            Self::LINES => line(&format_args!("more trouble is not told ({})", self.instead)),
            _ => return,
        };
        // Without standard error there is nobody to tell.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// Returns a line so short that a hundred fit into a pipe of 64 KiB. The text of an error makes no line of its own.
fn line(trouble: &dyn fmt::Display) -> String {
    let text = format!("rescind: {trouble}").replace(char::is_control, " ");
    format!("{}\n", clip_to(&text, 399))
}

/// The failure of a handler as text, with the reason that the peer does not learn.
#[derive(Debug)]
pub struct HandlerFailed<'a>(pub &'a str, pub &'a Internal);

impl fmt::Display for HandlerFailed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(method, failure) = self;
        write!(f, "the handler of {:?} failed: ", clip(method))?;
        fmt_reason(failure.reason(), f)
    }
}

/// Writes an error without anything that it may quote.
///
/// One of serde's names the value that does not fit. A peer's says anything, and so does a panic, which
/// the panic hook has reported.
fn fmt_reason(reason: &(dyn Error + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for error in iter::successors(Some(reason), |error| inside(*error)) {
        if let Some(error) = error.downcast_ref::<serde_json::Error>() {
            return write!(f, "JSON at line {} column {}", error.line(), error.column());
        }
        if let Some(error) = error.downcast_ref::<RpcError>() {
            return write!(f, "error {}", error.code);
        }
        if error.is::<Panicked>() {
            return f.write_str("panicked");
        }
        if let Some(CallError::InvalidResult { .. }) = error.downcast_ref() {
            return f.write_str("the result of a call does not fit");
        }
    }
    fmt::Display::fmt(reason, f)
}

/// Returns the error inside an error, whose text the outer one may hold.
///
/// One of `std::io` hides it: its source is the source of the inner one.
fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let hidden = error.downcast_ref().and_then(io::Error::get_ref);
    hidden.map_or_else(|| error.source(), |inner| Some(inner))
}

#[cfg(test)]
mod tests {
    use protocol_endpoint::Failure;

    use super::*;

    #[test]
    fn f42_a_line_of_trouble_takes_400_bytes_at_most() {
        for long in ["x".repeat(100_000), "é".repeat(100_000), "x\nforged\x1b[2J".to_owned()] {
            let Failure::Internal(failure) = Failure::internal(long.clone()) else {
                unreachable!()
            };
            let text = line(&HandlerFailed(&long, &failure));
            assert!(text.len() <= 400 && text.ends_with('\n'), "{text}");
            assert!(text.starts_with("rescind: the handler of "), "{text}");
            assert_eq!(text.matches(char::is_control).count(), 1, "{text}");
        }
    }
}
