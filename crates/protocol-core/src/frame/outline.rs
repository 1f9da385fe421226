//! The outline of a message: all that is kept of one that is over the limit.

use alloc::vec::Vec;
use core::mem;

/// A message without its long values and those that stand deep: `{"id":1,"result":{"a":[0]}}` becomes
/// `{"id":1,"result":{}}`.
///
/// The outline is read in place of the message, to find out who waits for it. The outline of a broken message
/// may be JSON. One that would be too long itself ends early, so it is no JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outline {
    text: Vec<u8>,
    /// The depth up to which members are kept: 1, or 3 where ids stand in a member of a member.
    levels: usize,
    /// The number of objects and arrays that are open.
    depth: usize,
    /// The place in `text` of the object or array in a member, while `depth` is above 2.
    inner: usize,
    /// The place in `text` of the string that is being read.
    string: Option<usize>,
    /// Whether the last byte was a backslash in a string that escapes the next one.
    is_escaping: bool,
}

impl Outline {
    /// The most bytes of an outline.
    pub(crate) const BYTES: usize = 1024;
    /// The most bytes of a string in it, with its quotes, and of an object or array in a member.
    const VALUE_BYTES: usize = 2 + 256;
    /// Replaces a longer value. It is no id, no method and no name.
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
        if self.depth <= self.levels && self.text.len() - begin <= Self::VALUE_BYTES {
            self.push(byte);
        }
        if is_over {
            self.string = None;
            self.shorten(begin);
        }
    }

    fn push_outside(&mut self, byte: u8) {
        let [opens, closes] = [matches!(byte, b'{' | b'['), matches!(byte, b'}' | b']')];
        match byte {
            // One space keeps `1 2` from becoming `12`.
            b' ' | b'\n' | b'\r' | b'\t' if self.depth == 0 || self.text.ends_with(b" ") => return,
            b'"' => self.string = Some(self.text.len()),
            _ if opens => self.depth += 1,
            _ => {}
        }
        if opens && self.depth == 3 {
            self.inner = self.text.len();
        }
        if self.depth <= self.levels || (self.depth == self.levels + 1 && (opens || closes)) {
            self.push(if byte.is_ascii_whitespace() { b' ' } else { byte });
        }
        if closes {
            self.depth = self.depth.saturating_sub(1);
            if self.depth == 2 {
                self.shorten(self.inner);
            }
        }
    }

    fn push(&mut self, byte: u8) {
        if self.text.len() < Self::BYTES {
            self.text.push(byte);
        }
    }

    /// Replaces the value that began at this place if it is long.
    fn shorten(&mut self, begin: usize) {
        if self.text.len() - begin > Self::VALUE_BYTES {
            self.text.truncate(begin);
            self.text.extend_from_slice(Self::LONG);
        }
    }
}
