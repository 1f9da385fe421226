//! Messages on their way to the writer.

use std::collections::VecDeque;
use std::fmt;
use std::mem;

/// Messages to be sent, one behind the other.
#[derive(Clone, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// Where each message that was not taken yet ends in `bytes`, in their order.
    ends: VecDeque<usize>,
    /// Where the first of them begins.
    start: usize,
}

impl Messages {
    /// Whether there are none, and none have been taken since the last [`clear`](Self::clear).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether each has been taken.
    #[must_use]
    pub fn all_taken(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes the next one.
    pub fn take_next(&mut self) -> Option<&[u8]> {
        let end = self.ends.pop_front()?;
        let start = mem::replace(&mut self.start, end);
        Some(&self.bytes[start..end])
    }

    /// Drops them all, and keeps the room for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.start = 0;
    }

    /// The bytes of all messages.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the message that `write` appends, if it says that it did.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let is_written = write(&mut self.bytes);
        if is_written {
            self.ends.push_back(self.bytes.len());
        }
        is_written
    }

    /// Where to write more, and where it ends.
    pub(crate) fn parts(&mut self) -> (&mut Vec<u8>, &mut VecDeque<usize>) {
        (&mut self.bytes, &mut self.ends)
    }

    /// Moves them all to `out`, and tells `ended` where each ends there.
    pub(crate) fn append_to(&mut self, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) {
        let before = out.len();
        self.ends.drain(..).for_each(|end| ended(before + end));
        out.append(&mut self.bytes);
    }
}

/// Without the bytes: they hold secrets, such as tokens of operations.
impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, waiting) = (self.bytes.len(), self.ends.len());
        f.debug_struct("Messages").field("bytes", &bytes).field("waiting", &waiting).finish()
    }
}

#[cfg(test)]
mod tests {
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
        let Messages { bytes, ends, .. } = &mut out;
        bytes.push(b'7');
        ends.push_back(1);
        assert_eq!(format!("{staged:?}"), "Messages { bytes: 5, waiting: 2 }", "F10");
        staged.append_to(bytes, |end| ends.push_back(end));
        assert!(staged.is_empty() && staged.all_taken());
        let taken: Vec<Vec<u8>> =
            std::iter::from_fn(|| out.take_next().map(<[u8]>::to_vec)).collect();
        assert_eq!(taken, [&b"7"[..], b"[1]", b"{}"]);
        assert!(out.all_taken() && !out.is_empty());
        out.clear();
        assert!(out.is_empty() && out.take_next().is_none());
    }
}
