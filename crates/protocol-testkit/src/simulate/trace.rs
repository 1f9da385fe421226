//! The events of a run: for checks, as a chart, and as a recording.

use std::sync::Arc;

use protocol_core::{Dialect, Role, Timestamp};
use protocol_record::{Mark, chart};

use crate::label::label;

/// The events of a run, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    moments: Vec<(Timestamp, Happening)>,
    /// The handlers' sides of the connections.
    pub(super) hops: Arc<Vec<Hop>>,
}

/// A handler's side of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) role: Role,
    pub(super) dialect: Dialect,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happening {
    /// A handler's side read a message.
    Read {
        /// On which connection, in the order they were made.
        connection: usize,
        /// The message without its framing.
        message: Vec<u8>,
    },
    /// A handler's side wrote a message.
    Wrote {
        /// On which connection, in the order they were made.
        connection: usize,
        /// The message without its framing.
        message: Vec<u8>,
    },
    /// Somebody [noted](super::Simulation::note) it.
    Noted(String),
}

impl Trace {
    pub(super) fn add(&mut self, at: Timestamp, what: Happening) {
        self.moments.push((at, what));
    }

    /// Returns everything, with its virtual time.
    pub fn moments(&self) -> impl Iterator<Item = (Timestamp, &Happening)> {
        self.moments.iter().map(|(at, what)| (*at, what))
    }

    /// Returns a sequence chart. Each message is drawn where the handler's side reads or writes it.
    #[must_use]
    pub fn chart(&self) -> String {
        let names = self.peers();
        let peers = names.len();
        let lanes: Vec<&str> = names.iter().map(String::as_str).chain(["handler"]).collect();
        let (mut marks, mut time) = (Vec::new(), Timestamp::ZERO);
        for (at, what) in &self.moments {
            if *at > time {
                marks.push(Mark::at(peers, format!("({} ms)", at.as_millis())));
                time = *at;
            }
            marks.push(match what {
                Happening::Read { connection, message } => {
                    Mark::arrow(*connection, peers, self.label(*connection, message))
                }
                Happening::Wrote { connection, message } => {
                    Mark::arrow(peers, *connection, self.label(*connection, message))
                }
                Happening::Noted(note) => Mark::at(peers, note.clone()),
            });
        }
        chart(&lanes, &marks)
    }

    /// Returns the last message that a handler's side wrote, in few words.
    pub(super) fn last_written(&self) -> Option<String> {
        self.moments.iter().rev().find_map(|(_, what)| match what {
            Happening::Wrote { connection, message } => Some(self.label(*connection, message)),
            _ => None,
        })
    }

    fn label(&self, connection: usize, message: &[u8]) -> String {
        label(message, self.hops[connection].dialect.envelope)
    }

    /// Returns the names of the peers.
    pub(super) fn peers(&self) -> Vec<String> {
        match self.hops.len() {
            1 => vec!["peer".into()],
            peers => (1..=peers).map(|number| format!("peer {number}")).collect(),
        }
    }
}
