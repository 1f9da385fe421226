//! One request of a recording, and what became of it.

use std::rc::Rc;

use clap::ValueEnum;
use protocol_core::WireId;
use protocol_record::line::Direction;
use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::trace::Trace;

/// A request, from its first byte to its end.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The number of requests in the recording that began before it.
    pub(crate) number: u64,
    /// The number of the request that it was made for, if that is known.
    pub(crate) parent: Option<u64>,
    /// The number of the first of those that it and its parents were made for.
    pub(crate) root: u64,
    /// The trace that it belongs to, if its messages were recorded and say so.
    pub(crate) trace: Option<Trace>,
    /// When it was sent or received, in microseconds.
    pub(crate) start: u64,
    pub(crate) hop: Connection,
    pub(crate) dir: Direction,
    pub(crate) id: WireId,
    pub(crate) method: String,
    pub(crate) outcome: Outcome,
    /// When it was answered or settled.
    pub(crate) end: Option<u64>,
    pub(crate) code: Option<i64>,
    pub(crate) cause: Option<String>,
    /// When it was first cancelled.
    pub(crate) cancelled: Option<u64>,
    /// When an answer came after it was settled without one.
    pub(crate) late: Option<u64>,
    /// Answers after the first.
    pub(crate) duplicates: u64,
    /// The reason that it was not passed on, or that its answer was not.
    pub(crate) refused: Option<String>,
    /// The work that it is.
    pub(crate) work: Option<WorkName>,
}

/// A connection of a recording. Others may have the same name, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    /// The number of connections that were opened before it.
    pub(crate) number: u64,
    pub(crate) name: Rc<str>,
}

/// The name of work on one connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkName {
    pub(crate) hop: Connection,
    pub(crate) kind: String,
    /// The hash of its name.
    pub(crate) name: String,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The response was a result.
    Result,
    /// An error that is no cancel.
    Error,
    /// It was cancelled.
    Cancelled,
    /// One of its timers ran out.
    TimedOut,
    /// It was answered with what is no answer.
    Malformed,
    /// The connection ended first.
    ConnectionLost,
    /// It has the id of one in flight.
    DuplicateId,
    /// The recording ends before it does.
    Unanswered,
}

impl Outcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Malformed => "malformed",
            Self::ConnectionLost => "connection_lost",
            Self::DuplicateId => "duplicate_id",
            Self::Unanswered => "unanswered",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|outcome| outcome.as_str() == name)
    }
}

impl Row {
    /// Returns a request or work that has begun, and that nothing else is known of.
    pub(crate) fn begun(number: u64, t: u64, hop: Connection, dir: Direction, id: WireId) -> Self {
        Self {
            number,
            parent: None,
            root: number,
            trace: None,
            start: t,
            hop,
            dir,
            id,
            method: String::new(),
            outcome: Outcome::Unanswered,
            end: None,
            code: None,
            cause: None,
            cancelled: None,
            late: None,
            duplicates: 0,
            refused: None,
            work: None,
        }
    }

    /// Returns whether it is a request. Work that has none of its own has its kind as the method.
    pub(crate) fn is_request(&self) -> bool {
        self.work.as_ref().is_none_or(|work| work.kind != self.method)
    }

    /// Microseconds from its start to its end.
    pub(crate) fn duration(&self) -> Option<u64> {
        Some(self.end?.saturating_sub(self.start))
    }

    /// When nobody waited for it any more: at its end, or where a cancel is answered by silence, at the cancel.
    pub(crate) fn over(&self) -> Option<u64> {
        let is_cancelled = self.outcome == Outcome::Cancelled;
        self.end.or(self.cancelled.filter(|_| is_cancelled))
    }

    /// Microseconds from its first cancel to its end.
    pub(crate) fn settling(&self) -> Option<u64> {
        self.end?.checked_sub(self.cancelled?)
    }
}

/// A row as `--json` writes it.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let id: &RawValue = serde_json::from_str(self.id.as_json()).map_err(S::Error::custom)?;
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("number", &self.number)?;
        optional(&mut members, "parent", self.parent)?;
        members.serialize_entry("start", &self.start)?;
        members.serialize_entry("hop", &*self.hop.name)?;
        members.serialize_entry("dir", &self.dir)?;
        members.serialize_entry("id", id)?;
        members.serialize_entry("method", &self.method)?;
        members.serialize_entry("outcome", &self.outcome)?;
        optional(&mut members, "duration", self.duration())?;
        optional(&mut members, "code", self.code)?;
        optional(&mut members, "cause", self.cause.as_ref())?;
        optional(&mut members, "cancelled", self.cancelled)?;
        optional(&mut members, "cancel_to_settle", self.settling())?;
        optional(&mut members, "late", self.late)?;
        optional(&mut members, "duplicates", Some(self.duplicates).filter(|count| *count > 0))?;
        optional(&mut members, "refused", self.refused.as_ref())?;
        optional(&mut members, "work", self.work.as_ref().map(|work| &work.kind))?;
        members.end()
    }
}

fn optional<M: SerializeMap>(
    members: &mut M,
    name: &str,
    value: Option<impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| members.serialize_entry(name, &value))
}

/// Milliseconds, as people read them.
pub(crate) fn milliseconds(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

/// Returns the direction of the responses to messages of this one.
pub(super) const fn other(dir: Direction) -> Direction {
    match dir {
        Direction::Sent => Direction::Received,
        Direction::Received => Direction::Sent,
    }
}
