//! The messages of both sides.

use std::time::Duration;

use serde::Serialize;

use crate::session::{Entry, What};

/// A longer message is cut in a transcript.
const MESSAGE: usize = 2048;
/// A longer transcript keeps its beginning and its end.
const LINES: usize = 400;

/// The speaker of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// We sent it.
    Sent,
    /// The other side sent it.
    Received,
    /// Nobody: it is what was done or seen.
    Note,
}

impl Way {
    /// Returns the arrow that stands for it.
    #[must_use]
    pub const fn arrow(self) -> &'static str {
        ["-->", "<--", "   "][self as usize]
    }
}

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Microseconds since the server was started.
    pub at_us: u64,
    /// The speaker of the line.
    pub way: Way,
    /// The text of the message. A server may have written anything: make it harmless before it is printed.
    pub text: String,
}

/// The messages of both sides. Long ones are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Transcript {
    /// Its lines, in order.
    pub lines: Vec<Line>,
}

impl Transcript {
    pub(crate) fn of(record: &[Entry]) -> Self {
        Self::of_each(record, |entry| match &entry.what {
            What::Sent(message) => Line::new(entry.at, Way::Sent, message),
            What::Got { message, .. } => {
                Line::new(entry.at, Way::Received, &String::from_utf8_lossy(message))
            }
            What::Broken(why) => {
                Line::new(entry.at, Way::Note, &format!("no message that it may write: {why}"))
            }
            What::Ended => Line::new(entry.at, Way::Note, "its output ends"),
            What::Note(text) => Line::new(entry.at, Way::Note, text),
        })
    }

    pub(crate) fn of_lines(lines: Vec<Line>) -> Self {
        Self::of_each(&lines, Line::clone)
    }

    /// Makes a line of each of those that are kept.
    fn of_each<T>(all: &[T], line: impl Fn(&T) -> Line) -> Self {
        let left_out = all.len().saturating_sub(LINES);
        let (head, rest) = all.split_at(all.len().min(LINES / 2));
        let mut lines: Vec<Line> = head.iter().map(&line).collect();
        if left_out > 0 {
            let text = format!("{left_out} lines are left out");
            lines.push(Line { text, way: Way::Note, ..line(&rest[0]) });
        }
        lines.extend(rest[left_out..].iter().map(line));
        Self { lines }
    }
}

impl Line {
    pub(crate) fn new(at: Duration, way: Way, text: &str) -> Self {
        Self { at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX), way, text: cut(text) }
    }
}

fn cut(message: &str) -> String {
    match message.len().saturating_sub(MESSAGE) {
        0 => message.to_owned(),
        more => {
            let shown = String::from_utf8_lossy(&message.as_bytes()[..MESSAGE]);
            format!("{shown}… ({more} bytes more)")
        }
    }
}
