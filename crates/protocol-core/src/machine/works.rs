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

/// The phase of work. Work that has ended has none, because its row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum WorkPhase {
    /// It goes on.
    Running,
    /// It was stopped, and its end is awaited.
    Stopping,
}

/// An input to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkInput {
    /// A side stops it.
    Stop,
    /// Its stop was refused, or was never sent.
    Resume,
    /// A message of the running side ends it, or a timer, or the end of the connection.
    End,
}

impl WorkPhase {
    /// Looks up the phase after `input`, which is `None` once the row is gone.
    pub(super) const fn on(self, input: WorkInput) -> Option<Self> {
        match (self, input) {
            // The first stop counts.
            (Self::Running | Self::Stopping, WorkInput::Stop) => Some(Self::Stopping),
            // The next stop is sent again.
            (Self::Running | Self::Stopping, WorkInput::Resume) => Some(Self::Running),
            (Self::Running | Self::Stopping, WorkInput::End) => None,
        }
    }
}

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
pub(super) enum Part {
    Call(CallId),
    Request(RequestHandle),
}

/// One run of work.
#[derive(Clone, Debug, Hash)]
pub(super) struct Work {
    pub(super) name: WorkName,
    pub(super) phase: WorkPhase,
    /// The request or call that began it, until its response.
    pub(super) begun_by: Option<Part>,
    /// Invariant: the first stop sets it.
    pub(super) cause: Option<Cause>,
    /// The end of its grace.
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
    /// Invariant: it holds the name and the phase of each row.
    pub(super) by_name: BTreeSet<(WorkName, WorkPhase, WorkId)>,
    /// The requests and calls in flight that are a part of work with this name, but did not begin it. The value tells
    /// whether one of ours is cancelled with the work.
    pub(super) nested: BTreeMap<(WorkName, Part), bool>,
    /// Invariant: it holds each row that has `begun_by`.
    pub(super) begun: BTreeMap<Part, WorkId>,
    /// Invariant: it holds each row that has `due`.
    pub(super) due: BTreeSet<(Timestamp, WorkId)>,
    pub(super) last: u64,
}

impl Works {
    /// The bytes of a run in its trees, and of a request or call in its trees.
    pub(super) const ROWS: [usize; 2] = [
        size_of::<[WorkId; 3]>() + size_of::<[WorkName; 2]>() + size_of::<Work>(),
        size_of::<(WorkName, Part, bool)>() + size_of::<(Part, WorkId)>(),
    ];

    /// Returns whether a request or call in flight may have to do with work in progress.
    pub(super) fn may_have_parts(&self) -> bool {
        !self.rows.is_empty() || !self.nested.is_empty()
    }

    pub(super) fn new(connection: u32) -> Self {
        Self { last: first_serial(connection), ..Self::default() }
    }

    /// Returns the runs with this name that are in this phase.
    fn runs(&self, name: &WorkName, phase: WorkPhase) -> impl Iterator<Item = WorkId> {
        let (first, last) = (WorkId(0), WorkId(u64::MAX));
        let range = (name.clone(), phase, first)..=(name.clone(), phase, last);
        self.by_name.range(range).map(|(.., work)| *work)
    }

    pub(super) fn named(&self, name: &WorkName, phase: WorkPhase) -> Vec<WorkId> {
        self.runs(name, phase).collect()
    }

    /// Returns whether runs with this name were stopped, and no other has begun since.
    pub(super) fn are_stopping(&self, name: &WorkName) -> bool {
        let has = |phase| self.runs(name, phase).next().is_some();
        has(WorkPhase::Stopping) && !has(WorkPhase::Running)
    }

    pub(super) fn nested_in(&self, name: &WorkName) -> Vec<(Part, bool)> {
        let least = (name.clone(), Part::Call(CallId::MIN));
        let nested = self.nested.range(least..).take_while(|((it, _), _)| it == name);
        nested.map(|((_, part), is_cancelled)| (*part, *is_cancelled)).collect()
    }

    /// Moves a run into the phase that `input` leads to. Returns its row if that is another phase.
    pub(super) fn step(&mut self, work: WorkId, input: WorkInput) -> Option<&mut Work> {
        let row = self.rows.get_mut(&work)?;
        let next = row.phase.on(input);
        self.by_name.remove(&(row.name.clone(), row.phase, work));
        self.by_name.extend(next.map(|next| (row.name.clone(), next, work)));
        let before = row.phase;
        row.phase = next.unwrap_or(before);
        (next != Some(before)).then_some(row)
    }

    pub(super) fn set_due(&mut self, work: WorkId, due: Option<Timestamp>) {
        let Some(row) = self.rows.get_mut(&work) else { return };
        if let Some(before) = mem::replace(&mut row.due, due) {
            self.due.remove(&(before, work));
        }
        self.due.extend(due.map(|due| (due, work)));
    }
}

/// Hashes rows and parts; the other trees follow from them.
impl Hash for Works {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.rows, &self.nested, self.last).hash(state);
    }
}
