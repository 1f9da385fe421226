//! The peer's requests in flight, one row each, and the calls made on their behalf.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use slab::Slab;

use super::CancelRefusal;
use super::calls::CallId;
use super::table::RequestPhase;
use crate::cause::Cause;
use crate::id::WireId;
use crate::index::Index;
use crate::slot::{self, Slot};

/// Names one of the peer's requests, for ever: an answered request's handle never comes to mean
/// another.
///
/// Ordered by when the request was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestHandle {
    /// Counts accepted requests from 1. Also the generation that makes a reused slot safe.
    serial: u64,
    /// All that names it to whoever knows that its row is still there.
    pub(super) slot: Slot,
}

impl RequestHandle {
    /// Counts the connection's accepted requests from 1.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.serial
    }
}

/// One request in flight.
#[derive(Clone)]
pub(super) struct Request<R> {
    serial: u64,
    /// The id it came with, or the token of its operation, which is a secret. `None` once it is
    /// answered: that id is free again.
    pub(super) id: Option<WireId>,
    /// The host's data; its default once it is answered.
    pub(super) data: R,
    pub(super) phase: RequestPhase,
    /// Whether calls were ever made on its behalf.
    is_parent: bool,
    /// Why the peer can't cancel it, if it can't.
    pub(super) refusal: Option<CancelRefusal>,
    /// Why it was cancelled, if it was. Invariant: the first cancel sets it.
    pub(super) cause: Option<Cause>,
}

#[derive(Clone, Debug)]
pub(super) struct Requests<R> {
    rows: Slab<Request<R>>,
    /// Invariant: holds the id of each row that is not answered yet, and nothing else.
    by_id: Index<WireId>,
    /// The calls in flight of each request.
    children: BTreeSet<(RequestHandle, CallId)>,
    /// The last serial that was given out.
    last: u64,
}

impl<R> Requests<R> {
    pub(super) const fn new() -> Self {
        Self { rows: Slab::new(), by_id: Index::new(), children: BTreeSet::new(), last: 0 }
    }

    /// How many are not answered yet.
    pub(super) fn unanswered(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn insert(
        &mut self,
        id: WireId,
        refusal: Option<CancelRefusal>,
        data: R,
    ) -> RequestHandle {
        self.last += 1;
        let serial = self.last;
        slot::make_room(&mut self.rows);
        let slot = self.rows.insert(Request {
            serial,
            id: Some(id),
            data,
            phase: RequestPhase::Running,
            is_parent: false,
            refusal,
            cause: None,
        });
        let slot = Slot::new(slot);
        self.find_by_its_id(slot);
        RequestHandle { serial, slot }
    }

    /// Puts a row's id into the index.
    fn find_by_its_id(&mut self, slot: Slot) {
        let (ids, slot) = (ids(&self.rows), slot.get() as u32);
        self.by_id.insert(ids(slot), slot, &ids);
    }

    pub(super) fn in_slot(&self, slot: Slot) -> Option<RequestHandle> {
        let serial = self.rows.get(slot.get())?.serial;
        Some(RequestHandle { serial, slot })
    }

    pub(super) fn get(&self, request: RequestHandle) -> Option<&Request<R>> {
        self.rows.get(request.slot.get()).filter(|row| row.serial == request.serial)
    }

    pub(super) fn get_mut(&mut self, request: RequestHandle) -> Option<&mut Request<R>> {
        self.rows.get_mut(request.slot.get()).filter(|row| row.serial == request.serial)
    }

    /// The unanswered request with this id.
    pub(super) fn by_id(&self, id: &WireId) -> Option<RequestHandle> {
        self.in_slot(Slot::new(self.by_id.find(id, ids(&self.rows))? as usize))
    }

    /// The request goes on under another id.
    pub(super) fn rename(&mut self, request: RequestHandle, id: WireId) {
        if let Some(row) = self.get_mut(request) {
            let before = row.id.replace(id);
            self.forget_id(request, before.as_ref());
            self.find_by_its_id(request.slot);
        }
    }

    /// This id, which its row holds no more, is free again.
    pub(super) fn forget_id(&mut self, request: RequestHandle, id: Option<&WireId>) {
        if let Some(id) = id {
            self.by_id.remove(id, request.slot.get() as u32, ids(&self.rows));
        }
    }

    /// Removes an answered request without calls in flight; says whether it is gone and had any.
    pub(super) fn remove_if_settled(&mut self, request: RequestHandle) -> bool {
        let Some(row) = self.get(request) else { return false };
        let is_parent = row.is_parent;
        let has_calls = is_parent && self.child_after(request, CallId::MIN).is_some();
        if row.phase != RequestPhase::Responded || has_calls {
            return false;
        }
        self.rows.remove(request.slot.get());
        if slot::give_back(&mut self.rows) {
            self.by_id = Index::new();
        }
        is_parent
    }

    pub(super) fn add_child(&mut self, request: RequestHandle, call: CallId) {
        if let Some(row) = self.get_mut(request) {
            row.is_parent = true;
            self.children.insert((request, call));
        }
    }

    pub(super) fn remove_child(&mut self, request: RequestHandle, call: CallId) {
        self.children.remove(&(request, call));
    }

    /// The first call in flight of `request` that was made after `call`.
    pub(super) fn child_after(&self, request: RequestHandle, call: CallId) -> Option<CallId> {
        use core::ops::Bound::{Excluded, Unbounded};
        let (parent, child) =
            *self.children.range((Excluded((request, call)), Unbounded)).next()?;
        (parent == request).then_some(child)
    }

    /// Every unanswered request, in the order they were accepted.
    pub(super) fn unanswered_in_order(&self) -> Vec<RequestHandle> {
        let unanswered = self.rows.iter().filter(|(_, row)| row.phase.awaits_response());
        let handles = unanswered.filter_map(|(slot, _)| self.in_slot(Slot::new(slot)));
        let mut handles: Vec<RequestHandle> = handles.collect();
        handles.sort_unstable();
        handles
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert!(self.by_id.len() <= self.rows.len(), "one row an unanswered id");
    }
}

/// The id of the request in a slot.
fn ids<'t, R>(rows: &'t Slab<Request<R>>) -> impl Fn(u32) -> &'t WireId {
    |slot| rows[slot as usize].id.as_ref().expect("the index holds unanswered requests")
}

/// The host's data tells no two states apart.
impl<R> Hash for Requests<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (slot, row) in &self.rows {
            let Request { serial, id, data: _, phase, is_parent, refusal, cause } = row;
            (slot, serial, id, phase, is_parent, refusal, cause).hash(state);
        }
        (&self.children, self.last).hash(state);
    }
}

/// An operation's token is a secret: logs show none of it.
impl<R: fmt::Debug> fmt::Debug for Request<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = f.debug_struct("Request");
        row.field("serial", &self.serial);
        if !self.phase.is_operation() {
            row.field("id", &self.id);
        }
        row.field("data", &self.data).field("phase", &self.phase).field("cause", &self.cause);
        row.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_a_row_is_small() {
        assert_eq!(size_of::<Request<usize>>(), 40);
    }
}
