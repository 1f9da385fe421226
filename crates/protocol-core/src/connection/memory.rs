//! How much memory a connection may hold: the formula of G8, as code.

use super::Connection;
use super::rows::{Incoming, Outgoing, Rare};
use super::unsent::Batch;
use crate::config::Limits;
use crate::event::Event;
use crate::id::WireId;
use crate::machine::{Action, Machine};
use crate::outbox::Outbox;
use crate::wire::abp::{self, Origin};

/// A table holds at most so many places for each of its entries, counted while it moves to a larger
/// one: two thirds of the smallest table that is grown, and the larger one beside it.
const TABLE: usize = 3;
/// The same for a tree of small entries, with the pointers of its nodes.
const TREE: usize = 4;

impl<O, I: Default> Connection<O, I> {
    /// The most bytes of heap that a connection with these limits holds at any moment (G8), without
    /// what `O` and `I` themselves point to and without the progress tokens of its own calls, if its
    /// host polls all events after each command and input.
    ///
    /// It is a sum of rows times limits. What a host reads into is not in it: an
    /// [`InputBuffer`](crate::InputBuffer) has room for at most twice [`Limits::message_bytes`] and
    /// [`Limits::header_bytes`] plus one read, and holds half as much beside that while it grows.
    #[must_use]
    pub fn memory(limits: &Limits) -> usize {
        let Limits { calls, requests, abandoned_ids, early_cancels, .. } = *limits;
        let sum = [
            (1, Self::fixed_bytes(limits)),
            (calls, Self::call_bytes()),
            (requests, Self::request_bytes(limits)),
            (limits.unsent_messages, TABLE * Outbox::ROW),
            (limits.unsent_messages.min(Outbox::SPARE), Outbox::BUFFER),
            (abandoned_ids, TREE * 2 * size_of::<u64>() + 2 * Self::remembered_id(limits)),
            (early_cancels, Self::remembered_id(limits)),
            (limits.batch_members, TABLE * (size_of::<Event<'_, O>>() + 2 * size_of::<usize>())),
        ];
        sum.iter().fold(0, |sum, (times, row)| times.saturating_mul(*row).saturating_add(sum))
    }

    /// What is there once. A batch is copied while its events wait. Messages are written, and the answers
    /// of a batch collected, in buffers that double.
    const fn fixed_bytes(limits: &Limits) -> usize {
        let answers = limits.unsent_bytes.saturating_mul(4);
        let smallest = 16 * (size_of::<Event<'_, O>>() + Self::call_bytes() + TABLE * Outbox::ROW);
        let spare = Outbox::SPARE * (Outbox::BUFFER + 2 * size_of::<usize>());
        answers.saturating_add(limits.message_bytes).saturating_add(smallest + spare)
    }

    /// A call: its row and what few have beside it, its places in indexes and trees, the cancel that is
    /// sent for it above the limit, and what its end is while it is told.
    const fn call_bytes() -> usize {
        let row = Machine::<Outgoing<O>, Incoming<I>>::CALL_ROW;
        let trees = 4 * size_of::<[u64; 4]>();
        let told = size_of::<Action<Outgoing<O>>>() + size_of::<Event<'_, O>>();
        TABLE * (row + 2 * size_of::<u32>() + told + Outbox::ROW)
            + Machine::<Outgoing<O>, Incoming<I>>::CALL_RARE
            + TREE * trees
            + Outbox::BUFFER
    }

    /// A request: the same, with its id, which may stand in the index too, its batch, and up to two
    /// progress tokens that may have to be withheld.
    const fn request_bytes(limits: &Limits) -> usize {
        let row = Machine::<Outgoing<O>, Incoming<I>>::REQUEST_ROW;
        let kind = limits.id_bytes + abp::RESULT.len();
        let origin = size_of::<Origin>() + kind + Self::id_bytes(limits);
        let told = size_of::<Action<Outgoing<O>>>() + size_of::<Event<'_, O>>();
        let rows = row + size_of::<Rare>() + size_of::<Batch>() + told + Outbox::ROW;
        let trees = size_of::<(WireId, u64)>() + 2 * size_of::<[u64; 8]>();
        TABLE * (rows + 2 * size_of::<u32>())
            + TREE * trees
            + origin
            + 6 * Self::id_bytes(limits)
            + Outbox::BUFFER
    }

    /// An id that is remembered: as a key, and in its order.
    const fn remembered_id(limits: &Limits) -> usize {
        2 * (TREE * size_of::<(WireId, u64)>() + Self::id_bytes(limits))
    }

    /// What an id may point to: its token, and the same without escapes.
    const fn id_bytes(limits: &Limits) -> usize {
        2 * (limits.id_bytes + size_of::<[usize; 4]>())
    }
}
