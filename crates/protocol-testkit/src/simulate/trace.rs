//! What happened in a run: for checks, as a chart, and as a recording.

use std::fmt::Write as _;

use protocol_core::Timestamp;
use serde_json::json;

use crate::chart::{Mark, chart, label};

/// What happened in a run, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    moments: Vec<(Timestamp, Happening)>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happening {
    /// A handler's side read a message.
    Read {
        /// On which connection, in the order they were made.
        connection: usize,
        /// Without framing.
        message: Vec<u8>,
    },
    /// A handler's side wrote a message.
    Wrote {
        /// On which connection, in the order they were made.
        connection: usize,
        /// Without framing.
        message: Vec<u8>,
    },
    /// Somebody [noted](super::Simulation::note) it.
    Noted(String),
}

/// The happening in a few words: `reads request 1 work`, `writes answer 1 result`, or the note.
impl std::fmt::Display for Happening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { message, .. } => write!(f, "reads {}", label(message)),
            Self::Wrote { message, .. } => write!(f, "writes {}", label(message)),
            Self::Noted(note) => f.write_str(note),
        }
    }
}

impl Trace {
    pub(super) fn add(&mut self, at: Timestamp, what: Happening) {
        self.moments.push((at, what));
    }

    /// Everything, with its virtual time.
    pub fn moments(&self) -> impl Iterator<Item = (Timestamp, &Happening)> {
        self.moments.iter().map(|(at, what)| (*at, what))
    }

    /// Everything in a few words each, as [`Happening`] is displayed: `reads request 1 work`,
    /// `reads cancelRequest 1`, `writes answer 1 error -32800`, and notes as they are.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.moments.iter().map(|(_, what)| what.to_string()).collect()
    }

    /// A sequence chart. Each message is drawn where the handler's side reads or writes it.
    #[must_use]
    pub fn chart(&self) -> String {
        let connections = self.moments.iter().filter_map(|(_, what)| match what {
            Happening::Read { connection, .. } | Happening::Wrote { connection, .. } => {
                Some(*connection)
            }
            Happening::Noted(_) => None,
        });
        let peers = connections.max().map_or(0, |last| last + 1);
        let names: Vec<String> = match peers {
            1 => vec!["peer".into()],
            _ => (1..=peers).map(|number| format!("peer {number}")).collect(),
        };
        let lanes: Vec<&str> = names.iter().map(String::as_str).chain(["handler"]).collect();
        let (mut marks, mut time) = (Vec::new(), Timestamp::ZERO);
        for (at, what) in &self.moments {
            if *at > time {
                marks.push(Mark::at(peers, format!("({} ms)", at.as_millis())));
                time = *at;
            }
            marks.push(match what {
                Happening::Read { connection, message } => {
                    Mark::arrow(*connection, peers, label(message))
                }
                Happening::Wrote { connection, message } => {
                    Mark::arrow(peers, *connection, label(message))
                }
                Happening::Noted(note) => Mark::at(peers, note.clone()),
            });
        }
        chart(&lanes, &marks)
    }

    /// A recording in JSON Lines: an object each, with the virtual time in microseconds, and either a
    /// message with its connection and way, or a note.
    #[must_use]
    pub fn recording(&self) -> String {
        let mut lines = String::new();
        for (at, what) in &self.moments {
            let micros = at.as_millis() * 1_000;
            let line = match what {
                Happening::Read { connection, message } => json!({
                    "micros": micros, "connection": connection, "way": "received",
                    "message": String::from_utf8_lossy(message),
                }),
                Happening::Wrote { connection, message } => json!({
                    "micros": micros, "connection": connection, "way": "sent",
                    "message": String::from_utf8_lossy(message),
                }),
                Happening::Noted(note) => json!({ "micros": micros, "note": note }),
            };
            let _ = writeln!(lines, "{line}");
        }
        lines
    }
}
