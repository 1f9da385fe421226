//! What waits to be sent: messages in the outbox, and answers that are kept back until every member
//! of their batch has settled (B32).

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use slab::Slab;

use super::Connection;
use super::negotiation::Conclusion;
use crate::config::Limits;
use crate::error::Refusal;
use crate::event::TransmitKind;
use crate::machine::RequestHandle;
use crate::outbox::{Lane, Outbox, Ticket};
use crate::slot::Slot;
use crate::wire::encode::{Context, Draft};

/// Names a batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchKey(Slot);

/// Everything that waits to be sent, within [`Limits`].
#[derive(Clone, Debug, Default)]
pub(super) struct Unsent {
    pub(super) outbox: Outbox,
    /// The batches in flight.
    pub(super) batches: Slab<Batch>,
    /// The bytes of all answers kept back; they count as unsent.
    kept_back: usize,
    /// The bytes that a refused message needs, until the host was told that there is room.
    wanted: Option<usize>,
}

#[derive(Clone)]
pub(super) struct Batch {
    /// Members that are not settled, and one more while the batch is still being taken in.
    pending: usize,
    /// The answers so far, as the beginning of a JSON array; empty before the first.
    answers: Vec<u8>,
    /// What one of them concludes, once it is in the outbox.
    concludes: Option<Conclusion>,
}

impl Unsent {
    /// The bytes that wait, without framing.
    pub(super) const fn bytes(&self) -> usize {
        self.outbox.bytes() + self.kept_back
    }

    /// The bytes of the longest message that there is room for, 0 if there is none.
    pub(super) fn free(&self, limits: &Limits) -> usize {
        let has_place = self.outbox.len() < limits.unsent_messages;
        if has_place { limits.unsent_bytes.saturating_sub(self.bytes()) } else { 0 }
    }

    /// Queues a message behind all others. Where there is no room, promises to tell when there is.
    /// `number` is that of the request or cancel of ours that it is.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        context: &Context<'_>,
        draft: &Draft<'_>,
        kind: TransmitKind,
        number: Option<u32>,
    ) -> Result<Ticket, Refusal> {
        let limits = &context.config.limits;
        let pushed = self.outbox.push(self.free(limits), context, draft, Lane::Bulk, kind, number);
        pushed.map_err(|len| self.promise_room(len, limits))
    }

    /// Sends an answer, or keeps it back for the others of its batch. Gives what is in the outbox now:
    /// the answer, or those of the batch, where they take up half of the outbox.
    #[inline(always)]
    pub(super) fn answer(
        &mut self,
        context: &Context<'_>,
        draft: &Draft<'_>,
        kind: TransmitKind,
        batch: Option<BatchKey>,
    ) -> Result<Option<Ticket>, usize> {
        match batch {
            None => {
                let most = self.free(&context.config.limits);
                self.outbox.push(most, context, draft, Lane::Bulk, kind, None).map(Some)
            }
            Some(batch) => self.keep_back(context, draft, batch),
        }
    }

    fn keep_back(
        &mut self,
        context: &Context<'_>,
        draft: &Draft<'_>,
        batch: BatchKey,
    ) -> Result<Option<Ticket>, usize> {
        let (len, limits) = (draft.len(context), &context.config.limits);
        if len > self.free(limits) {
            return Err(len);
        }
        let answers = &mut self.batches[batch.0.get()].answers;
        let before = answers.len();
        // Room for the brackets, too.
        answers.reserve(len + 2);
        answers.push(if answers.is_empty() { b'[' } else { b',' });
        let written = draft.write(context, len, answers);
        debug_assert!(written.is_ok(), "a draft knows its length");
        self.kept_back += answers.len() - before;
        let is_much = self.kept_back > limits.unsent_bytes / 2;
        Ok(if is_much { self.send_kept_back(batch) } else { None })
    }

    /// Sends the answers that a batch keeps back, in an array, unless there is none.
    fn send_kept_back(&mut self, batch: BatchKey) -> Option<Ticket> {
        let mut answers = mem::take(&mut self.batches[batch.0.get()].answers);
        if answers.is_empty() {
            return None;
        }
        self.kept_back -= answers.len();
        answers.push(b']');
        Some(self.outbox.queue(Lane::Bulk, TransmitKind::Response, None, answers))
    }

    /// A batch is taken in.
    pub(super) fn open_batch(&mut self) -> BatchKey {
        let batch = Batch { pending: 1, answers: Vec::new(), concludes: None };
        BatchKey(Slot::new(self.batches.insert(batch)))
    }

    /// One more member of a batch is in flight.
    pub(super) fn add_member(&mut self, batch: BatchKey) {
        self.batches[batch.0.get()].pending += 1;
    }

    /// The first batch that keeps answers back, and the length of their array, where a message waits
    /// for room that nothing else takes up: they leave early, else it could wait for ever.
    #[inline]
    fn early(&self) -> Option<(BatchKey, usize)> {
        self.wanted.filter(|_| self.outbox.len() == 0)?;
        let (key, batch) = self.batches.iter().find(|(_, batch)| !batch.answers.is_empty())?;
        Some((BatchKey(Slot::new(key)), batch.answers.len() + 1))
    }

    /// The length of the next message.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.outbox.next_len().or_else(|| self.early().map(|(_, len)| len))
    }

    /// Gives everything up.
    pub(super) fn clear(&mut self) {
        self.outbox.clear();
        self.kept_back = 0;
        for (_, batch) in &mut self.batches {
            batch.answers = Vec::new();
        }
    }

    /// Why a message is refused. Promises to tell when there is room, if it can ever fit.
    #[cold]
    pub(super) fn promise_room(&mut self, len: usize, limits: &Limits) -> Refusal {
        if len > limits.unsent_bytes {
            return Refusal::TooLarge;
        }
        self.wanted = self.wanted.max(Some(len));
        Refusal::OutboxFull
    }

    /// Whether there is room now for what was refused. Says so once.
    pub(super) fn keeps_promise(&mut self, limits: &Limits) -> bool {
        let is_kept = self.wanted.is_some_and(|wanted| wanted <= self.free(limits));
        if is_kept {
            self.wanted = None;
        }
        is_kept
    }
}

