//! Our calls in flight: one row each, their wire numbers and their four real timers (B21).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use slab::Slab;

use super::action::{Completion, ResultEffect};
use super::recent::RecentIds;
use super::table::CallPhase;
use super::tokens::Tokens;
use crate::cause::{Cause, Settlement};
use crate::dialect::Grace;
use crate::dialect::facts::Facts;
use crate::dialect::signs::WorkPart;
use crate::error::CancelRefusal;
use crate::handle::{self, CallId};
use crate::index::Index;
use crate::slot::{self, Slot};
use crate::time::Timestamp;

/// One call in flight.
#[derive(Clone, Debug)]
pub(crate) struct Call<C> {
    pub(super) id: CallId,
    /// The host's data.
    pub(super) data: C,
    /// The slot of the request that it was made for. Invariant: that row exists and lists this call.
    pub(super) parent: Option<Slot>,
    pub(super) phase: CallPhase,
    /// The outcome of a local settlement. Invariant: the first cancellation, timer or end by the peer sets
    /// it, and only the loss of the connection changes it (B22).
    pub(super) ending: Option<(Settlement, Cause)>,
    /// The reason why it can't be cancelled on the wire, if it can't.
    pub(super) refusal: Option<CancelRefusal>,
    /// Data that few calls have, in a box because most have none.
    pub(super) extras: Option<Box<CallExtras>>,
}

/// Data that few calls have: timers, and facts beyond the refusal.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct CallExtras {
    pub(super) deadline: Option<Timestamp>,
    pub(super) idle: Option<Idle>,
    pub(super) hard_cap: Option<Timestamp>,
    /// The grace of this call, in place of the dialect's.
    pub(super) grace: Option<Grace>,
    /// The end of its grace, once that has begun.
    pub(super) release: Option<Timestamp>,
    /// The number of its cancel, where that is a request, until the peer responds to it.
    pub(super) cancel_number: Option<u32>,
    pub(super) facts: Facts,
}

/// An idle timeout.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Idle {
    pub(super) after: Duration,
    /// The latest progress that its timer knows of; its tokens may know of later progress.
    pub(super) since: Timestamp,
}

impl CallExtras {
    /// Returns the first of its timers to fire.
    fn next_timer(&self) -> Option<(Timestamp, TimerReason)> {
        [
            (self.deadline, TimerReason::Deadline),
            (self.idle.map(|idle| idle.since + idle.after), TimerReason::IdleTimeout),
            (self.hard_cap, TimerReason::HardCap),
            (self.release, TimerReason::Grace),
        ]
        .into_iter()
        .filter_map(|(due, reason)| Some((due?, reason)))
        .min()
    }
}

/// The reason that [`poll_timeout`](crate::Connection::poll_timeout) wants to be called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TimerReason {
    /// A call's deadline.
    Deadline,
    /// A call's idle timeout.
    IdleTimeout,
    /// A call's hard cap.
    HardCap,
    /// The end of a call's grace after it was cancelled, dropped or detached.
    Grace,
}

impl TimerReason {
    /// Returns the cause of a call that this timer settles, unless an earlier cancellation recorded one.
    /// Only a detached call has none at the end of its grace, so the cause of that is `dropped`.
    pub(super) const fn cause(self) -> Cause {
        match self {
            Self::Deadline => Cause::Deadline,
            Self::IdleTimeout => Cause::IdleTimeout,
            Self::HardCap => Cause::HardCap,
            Self::Grace => Cause::Dropped,
        }
    }
}

/// The index of a call's row. Valid until that row is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowKey(usize);

/// The owner of a number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberOwner {
    /// A call, by its request.
    Call(RowKey),
    /// A call, by its cancel.
    CancelOf(RowKey),
}

/// The fate of a message of ours whose row is gone or never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    /// It was withdrawn, so the peer never saw its number.
    Withdrawn,
    /// Its call was settled here, and the peer may still respond.
    NoResponse,
    /// Its call was settled here, and its cancel follows if the response brings a token.
    AwaitingToken,
    /// The peer responded after its call was settled.
    RespondedLate,
    /// It is a cancel that waits in the outbox.
    CancelQueued,
    /// It is a cancel that the peer has yet to acknowledge.
    CancelSent,
}

