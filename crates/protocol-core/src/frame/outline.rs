//! The outline of a message: all that is kept of one that is over the limit.

use alloc::vec::Vec;
use core::mem;

/// A message without its long values and those that stand deep: `{"id":1,"result":{"a":[0]}}` becomes
/// `{"id":1,"result":{}}`.
///
/// The outline is read in place of the message, to find out who waits for it. It may be JSON where the message
/// breaks off deep inside. An outline that would be too long itself ends early, so it is no JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outline {
    text: Vec<u8>,
    /// The depth up to which members are kept.
    levels: usize,
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

    pub(crate) fn new(levels: usize) -> Self {
        Self { levels, ..Self::default() }
    }

    /// Takes the next bytes of the message.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.string {
                Some(begin) => self.push_in_string(byte, begin),
                None => self.push_outside(byte),
            }
        }
    }

    /// Returns the outline of the message that ends here, and begins that of the next one.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        mem::replace(self, Self::new(self.levels)).text
    }

    fn push_in_string(&mut self, byte: u8, begin: usize) {
        let is_over = byte == b'"' && !self.is_escaping;
        self.is_escaping = byte == b'\\' && !self.is_escaping;
        if self.depth <= self.levels && self.text.len() - begin <= Self::STRING_BYTES {
            self.push(byte);
        }
        if is_over {
            self.string = None;
            self.shorten(begin, Self::STRING_BYTES);
        }
    }

    fn push_outside(&mut self, byte: u8) {
        let [opens, closes] = [matches!(byte, b'{' | b'['), matches!(byte, b'}' | b']')];
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' if self.depth == 0 => return,
            b'"' => self.string = Some(self.text.len()),
            _ if opens => self.depth += 1,
            _ => {}
        }
        if opens && self.depth == 2 {
            self.member = self.text.len();
        }
        if self.depth <= self.levels || (self.depth == self.levels + 1 && (opens || closes)) {
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
