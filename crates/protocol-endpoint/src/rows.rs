//! The rows of calls and requests: everything that is kept beside the core for each.

use alloc::boxed::Box;
use core::mem;

use protocol_core::{CallId, Timestamp};
use slab::Slab;

use crate::effects::{Effect, Effects};
use crate::error::{CallError, CallOutcome};
use crate::names::NameKey;

/// A call that was made. Its maker takes the outcome once, hands it over, or forgets the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The id of the call, whose number stands on the wire.
    pub id: CallId,
    pub(crate) row: u32,
}

/// The rows of calls whose outcome is still to come, or still to be taken.
#[derive(Debug)]
pub(crate) struct Calls<W> {
    pub(crate) rows: Slab<Row<W>>,
    /// The bytes of outcomes that nobody has taken.
    bytes: usize,
    /// The most of them: [`Options::result_bytes`](crate::Options::result_bytes).
    most_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Row<W> {
    /// The wire number of the call, or 0 while it is being made.
    pub(crate) number: u32,
    pub(crate) interest: Interest<W>,
    pub(crate) method: NameKey,
    pub(crate) since: Timestamp,
}

/// The interest in an outcome.
#[derive(Debug)]
pub(crate) enum Interest<W> {
    /// Somebody will ask for it. The waiter, if there is one, is woken when it comes.
    Wake(Option<W>),
    /// This waiter gets it.
    HandOver(W),
    Nobody,
    Settled(CallOutcome),
}

impl<W> Calls<W> {
    /// The bytes of a row, with an error that says little.
    pub(crate) const ROW: usize = 3 * size_of::<Row<W>>() + size_of::<CallError>() + 128;
    /// Room for so many rows is kept when there are none.
    const KEPT: usize = 256;

    pub(crate) const fn new(most_bytes: usize) -> Self {
        Self { rows: Slab::new(), bytes: 0, most_bytes }
    }

    /// Returns the bytes of outcomes that nobody has taken.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the row of a call in flight.
    pub(crate) fn row(&self, row: u32) -> Option<&Row<W>> {
        self.rows.get(row as usize)
    }

    pub(crate) fn insert(&mut self, row: Row<W>) -> u32 {
        if self.rows.len() == self.rows.capacity() {
            // A table that doubles would be half empty.
            self.rows.reserve_exact(4 + self.rows.len() / 8);
        }
        u32::try_from(self.rows.insert(row)).expect("the core has fewer calls")
    }

    /// Settles a call: keeps its outcome, or hands it over. Returns the name of its method.
    pub(crate) fn settle<M>(
        &mut self,
        key: u32,
        outcome: CallOutcome,
        effects: &mut Effects<W, M>,
    ) -> NameKey {
        let row = &mut self.rows[key as usize];
        let method = row.method;
        match mem::replace(&mut row.interest, Interest::Nobody) {
            Interest::HandOver(waiter) => {
                self.remove(key);
                effects.push(Effect::HandOver(waiter, outcome));
                return method;
            }
            Interest::Nobody => {
                self.remove(key);
                return method;
            }
            Interest::Wake(waiter) => effects.wake(waiter),
            Interest::Settled(_) => {}
        }
        let outcome = self.keep(outcome);
        self.rows[key as usize].interest = Interest::Settled(outcome);
        method
    }

    /// Counts an outcome, or replaces it by [`CallError::Untaken`] if it does not fit. One that is alone
    /// always fits.
    fn keep(&mut self, outcome: CallOutcome) -> CallOutcome {
        let more = size(&outcome);
        // An outcome without bytes of the peer's fits, too: its row is there anyway.
        if more > 0 && self.bytes > 0 && self.bytes + more > self.most_bytes {
            return Err(Box::new(CallError::Untaken));
        }
        self.bytes += more;
        outcome
    }

    /// Takes the outcome of a call if it has settled.
    #[inline]
    pub(crate) fn take(&mut self, call: Call) -> Option<CallOutcome> {
        if !matches!(self.find(call)?.interest, Interest::Settled(_)) {
            return None;
        }
        let Interest::Settled(outcome) = self.remove(call.row).interest else { return None };
        self.bytes -= size(&outcome);
        Some(outcome)
    }

    /// Gives up the outcome of a call. The waiter that was to have it becomes an [`Effect::Drop`]. Returns whether the
    /// call is in flight.
    pub(crate) fn forget<M>(&mut self, call: Call, effects: &mut Effects<W, M>) -> bool {
        if self.take(call).is_some() {
            return false;
        }
        let Some(row) = self.find(call) else { return false };
        let interest = mem::replace(&mut row.interest, Interest::Nobody);
        if let Interest::Wake(Some(waiter)) | Interest::HandOver(waiter) = interest {
            effects.push(Effect::Drop(waiter));
        }
        true
    }

    /// A row is used again under another number, so a call that is over finds nothing.
    pub(crate) fn find(&mut self, call: Call) -> Option<&mut Row<W>> {
        self.rows.get_mut(call.row as usize).filter(|row| row.number == call.id.number())
    }

    #[inline]
    pub(crate) fn remove(&mut self, row: u32) -> Row<W> {
        let row = self.rows.remove(row as usize);
        if self.rows.is_empty() && self.rows.capacity() > Self::KEPT {
            self.rows = Slab::new();
        }
        row
    }
}

/// Returns the bytes of the peer's in an outcome.
fn size(outcome: &CallOutcome) -> usize {
    match outcome {
        Ok(result) => result.get().len(),
        Err(error) => error.bytes(),
    }
}

/// The data of a request in flight.
#[derive(Debug)]
pub struct RequestRow<M> {
    /// The mark that is set when the request is cancelled.
    pub(crate) mark: Option<M>,
    /// Invariant: there once the request has arrived.
    pub(crate) method: Option<NameKey>,
    pub(crate) since: Timestamp,
    pub(crate) work: Work,
}

impl<M> Default for RequestRow<M> {
    fn default() -> Self {
        let since = Timestamp::ZERO;
        Self { mark: None, method: None, since, work: Work::Idle }
    }
}

/// The state of a request between its arrival and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It waits in the inbox, or its response is on its way.
    Idle,
    /// Its operation is still to begin, so nobody takes it yet.
    AwaitsOperation,
    /// It was taken, and counts so many bytes among those at work.
    Taken(usize),
    /// Its response waits for room.
    Responded,
}
