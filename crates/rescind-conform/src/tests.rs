//! Values that tests build by hand: the record of a session, and a target that is never reached.

use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::check::{Clause, Level};
use crate::family::Family;
use crate::report::Verdict;
use crate::session::{Entry, Session, What};
use crate::target::{Link, Target};

pub(crate) fn push(session: &mut Session, what: What) {
    session.record.push(Entry { at: Duration::ZERO, what });
}

/// The other side says this.
pub(crate) fn hear(session: &mut Session, message: &str) {
    serde_json::from_str::<Value>(message).expect("an entry that is known, or JSON");
    let heard = session.wire.read(message.as_bytes());
    push(session, What::Got { message: message.into(), heard });
}

/// In none of these records is anything wrong.
#[track_caller]
pub(crate) fn holds(broken: impl Fn(&str) -> Option<String>, records: &[&str]) {
    for record in records {
        assert_eq!(broken(record), None, "{record:?}");
    }
}

/// In each of these records something is wrong, and that is said in these words.
#[track_caller]
pub(crate) fn breaks(broken: impl Fn(&str) -> Option<String>, records: &[(&str, &str)]) {
    for (record, why) in records {
        assert_eq!(broken(record).as_deref(), Some(*why), "{record:?}");
    }
}

/// A target that can't be started: whoever asks for it gets to play a check.
pub(crate) struct Absent;

const PLAYED: &str = "it would be played now";

impl Target for Absent {
    fn start(&self) -> io::Result<Link> {
        Err(io::Error::other(PLAYED))
    }
}

pub(crate) fn is_played(verdict: &Verdict) -> bool {
    verdict.why().is_some_and(|why| why.contains(PLAYED))
}

/// Asks for something in these two protocols, and in no other.
pub(crate) const IN_TWO_PROTOCOLS: &[Clause] = &[Clause {
    families: &[Family::Acp, Family::Mcp2026],
    level: Level::Must,
    text: "",
    source: "",
}];
