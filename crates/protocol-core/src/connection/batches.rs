//! Batches that wait for the answers of their members (B32).

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use slab::Slab;

use super::Connection;
use crate::event::TransmitKind;
use crate::slot::Slot;

/// Names a batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchKey(Slot);

/// The batches in flight: their answers are kept back until every member has settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    open: Slab<Batch>,
    /// The bytes of all answers kept back; they count as unsent.
    bytes: usize,
}

#[derive(Clone)]
pub(super) struct Batch {
    /// Members that are not settled, and one more while the batch is still being taken in.
    pending: usize,
    /// The answers so far, as the beginning of a JSON array; empty before the first.
    answers: Vec<u8>,
}

impl Batches {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn open(&mut self) -> BatchKey {
        BatchKey(Slot::new(self.open.insert(Batch { pending: 1, answers: Vec::new() })))
    }

    /// One more member is in flight.
    pub(super) fn add_member(&mut self, key: BatchKey) {
        self.open[key.0.get()].pending += 1;
    }

    /// Keeps an answer back.
    fn keep(&mut self, key: BatchKey, answer: &[u8]) {
        let answers = &mut self.open[key.0.get()].answers;
        let before = answers.len();
        // Room for the bracket at the end, too.
        answers.reserve(answer.len() + 2);
        answers.push(if answers.is_empty() { b'[' } else { b',' });
        answers.extend_from_slice(answer);
        self.bytes += answers.len() - before;
    }

    /// Nothing more is sent.
    pub(super) fn forget_answers(&mut self) {
        self.bytes = 0;
        for (_, batch) in &mut self.open {
            batch.answers = Vec::new();
        }
    }

    /// One member, or the taking in, is settled. Gives the array of answers once all are, unless
    /// there is none.
    fn settle_member(&mut self, key: BatchKey) -> Option<Vec<u8>> {
        let batch = &mut self.open[key.0.get()];
        batch.pending -= 1;
        if batch.pending > 0 {
            return None;
        }
        let answers = self.take_answers(key);
        self.open.remove(key.0.get());
        answers
    }

    /// Gives the array of the answers kept back so far, unless there is none.
    fn take_answers(&mut self, key: BatchKey) -> Option<Vec<u8>> {
        let mut answers = mem::take(&mut self.open[key.0.get()].answers);
        if answers.is_empty() {
            return None;
        }
        self.bytes -= answers.len();
        answers.push(b']');
        Some(answers)
    }

    /// The first batch that keeps answers back, and the length of their array.
    fn first_kept_back(&self) -> Option<(BatchKey, usize)> {
        let (key, batch) = self.open.iter().find(|(_, batch)| !batch.answers.is_empty())?;
        Some((BatchKey(Slot::new(key)), batch.answers.len() + 1))
    }

    /// The length of what would be sent early.
    pub(super) fn kept_back_len(&self) -> Option<usize> {
        self.first_kept_back().map(|(_, len)| len)
    }
}

impl<O, I: Default> Connection<O, I> {
    /// Keeps the answer of a batch member until the others are settled too. Answers kept back that
    /// take up half the outbox leave early, in an array of their own.
    pub(super) fn keep_back(&mut self, batch: BatchKey, answer: &[u8]) {
        self.batches.keep(batch, answer);
        if self.batches.bytes() > self.config().limits.unsent_bytes / 2 {
            let answers = self.batches.take_answers(batch);
            self.send_answers(batch, answers);
        }
    }

    /// One member of a batch is settled; the last one sends the answers.
    pub(super) fn settle_member(&mut self, batch: BatchKey) {
        let answers = self.batches.settle_member(batch);
        self.send_answers(batch, answers);
    }

    /// A message waits for room that only answers kept back take up: they leave early, else it could
    /// wait for ever.
    pub(super) fn send_kept_back(&mut self) {
        if let Some((batch, _)) = self.batches.first_kept_back() {
            let answers = self.batches.take_answers(batch);
            self.send_answers(batch, answers);
        }
    }

    fn send_answers(&mut self, batch: BatchKey, answers: Option<Vec<u8>>) {
        if let Some(answers) = answers {
            let ticket = self.outbox.push_written(answers, TransmitKind::Response);
            self.conclude_batch(batch, ticket);
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