#[derive(Clone, Debug)]
pub(super) struct Calls<C> {
    rows: Slab<Call<C>>,
    /// Invariant: it holds each row's number, and nothing else.
    by_number: Index<u32>,
    /// The calls whose cancel is a request without a response yet, by the number of that cancel.
    by_cancel: BTreeMap<u32, RowKey>,
    /// Invariant: it holds the next timer of each row that has one, and nothing else.
    timers: BTreeSet<(Timestamp, CallId, TimerReason)>,
    /// The progress tokens of the calls that have an idle timeout.
    pub(super) tokens: Tokens,
    /// The numbers of messages that no row owns any more (G12).
    pub(super) settled_numbers: RecentIds<u32, Fate>,
    /// The calls without a response that were given up, by number. Their work may go on, which a late result tells.
    pub(super) given_up: RecentIds<u32, (CallId, WorkPart, Cause)>,
    /// The boxes of settled calls, kept for the next ones.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<CallExtras>>,
    /// The latest id that a message of ours got.
    pub(super) last: CallId,
}

impl<C> Calls<C> {
    /// The most boxes that are kept for the next calls.
    const SPARE: usize = 64;

    pub(super) fn new(connection: u32) -> Self {
        Self {
            rows: Slab::new(),
            by_number: Index::new(),
            by_cancel: BTreeMap::new(),
            timers: BTreeSet::new(),
            tokens: Tokens::default(),
            settled_numbers: RecentIds::new(),
            given_up: RecentIds::new(),
            spare: Vec::new(),
            last: CallId(handle::first_serial(connection)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    // Numbers

    /// Returns the id of the next call. Numbers that are still in flight after a wrap are skipped.
    pub(super) fn next_id(&self) -> CallId {
        let mut id = self.last.next();
        while id.is_reissued() && self.owner_of(id.number()).is_some() {
            id = id.next();
        }
        id
    }

    /// Takes the next number for a message that is no call.
    pub(super) fn take_number(&mut self) -> u32 {
        self.last = self.next_id();
        self.last.number()
    }

    /// Returns the owner of a number, if it is in flight.
    #[inline]
    pub(super) fn owner_of(&self, number: u32) -> Option<NumberOwner> {
        match self.by_number.find(&number, numbers(&self.rows)) {
            Some(slot) => Some(NumberOwner::Call(RowKey(slot as usize))),
            None => self.by_cancel.get(&number).copied().map(NumberOwner::CancelOf),
        }
    }

    /// Gives the cancel of a call the next number.
    pub(super) fn number_cancel(&mut self, key: RowKey) -> u32 {
        let number = self.take_number();
        self.extras(key).cancel_number = Some(number);
        self.by_cancel.insert(number, key);
        number
    }

    /// Releases the number of a call's cancel, if it has one.
    pub(super) fn release_cancel(&mut self, key: RowKey) {
        let extras = self.row_mut(key).extras.as_mut();
        if let Some(number) = extras.and_then(|extras| extras.cancel_number.take()) {
            self.by_cancel.remove(&number);
        }
    }

    // Rows

    /// Inserts the row of the call with the next id.
    pub(super) fn insert(&mut self, row: Call<C>) -> RowKey {
        let id = row.id;
        debug_assert_eq!(id, self.next_id(), "the permit holds the next id");
        self.last = id;
        if id.is_reissued() {
            self.settled_numbers.take(&id.number());
            self.given_up.take(&id.number());
        }
        slot::make_room(&mut self.rows);
        let slot = self.rows.insert(row);
        self.by_number.insert(&id.number(), slot as u32, numbers(&self.rows));
        RowKey(slot)
    }

    /// Finds the row of a call, unless it has settled.
    #[inline]
    pub(super) fn find(&self, call: CallId) -> Option<RowKey> {
        let slot = self.by_number.find(&call.number(), numbers(&self.rows))? as usize;
        (self.rows[slot].id == call).then_some(RowKey(slot))
    }

    pub(super) fn row(&self, key: RowKey) -> &Call<C> {
        &self.rows[key.0]
    }

    pub(super) fn row_mut(&mut self, key: RowKey) -> &mut Call<C> {
        &mut self.rows[key.0]
    }

    pub(super) fn get(&self, call: CallId) -> Option<&Call<C>> {
        self.find(call).map(|key| self.row(key))
    }

    /// Releases the timers and tokens of a settled call, and keeps the box for the next call.
    fn recycle(&mut self, call: CallId, mut extras: Box<CallExtras>) {
        if let Some((due, reason)) = extras.next_timer() {
            self.timers.remove(&(due, call, reason));
        }
        extras.facts.progress_tokens.iter().for_each(|token| self.tokens.release(token, false));
        if self.spare.len() < Self::SPARE {
            *extras = CallExtras::default();
            self.spare.push(extras);
        }
    }

    /// Returns the extras of a call, which are made if it had none.
    pub(super) fn extras(&mut self, key: RowKey) -> &mut CallExtras {
        let spare = &mut self.spare;
        self.rows[key.0].extras.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// Returns every call in flight, in the order they were made.
    pub(super) fn in_order(&self) -> Vec<CallId> {
        let mut ids: Vec<CallId> = self.rows.iter().map(|(_, row)| row.id).collect();
        ids.sort_unstable();
        ids
    }

    // Ends

    /// Records how the call ends if nobody responds; the first record stays.
    pub(super) fn record_ending(&mut self, key: RowKey, settlement: Settlement, cause: Cause) {
        self.row_mut(key).ending.get_or_insert((settlement, cause));
    }

    /// Settles a call by the peer's response, or with its recorded ending. Its row, numbers and timers go.
    /// `fate` tells what a late response is. The part in some work is returned too.
    #[inline]
    pub(super) fn settle(
        &mut self,
        RowKey(slot): RowKey,
        response: Option<Settlement>,
        fate: Option<Fate>,
        limit: usize,
    ) -> (Completion<C>, Option<Box<WorkPart>>) {
        let Call { id, data, phase, ending, extras, .. } = self.rows.remove(slot);
        self.by_number.remove(&id.number(), slot as u32, numbers(&self.rows));
        if slot::give_back(&mut self.rows) {
            self.by_number = Index::new();
        }
        let (mut effect, mut part) = (None, None);
        if let Some(mut extras) = extras {
            part = extras.facts.work.take();
            let work = part.as_ref().map(|_| ending.and_then(given_up));
            let handshake = extras.facts.handshake;
            let is_any = handshake.is_some() || work.is_some();
            effect = is_any.then_some(ResultEffect { handshake, work });
            if let Some(cancel) = extras.cancel_number {
                self.by_cancel.remove(&cancel);
                if let Some(fate) = fate_of_cancel(phase, response.is_some()) {
                    self.settled_numbers.insert(cancel, fate, limit);
                }
            }
            self.recycle(id, extras);
        }
        // A response after the token of its operation is a duplicate, like every one to a number that
        // nothing is known of.
        let had_token =
            matches!(phase, CallPhase::TokenCancelQueued | CallPhase::AwaitingAcknowledgement);
        if let Some(fate) = fate.filter(|_| !had_token) {
            self.settled_numbers.insert(id.number(), fate, limit);
        }
        let (ending, cause) = ending.unzip();
        let settlement =
            response.or(ending).expect("an ending is recorded before a call is settled");
        // A response has no cause, unless it confirms our cancel.
        let cause = cause.filter(|_| response.is_none_or(|it| it == Settlement::Cancelled));
        (Completion { call: id, settlement, cause, data, is_unsent: false, effect }, part)
    }

    // Timers

    /// Changes the timers of one call.
    pub(super) fn change_extras(&mut self, key: RowKey, change: impl FnOnce(&mut CallExtras)) {
        let call = self.row(key).id;
        let extras = self.extras(key);
        let before = extras.next_timer();
        change(extras);
        let after = extras.next_timer();
        if before == after {
            return;
        }
        if let Some((due, reason)) = before {
            self.timers.remove(&(due, call, reason));
        }
        if let Some((due, reason)) = after {
            self.timers.insert((due, call, reason));
        }
    }

    /// Restarts the idle timeout of a call, if it has one, at the time of its progress.
    pub(super) fn restart_idle_timeout(&mut self, key: RowKey, at: Timestamp) {
        if self.row(key).extras.is_some() {
            self.change_extras(key, |extras| {
                extras.idle = extras.idle.map(|idle| Idle { since: idle.since.max(at), ..idle });
            });
        }
    }

    /// Returns the next timer that may fire: by time, then in the order the calls were made.
    ///
    /// An idle timer may fire later than this says. Progress with a token is noted once for all calls
    /// that share it, and each of their timers learns of it in [`due_timer`](Self::due_timer).
    pub(super) fn next_timer(&self) -> Option<(Timestamp, TimerReason)> {
        self.timers.first().map(|&(due, _, reason)| (due, reason))
    }

    /// Returns the next timer that is due.
    pub(super) fn due_timer(&mut self, now: Timestamp) -> Option<(RowKey, TimerReason)> {
        loop {
            let &(due, call, reason) = self.timers.first().filter(|(due, ..)| *due <= now)?;
            let key = self.find(call)?;
            if reason == TimerReason::IdleTimeout {
                // Progress with its tokens may have moved it.
                let extras = self.row(key).extras.as_ref();
                let tokens = extras.into_iter().flat_map(|extras| &extras.facts.progress_tokens);
                let latest = tokens.map(|token| self.tokens.progressed(token)).max();
                self.restart_idle_timeout(key, latest.unwrap_or_default());
            }
            if self.timers.first() == Some(&(due, call, reason)) {
                return Some((key, reason));
            }
        }
    }

    pub(super) fn assert_consistent(&self) {
        debug_assert_eq!(self.rows.len(), self.by_number.len(), "one number a call");
        debug_assert!(self.timers.len() <= self.rows.len(), "one next timer a call");
        debug_assert!(self.by_cancel.len() <= self.rows.len(), "one cancel a call");
        debug_assert!(self.len() > 0 || self.tokens.is_empty(), "only calls have progress tokens");
    }
}

/// Returns the cause if a call with this ending was given up.
#[cold]
fn given_up((end, cause): (Settlement, Cause)) -> Option<Cause> {
    let is_given_up = match end {
        // It was detached, and its work is to go on.
        Settlement::TimedOut => cause != Cause::Dropped,
        _ => end == Settlement::Cancelled,
    };
    is_given_up.then_some(cause)
}

/// Returns the fate of a cancel that is a request, when its call settles in this phase. An acknowledged
/// one has none: a further response is a duplicate.
const fn fate_of_cancel(phase: CallPhase, is_response: bool) -> Option<Fate> {
    match (phase, is_response) {
        (CallPhase::CancelQueued, true) => Some(Fate::Withdrawn),
        (CallPhase::CancelQueued | CallPhase::TokenCancelQueued, _) => Some(Fate::CancelQueued),
        (CallPhase::AwaitingAcknowledgement, true) => None,
        _ => Some(Fate::CancelSent),
    }
}

/// Returns how to find the wire number of the call in a slot.
fn numbers<C>(rows: &Slab<Call<C>>) -> impl Fn(u32) -> u32 {
    |slot| rows[slot as usize].id.number()
}

/// The host's data tells no two states apart, and neither do slots, which no id shows.
impl<C> Hash for Calls<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut rows: Vec<&Call<C>> = self.rows.iter().map(|(_, row)| row).collect();
        rows.sort_unstable_by_key(|row| row.id);
        for row in rows {
            let Call { id, data: _, parent, phase, ending, refusal, extras } = row;
            (id, parent, phase, ending, refusal, extras).hash(state);
        }
        (&self.tokens, &self.settled_numbers, &self.given_up, self.last).hash(state);
    }
}

#[cfg(test)]
mod tests;
