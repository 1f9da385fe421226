//! A run as a recording that `rescind view` opens.

use std::time::Duration;

use protocol_core::{Role, Timestamp};
use protocol_record::line::{self, Direction, End, Header, Line, Message, Payloads, Verdict};

use super::trace::{Happening, Hop, Trace};

/// The time of day when a run begins, which is the same for all.
pub(super) const START: Duration = Duration::from_secs(1_000_000_000);
const START_IN_WORDS: &str = "2001-09-09T01:46:40Z";

impl Trace {
    /// Returns a recording of it with its virtual time, which `rescind view` opens. The format is that of
    /// `protocol_record`. Messages are whole. Notes are verdicts, `noted`.
    #[must_use]
    pub fn recording(&self) -> String {
        self.recorded(None)
    }

    pub(super) fn recorded(&self, fault: Option<String>) -> String {
        let names = self.peers();
        let opened = self.hops.iter().zip(&names).map(|(hop, name)| hop.line(name));
        let header = Header {
            version: line::VERSION,
            by: concat!("protocol-testkit ", env!("CARGO_PKG_VERSION")).into(),
            program: None,
            start: START_IN_WORDS.into(),
            part: 1,
            payloads: Payloads::Kept,
            setup: None,
            hops: opened.collect(),
        };
        let said = |verdict: &'static str, why: &str, t| {
            let hop = names.first().map_or("", String::as_str);
            let (hop, verdict, why) = (hop.into(), verdict.into(), Some(why.to_owned().into()));
            Line::Verdict(Verdict { t, hop, verdict, id: None, outcome: None, cause: None, why })
        };
        let message = |connection: usize, dir, t, message| {
            let at = (t, &*names[connection], dir);
            Line::Message(Message::new(at, &self.hops[connection].dialect, Payloads::Kept, message))
        };
        let (mut last, mut lines) = (0, vec![Line::Recording(header)]);
        for (at, what) in self.moments() {
            last = micros(at);
            lines.push(match what {
                Happening::Read { connection, message: read } => {
                    message(*connection, Direction::Received, last, read)
                }
                Happening::Wrote { connection, message: written } => {
                    message(*connection, Direction::Sent, last, written)
                }
                Happening::Noted(note) => said("noted", note, last),
            });
        }
        lines.extend(fault.map(|fault| said("failed", &fault, last)));
        let held = lines.len() as u64 - 1;
        lines.push(Line::End(End { t: last, lines: held, dropped: 0 }));
        let text = |line| serde_json::to_string(&line).expect("a line is JSON") + "\n";
        lines.into_iter().map(text).collect()
    }
}

impl Hop {
    fn line<'a>(&'a self, name: &'a str) -> line::Hop<'a> {
        let role = match self.role {
            Role::Client => line::Role::Client,
            Role::Server => line::Role::Server,
        };
        line::Hop { t: 0, hop: name.into(), role, dialect: (&*self.dialect.name).into() }
    }
}

fn micros(at: Timestamp) -> u64 {
    u64::try_from(at.since(Timestamp::ZERO).as_micros()).unwrap_or(u64::MAX)
}
