//! Where the parts of a message go.

use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::Context;
use crate::wire::scan;

/// Takes the parts of one message, one after the other.
pub(super) struct Writer<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) out: &'a mut Vec<u8>,
    /// A text, token or value is kept if all of it fits into an `out` of this length. What the envelope
    /// itself says is short, and always kept.
    pub(super) most: usize,
    /// The bytes of those that were not kept.
    pub(super) skipped: usize,
}

impl Writer<'_> {
    /// A value of so many bytes is not moved once it is written.
    const LONG: usize = 1 << 10;
    /// What the envelope says behind it is seldom longer.
    const BEHIND: usize = 64;

    /// JSON of the envelope.
    #[inline]
    pub(super) fn text(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Bytes of any number; whether they are kept.
    #[inline]
    fn keep(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.most.saturating_sub(self.out.len());
        if fits {
            self.out.extend_from_slice(bytes);
        } else {
            self.skipped = self.skipped.saturating_add(bytes.len());
        }
        fits
    }

    /// A JSON token, of any length, that is written as it is.
    #[inline]
    pub(super) fn token(&mut self, token: &str) {
        self.keep(token.as_bytes());
    }

    /// A JSON string.
    #[inline(always)]
    pub(super) fn string(&mut self, text: &str) {
        self.text("\"");
        self.characters(text);
        self.text("\"");
    }

    /// What stands between the quotes of a JSON string.
    #[inline(always)]
    pub(super) fn characters(&mut self, text: &str) {
        if scan::is_plain(text) {
            self.keep(text.as_bytes());
        } else {
            self.escaped(text);
        }
    }

    #[cold]
    fn escaped(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => self.keep(&[b'\\', byte]),
                0..0x20 => {
                    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                    self.keep(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)])
                }
                _ => self.keep(&[byte]),
            };
        }
    }

    /// A value as its owner wrote it, but on one line: a line end in valid JSON can only be white space
    /// between tokens.
    #[inline]
    pub(super) fn raw(&mut self, value: &RawValue) {
        let start = self.out.len();
        if (Self::LONG..=self.most).contains(&value.get().len()) {
            // With what stands behind it, so that it is moved no second time.
            self.out.reserve(value.get().len() + Self::BEHIND);
        }
        if self.keep(value.get().as_bytes()) && scan::has_control(value.get()) {
            spaced(&mut self.out[start..]);
        }
    }

    /// A number that may be negative.
    #[inline]
    pub(super) fn signed(&mut self, number: i64) {
        if number < 0 {
            self.text("-");
        }
        self.decimal(number.unsigned_abs());
    }

    /// A number.
    pub(super) fn decimal(&mut self, number: u64) {
        self.out.extend_from_slice(decimal(number, &mut [0; 20]));
    }
}

#[cold]
fn spaced(value: &mut [u8]) {
    for byte in value.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// The digits of a number, which has no more than there are places for them.
pub(crate) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}
