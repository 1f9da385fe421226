//! Messages that wait to be sent, and can still be taken back.

use alloc::vec::Vec;
use core::mem;

use slab::Slab;

use crate::event::{Transmit, TransmitKind};
use crate::machine::CallId;
use crate::slot::Slot;
use crate::wire::encode::{Context, Draft};

/// Holds whole unframed messages in one arena.
///
/// Cancels leave before everything else, in their order; the rest leaves in its order. A cancel is
/// queued only after its request has left, so it never overtakes that (G4).
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    /// Every message, and holes where one was taken out of the middle.
    arena: Vec<u8>,
    entries: Slab<Entry>,
    cancels: Lane,
    bulk: Lane,
    /// The bytes of `arena` that belong to an entry.
    live: usize,
}

/// Names a message that waits; once it has left or was taken back, another may get its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(Slot);

/// Messages that leave one after the other: a list through their entries.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    first: Option<Ticket>,
    last: Option<Ticket>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    len: usize,
    kind: TransmitKind,
    /// Whether it is in the lane that leaves first.
    is_ahead: bool,
    call: Option<CallId>,
    before: Option<Ticket>,
    behind: Option<Ticket>,
}

/// The message does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// The bytes it would have taken.
    pub(crate) len: usize,
}

/// A message written to the end of the arena, not queued yet.
#[derive(Debug)]
#[must_use]
pub(crate) struct Staged {
    start: usize,
}

impl Outbox {
    /// Arenas up to this size are kept; above it, holes and spare room are given back.
    const KEPT: usize = 64 << 10;

    /// An empty arena keeps what its last filling took, up to this size.
    const KEPT_AT_MOST: usize = 4 << 20;

    /// A message of at least this size, alone in the arena, leaves with the arena: copying it takes
    /// longer.
    const SWAPPED: usize = 4 << 10;

    /// And so much room for entries.
    const KEPT_ENTRIES: usize = 1 << 10;

    /// The bytes waiting.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Writes a message to the end, unless there would be more than `limit` bytes waiting.
    pub(crate) fn stage(
        &mut self,
        limit: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Staged, Full> {
        let start = self.arena.len();
        write(&mut self.arena);
        let len = self.arena.len() - start;
        if len > limit.saturating_sub(self.live) {
            self.arena.truncate(start);
            return Err(Full { len });
        }
        Ok(Staged { start })
    }

    /// Writes a message to the end, unless there would be more than `limit` bytes waiting. Its size
    /// is checked before anything is written.
    pub(crate) fn stage_draft(
        &mut self,
        limit: usize,
        context: &Context<'_>,
        draft: &Draft<'_>,
    ) -> Result<Staged, Full> {
        let len = draft.len(context);
        if len > limit.saturating_sub(self.live) {
            return Err(Full { len });
        }
        let start = self.arena.len();
        draft.write(context, &mut self.arena);
        Ok(Staged { start })
    }

    /// The bytes of a staged message.
    pub(crate) fn staged(&self, staged: &Staged) -> &[u8] {
        &self.arena[staged.start..]
    }

    /// Gives up a staged message.
    pub(crate) fn discard(&mut self, staged: Staged) {
        self.arena.truncate(staged.start);
    }

    /// Queues a staged message behind all others.
    pub(crate) fn commit(&mut self, staged: Staged, kind: TransmitKind) -> Ticket {
        self.queue(false, staged, kind, None)
    }

    /// Queues a staged message that a call waits for behind all others.
    pub(crate) fn commit_of(&mut self, call: CallId, staged: Staged, kind: TransmitKind) -> Ticket {
        self.queue(false, staged, kind, Some(call))
    }

    /// Queues the staged cancel of a request that has left: ahead of everything but other cancels.
    pub(crate) fn commit_cancel(&mut self, staged: Staged, call: Option<CallId>) -> Ticket {
        self.queue(true, staged, TransmitKind::Cancel, call)
    }

    #[inline]
    fn queue(
        &mut self,
        is_ahead: bool,
        staged: Staged,
        kind: TransmitKind,
        call: Option<CallId>,
    ) -> Ticket {
        let start = staged.start;
        let len = self.arena.len() - start;
        self.live += len;
        let before = self.lane(is_ahead).last;
        let entry = Entry { start, len, kind, is_ahead, call, before, behind: None };
        let ticket = Ticket(Slot::new(self.entries.insert(entry)));
        self.lane(is_ahead).last = Some(ticket);
        match before {
            Some(before) => self.entries[before.0.get()].behind = Some(ticket),
            None => self.lane(is_ahead).first = Some(ticket),
        }
        ticket
    }

    const fn lane(&mut self, is_ahead: bool) -> &mut Lane {
        if is_ahead { &mut self.cancels } else { &mut self.bulk }
    }

    /// Takes a message back that is still here.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let entry = self.remove(ticket);
        self.release(entry);
    }

    /// Takes a message out of its lane.
    fn remove(&mut self, ticket: Ticket) -> Entry {
        let entry = self.entries[ticket.0.get()];
        self.entries.remove(ticket.0.get());
        match entry.before {
            Some(before) => self.entries[before.0.get()].behind = entry.behind,
            None => self.lane(entry.is_ahead).first = entry.behind,
        }
        match entry.behind {
            Some(behind) => self.entries[behind.0.get()].before = entry.before,
            None => self.lane(entry.is_ahead).last = entry.before,
        }
        entry
    }

