//! The caller's buffer of bytes that were read and not used yet.

use alloc::vec::Vec;
use core::fmt;

/// Holds what a transport read until whole messages are there; see
/// [`StreamConnection::receive`](crate::StreamConnection::receive).
///
/// Its room is at most twice the longest message that the limits allow, with its framing, plus one read.
/// While it grows, what it had is held beside that until its bytes are moved: at most one such message
/// and one read more.
#[derive(Clone, Default)]
pub struct InputBuffer {
    /// The bytes, and behind them room for more. The room keeps its old content, so it is zeroed once
    /// and not at each read.
    bytes: Vec<u8>,
    /// Invariant: at most `end`; everything before it is used up.
    start: usize,
    /// Invariant: at most `bytes.len()`; everything behind it is room.
    end: usize,
}

impl InputBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0 }
    }

    /// The bytes that are not used yet.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Marks the first `used` unread bytes as used.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn consume(&mut self, used: usize) {
        assert!(used <= self.end - self.start, "more used than there was");
        self.start += used;
        if self.start == self.end {
            self.give_back();
            (self.start, self.end) = (0, 0);
        }
    }

    /// Gives half of the room back if little of it was needed. So a row of long messages reuses the same
    /// room, and it shrinks step by step after them.
    fn give_back(&mut self) {
        let room = self.bytes.capacity();
        if room > Self::KEPT && self.end < room / 4 {
            let kept = (room / 2).max(Self::KEPT);
            self.bytes.truncate(kept);
            self.bytes.shrink_to(kept);
        }
    }

    /// Adds bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        let full = self.end + bytes.len();
        self.bytes[self.end..full].copy_from_slice(bytes);
        self.end = full;
    }

    /// Lets `read` fill up to `room` bytes behind the unread ones; it returns how many it filled.
    ///
    /// # Errors
    ///
    /// Those of `read`; nothing is added then.
    ///
    /// # Panics
    ///
    /// If `read` says it filled more than it was given.
    pub fn fill<E>(
        &mut self,
        room: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.make_room(room);
        let full = self.end + room;
        let filled = read(&mut self.bytes[self.end..full]);
        let kept = *filled.as_ref().unwrap_or(&0);
        assert!(kept <= room, "more read than there was room");
        self.end += kept;
        filled
    }

    /// Buffers up to this size are always kept.
    const KEPT: usize = 64 << 10;

    /// Has so much room behind the unread bytes. Each byte moves O(1) times: the used part is closed up
    /// when it is the larger one, or before the room grows, which then doubles.
    fn make_room(&mut self, room: usize) {
        let unread = self.end - self.start;
        let must_grow = self.bytes.capacity() < self.end + room;
        if self.start > self.end / 2 || must_grow {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, unread);
        }
        let full = self.end + room;
        if self.bytes.capacity() < full {
            // What is used up is not carried along.
            self.bytes.truncate(self.end);
            self.bytes.reserve_exact(unread + room);
        }
        if self.bytes.len() < full {
            self.bytes.resize(full, 0);
        }
    }
}

/// Without the bytes: what the peer says holds secrets.
impl fmt::Debug for InputBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unread = self.unread().len();
        f.debug_struct("InputBuffer").field("unread", &unread).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_room_for_long_messages_is_given_back_when_only_short_ones_come() {
        let mut input = InputBuffer::new();
        let take = |input: &mut InputBuffer, len: usize| {
            input.extend_from_slice(&alloc::vec![b'x'; len]);
            input.fill(1, |_| Ok::<_, ()>(0)).unwrap();
            input.consume(len);
            input.bytes.capacity()
        };
        let long = take(&mut input, 1 << 20);
        assert_eq!(take(&mut input, 1 << 20), long, "found again");
        let after: alloc::vec::Vec<usize> = (0..8).map(|_| take(&mut input, 10)).collect();
        assert!(after[0] >= 1 << 19, "not at once: {after:?}");
        assert!(after[7] <= InputBuffer::KEPT, "all of it: {after:?}");
    }

    #[test]
    fn f49_its_room_is_twice_the_longest_message_and_one_read() {
        const READ: usize = 64 << 10;
        // Messages of every kind of length, read in pieces that end anywhere.
        for longest in [1_000, READ, 100_000, 1 << 20, 3_000_000] {
            let mut input = InputBuffer::new();
            let mut most = 0;
            for (round, piece) in
                [1, 777, 4_096, READ - 1, READ].into_iter().cycle().take(2_000).enumerate()
            {
                input.fill(READ, |_| Ok::<_, ()>(piece)).unwrap();
                most = most.max(input.bytes.capacity());
                let message = longest - round % 3;
                while input.unread().len() >= message {
                    input.consume(message);
                }
            }
            assert!(most <= 2 * longest + READ, "{longest}: {most}");
        }
    }

    #[test]
    fn b28_bytes_stay_until_they_are_used() {
        let mut input = InputBuffer::new();
        input.extend_from_slice(b"abc");
        input.consume(2);
        let filled: Result<usize, ()> = input.fill(8, |room| {
            room[..2].copy_from_slice(b"de");
            Ok(2)
        });
        assert_eq!((filled, input.unread()), (Ok(2), &b"cde"[..]));
        assert_eq!(input.fill(8, |_| Err(())), Err(()));
        assert_eq!(input.unread(), b"cde");
        input.consume(3);
        assert!(input.unread().is_empty());
    }
}
