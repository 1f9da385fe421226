//! The table of the peer's requests in flight, and the calls made on their behalf.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::calls::CallId;
use super::consent::PeerCancels;
use super::slots::Slots;
use super::table::RequestPhase;
use crate::cause::Cause;
use crate::id::WireId;
use crate::index::Index;
use crate::slot::Slot;

/// Names one of the peer's requests, for ever: an answered request's handle never comes to mean
/// another.
///
/// Ordered by when the request was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestHandle {
    /// Counts accepted requests from 1. Also the generation that makes a reused slot safe.
    serial: u64,
    slot: u32,
}

impl RequestHandle {
    /// Counts the connection's accepted requests from 1.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.serial
    }

    pub(crate) const fn slot(self) -> usize {
        self.slot as usize
    }

    pub(super) fn in_its_slot(self) -> RequestSlot {
        RequestSlot(Slot::new(self.slot()))
    }
}

/// Names a request for whoever knows that its entry is still there. Smaller than a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestSlot(Slot);

/// Whether calls were ever made on behalf of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tree {
    Leaf,
    Parent,
}

/// What a request that is not settled still has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owes {
    Answer,
    /// It was answered with the token of its operation, which goes on.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    serial: u64,
    pub(super) id: WireId,
    pub(super) phase: RequestPhase,
    pub(super) tree: Tree,
    pub(super) cancels: PeerCancels,
    pub(super) owes: Owes,
    /// Why it was cancelled, if it was. Invariant: the first cancel sets it.
    pub(super) cause: Option<Cause>,
}

#[derive(Clone, Debug)]
pub(super) struct Requests {
    entries: Slots<Request>,
    /// Invariant: holds the id of each entry that is not yet answered, and nothing else.
    by_id: Index<WireId>,
    /// The calls in flight of each request.
    children: BTreeSet<(RequestHandle, CallId)>,
    /// The last serial that was given out.
    last: u64,
}

impl Requests {
    pub(super) const fn new() -> Self {
        Self { entries: Slots::new(), by_id: Index::new(), children: BTreeSet::new(), last: 0 }
    }

    /// How many wait for their answer.
    pub(super) fn unanswered(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn insert(&mut self, id: WireId) -> RequestHandle {
        self.last += 1;
        let serial = self.last;
        let slot = self.entries.insert(Request {
            serial,
            id,
            phase: RequestPhase::Running,
            tree: Tree::Leaf,
            cancels: PeerCancels::Obeyed,
            owes: Owes::Answer,
            cause: None,
        });
        let ids = ids(&self.entries);
        self.by_id.insert(ids(slot), slot, &ids);
        RequestHandle { serial, slot }
    }

    pub(super) fn in_slot(&self, RequestSlot(slot): RequestSlot) -> Option<RequestHandle> {
        let slot = slot.get() as u32;
        self.entries.get(slot).map(|entry| RequestHandle { serial: entry.serial, slot })
    }

    pub(super) fn get(&self, request: RequestHandle) -> Option<&Request> {
        self.entries.get(request.slot).filter(|entry| entry.serial == request.serial)
    }

    pub(super) fn get_mut(&mut self, request: RequestHandle) -> Option<&mut Request> {
        self.entries.get_mut(request.slot).filter(|entry| entry.serial == request.serial)
    }

    /// The unanswered request with this id.
    pub(super) fn by_id(&self, id: &WireId) -> Option<RequestHandle> {
        let slot = self.by_id.find(id, ids(&self.entries))?;
        let serial = self.entries.get(slot)?.serial;
        Some(RequestHandle { serial, slot })
    }

    /// The request is answered with the token of its operation, and known by that from now on.
    pub(super) fn begin_operation(&mut self, request: RequestHandle, token: WireId) {
        self.release_id(request);
        if let Some(entry) = self.get_mut(request) {
            entry.id = token;
            entry.owes = Owes::Nothing;
            let ids = ids(&self.entries);
            self.by_id.insert(ids(request.slot), request.slot, &ids);
        }
    }

    /// The request is answered: its id is free again.
    pub(super) fn release_id(&mut self, request: RequestHandle) {
        if let Some(entry) = self.entries.get(request.slot) {
            self.by_id.remove(&entry.id, request.slot, ids(&self.entries));
        }
    }

    /// Removes an answered request without calls in flight; says whether it ever had any.
    pub(super) fn remove_if_settled(&mut self, request: RequestHandle) -> Option<Tree> {
        let entry = self.get(request)?;
        let is_parent =
            entry.tree == Tree::Parent && self.child_after(request, CallId::MIN).is_some();
        if entry.phase != RequestPhase::Answered || is_parent {
            return None;
        }
        Some(self.entries.remove(request.slot).tree)
    }

    pub(super) fn add_child(&mut self, request: RequestHandle, call: CallId) {
        if let Some(entry) = self.get_mut(request) {
            entry.tree = Tree::Parent;
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
        let unanswered =
            self.entries.iter().filter(|(_, entry)| entry.phase != RequestPhase::Answered);
        let mut handles: Vec<RequestHandle> =
            unanswered.map(|(slot, entry)| RequestHandle { serial: entry.serial, slot }).collect();
        handles.sort_unstable();
        handles
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert!(self.by_id.len() <= self.entries.len(), "one entry an unanswered id");
    }
}

/// The id of the request in a slot.
fn ids<'t>(entries: &'t Slots<Request>) -> impl Fn(u32) -> &'t WireId {
    |slot| &entries.get(slot).expect("the index holds no other slots").id
}

impl PartialEq for Requests {
    fn eq(&self, other: &Self) -> bool {
        // The index follows from the entries.
        (&self.entries, &self.children, self.last) == (&other.entries, &other.children, other.last)
    }
}

impl Eq for Requests {}

impl Hash for Requests {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.entries, &self.children, self.last).hash(state);
    }
}