impl<O, I: Default> Connection<O, I> {
    /// One member of a batch, or the taking in of it, is settled; the last one sends the answers.
    pub(super) fn settle_member(&mut self, key: BatchKey) {
        let batch = &mut self.unsent.batches[key.0.get()];
        batch.pending -= 1;
        if batch.pending == 0 {
            let sent = self.unsent.send_kept_back(key);
            self.answered(Some(key), sent, None);
            self.unsent.batches.remove(key.0.get());
        }
    }

    /// The batch of an unanswered request, if it is in one, waits for it no more.
    pub(super) fn leave_batch(&mut self, request: RequestHandle) {
        let rare = self.machine.request_data(request).and_then(|it| it.rare);
        if let Some(batch) = rare.and_then(|slot| self.rares[slot.get()].batch.take()) {
            self.settle_member(batch);
        }
    }

    /// Sends answers that are kept back, where a message waits for their room.
    pub(super) fn send_early(&mut self) {
        if let Some((batch, _)) = self.unsent.early() {
            let sent = self.unsent.send_kept_back(batch);
            self.answered(Some(batch), sent, None);
        }
    }

    /// An answer was sent, or kept back by its batch: what it concludes holds once it is in the outbox.
    pub(super) fn answered(
        &mut self,
        batch: Option<BatchKey>,
        sent: Option<Ticket>,
        conclusion: Option<Conclusion>,
    ) {
        self.count_sent();
        let conclusion = match batch {
            None => conclusion,
            Some(batch) => {
                let kept_back = &mut self.unsent.batches[batch.0.get()].concludes;
                *kept_back = conclusion.or(kept_back.take());
                kept_back.take_if(|_| sent.is_some())
            }
        };
        if conclusion.is_some() {
            self.conclude(conclusion);
            self.exchange = sent;
        }
    }
}

/// Without the answers: they hold secrets, such as tokens of operations.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut batch = f.debug_struct("Batch");
        batch.field("pending", &self.pending).field("len", &self.answers.len());
        batch.finish_non_exhaustive()
    }
}
