//! Messages that wait to be sent, and can still be taken back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::num::NonZeroU32;

use crate::event::{Transmit, TransmitKind};
use crate::wire::encode::{Context, Draft};

/// Holds whole unframed messages, each in a buffer of its own.
///
/// Cancels leave before everything else, in their order; the rest leaves in its order. A cancel is
/// queued only after its request has left, so it never overtakes that (G4).
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    ahead: Queue,
    bulk: Queue,
    /// The serial of the last message that was queued.
    last: u32,
    /// The bytes of the messages that wait.
    bytes: usize,
    /// Buffers of messages that have left, for the next ones.
    spare: Vec<Vec<u8>>,
}

/// Where a message is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Ahead of everything but others of its kind.
    Ahead,
    /// Behind all others.
    Bulk,
}

/// Names a message that waits. Once it has left or was taken back, it must not be used: after 2^32
/// messages it names another one. The phase of a call says whether its message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(NonZeroU32);

/// One message that waits.
#[derive(Clone)]
struct Message {
    ticket: Ticket,
    kind: TransmitKind,
    /// The number of the request or the cancel of ours that it is.
    number: Option<u32>,
    /// Empty once it was taken back.
    bytes: Vec<u8>,
}

/// Messages that leave one after the other.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// In the order of their tickets. Invariant: the first was not taken back, and at most half of them
    /// were.
    messages: VecDeque<Message>,
    /// How many were taken back.
    withdrawn: usize,
}

impl Outbox {
    /// A message of at least this size is moved out with its buffer, if it can be: copying it takes
    /// longer.
    const MOVED: usize = 4 << 10;
    /// A new buffer has room for a message of this size. One that has not grown is kept for the next.
    pub(crate) const BUFFER: usize = 256;
    /// So many buffers are kept.
    pub(crate) const SPARE: usize = 64;
    /// The bytes of a message's row.
    pub(crate) const ROW: usize = size_of::<Message>();
    /// So much room for messages is kept when there are none: a quarter of the small ones that are written
    /// at once.
    const KEPT: usize = 256;

    /// The bytes that wait.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.ahead.len() + self.bulk.len()
    }

    /// Writes a message and queues it, if it is no longer than `most`. `number` is that of the request
    /// or cancel of ours that it is.
    ///
    /// # Errors
    ///
    /// Its length.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        most: usize,
        context: &Context<'_>,
        draft: &Draft<'_>,
        lane: Lane,
        kind: TransmitKind,
        number: Option<u32>,
    ) -> Result<Ticket, usize> {
        let mut bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(Self::BUFFER));
        match draft.write(context, most, &mut bytes) {
            Ok(()) => {
                if bytes.capacity() > Self::BUFFER {
                    // A buffer doubles as it grows, and no message needs so much more than its length.
                    bytes.shrink_to(bytes.len() + Self::BUFFER);
                } else if self.bulk.messages.len() >= Self::SPARE {
                    bytes = self.copied(bytes);
                }
                Ok(self.queue(lane, kind, number, bytes))
            }
            Err(len) => {
                self.recycle(bytes);
                Err(len)
            }
        }
    }

    /// As many messages wait as buffers are kept: one more leaves its buffer to the next.
    #[cold]
    fn copied(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let exact = bytes.clone();
        self.recycle(bytes);
        exact
    }

    /// Queues a message that is written already.
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
        let queue = match lane {
            Lane::Ahead => &mut self.ahead,
            Lane::Bulk => &mut self.bulk,
        };
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

    /// Takes a message back that is still here.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let taken = self.bulk.withdraw(ticket).or_else(|| self.ahead.withdraw(ticket));
        if let Some(buffer) = taken {
            self.bytes -= buffer.len();
            self.recycle(buffer);
        }
    }

    /// The length of the next message.
    pub(crate) fn next_len(&self) -> Option<usize> {
        let next = self.ahead.messages.front().or(self.bulk.messages.front());
        next.map(|message| message.bytes.len())
    }

    /// Moves the next message to the end of `out`; says which it was, and its number.
    #[inline]
    pub(crate) fn pop(&mut self, out: &mut Vec<u8>) -> Option<(Transmit, Ticket, Option<u32>)> {
        let queue = if self.ahead.len() == 0 { &mut self.bulk } else { &mut self.ahead };
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

    /// Takes every message back.
    pub(crate) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}

impl Queue {
    /// How many messages wait.
    fn len(&self) -> usize {
        self.messages.len() - self.withdrawn
    }

    /// Takes a message back; gives its bytes.
    fn withdraw(&mut self, ticket: Ticket) -> Option<Vec<u8>> {
        // By their distance from the first: tickets begin anew after 2^32.
        let first = self.messages.front()?.ticket.0.get();
        let distance = |ticket: Ticket| ticket.0.get().wrapping_sub(first);
        let at = self.messages.binary_search_by_key(&distance(ticket), |it| distance(it.ticket));
        let bytes = mem::take(&mut self.messages[at.ok()?].bytes);
        self.withdrawn += 1;
        self.tidy();
        Some(bytes)
    }

    /// Restores the invariant.
    #[inline]
    fn tidy(&mut self) {
        if self.withdrawn > self.messages.len() / 2 {
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

/// Without its bytes: they hold secrets, such as tokens of operations.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("ticket", &self.ticket)
            .field("kind", &self.kind)
            .field("number", &self.number)
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
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
        assert!(outbox.bulk.messages.capacity() <= 8, "{}", outbox.bulk.messages.capacity());
        assert_eq!(all(&mut outbox), ["first", "next"]);
    }

    #[test]
    fn g08_many_that_wait_take_no_more_room_than_they_need() {
        let config = crate::Config::client(crate::Dialect::ACP_V1);
        let context = Context { config: &config, now: crate::Timestamp::ZERO, next: 0 };
        let draft = Draft::Notification { method: "m", params: None };
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            for _ in 0..1_000 {
                let kind = TransmitKind::Notification;
                outbox.push(usize::MAX, &context, &draft, Lane::Bulk, kind, None).unwrap();
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
