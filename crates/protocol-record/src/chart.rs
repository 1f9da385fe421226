//! Histories as sequence charts in plain text.

use std::fmt::Write as _;

/// One line of a chart. Lanes are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something happens in one lane.
    At {
        /// The number of the lane, counted from 0.
        lane: usize,
        /// The text that is drawn in the lane.
        text: String,
    },
    /// An arrow from one lane to another.
    Arrow {
        /// From this lane.
        from: usize,
        /// In this one.
        to: usize,
        /// The text that is drawn in the arrow.
        text: String,
    },
}

impl Mark {
    /// Something happens in one lane.
    #[must_use]
    pub const fn at(lane: usize, text: String) -> Self {
        Self::At { lane, text }
    }

    /// Something arrives in the lane `to`.
    #[must_use]
    pub const fn arrow(from: usize, to: usize, text: String) -> Self {
        Self::Arrow { from, to, text }
    }
}

const WIDTH: usize = 36;

/// Draws a chart with these lanes.
///
/// ```
/// use protocol_record::{Mark, chart};
///
/// let marks = [Mark::arrow(0, 1, "request 1 work".into()), Mark::at(1, "works".into())];
/// assert_eq!(chart(&["client", "server"], &marks), "\
/// client                              server
///   |----- request 1 work ------------->|
///   |                                   |  works
/// ");
/// ```
#[must_use]
pub fn chart(lanes: &[&str], marks: &[Mark]) -> String {
    let mut chart = String::new();
    for (lane, name) in lanes.iter().enumerate() {
        let width = if lane + 1 == lanes.len() { 0 } else { WIDTH };
        let _ = write!(chart, "{name:<width$}");
    }
    chart.push('\n');
    for mark in marks {
        let mut row = blank(lanes.len());
        match mark {
            Mark::At { lane, text } => {
                let text: Vec<char> = text.chars().collect();
                put(&mut row, column(*lane) + 3, &text);
            }
            Mark::Arrow { from, to, text } => arrow(&mut row, *from, *to, text),
        }
        let row: String = row.into_iter().collect();
        let _ = writeln!(chart, "{}", row.trim_end());
    }
    chart
}

const fn column(lane: usize) -> usize {
    2 + lane * WIDTH
}

fn blank(lanes: usize) -> Vec<char> {
    let mut row = vec![' '; column(lanes)];
    for lane in 0..lanes {
        row[column(lane)] = '|';
    }
    row
}

fn arrow(row: &mut Vec<char>, from: usize, to: usize, text: &str) {
    let (left, right) = (column(from.min(to)), column(from.max(to)));
    if from != to {
        row[left + 1..right].fill('-');
        let (head, at) = if from < to { ('>', right - 1) } else { ('<', left + 1) };
        row[at] = head;
    }
    let text: Vec<char> = format!(" {text} ").chars().take(WIDTH - 9).collect();
    put(row, left + 6, &text);
}

fn put(row: &mut Vec<char>, at: usize, text: &[char]) {
    if row.len() < at + text.len() {
        row.resize(at + text.len(), ' ');
    }
    row[at..at + text.len()].copy_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_from_a_lane_to_itself_has_its_text_and_no_arrow() {
        assert_eq!(chart(&["a"], &[Mark::arrow(0, 0, "x".into())]), "a\n  |      x\n");
    }
}
