//! The peer's requests in flight: one row each, and the calls made on their behalf.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem;
use core::ops::Bound;

use slab::Slab;

use super::recent::RecentIds;
use super::table::RequestPhase;
use super::tokens::Tokens;
use crate::cause::Cause;
use crate::dialect::facts::Facts;
use crate::dialect::signs::WorkPart;
use crate::envelope::message::Origin;
use crate::error::CancelRefusal;
use crate::handle::{self, CallId, RequestHandle};
use crate::id::WireId;
use crate::index::Index;
use crate::slot::{self, Slot};

/// One request in flight.
#[derive(Clone)]
pub(crate) struct Request<R> {
    serial: u64,
    /// The id it came with, or the token of its operation, which is a secret. `None` once it has its
    /// response: the id is free again.
    pub(super) id: Option<WireId>,
    /// The host's data; its default once the request has its response.
    pub(super) data: R,
    /// The slot of the extras, which most requests have none of.
    extras: Option<Slot>,
    pub(super) phase: RequestPhase,
    /// The cause of its cancellation. Invariant: the first cancellation sets it.
    pub(super) cause: Option<Cause>,
    /// The reason why the peer can't cancel it, if it can't.
    pub(super) refusal: Option<CancelRefusal>,
    /// Whether calls were made on its behalf.
    is_parent: bool,
}

/// Data that few of the peer's requests have.
#[derive(Clone, Debug, Default)]
pub struct RequestExtras {
    pub(crate) facts: Facts,
    /// The address of its response, in an envelope that needs more than the id.
    pub(crate) origin: Option<Box<Origin>>,
    /// The slot of the batch that waits for its response.
    pub(crate) batch: Option<Slot>,
}

