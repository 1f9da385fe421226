//! Messages on their way to the writer.

use alloc::vec::Vec;
use core::fmt;
use core::mem;

/// The bytes of room that are kept once everything is written.
const KEPT: usize = 128 << 10;
/// The bytes of the shortest message.
pub(crate) const SHORTEST: usize = 24;

/// Messages to be sent, one after another.
#[derive(Clone, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// The position in `bytes` at which each message ends, in their order.
    ends: Vec<usize>,
    /// The number of messages that were taken.
    taken: usize,
    /// The position in `bytes` at which the next message begins.
    start: usize,
}

impl Messages {
    /// Returns whether there are no messages. Taken ones count until the next [`clear`](Self::clear).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of messages that were not taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ends.len() - self.taken
    }

    /// Takes the next message.
    pub fn take_next(&mut self) -> Option<&[u8]> {
        let end = *self.ends.get(self.taken)?;
        self.taken += 1;
        let start = mem::replace(&mut self.start, end);
        Some(&self.bytes[start..end])
    }

    /// Drops all messages, and keeps room for as many as are written at once.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        (self.taken, self.start) = (0, 0);
        if self.bytes.capacity() > KEPT {
            self.bytes.shrink_to(KEPT);
        }
        if self.ends.capacity() > KEPT / SHORTEST {
            self.ends.shrink_to(KEPT / SHORTEST);
        }
    }

    /// Returns the number of bytes of all messages.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns all messages, one after another.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds the message that `write` appends. `write` returns whether it did, and so does this.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let is_written = write(&mut self.bytes);
        if is_written {
            self.ends.push(self.bytes.len());
        }
        is_written
    }

    /// Moves the messages of `other` behind these. None of them may have been taken.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            *self = mem::take(other);
            return;
        }
        let before = self.bytes.len();
        self.ends.extend(other.ends.drain(..).map(|end| before + end));
        self.bytes.append(&mut other.bytes);
    }
}

/// Omits the bytes, which hold secrets such as the tokens of operations.
impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, waiting) = (self.bytes.len(), self.waiting());
        f.debug_struct("Messages").field("bytes", &bytes).field("waiting", &waiting).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn messages_stay_apart_however_they_were_gathered() {
        let (mut staged, mut out) = (Messages::default(), Messages::default());
        for text in ["[1]", "{}"] {
            assert!(staged.push(|bytes| {
                bytes.extend_from_slice(text.as_bytes());
                true
            }));
        }
        assert!(!staged.push(|_| false));
        assert!(out.push(|bytes| {
            bytes.push(b'7');
            true
        }));
        assert_eq!(format!("{staged:?}"), "Messages { bytes: 5, waiting: 2 }", "F10");
        out.append(&mut staged);
        assert!(staged.is_empty() && staged.waiting() == 0);
        let taken: Vec<Vec<u8>> =
            std::iter::from_fn(|| out.take_next().map(<[u8]>::to_vec)).collect();
        assert_eq!(taken, [&b"7"[..], b"[1]", b"{}"]);
        assert!(out.waiting() == 0 && !out.is_empty());
        out.clear();
        assert!(out.is_empty() && out.take_next().is_none());
    }
}
