//! Unsent output: messages in the outbox, and responses kept back for the rest of their batch (B32).

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use slab::Slab;

use super::negotiation::Negotiated;
use crate::envelope::{Context, OutgoingMessage};
use crate::error::Refusal;
use crate::event::TransmitKind;
use crate::limits::Limits;
use crate::outbox::{Lane, Outbox, Ticket};
use crate::slot::{self, Slot};

/// Everything that waits to be sent, within [`Limits`].
#[derive(Clone, Debug, Default)]
pub(super) struct Unsent {
    pub(super) outbox: Outbox,
    /// The batches in flight.
    pub(super) batches: Slab<Batch>,
    /// The bytes of all responses that are kept back; they count as unsent.
    deferred_bytes: usize,
    /// The bytes of the smallest refused message, until the host was told that there is room.
    room_wanted: Option<usize>,
}

#[derive(Clone)]
pub(super) struct Batch {
    /// The members that are not settled, and one more while the batch is still being taken.
    pub(super) pending: usize,
    /// The responses so far, as the beginning of a JSON array; empty before the first.
    responses: Vec<u8>,
    /// The agreement that one of them makes, which holds once it is in the outbox.
    pub(super) negotiated: Option<Negotiated>,
}

impl Unsent {
    /// Returns the bytes that wait, without framing.
    pub(super) const fn bytes(&self) -> usize {
        self.outbox.bytes() + self.deferred_bytes
    }

    /// Returns the bytes of the longest message that there is room for, 0 if there is none.
    pub(super) fn free(&self, limits: &Limits) -> usize {
        let has_place = self.outbox.len() < limits.unsent_messages;
        if has_place { limits.unsent_bytes.saturating_sub(self.bytes()) } else { 0 }
    }

    /// Queues a message behind all others, or promises a notice once there is room.
    ///
    /// `number` is that of the request or cancel of ours that the message is.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        context: &Context<'_>,
        message: &OutgoingMessage<'_>,
        kind: TransmitKind,
        number: Option<u32>,
    ) -> Result<Ticket, Refusal> {
        let limits = &context.config.limits;
        let most = self.free(limits);
        let pushed = self.outbox.push(most, context, message, Lane::Bulk, kind, number);
        pushed.map_err(|len| self.note_refused(len, limits))
    }

    /// Queues a response, or keeps it back for the rest of its batch.
    ///
    /// Returns what is in the outbox now: the response, or those of the batch if all that is kept back takes
    /// up half of the limit.
    ///
    /// # Errors
    ///
    /// The length of a response that does not fit.
    #[inline(always)]
    pub(super) fn respond(
        &mut self,
        context: &Context<'_>,
        message: &OutgoingMessage<'_>,
        kind: TransmitKind,
        batch: Option<Slot>,
    ) -> Result<Option<Ticket>, usize> {
        let Some(batch) = batch else {
            let most = self.free(&context.config.limits);
            return self.outbox.push(most, context, message, Lane::Bulk, kind, None).map(Some);
        };
        let (len, limits) = (message.len(context), &context.config.limits);
        if len > self.free(limits) {
            return Err(len);
        }
        let responses = &mut self.batches[batch.get()].responses;
        let before = responses.len();
        if responses.capacity() - before < len + 2 {
            // The brackets need room, too. It grows by an eighth, so that a long array costs little time
            // and little more than its length.
            responses.reserve_exact((len + 2).max(before / 8));
        }
        responses.push(if responses.is_empty() { b'[' } else { b',' });
        let written = message.write(context, len, responses);
        debug_assert!(written.is_ok(), "a message knows its length");
        self.deferred_bytes += responses.len() - before;
        let is_over_half = self.deferred_bytes > limits.unsent_bytes / 2;
        Ok(if is_over_half { self.flush_batch(batch) } else { None })
    }

    /// Queues the responses that a batch keeps back as one array, unless there are none.
    pub(super) fn flush_batch(&mut self, batch: Slot) -> Option<Ticket> {
        let mut responses = mem::take(&mut self.batches[batch.get()].responses);
        if responses.is_empty() {
            return None;
        }
        self.deferred_bytes -= responses.len();
        responses.push(b']');
        Some(self.outbox.queue(Lane::Bulk, TransmitKind::Response, None, responses))
    }

    /// Opens a batch that is being taken.
    pub(super) fn open_batch(&mut self) -> Slot {
        let batch = Batch { pending: 1, responses: Vec::new(), negotiated: None };
        slot::make_room(&mut self.batches);
        Slot::new(self.batches.insert(batch))
    }

    pub(super) fn close_batch(&mut self, batch: Slot) {
        self.batches.remove(batch.get());
        slot::give_back(&mut self.batches);
    }

    /// Returns the first batch that keeps responses back and the length of their array, if a message
    /// waits for room that nothing else takes up: it could wait for ever.
    #[inline]
    pub(super) fn batch_to_flush_early(&self) -> Option<(Slot, usize)> {
        self.room_wanted.filter(|_| self.outbox.len() == 0)?;
        let (slot, batch) = self.batches.iter().find(|(_, batch)| !batch.responses.is_empty())?;
        Some((Slot::new(slot), batch.responses.len() + 1))
    }

    /// Returns the length of the next message.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.outbox.next_len().or_else(|| self.batch_to_flush_early().map(|(_, len)| len))
    }

    /// Gives everything up.
    pub(super) fn clear(&mut self) {
        self.outbox.clear();
        self.deferred_bytes = 0;
        self.batches.iter_mut().for_each(|(_, batch)| batch.responses = Vec::new());
    }

    /// Returns why a message is refused, and promises a notice of room if it can ever fit.
    #[cold]
    pub(super) fn note_refused(&mut self, len: usize, limits: &Limits) -> Refusal {
        if len > limits.unsent_bytes || limits.unsent_messages == 0 {
            return Refusal::TooLarge;
        }
        self.room_wanted = Some(self.room_wanted.map_or(len, |wanted| wanted.min(len)));
        Refusal::OutboxFull
    }

    /// Returns whether there is room now for a message that was refused, once.
    pub(super) fn take_room_notice(&mut self, limits: &Limits) -> bool {
        let has_room = self.room_wanted.is_some_and(|wanted| wanted <= self.free(limits));
        has_room && self.room_wanted.take().is_some()
    }
}

/// Omits the responses: they hold secrets, such as tokens of operations.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut batch = f.debug_struct("Batch");
        batch.field("pending", &self.pending).field("len", &self.responses.len());
        batch.finish_non_exhaustive()
    }
}
