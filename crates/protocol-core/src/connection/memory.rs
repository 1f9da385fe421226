//! The most memory that a connection may hold: the formula of G8, as code.

use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::unsent::Batch;
use super::{CallData, Connection};
use crate::dialect::signs::WorkPart;
use crate::dialect::{Dialect, TOKENS};
use crate::envelope::{ABP_RESULT, Origin};
use crate::event::Event;
use crate::frame::Outline;
use crate::handle::WorkId;
use crate::id::WireId;
use crate::limits::Limits;
use crate::machine::{Action, Call, CallExtras, Part, Request, RequestExtras, Work, WorkName};
use crate::outbox::Outbox;
use crate::slot;

impl<O, I: Default> Connection<O, I> {
    /// Returns the most bytes of heap that a connection with these limits holds at any moment, if
    /// its host polls all events after each command and input. Before
    /// [`StreamConnection::handle_eof`](crate::StreamConnection::handle_eof) it receives all whole messages.
    ///
    /// It does not count the memory that `O` and `I` point to, a dialect that owns its texts, the progress
    /// tokens of our own calls, or values of the host's that are longer than [`Limits::message_bytes`].
    ///
    /// The buffer that a host reads into is not counted either. An [`InputBuffer`](crate::InputBuffer) has
    /// room for at most twice [`Limits::message_bytes`] and [`Limits::header_bytes`] plus one read. It
    /// holds half as much beside that while it grows.
    pub fn memory(limits: &Limits) -> usize {
        // A place of a table is no larger than its row: each row has values to spare that mark a free place.
        let sum = Sum { held: size_of::<Dialect>(), moved: 0 };
        let sum = calls(sum, limits, size_of::<Call<CallData<O>>>());
        let sum = requests(sum, limits, size_of::<Request<I>>());
        let sum = works(sum, limits);
        let sum = remembered(unsent(sum, limits), limits);
        let (action, event) = (size_of::<Action<CallData<O>>>(), size_of::<Event<'_, O>>());
        let Sum { held, moved } = reading(sum, limits, action, event);
        held.saturating_add(moved)
    }
}

/// Adds our calls in flight.
fn calls(sum: Sum, limits: &Limits, row: usize) -> Sum {
    let calls = limits.calls;
    sum.table(calls, row)
        // By number, by the number of its cancel, by its next timer, and by its parent.
        .index(calls, size_of::<u32>())
        .tree(calls, size_of::<u32>() + size_of::<usize>())
        .tree(calls, size_of::<[u64; 3]>())
        .tree(calls, size_of::<[u64; 3]>())
        // Boxes of settled calls are kept for the next ones, so there are no more than calls.
        .each(calls, size_of::<CallExtras>())
        .doubling(calls, size_of::<usize>())
        .tokens(calls)
        // The connection closes: the calls in their order, each outcome, and the end of each tree.
        .each(calls, size_of::<u64>())
}

/// Adds the peer's requests in flight.
fn requests(sum: Sum, limits: &Limits, row: usize) -> Sum {
    let requests = limits.requests;
    // A request that is refused has had its row of extras.
    let taken = requests.saturating_add(1);
    let id = id_bytes(limits);
    // In the envelopes that say more than an id: the type of the response, and the id of its message.
    let kind = limits.id_bytes.saturating_add(ABP_RESULT.len());
    let origin = id.saturating_add(kind).saturating_add(size_of::<Origin>());
    // Withheld progress: each token in its tree and with its owner. No envelope needs both.
    let tokens = id.saturating_mul(2 * TOKENS);
    // A request that has its response keeps its row while a call that was made for it is in flight.
    sum.table(requests.saturating_add(limits.calls), row)
        // By id, or by the token of its operation.
        .index(requests, size_of::<WireId>())
        .index(requests, size_of::<WireId>())
        .table(taken, size_of::<RequestExtras>())
        .table(taken, size_of::<Batch>())
        // A batch keeps back the revision that one of its responses settles.
        .each(taken, size_of::<Dialect>())
        // The id in the row. The index has it once more if its hash collides with others.
        .each(taken, id.saturating_mul(2))
        .each(taken, tokens.max(origin))
        .tokens(requests)
        // The connection closes: the requests in their order.
        .doubling(requests, size_of::<[u64; 2]>())
}

/// Adds the work in progress, and the requests and calls that are a part of it. Each has the name in its row and in
/// its trees.
fn works(sum: Sum, limits: &Limits) -> Sum {
    let (works, name) = (limits.works, id_bytes(limits));
    let parts = limits.calls.saturating_add(limits.requests).saturating_add(1);
    let run = size_of::<[WorkId; 3]>() + size_of::<[WorkName; 2]>() + size_of::<Work>();
    let part = size_of::<(WorkName, Part, bool)>() + size_of::<(Part, WorkId)>();
    sum.tree(works, run)
        .tree(works, part)
        .each(works, name.saturating_mul(3))
        .each(parts, name.saturating_add(size_of::<WorkPart>()))
}

/// Adds messages that wait to be sent, and the room in which they are written.
fn unsent(sum: Sum, limits: &Limits) -> Sum {
    let Limits { requests, unsent_bytes, unsent_messages, .. } = *limits;
    // Above the limit there are a cancel and a stop of each call, those of calls that settled before their token or
    // the name of their work came, and the notices of cancelled operations.
    let cancels = limits.calls.saturating_mul(2).saturating_add(limits.abandoned_ids);
    let above = cancels.saturating_add(requests);
    let messages = unsent_messages.saturating_add(above);
    let buffers = messages.min(Outbox::SPARE) + 1;
    let short = unsent_bytes.min(Outbox::SHORT);
    sum.table(Outbox::rows(messages), Outbox::ROW)
        .table(Outbox::rows(cancels), Outbox::ROW)
        // The first messages may have buffers that are longer than they are, and so many are spare.
        .each(buffers, 2 * Outbox::BUFFER + size_of::<Vec<u8>>())
        .each(above, Outbox::BUFFER.saturating_add(limits.id_bytes))
        // The responses that a batch keeps back grow by an eighth. Less than half of what may wait has
        // been kept back before the last one.
        .each(1, unsent_bytes.saturating_add(unsent_bytes / 8))
        .moved((unsent_bytes / 2 + 2) / 8 * 9)
        // A short message is written into a buffer that doubles, and then cut.
        .each(1, short + Outbox::BUFFER)
        .moved(2 * (short + Outbox::BUFFER))
}

/// Adds the ids of what is over or has not come yet.
fn remembered(sum: Sum, limits: &Limits) -> Sum {
    // The newest is there before the oldest goes.
    let past = limits.abandoned_ids.saturating_add(1);
    let early = limits.early_cancels.saturating_add(1);
    sum.table(past, size_of::<[u64; 3]>())
        .index(past, size_of::<u32>())
        // Calls that were given up, with the name of the work that they began.
        .table(past, size_of::<[u64; 4]>() + size_of::<WorkPart>())
        .index(past, size_of::<u32>())
        .each(past, id_bytes(limits))
        // Requests that have their response, and the tokens of those that ended in silence.
        .ids(past, limits)
        .ids(past, limits)
        .ids(early, limits)
}

/// Adds one message while it is read, and the events that it makes.
fn reading(sum: Sum, limits: &Limits, action: usize, event: usize) -> Sum {
    let Limits { calls, requests, message_bytes, .. } = *limits;
    let members = limits.batch_members.saturating_add(1);
    let all = calls.saturating_mul(2).saturating_add(requests).saturating_add(members);
    // Work is stopped and ends, and each member of a batch may begin some.
    let all = all.saturating_add(limits.works.saturating_mul(2)).saturating_add(members);
    // A call has an outcome and may end the tree of a request that had its response. A request is cancelled. A
    // member of a batch is an event, and its response may be dropped. The end and room are told once.
    let events = all.saturating_add(members).saturating_add(2);
    sum.doubling(all.saturating_add(1), action)
        .doubling(events, event)
        .doubling(members, size_of::<&RawValue>())
        .each(members, id_bytes(limits).saturating_mul(3))
        // A text with escapes is decoded, and a member of a batch is copied. A cancel is copied whole
        // beside its reason.
        .each(2, message_bytes)
        // One that is too long has an outline, which doubles. The last one may be kept for a record.
        .each(2, Outline::BYTES)
        .moved(Outline::BYTES / 2)
}

/// Returns the bytes that an id points to: its token, and the same without escapes. The token of an
/// operation is an id of ours.
fn id_bytes(limits: &Limits) -> usize {
    const OPERATION: usize = 34;
    let tokens = limits.id_bytes.saturating_mul(2);
    size_of::<[usize; 4]>().saturating_add(tokens.max(OPERATION))
}

/// A sum of what is held at one moment.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// The bytes of everything in its place.
    held: usize,
    /// The most bytes that anything moves from. Only one thing moves at a time.
    moved: usize,
}

