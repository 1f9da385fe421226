//! The rows of work in progress, and the requests and calls that are a part of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::mem;
use core::num::NonZeroU32;

use crate::cause::Cause;
use crate::dialect::signs::WorkPart;
use crate::handle::{CallId, RequestHandle, WorkId, first_serial};
use crate::id::WireId;
use crate::time::Timestamp;

/// Runs that go on, in [`Works::by_name`].
pub(super) const RUNNING: bool = false;
/// Runs that were stopped, and whose end is awaited.
pub(super) const STOPPING: bool = true;

/// A name of work, which several runs may share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct WorkName {
    /// Whether our side runs the work.
    pub runs_here: bool,
    /// The index in [`Dialect::work`](crate::Dialect::work).
    pub rule: u8,
    /// The name on the wire.
    pub name: WireId,
}

impl WorkPart {
    /// Returns the name of the work that this is about.
    pub(super) fn named(&self, runs_here: bool) -> WorkName {
        WorkName { runs_here, rule: self.rule, name: self.name.clone() }
    }
}

/// A request or call that is a part of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Call(CallId),
    Request(RequestHandle),
}

/// One run of work.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Work {
    pub(super) name: WorkName,
    /// The request or call that began it, or the call whose result did.
    pub(super) begun_by: Option<Part>,
    /// The cause of its stop, once it was stopped. Invariant: the first stop sets it.
    pub(super) cause: Option<Cause>,
    /// The end of its grace, once it was stopped or the call that began it was given up.
    pub(super) due: Option<Timestamp>,
    /// The number of the request that stopped it, until that has its response.
    pub(super) stop: Option<NonZeroU32>,
    /// Whether the response to the request that began it has the mark of a stop.
    pub(super) is_confirmed: bool,
}

/// The work in progress of both sides.
#[derive(Clone, Debug, Default)]
pub(super) struct Works {
    pub(super) rows: BTreeMap<WorkId, Work>,
    /// Invariant: it holds the name of each row, and whether that was stopped.
    by_name: BTreeSet<(WorkName, bool, WorkId)>,
    /// The requests and calls in flight that are a part of work with this name, but did not begin it. The value tells
    /// whether one of ours is cancelled with the work.
    pub(super) nested: BTreeMap<(WorkName, Part), bool>,
    /// Invariant: it holds each row that a request in flight, a call or its result began.
    pub(super) begun: BTreeMap<Part, WorkId>,
    /// Invariant: it holds each row that has `due`.
    pub(super) due: BTreeSet<(Timestamp, WorkId)>,
    last: u64,
    /// The serial of the latest run whose begin was reported.
    pub(super) reported: u64,
}

impl Works {
    pub(super) fn new(connection: u32) -> Self {
        Self { last: first_serial(connection), ..Self::default() }
    }

    /// Returns the runs with this name that go on, or those that were stopped.
    pub(super) fn runs(&self, name: &WorkName, is_stopped: bool) -> impl Iterator<Item = WorkId> {
        let key = |work| (name.clone(), is_stopped, WorkId(work));
        self.by_name.range(key(0)..=key(u64::MAX)).map(|(.., work)| *work)
    }

    pub(super) fn named(&self, name: &WorkName, is_stopped: bool) -> Vec<WorkId> {
        self.runs(name, is_stopped).collect()
    }

    pub(super) fn nested_in(&self, name: &WorkName) -> Vec<(Part, bool)> {
        let least = (name.clone(), Part::Call(CallId::MIN));
        let nested = self.nested.range(least..).take_while(|((it, _), _)| it == name);
        nested.map(|((_, part), is_cancelled)| (*part, *is_cancelled)).collect()
    }

    /// Inserts the row of a run that begins now.
    pub(super) fn insert(&mut self, name: WorkName, begun_by: Option<Part>) -> WorkId {
        self.last += 1;
        let work = WorkId(self.last);
        self.by_name.insert((name.clone(), RUNNING, work));
        self.begun.extend(begun_by.map(|part| (part, work)));
        let (cause, due, stop, is_confirmed) = (None, None, None, false);
        self.rows.insert(work, Work { name, begun_by, cause, due, stop, is_confirmed });
        work
    }

    /// Records that a run was stopped for this cause, or goes on again if there is none. Returns its row,
    /// unless nothing changes: the first stop counts.
    pub(super) fn set_cause(&mut self, work: WorkId, cause: Option<Cause>) -> Option<&mut Work> {
        let is_stopped = cause.is_some();
        let row = self.rows.get_mut(&work).filter(|row| row.cause.is_some() != is_stopped)?;
        self.by_name.remove(&(row.name.clone(), !is_stopped, work));
        self.by_name.insert((row.name.clone(), is_stopped, work));
        row.cause = cause;
        Some(row)
    }

    /// Removes a row from all trees.
    pub(super) fn remove(&mut self, work: WorkId) -> Option<Work> {
        self.set_due(work, None);
        let row = self.rows.remove(&work)?;
        self.by_name.remove(&(row.name.clone(), row.cause.is_some(), work));
        row.begun_by.map(|part| self.begun.remove(&part));
        Some(row)
    }

    pub(super) fn set_due(&mut self, work: WorkId, due: Option<Timestamp>) {
        let Some(row) = self.rows.get_mut(&work) else { return };
        let due = due.map(|due| row.due.map_or(due, |before| before.min(due)));
        if let Some(before) = mem::replace(&mut row.due, due) {
            self.due.remove(&(before, work));
        }
        self.due.extend(due.map(|due| (due, work)));
    }
}

/// Hashes rows and parts. The other trees follow from them and from the requests and calls in flight.
impl Hash for Works {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.rows, &self.nested, self.last).hash(state);
    }
}