impl From<Facts> for RequestExtras {
    fn from(facts: Facts) -> Self {
        Self { facts, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Requests<R> {
    rows: Slab<Request<R>>,
    /// Invariant: it holds the id of each row that awaits its response and is no operation.
    by_id: Index<WireId>,
    /// Invariant: it holds the token of each row that is an operation.
    by_token: Index<WireId>,
    extras: Slab<RequestExtras>,
    /// The calls in flight of each request.
    pub(super) children: BTreeSet<(RequestHandle, CallId)>,
    /// The cancels that named no request in flight, where messages may overtake each other. Each came before its
    /// request or after the response to it; nobody can tell, so it cancels the next request with its id.
    pub(super) early_cancels: RecentIds<WireId, ()>,
    /// The phase before the response of recent requests, where a cancel of one is acknowledged.
    pub(super) finished: RecentIds<WireId, RequestPhase>,
    /// The progress tokens of requests whose progress is withheld once they are silenced.
    pub(super) tokens: Tokens,
    /// The tokens of requests that ended in silence.
    pub(super) silenced_tokens: RecentIds<WireId, ()>,
    /// The serial of the latest request.
    last: u64,
}

impl<R: Default> Requests<R> {
    pub(super) fn new(connection: u32) -> Self {
        Self {
            rows: Slab::new(),
            by_id: Index::new(),
            by_token: Index::new(),
            extras: Slab::new(),
            children: BTreeSet::new(),
            early_cancels: RecentIds::new(),
            finished: RecentIds::new(),
            tokens: Tokens::default(),
            silenced_tokens: RecentIds::new(),
            last: handle::first_serial(connection),
        }
    }

    /// Returns how many requests await their response.
    pub(super) fn awaiting(&self) -> usize {
        self.by_id.len() + self.by_token.len()
    }

    /// Inserts the row of a request, and takes its extras unless there are none.
    #[inline]
    pub(super) fn insert(&mut self, id: WireId, extras: &mut RequestExtras) -> RequestHandle {
        self.last += 1;
        let (serial, refusal) = (self.last, extras.facts.refusal);
        let is_plain = extras.facts.is_plain() && extras.origin.is_none() && extras.batch.is_none();
        let extras = (!is_plain).then(|| self.insert_extras(mem::take(extras)));
        slot::make_room(&mut self.rows);
        let (phase, data) = (RequestPhase::Running, R::default());
        let (id, cause, is_parent) = (Some(id), None, false);
        let row = Request { serial, id, data, extras, phase, cause, refusal, is_parent };
        let slot = self.rows.insert(row) as u32;
        let ids = ids(&self.rows);
        self.by_id.insert(ids(slot), slot, &ids);
        RequestHandle { serial, slot: Slot::new(slot as usize) }
    }

    fn insert_extras(&mut self, extras: RequestExtras) -> Slot {
        for token in &extras.facts.progress_tokens {
            self.silenced_tokens.take(token);
            self.tokens.claim(token);
        }
        slot::make_room(&mut self.extras);
        Slot::new(self.extras.insert(extras))
    }

    // Look-ups

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

    /// Returns the request that awaits its response under this id.
    pub(super) fn by_id(&self, id: &WireId) -> Option<RequestHandle> {
        self.in_slot(Slot::new(self.by_id.find(id, ids(&self.rows))? as usize))
    }

    /// Returns the request whose operation has this token.
    pub(super) fn by_token(&self, token: &WireId) -> Option<RequestHandle> {
        self.in_slot(Slot::new(self.by_token.find(token, ids(&self.rows))? as usize))
    }

    pub(super) fn extras(&self, row: &Request<R>) -> Option<&RequestExtras> {
        row.extras.map(|slot| &self.extras[slot.get()])
    }

    pub(super) fn extras_mut(&mut self, request: RequestHandle) -> Option<&mut RequestExtras> {
        let slot = self.get(request)?.extras?;
        Some(&mut self.extras[slot.get()])
    }

    /// Returns every request that awaits its response, in the order they were accepted.
    pub(super) fn in_order(&self) -> Vec<RequestHandle> {
        let awaiting = self.rows.iter().filter(|(_, row)| row.phase.awaits_response());
        let handles = awaiting.filter_map(|(slot, _)| self.in_slot(Slot::new(slot)));
        let mut handles: Vec<RequestHandle> = handles.collect();
        handles.sort_unstable();
        handles
    }

    // Steps

    /// Enters a phase; from the first silent one on, progress of the request is withheld.
    pub(super) fn enter(&mut self, slot: Slot, next: RequestPhase) {
        let row = &mut self.rows[slot.get()];
        let was_silent = withholds(mem::replace(&mut row.phase, next));
        if let Some(slot) = row.extras.filter(|_| withholds(next) && !was_silent) {
            let tokens = &self.extras[slot.get()].facts.progress_tokens;
            tokens.iter().for_each(|token| self.tokens.silence(token));
        }
    }

    /// Continues a request as the operation with this token. Its id is free again.
    pub(super) fn begin_operation(&mut self, slot: Slot, next: RequestPhase, token: WireId) {
        self.enter(slot, next);
        let slot = slot.get() as u32;
        if let Some(id) = self.rows[slot as usize].id.replace(token) {
            self.by_id.remove(&id, slot, ids(&self.rows));
            let ids = ids(&self.rows);
            self.by_token.insert(ids(slot), slot, &ids);
        }
    }

    /// Ends a request that awaits its response. Returns the phase it was in, its id or token, and its data.
    #[inline]
    pub(super) fn end(
        &mut self,
        slot: Slot,
        next: RequestPhase,
    ) -> (RequestPhase, Option<WireId>, R) {
        let row = &mut self.rows[slot.get()];
        let before = mem::replace(&mut row.phase, next);
        let (data, id) = (mem::take(&mut row.data), row.id.take());
        let index = if before.is_operation() { &mut self.by_token } else { &mut self.by_id };
        if let Some(id) = &id {
            index.remove(id, slot.get() as u32, ids(&self.rows));
        }
        (before, id, data)
    }

    /// Removes the extras of a request that ended in this phase. Progress of one that ended in silence stays
    /// withheld: `limit` is then how many tokens are remembered. Returns the part that it had in some work.
    pub(super) fn end_extras(
        &mut self,
        slot: Slot,
        before: RequestPhase,
        limit: Option<usize>,
    ) -> Option<Box<WorkPart>> {
        let slot = self.rows[slot.get()].extras.take()?;
        let extras = self.extras.remove(slot.get());
        slot::give_back(&mut self.extras);
        for token in extras.facts.progress_tokens {
            self.tokens.release(&token, withholds(before));
            if let Some(limit) = limit {
                self.silenced_tokens.insert(token, (), limit);
            }
        }
        extras.facts.work
    }

    /// Removes the row of a request that has its response and no calls in flight. Returns whether the
    /// row is gone and the request had calls.
    pub(super) fn remove_if_settled(&mut self, request: RequestHandle) -> bool {
        let Some(row) = self.get(request) else { return false };
        let was_parent = row.is_parent;
        let has_calls = was_parent && self.child_after(request, CallId::MIN).is_some();
        if row.phase != RequestPhase::Responded || has_calls {
            return false;
        }
        self.rows.remove(request.slot.get());
        if slot::give_back(&mut self.rows) {
            (self.by_id, self.by_token) = (Index::new(), Index::new());
        }
        was_parent
    }

    // Children

    pub(super) fn add_child(&mut self, request: RequestHandle, call: CallId) {
        if let Some(row) = self.get_mut(request) {
            row.is_parent = true;
            self.children.insert((request, call));
        }
    }

    /// Returns the first call in flight of `request` that was made after `call`.
    #[inline]
    pub(super) fn child_after(&self, request: RequestHandle, call: CallId) -> Option<CallId> {
        let after = (Bound::Excluded((request, call)), Bound::Unbounded);
        // Few connections have nested calls.
        let next = if self.children.is_empty() { None } else { self.children.range(after).next() };
        next.filter(|next| next.0 == request).map(|next| next.1)
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert!(self.awaiting() <= self.rows.len(), "one row an id or token");
        debug_assert!(self.extras.len() <= self.awaiting(), "extras go with the response");
    }
}

/// Returns whether progress of a request is withheld in this phase.
const fn withholds(phase: RequestPhase) -> bool {
    matches!(phase, RequestPhase::Silenced | RequestPhase::OperationCancelled)
}

/// Returns how to find the id or the token of the request in a slot.
fn ids<'t, R>(rows: &'t Slab<Request<R>>) -> impl Fn(u32) -> &'t WireId {
    |slot| rows[slot as usize].id.as_ref().expect("an index holds rows that await a response")
}

/// The host's data tells no two states apart.
impl<R> Hash for Requests<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (slot, row) in &self.rows {
            let Request { serial, id, phase, cause, refusal, is_parent, .. } = row;
            let facts = row.extras.map(|slot| &self.extras[slot.get()].facts);
            (slot, serial, id, phase, is_parent, refusal, cause, facts).hash(state);
        }
        (&self.children, &self.early_cancels, &self.finished, self.last).hash(state);
        (&self.tokens, &self.silenced_tokens).hash(state);
    }
}

/// Omits the token of an operation, which is a secret.
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
        assert_eq!(size_of::<Request<()>>(), 32);
        assert_eq!(size_of::<Request<usize>>(), 40);
    }

    #[test]
    fn g08_a_plain_request_has_no_row_for_extras() {
        let id = || WireId::from_json("1").expect("an id");
        let mut requests = Requests::<()>::new(0);
        requests.insert(id(), &mut RequestExtras::default());
        assert!(requests.extras.is_empty());
        let facts = Facts { starts_operation: true, ..Facts::default() };
        requests.insert(id(), &mut RequestExtras::from(facts));
        assert_eq!(requests.extras.len(), 1);
    }
}
