//! What both sides said.

use std::time::Duration;

use serde::Serialize;

use crate::session::{Entry, What};

/// A longer message is cut in a transcript.
const MESSAGE: usize = 2048;
/// A longer transcript keeps its beginning and its end.
const LINES: usize = 400;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// We.
    Sent,
    /// The server.
    Received,
    /// Nobody: it is what was done or seen.
    Note,
}

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Microseconds since the server was started.
    pub at_us: u64,
    /// Who said it.
    pub way: Way,
    /// What was said. A server may have written anything: make it harmless before it is printed.
    pub text: String,
}

/// What both sides said, cut where it is long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Transcript {
    /// Its lines, in order.
    pub lines: Vec<Line>,
}

impl Transcript {
    pub(crate) fn of(record: &[Entry]) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        let left_out = record.len().saturating_sub(LINES);
        for (number, entry) in record.iter().enumerate() {
            if left_out > 0 && number == LINES / 2 {
                lines.push(line(entry.at, Way::Note, format!("{left_out} lines are left out")));
            }
            if left_out > 0 && (LINES / 2..LINES / 2 + left_out).contains(&number) {
                continue;
            }
            let (way, text) = match &entry.what {
                What::Sent(message) => (Way::Sent, cut(message.as_bytes())),
                What::Got { message, .. } => (Way::Received, cut(message)),
                What::Broken { violation } => {
                    (Way::Note, format!("no message that it may write: {violation}"))
                }
                What::Ended => (Way::Note, "its output ends".into()),
                What::Note(text) => (Way::Note, text.clone()),
            };
            lines.push(line(entry.at, way, text));
        }
        Self { lines }
    }
}

fn line(at: Duration, way: Way, text: String) -> Line {
    Line { at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX), way, text }
}

fn cut(message: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&message[..message.len().min(MESSAGE)]).into_owned();
    match message.len().saturating_sub(MESSAGE) {
        0 => shown,
        more => format!("{shown}… ({more} bytes more)"),
    }
}
