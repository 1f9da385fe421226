//! Messages that wait to be sent, and can still be withdrawn.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::num::NonZeroU32;

use crate::envelope::{Context, OutgoingMessage};
use crate::event::{Transmit, TransmitKind};
use crate::slot;

/// The unsent messages of a connection, without framing, each in a buffer of its own.
///
/// The cancel of a call is sent before everything else, unless messages have to keep their order. It is
/// queued only after its request was sent, so it never overtakes that request (G4). All other cancels are
/// queued behind everything else. Each lane keeps its order.
#[derive(Clone, Default)]
pub(crate) struct Outbox {
    ahead: Queue,
    bulk: Queue,
    /// The ticket of the last message that was queued.
    last: u32,
    /// The bytes of all unsent messages.
    bytes: usize,
    /// Buffers of messages that were sent, for the next ones.
    spare: Vec<Vec<u8>>,
}

/// The queue that a message waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The queue that is sent first.
    Ahead,
    /// The queue that is sent when the other one is empty.
    Bulk,
}

/// The name of an unsent message.
///
/// It must not be used after the message was sent or withdrawn, because tickets repeat after 2^32
/// messages. The phase of a call says whether its message is unsent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(NonZeroU32);

/// One unsent message.
#[derive(Clone)]
struct Message {
    ticket: Ticket,
    kind: TransmitKind,
    /// The wire number of our request or cancel, if the message is one.
    number: Option<u32>,
    /// The message, or nothing once it was withdrawn.
    bytes: Vec<u8>,
}

/// Messages that are sent in order.
#[derive(Clone, Default)]
struct Queue {
    /// Sorted by ticket. Invariant: the first message is not withdrawn, and at most a quarter of all are.
    messages: VecDeque<Message>,
    /// The number of withdrawn messages.
    withdrawn: usize,
}

impl Outbox {
    /// The size in bytes from which a message is moved with its buffer if possible, because copying it
    /// takes longer.
    const MOVED: usize = 4 << 10;
    /// The length up to which a message is written into a buffer that doubles. A longer one is measured
    /// first and gets a buffer of its length.
    pub(crate) const SHORT: usize = 4 << 10;
    /// The capacity of a new buffer in bytes. A buffer that has not grown is kept for another message.
    pub(crate) const BUFFER: usize = 256;
    /// The number of buffers that are kept.
    pub(crate) const SPARE: usize = 64;
    /// The size of a message's row in bytes.
    pub(crate) const ROW: usize = size_of::<Message>();
    /// The rows that an empty queue keeps room for. That is a quarter of the small messages that are
    /// written at once.
    const KEPT: usize = 256;

    /// Returns the most rows of a queue in which this many messages wait: some rows are withdrawn ones.
    pub(crate) const fn rows(messages: usize) -> usize {
        messages.saturating_add(messages / 3).saturating_add(1)
    }

    /// Returns the bytes of all unsent messages.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of unsent messages.
    pub(crate) fn len(&self) -> usize {
        let unsent = |queue: &Queue| queue.messages.len() - queue.withdrawn;
        unsent(&self.ahead) + unsent(&self.bulk)
    }

