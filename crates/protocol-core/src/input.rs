//! A buffer for bytes that were read and not used yet.

use alloc::vec::Vec;
use core::fmt;

/// A buffer that keeps the bytes of a transport until they make whole messages.
///
/// Its capacity is at most twice the longest message that the limits allow, with its framing, plus one
/// read. While it grows, it holds its old memory too: at most one such message and one read (F49).
///
/// ```
/// use protocol_core::{Config, Dialect, Event, InputBuffer, StreamConnection, Timestamp};
/// use std::io::Read;
///
/// let mut transport: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\n";
/// let mut server: StreamConnection<()> = StreamConnection::new(Config::server(Dialect::ACP_V1));
/// let mut input = InputBuffer::new();
///
/// input.fill(64 << 10, |room| transport.read(room))?;
/// let taken = server.receive(input.unread(), Timestamp::ZERO);
/// assert!(matches!(taken.event, Some(Event::Notification { method, .. }) if method == "hello"));
/// input.consume(taken.consumed);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct InputBuffer {
    /// The bytes, and room for more behind them. The room keeps its old content, so that it is zeroed
    /// once and not before each read.
    bytes: Vec<u8>,
    /// Invariant: at most `end`. All bytes before it are used.
    start: usize,
    /// Invariant: at most `bytes.len()`. All bytes behind it are room.
    end: usize,
}

impl InputBuffer {
    /// The capacity that is never freed, in bytes.
    const KEPT: usize = 64 << 10;

    /// Returns an empty buffer without an allocation.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0 }
    }

    /// Returns the bytes that are not used yet.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the bytes of memory that it has.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Marks the first `used` unread bytes as used.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer unread bytes.
    pub fn consume(&mut self, used: usize) {
        assert!(used <= self.end - self.start, "more used than there was");
        self.start += used;
        if self.start == self.end {
            // The capacity halves if less than a quarter was in use. So a series of long messages reuses
            // the same memory, and the buffer shrinks step by step after it.
            let capacity = self.bytes.capacity();
            if capacity > Self::KEPT && self.end < capacity / 4 {
                let kept = (capacity / 2).max(Self::KEPT);
                self.bytes.truncate(kept);
                self.bytes.shrink_to(kept);
            }
            (self.start, self.end) = (0, 0);
        }
    }

    /// Appends bytes that were read elsewhere.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends what `read` writes into a slice of `room` bytes, and returns its length.
    ///
    /// `read` returns the number of bytes that it wrote.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`, and appends nothing.
    ///
    /// # Panics
    ///
    /// Panics if `read` returns more than `room`.
    pub fn fill<E>(
        &mut self,
        room: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let filled = read(self.room(room))?;
        assert!(filled <= room, "more read than there was room");
        self.end += filled;
        Ok(filled)
    }

    /// Returns room for `len` bytes behind the unread ones. Mostly it is there.
    #[inline]
    fn room(&mut self, len: usize) -> &mut [u8] {
        if self.start > self.end / 2 || self.bytes.len() < self.end + len {
            self.make_room(len);
        }
        &mut self.bytes[self.end..self.end + len]
    }

    /// Makes room for `len` bytes. Each byte moves O(1) times.
    ///
    /// The unread bytes move to the front when the used part is the larger one, or before the capacity
    /// grows, which then doubles. Bytes of the capacity that nobody has asked for stay untouched.
    #[cold]
    fn make_room(&mut self, len: usize) {
        let unread = self.end - self.start;
        if self.start > self.end / 2 || self.bytes.capacity() < self.end + len {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, unread);
        }
        let full = self.end + len;
        if self.bytes.capacity() < full {
            // The old content of the room is not worth a copy.
            self.bytes.truncate(self.end);
            self.bytes.reserve_exact(unread + len);
        }
        self.bytes.resize(full.max(self.bytes.len()), 0);
    }
}

/// Shows no bytes, because they may hold the peer's secrets.
impl fmt::Debug for InputBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputBuffer").field("unread", &self.unread().len()).finish_non_exhaustive()
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
        // The messages have every kind of length, and the pieces end anywhere.
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
