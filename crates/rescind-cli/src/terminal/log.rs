//! The lines that wait to be written to standard error, and the thread that writes them.

use std::collections::VecDeque;
use std::io::Write;
use std::mem;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::budget::{Budgets, EVERY, Kind};
use super::spinner::Spinner;
use crate::lock::lock;

/// Bytes of lines that wait; what does not fit is counted and dropped.
const WAITING: usize = 1 << 20;
/// The time between two reports that the same line came again.
const REPEATED_EVERY: Duration = Duration::from_secs(1);
/// The time without a reader after which the lines that are left are given up at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines on their way to standard error.
///
/// Nobody who prints waits. A line that is equal to the last is counted, and so is one that does not fit or is
/// over the budget of its kind. The numbers are printed in their places, or once a second.
#[derive(Default)]
pub(crate) struct Log {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
    /// The line that came last, and how often it came again since that was last said.
    last: String,
    repeated: u64,
    /// When it first came again.
    repeated_since: Option<Instant>,
    budgets: Budgets,
    /// Lines that did not fit since there was room.
    dropped: u64,
    /// Whether the thread writes lines that are not here any more.
    is_writing: bool,
    /// The number of lines that were written.
    written: u64,
    has_writer: bool,
    /// The next text of the spinner, or that there is to be none.
    spinner: Option<Option<String>>,
}

impl Log {
    /// The one whose lines are written.
    pub(crate) fn of_this_process() -> &'static Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(Self::default);
        let mut waiting = lock(&log.waiting);
        if !waiting.has_writer {
            // Without a thread lines wait until there is no room.
            let started = thread::Builder::new().name("log".into()).spawn(move || log.write());
            waiting.has_writer = started.is_ok();
        }
        log
    }

    /// Prints a line. One that has a kind is counted instead once that kind's budget is spent.
    pub(crate) fn push(&self, line: String, kind: Option<Kind>) {
        lock(&self.waiting).push(line, kind);
        self.changed.notify_all();
    }

    /// Shows a spinner that says this, or none. Like lines, it is drawn by whoever may wait for a terminal
    /// that stands still.
    pub(super) fn spin(&self, message: Option<String>) {
        lock(&self.waiting).spinner = Some(message);
        self.changed.notify_all();
    }

    /// Writes whatever comes, for ever.
    fn write(&self) {
        let mut spinner = Spinner::default();
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(message) = waiting.spinner.take() {
                waiting.is_writing = true;
                drop(waiting);
                spinner.show(message);
                waiting = lock(&self.waiting);
                waiting.is_writing = false;
                self.changed.notify_all();
                continue;
            }
            let lines = waiting.take();
            if lines.is_empty() {
                let left = waiting.told_in(Instant::now());
                if left.is_zero() {
                    waiting.tell_repeated();
                } else if waiting.tell_over_budget(Instant::now()) {
                    continue;
                } else {
                    let told = self.changed.wait_timeout(waiting, left);
                    waiting = told.unwrap_or_else(PoisonError::into_inner).0;
                }
                continue;
            }
            waiting.is_writing = true;
            for line in &lines {
                drop(waiting);
                spinner.around(|| write(line));
                waiting = lock(&self.waiting);
                waiting.written += 1;
                self.changed.notify_all();
            }
            waiting.is_writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits until all lines are written, as long as somebody reads.
    pub(super) fn finish(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.tell_repeated();
        // The second of every kind is over then, also of one that a first end counted out.
        waiting.tell_over_budget(Instant::now() + 2 * EVERY);
        waiting.tell_dropped();
        self.changed.notify_all();
        let mut until = Instant::now() + PATIENCE;
        while waiting.has_writer && !waiting.is_idle() {
            let written = waiting.written;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let told = self.changed.wait_timeout(waiting, left);
            waiting = told.unwrap_or_else(PoisonError::into_inner).0;
            if waiting.written > written {
                until = Instant::now() + PATIENCE;
            }
        }
    }
}

/// Nobody may be reading it any more; that is no reason to stop.
fn write(line: &str) {
    let _ = anstream::stderr().lock().write_all(line.as_bytes());
}