impl Sum {
    /// Adds `many` things of `bytes` bytes each.
    fn each(self, many: usize, bytes: usize) -> Self {
        Self { held: self.held.saturating_add(many.saturating_mul(bytes)), ..self }
    }

    /// Counts bytes that are held in two places while they move.
    fn moved(self, bytes: usize) -> Self {
        Self { moved: self.moved.max(bytes), ..self }
    }

    /// Adds rows whose room is moved when it grows, until there is enough for `len`.
    fn growing(self, len: usize, row: usize, growth: impl Fn(usize) -> usize) -> Self {
        let (mut room, mut before) = (0_usize, 0);
        while room < len {
            before = room;
            room = room.saturating_add(growth(room));
        }
        self.each(room, row).moved(before.saturating_mul(row))
    }

    /// Adds a table that grows as [`slot::growth`] says.
    fn table(self, len: usize, row: usize) -> Self {
        self.growing(len, row, slot::growth)
    }

    /// Adds a vector or a queue that doubles.
    fn doubling(self, len: usize, row: usize) -> Self {
        self.growing(len, row, |room| room.max(4))
    }

    /// Adds an [`Index`](crate::index::Index): places of four bytes, of which a third is free, and a tree of
    /// those keys that collide.
    fn index(self, len: usize, key: usize) -> Self {
        let (places, place) = (len.div_ceil(2).saturating_mul(3), size_of::<u32>());
        self.growing(places, place, |room| slot::growth(room).max(room / 4)).tree(len, key + place)
    }