    /// Writes a message and queues it. `number` is the wire number of our request or cancel, if the
    /// message is one.
    ///
    /// # Errors
    ///
    /// Returns the message's length if that exceeds `limit`.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        limit: usize,
        context: &Context<'_>,
        message: &OutgoingMessage<'_>,
        lane: Lane,
        kind: TransmitKind,
        number: Option<u32>,
    ) -> Result<Ticket, usize> {
        let mut bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(Self::BUFFER));
        let is_crowded = self.ahead.messages.len() + self.bulk.messages.len() >= Self::SPARE;
        match message.write(context, limit.min(Self::SHORT), &mut bytes) {
            Ok(()) => {
                if bytes.capacity() > Self::BUFFER || is_crowded {
                    bytes = self.cut(bytes, is_crowded);
                }
            }
            Err(len) if len <= limit => bytes = Self::written(bytes, len, context, message),
            Err(len) => {
                self.recycle(bytes);
                return Err(len);
            }
        }
        Ok(self.queue(lane, kind, number, bytes))
    }

    /// Writes a message of this length into a buffer that has exactly that room.
    #[cold]
    fn written(
        mut bytes: Vec<u8>,
        len: usize,
        context: &Context<'_>,
        message: &OutgoingMessage<'_>,
    ) -> Vec<u8> {
        bytes.clear();
        bytes.reserve_exact(len);
        let written = message.write(context, len, &mut bytes);
        debug_assert!(written.is_ok() && bytes.len() == len, "a message knows its length");
        bytes
    }

    /// Frees the capacity that a message does not need. The first messages keep some, which is cheaper.
    #[cold]
    fn cut(&mut self, mut bytes: Vec<u8>, is_crowded: bool) -> Vec<u8> {
        if !is_crowded {
            bytes.shrink_to(bytes.len() + Self::BUFFER);
        } else if bytes.capacity() > Self::BUFFER {
            bytes.shrink_to_fit();
        } else {
            // So many wait that their buffers can't all be kept: this one serves the next message.
            let exact = bytes.clone();
            self.recycle(bytes);
            return exact;
        }
        bytes
    }

    /// Queues a message that is already written.
    #[inline]
    pub(crate) fn queue(
        &mut self,
        lane: Lane,
        kind: TransmitKind,
        number: Option<u32>,
        bytes: Vec<u8>,
    ) -> Ticket {
        let ticket = Ticket(NonZeroU32::new(self.last.wrapping_add(1)).unwrap_or(NonZeroU32::MIN));
        self.last = ticket.0.get();
        self.bytes += bytes.len();
        let queue = if lane == Lane::Ahead { &mut self.ahead } else { &mut self.bulk };
        if queue.messages.len() == queue.messages.capacity() {
            queue.messages.reserve_exact(slot::growth(queue.messages.len()));
        }
        queue.messages.push_back(Message { ticket, kind, number, bytes });
        ticket
    }

    #[inline]
    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == Self::BUFFER && self.spare.len() < Self::SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Withdraws an unsent message.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        if let Some(buffer) = self.bulk.withdraw(ticket).or_else(|| self.ahead.withdraw(ticket)) {
            self.bytes -= buffer.len();
            self.recycle(buffer);
        }
    }

    /// Returns the length of the next message in bytes.
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.ahead.messages.front().or(self.bulk.messages.front()).map(|it| it.bytes.len())
    }

    /// Moves the next message to the end of `out`. Returns its place there, its ticket and its wire
    /// number.
    ///
    /// A long message replaces an empty `out`, memory and all, instead of being copied into it. So the
    /// caller's buffer may have another address and another capacity afterwards.
    #[inline]
    pub(crate) fn pop(&mut self, out: &mut Vec<u8>) -> Option<(Transmit, Ticket, Option<u32>)> {
        let is_bulk = self.ahead.messages.is_empty();
        let queue = if is_bulk { &mut self.bulk } else { &mut self.ahead };
        let Message { ticket, kind, number, mut bytes } = queue.messages.pop_front()?;
        queue.tidy();
        let transmit = Transmit { kind, start: out.len(), len: bytes.len() };
        self.bytes -= bytes.len();
        if out.is_empty() && bytes.len() >= Self::MOVED {
            mem::swap(out, &mut bytes);
        } else {
            out.extend_from_slice(&bytes);
        }
        self.recycle(bytes);
        Some((transmit, ticket, number))
    }

    /// Withdraws every message.
    pub(crate) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}

impl Queue {
    /// Withdraws a message and returns its bytes.
    fn withdraw(&mut self, ticket: Ticket) -> Option<Vec<u8>> {
        // Tickets repeat after 2^32 messages, so they are compared by their distance from the first.
        let first = self.messages.front()?.ticket.0.get();
        let distance = |ticket: Ticket| ticket.0.get().wrapping_sub(first);
        let at = self.messages.binary_search_by_key(&distance(ticket), |it| distance(it.ticket));
        let bytes = mem::take(&mut self.messages[at.ok()?].bytes);
        self.withdrawn += 1;
        self.tidy();
        Some(bytes)
    }

    /// Restores the invariant of `messages`.
    #[inline]
    fn tidy(&mut self) {
        if self.withdrawn > self.messages.len() / 4 {
            self.messages.retain(|message| !message.bytes.is_empty());
            self.withdrawn = 0;
        }
        while self.withdrawn > 0 && self.messages.front().is_some_and(|it| it.bytes.is_empty()) {
            self.messages.pop_front();
            self.withdrawn -= 1;
        }
        if self.messages.is_empty() && self.messages.capacity() > Outbox::KEPT {
            self.messages.shrink_to(Outbox::KEPT);
        }
    }
}

