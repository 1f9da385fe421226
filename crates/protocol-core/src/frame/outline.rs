//! The outline of a message: all that is kept of one that is over the limit.

use alloc::vec::Vec;

/// A message with nothing in it that is long, and no value in a value in a member:
/// `{"id":1,"result":{"a":[0]}}` becomes `{"id":1,"result":{"a":[]}}`.
///
/// The outline is read in place of the message, to find out who waits for it. An outline that would be too
/// long itself ends early, so it is no JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outline {
    text: Vec<u8>,
    /// The number of objects and arrays that are open.
    depth: usize,
    /// The place in `text` of the object or array that is a member, while `depth` is above 1.
    member: usize,
    /// The place in `text` of the string that is being read.
    string: Option<usize>,
    /// Whether the last byte was a backslash in a string that escapes the next one.
    is_escaping: bool,
}

impl Outline {
    /// The most bytes of an outline.
    pub(crate) const BYTES: usize = 1024;
    /// The most bytes of an object or array in it.
    const MEMBER_BYTES: usize = 512;
    /// The most bytes of a string in it.
    const STRING_BYTES: usize = 256;
    /// Replaces a value that is longer. It is no id, no method and no name.
    const LONG: &[u8] = b"{}";

    /// Takes the next bytes of the message.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.string {
                Some(begin) => self.push_in_string(byte, begin),
                None => self.push_outside(byte),
            }
        }
    }

    /// Returns the outline of a whole message.
    pub(crate) fn into_text(self) -> Vec<u8> {
        self.text
    }

    fn push_in_string(&mut self, byte: u8, begin: usize) {
        let is_over = byte == b'"' && !self.is_escaping;
        self.is_escaping = byte == b'\\' && !self.is_escaping;
        if self.depth <= 2 && self.text.len() - begin <= Self::STRING_BYTES {
            self.push(byte);
        }
        if is_over {
            self.string = None;
            self.shorten(begin, Self::STRING_BYTES);
        }
    }

    fn push_outside(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'"' => self.string = Some(self.text.len()),
            b' ' | b'\n' | b'\r' | b'\t' => return,
            _ => {}
        }
        let [opens, closes] = [matches!(byte, b'{' | b'['), matches!(byte, b'}' | b']')];
        if opens && self.depth == 2 {
            self.member = self.text.len();
        }
        if self.depth <= 2 || (self.depth == 3 && (opens || closes)) {
            self.push(byte);
        }
        if closes {
            self.depth = self.depth.saturating_sub(1);
            if self.depth == 1 {
                self.shorten(self.member, Self::MEMBER_BYTES);
            }
        }
    }

    fn push(&mut self, byte: u8) {
        if self.text.len() < Self::BYTES {
            self.text.push(byte);
        }
    }

    /// Replaces the value that began at this place if it is longer than `most`.
    fn shorten(&mut self, begin: usize, most: usize) {
        if self.text.len() - begin > most {
            self.text.truncate(begin);
            self.text.extend_from_slice(Self::LONG);
        }
    }
}
