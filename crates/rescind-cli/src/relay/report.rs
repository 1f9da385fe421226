//! Lines on standard error about servers and recordings.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use protocol_async::{Noise, Trace};
use protocol_child::Pushed;
use protocol_core::Dialect;
use protocol_relay::Side;

use crate::noise::Noises;
use crate::stats;
use crate::terminal::{Line, note, say, show};
use crate::trace::Traced;

#[track_caller]
pub(super) fn log(line: impl std::fmt::Display) {
    note(format_args!("rescind relay: {line}"));
}

/// Returns whether a server failed, and says how.
pub(super) fn has_failed(program: &str, exit: &io::Result<ExitStatus>, pushed: Pushed) -> bool {
    let failed = match pushed {
        Pushed::No => "failed",
        Pushed::Terminated => "did not end, and was terminated",
        Pushed::Killed => "did not end, and was killed",
    };
    match exit {
        Ok(status) if status.success() => return false,
        Ok(status) => log(format_args!("{program} {failed}: {status}")),
        Err(error) => log(format_args!("{program}: {error}")),
    }
    true
}

/// Says in one line what a recording comes to, as `rescind stats` does.
pub(super) fn summarize(path: &Path) {
    /// A longer recording takes longer to read than a user waits at the end.
    const MOST: u64 = 64 << 20;
    let is_short = path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MOST);
    if let Some(summary) = is_short.then(|| stats::summary(path).ok()).flatten() {
        log(format_args!("{summary}"));
    }
}

/// Counts and shows what a server says that is no message.
pub(super) fn noise(noises: Arc<Noises>) -> Noise {
    Box::new(move |violation, bytes| {
        noises.count();
        let line = Line::new().text("rescind relay: no message on the server's output: ");
        say(line.value(bytes).text(format_args!(" ({violation})")));
    })
}

/// Prints the messages of one side.
pub(super) fn traced(side: Side, dialect: &Dialect, begun: Instant) -> Trace {
    let mut traced = Traced::new(dialect, begun);
    Box::new(move |way, message| show(traced.line(&format!("{side:4} "), way, message)))
}