/// Shows no messages, because they hold secrets such as tokens of operations.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn push(outbox: &mut Outbox, text: &str, lane: Lane) -> Ticket {
        outbox.queue(lane, TransmitKind::Notification, None, text.into())
    }

    fn pop(outbox: &mut Outbox) -> Option<String> {
        let mut out = Vec::new();
        let (transmit, ..) = outbox.pop(&mut out)?;
        Some(core::str::from_utf8(transmit.message(&out)).unwrap().into())
    }

    fn all(outbox: &mut Outbox) -> Vec<String> {
        core::iter::from_fn(|| pop(outbox)).collect()
    }

    #[test]
    fn g04_cancels_overtake_bulk_and_what_is_withdrawn_never_leaves() {
        let mut outbox = Outbox::default();
        push(&mut outbox, "a", Lane::Bulk);
        let b = push(&mut outbox, "b", Lane::Bulk);
        push(&mut outbox, "c", Lane::Bulk);
        push(&mut outbox, "d", Lane::Ahead);
        outbox.withdraw(b);
        outbox.withdraw(b);
        assert_eq!((outbox.bytes(), outbox.len(), outbox.next_len()), (3, 3, Some(1)));
        assert_eq!(all(&mut outbox), ["d", "a", "c"]);
        assert_eq!((outbox.bytes(), outbox.len()), (0, 0));
    }

    #[test]
    fn g08_what_was_withdrawn_is_not_counted() {
        let mut outbox = Outbox::default();
        let tickets = ["a", "b", "c", "d", "e"].map(|text| push(&mut outbox, text, Lane::Bulk));
        outbox.withdraw(tickets[2]);
        assert_eq!((outbox.len(), outbox.bytes()), (4, 4));
        outbox.withdraw(tickets[0]);
        assert_eq!((outbox.len(), outbox.next_len()), (3, Some(1)));
        assert_eq!(all(&mut outbox), ["b", "d", "e"]);
        assert_eq!(outbox.len(), 0);
    }

    #[test]
    fn g08_rows_of_withdrawn_messages_are_given_back() {
        let mut outbox = Outbox::default();
        let keep = push(&mut outbox, "first", Lane::Bulk);
        let mut last = keep;
        for _ in 0..10_000 {
            let next = push(&mut outbox, "next", Lane::Bulk);
            if last != keep {
                outbox.withdraw(last);
            }
            last = next;
        }
        assert!(outbox.bulk.messages.capacity() <= 16, "{}", outbox.bulk.messages.capacity());
        assert_eq!(all(&mut outbox), ["first", "next"]);
    }

    #[test]
    fn g08_many_that_wait_take_no_more_room_than_they_need() {
        let config = crate::Config::client(crate::Dialect::ACP_V1);
        let context = Context { config: &config, now: crate::Timestamp::ZERO, next: 0 };
        let message = OutgoingMessage::Notification { method: "m", params: None };
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            for _ in 0..1_000 {
                let kind = TransmitKind::Notification;
                outbox.push(usize::MAX, &context, &message, Lane::Bulk, kind, None).unwrap();
            }
            let room: usize = outbox.bulk.messages.iter().map(|it| it.bytes.capacity()).sum();
            let buffers = (Outbox::SPARE + 1) * Outbox::BUFFER;
            assert!(room <= outbox.bytes() + buffers, "{room} for {}", outbox.bytes());
            assert!(outbox.spare.len() <= 1);
            assert_eq!(all(&mut outbox).len(), 1_000);
            assert_eq!(outbox.spare.len(), Outbox::SPARE, "the buffers of the first are kept");
        }
    }

    #[test]
    fn g08_an_emptied_outbox_gives_its_memory_back() {
        let long = "x".repeat(2_000);
        for (text, lane) in [("y", Lane::Ahead), (&long, Lane::Ahead), (&long, Lane::Bulk)] {
            let mut outbox = Outbox::default();
            for _ in 0..10_000 {
                push(&mut outbox, text, lane);
            }
            while pop(&mut outbox).is_some() {}
            for queue in [&outbox.ahead, &outbox.bulk] {
                assert!(queue.messages.capacity() <= 2 * Outbox::KEPT);
            }
            let spare: usize = outbox.spare.iter().map(Vec::capacity).sum();
            assert!(spare <= Outbox::SPARE * Outbox::BUFFER, "{spare}");
        }
    }

    #[test]
    fn a_long_message_leaves_with_its_buffer_and_no_other_does() {
        let text = "x".repeat(Outbox::MOVED);
        for (before, hole, is_moved) in
            [("", false, true), ("", true, true), ("before", false, false)]
        {
            let mut outbox = Outbox::default();
            let withdrawn = push(&mut outbox, "a hole", Lane::Bulk);
            push(&mut outbox, &text, Lane::Bulk);
            push(&mut outbox, "y", Lane::Bulk);
            if hole {
                outbox.withdraw(withdrawn);
            } else {
                pop(&mut outbox);
            }
            let (buffer, mut out) = (outbox.bulk.messages[0].bytes.as_ptr(), Vec::from(before));
            let (transmit, ..) = outbox.pop(&mut out).unwrap();
            assert_eq!(transmit.message(&out), text.as_bytes());
            assert_eq!(out.as_ptr() == buffer, is_moved);
            assert_eq!(all(&mut outbox), ["y"]);
        }
    }

    #[test]
    fn tickets_begin_anew_after_the_last_one() {
        let mut outbox = Outbox { last: u32::MAX - 2, ..Outbox::default() };
        let tickets: Vec<Ticket> =
            ["a", "b", "c", "d"].map(|text| push(&mut outbox, text, Lane::Bulk)).into();
        assert!(tickets[3].0.get() < tickets[0].0.get());
        outbox.withdraw(tickets[2]);
        assert_eq!(all(&mut outbox), ["a", "b", "d"]);
    }
}