    /// Adds a B-tree of `len` entries of `entry` bytes each. Its nodes have 11 places, of which 5 are taken at least;
    /// so there are at most a leaf for 6 entries, an inner node for 30, and one more of each.
    fn tree(self, len: usize, entry: usize) -> Self {
        if len == 0 {
            return self;
        }
        let leaf = (11 * entry + size_of::<usize>() + size_of::<u32>()).next_multiple_of(8);
        let inner = leaf + 12 * size_of::<usize>();
        self.each(len, (5 * leaf + inner).div_ceil(30)).each(1, leaf + inner)
    }

    /// Adds the progress tokens of calls or requests, without their texts: a tree of tokens with their
    /// counts, and the tokens of each owner.
    fn tokens(self, owners: usize) -> Self {
        self.tree(owners.saturating_mul(TOKENS), size_of::<WireId>() + size_of::<[u64; 3]>())
            .each(owners, 4 * size_of::<WireId>())
    }

    /// Adds a memory of ids: a table of entries, and an index, which has an id once more if its hash
    /// collides with others.
    fn ids(self, many: usize, limits: &Limits) -> Self {
        self.table(many, size_of::<WireId>() + size_of::<[u64; 3]>())
            .index(many, size_of::<WireId>())
            .each(many, id_bytes(limits).saturating_mul(2))
    }
}