impl Waiting {
    fn push(&mut self, line: String, kind: Option<Kind>) {
        if line == self.last {
            self.repeated += 1;
            self.repeated_since.get_or_insert_with(Instant::now);
            return;
        }
        let now = Instant::now();
        self.tell_over_budget(now);
        if kind.is_some_and(|kind| !self.budgets.take(kind, &line, now)) {
            return;
        }
        self.tell_repeated();
        self.last.clone_from(&line);
        self.keep(line);
    }

    fn keep(&mut self, line: String) {
        if self.bytes + line.len() > WAITING || self.dropped > 0 {
            self.dropped += 1;
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    /// Everything that waits; from then on there is room, so what was dropped is told first.
    fn take(&mut self) -> VecDeque<String> {
        if self.lines.is_empty() {
            self.tell_dropped();
        }
        self.bytes = 0;
        mem::take(&mut self.lines)
    }

    /// Whether everything is written and drawn.
    fn is_idle(&self) -> bool {
        !self.is_writing && self.lines.is_empty() && self.spinner.is_none()
    }

    /// Returns the time until there is something to count out.
    fn told_in(&self, now: Instant) -> Duration {
        let since = self.repeated_since.unwrap_or(now);
        let repeated = REPEATED_EVERY.saturating_sub(now.saturating_duration_since(since));
        // A zero is for repeated lines alone.
        let over = self.budgets.due_in(now).map(|left| left.max(Duration::from_millis(1)));
        over.map_or(repeated, |over| over.min(repeated))
    }

    /// Counts out the lines that were over their budgets. Returns whether there were any.
    fn tell_over_budget(&mut self, now: Instant) -> bool {
        let counted = self.budgets.counted(now);
        let is_any = !counted.is_empty();
        counted.into_iter().for_each(|line| self.keep(line));
        is_any
    }

    fn tell_repeated(&mut self) {
        self.repeated_since = None;
        match mem::take(&mut self.repeated) {
            0 => {}
            1 => self.keep(self.last.clone()),
            times => self.keep(format!("  (the same line {times} times more)\n")),
        }
    }

    fn tell_dropped(&mut self) {
        match mem::take(&mut self.dropped) {
            0 => {}
            dropped => self.lines.push_back(format!(
                "({dropped} lines are missing here: standard error was not read fast enough)\n"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(waiting: &mut Waiting) -> Vec<String> {
        waiting.take().into_iter().map(|line| line.trim().into()).collect()
    }

    #[test]
    fn f67_repeated_lines_are_counted() {
        let mut waiting = Waiting::default();
        for line in ["a\n", "b\n", "b\n", "c\n", "c\n", "c\n", "a\n"] {
            waiting.push(line.into(), None);
        }
        assert_eq!(lines(&mut waiting), ["a", "b", "b", "c", "(the same line 2 times more)", "a"]);
    }

    #[test]
    fn f67_what_waits_is_bounded_and_what_does_not_fit_is_counted_in_its_place() {
        let mut waiting = Waiting::default();
        let long = "x".repeat(1 << 10);
        for number in 0..2_000 {
            waiting.push(format!("{number}{long}\n"), None);
            assert!(waiting.bytes <= WAITING);
        }
        waiting.push("small\n".into(), None);
        let kept = lines(&mut waiting);
        let missing = 2_001 - kept.len();
        assert!(missing > 900, "{missing}");
        let told =
            format!("({missing} lines are missing here: standard error was not read fast enough)");
        assert_eq!(lines(&mut waiting), [&*told]);
        waiting.push("later\n".into(), None);
        assert_eq!(lines(&mut waiting), ["later"]);
    }

    #[test]
    fn f67_as_much_waits_as_may_wait() {
        let mut waiting = Waiting::default();
        waiting.keep("x".repeat(WAITING));
        assert_eq!(waiting.dropped, 0);
        waiting.keep("y".into());
        assert_eq!(waiting.dropped, 1);
    }

    #[test]
    fn f67_the_end_sees_each_line_that_was_written() {
        let log = Log::of_this_process();
        let before = lock(&log.waiting).written;
        log.push("a line of a test\n".into(), None);
        log.finish();
        assert!(lock(&log.waiting).written > before, "whoever reads slowly would be given up");
    }
}
