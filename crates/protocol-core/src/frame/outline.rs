//! The outline of a message: all that is kept of one that is over the limit.

use alloc::vec::Vec;

/// A message without anything in it that is nested or long: `{"id":1,"result":{"a":[…]}}` becomes
/// `{"id":1,"result":{}}`.
///
/// The outline of a message is read in its place, to find out who waits for it. An outline that would be too
/// long itself ends early, so it is no JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outline {
    text: Vec<u8>,
    /// The number of objects and arrays that are open.
    depth: usize,
    /// The place in `text` of the string that is being read.
    string: Option<usize>,
    /// Whether the last byte was a backslash in a string that escapes the next one.
    is_escaping: bool,
}

impl Outline {
    /// The most bytes of an outline.
    pub(crate) const BYTES: usize = 1024;
    /// The most bytes of a string; a longer one becomes `{}`, which is no id, no method and no name.
    const STRING_BYTES: usize = 256;

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
        if is_over {
            self.string = None;
        }
        if self.depth > 1 {
            return;
        }
        if self.text.len() - begin <= Self::STRING_BYTES {
            self.push(byte);
        } else if is_over {
            self.text.truncate(begin);
            self.text.extend_from_slice(b"{}");
        }
    }

    fn push_outside(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'"' => self.string = Some(self.text.len()),
            _ => {}
        }
        let is_bracket = matches!(byte, b'{' | b'}' | b'[' | b']');
        let is_shown = self.depth <= 1 || (self.depth == 2 && is_bracket);
        if is_shown && !byte.is_ascii_whitespace() {
            self.push(byte);
        }
        if matches!(byte, b'}' | b']') {
            self.depth = self.depth.saturating_sub(1);
        }
    }

    fn push(&mut self, byte: u8) {
        if self.text.len() < Self::BYTES {
            self.text.push(byte);
        }
    }
}