    #[inline]
    fn first(&self) -> Option<Ticket> {
        self.cancels.first.or(self.bulk.first)
    }

    /// The length of the next message.
    #[inline]
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.first().map(|ticket| self.entries[ticket.0.get()].len)
    }

    /// The next message, what it is and whose.
    #[inline]
    pub(crate) fn next(&self) -> Option<(Ticket, TransmitKind, Option<CallId>)> {
        let ticket = self.first()?;
        let Entry { kind, call, .. } = self.entries[ticket.0.get()];
        Some((ticket, kind, call))
    }

    /// Moves the next message to the end of `out`.
    pub(crate) fn pop(&mut self, ticket: Ticket, out: &mut Vec<u8>) -> Transmit {
        let entry = self.remove(ticket);
        let Entry { start, len, kind, .. } = entry;
        let transmit = Transmit::new(kind, out.len(), len);
        if len >= Self::SWAPPED && len == self.arena.len() && out.is_empty() {
            mem::swap(&mut self.arena, out);
        } else {
            out.extend_from_slice(&self.arena[start..start + len]);
        }
        self.release(entry);
        transmit
    }

    /// Takes every message back.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn release(&mut self, entry: Entry) {
        self.live -= entry.len;
        if self.entries.is_empty() {
            // Whoever sends long messages sends more of them, and fresh memory is slow.
            let kept = self.arena.len().max(entry.len).clamp(Self::KEPT, Self::KEPT_AT_MOST);
            self.arena.clear();
            if self.arena.capacity() > kept {
                self.arena.shrink_to(kept);
            }
            if self.entries.capacity() > Self::KEPT_ENTRIES {
                self.entries.shrink_to_fit();
            }
        } else if self.arena.len() > Self::KEPT && self.arena.len() - self.live > self.live {
            self.compact();
        }
    }

    /// Closes the holes. Runs when they are more than half, so each byte is moved O(1) times.
    fn compact(&mut self) {
        let mut arena = Vec::with_capacity(self.live.max(Self::KEPT));
        for (_, entry) in &mut self.entries {
            let start = arena.len();
            arena.extend_from_slice(&self.arena[entry.start..entry.start + entry.len]);
            entry.start = start;
        }
        self.arena = arena;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outbox: &mut Outbox, text: &str, kind: TransmitKind) -> Ticket {
        let staged = outbox.stage(1 << 20, |out| out.extend_from_slice(text.as_bytes())).unwrap();
        match kind {
            TransmitKind::Cancel => outbox.commit_cancel(staged, None),
            _ => outbox.commit(staged, kind),
        }
    }

    fn pop(outbox: &mut Outbox) -> Option<alloc::string::String> {
        let mut out = Vec::new();
        let (next, ..) = outbox.next()?;
        let transmit = outbox.pop(next, &mut out);
        Some(core::str::from_utf8(transmit.message(&out)).unwrap().into())
    }

    #[test]
    fn g04_cancels_overtake_bulk_and_what_is_withdrawn_never_leaves() {
        let mut outbox = Outbox::default();
        push(&mut outbox, "a", TransmitKind::Request);
        let b = push(&mut outbox, "b", TransmitKind::Request);
        push(&mut outbox, "c", TransmitKind::Response);
        push(&mut outbox, "d", TransmitKind::Cancel);
        outbox.withdraw(b);
        let mut left = alloc::vec::Vec::new();
        while let Some(message) = pop(&mut outbox) {
            left.push(message);
        }
        assert_eq!(left, ["d", "a", "c"]);
        assert_eq!((outbox.len(), outbox.arena.len()), (0, 0));
    }

    #[test]
    fn g08_a_message_over_the_limit_leaves_nothing_behind() {
        let mut outbox = Outbox::default();
        push(&mut outbox, "12345", TransmitKind::Notification);
        let full = outbox.stage(8, |out| out.extend_from_slice(b"6789")).unwrap_err();
        assert_eq!(full, Full { len: 4 });
        assert_eq!(outbox.arena.len(), 5);
    }

    #[test]
    fn a_long_message_that_is_alone_leaves_with_the_arena_and_no_other_does() {
        let mut outbox = Outbox::default();
        let text = "x".repeat(Outbox::SWAPPED);
        for (before, is_alone) in [("", true), ("", false), ("before", true)] {
            push(&mut outbox, &text, TransmitKind::Request);
            if !is_alone {
                push(&mut outbox, "y", TransmitKind::Request);
            }
            let (arena, mut out) = (outbox.arena.as_ptr(), Vec::from(before));
            let (next, ..) = outbox.next().unwrap();
            let transmit = outbox.pop(next, &mut out);
            assert_eq!(transmit.message(&out), text.as_bytes());
            assert_eq!(out.as_ptr() == arena, is_alone && before.is_empty());
            while pop(&mut outbox).is_some() {}
            assert_eq!((outbox.len(), outbox.arena.len()), (0, 0));
        }
    }

    #[test]
    fn g08_holes_are_closed() {
        let mut outbox = Outbox::default();
        let text = "x".repeat(1_000);
        let tickets: alloc::vec::Vec<_> =
            (0..1_000).map(|_| push(&mut outbox, &text, TransmitKind::Request)).collect();
        for ticket in &tickets[1..] {
            outbox.withdraw(*ticket);
        }
        assert!(outbox.arena.len() <= Outbox::KEPT);
        assert_eq!(pop(&mut outbox).unwrap(), text);
    }
}
