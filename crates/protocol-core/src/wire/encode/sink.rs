//! Where the parts of a message go: they are kept, counted, or bounded.

use alloc::vec::Vec;

use memchr::memchr2;
use serde_json::value::RawValue;

use crate::wire::scan;

/// Takes the parts of a message, one after the other.
pub(super) trait Sink {
    /// JSON as it is.
    fn text(&mut self, json: &[u8]);

    /// What stands between the quotes of a JSON string.
    fn characters(&mut self, text: &str);

    /// A value as its owner wrote it, but on one line.
    fn raw(&mut self, value: &RawValue);

    /// A number.
    fn decimal(&mut self, number: u64);

    /// A JSON string.
    #[inline]
    fn string(&mut self, text: &str) {
        self.text(b"\"");
        self.characters(text);
        self.text(b"\"");
    }

    /// The member `data` of an error.
    fn data(&mut self, data: Option<&RawValue>) {
        if let Some(data) = data {
            self.text(br#","data":"#);
            self.raw(data);
        }
    }
}

/// A control character is written as `\u00` and two digits.
const LONGEST_ESCAPE: usize = 6;
/// The digits of 2^64 - 1.
const MOST_DIGITS: usize = 20;

/// Counts the bytes.
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    #[inline]
    fn text(&mut self, json: &[u8]) {
        self.0 += json.len();
    }

    #[inline]
    fn characters(&mut self, text: &str) {
        self.0 += if scan::is_plain(text) { text.len() } else { escaped_len(text) };
    }

    #[inline]
    fn raw(&mut self, value: &RawValue) {
        self.0 += value.get().len();
    }

    #[inline]
    fn decimal(&mut self, number: u64) {
        self.0 += number.checked_ilog10().map_or(1, |log| log as usize + 1);
    }
}

#[cold]
fn escaped_len(text: &str) -> usize {
    let len = |byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(len).sum()
}

/// How long a message may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// At least its length, if no text needs an escape.
    pub(crate) usual: usize,
    /// At least its length.
    pub(crate) most: usize,
}

/// Adds up what each part may be at the most.
impl Sink for Bounds {
    #[inline]
    fn text(&mut self, json: &[u8]) {
        self.usual += json.len();
        self.most += json.len();
    }

    #[inline]
    fn characters(&mut self, text: &str) {
        self.usual += text.len();
        self.most = self.most.saturating_add(text.len().saturating_mul(LONGEST_ESCAPE));
    }

    #[inline]
    fn raw(&mut self, value: &RawValue) {
        self.text(value.get().as_bytes());
    }

    #[inline]
    fn decimal(&mut self, _: u64) {
        self.text(&[0; MOST_DIGITS]);
    }
}

/// Keeps the bytes.
impl Sink for Vec<u8> {
    #[inline]
    fn text(&mut self, json: &[u8]) {
        self.extend_from_slice(json);
    }

    #[inline]
    fn characters(&mut self, text: &str) {
        if scan::is_plain(text) {
            self.extend_from_slice(text.as_bytes());
        } else {
            escaped(text, self);
        }
    }

    /// A line end in valid JSON can only be white space between tokens.
    #[inline]
    fn raw(&mut self, value: &RawValue) {
        let start = self.len();
        self.extend_from_slice(value.get().as_bytes());
        if scan::has_control(value.get()) {
            spaced(&mut self[start..]);
        }
    }

    #[inline]
    fn decimal(&mut self, number: u64) {
        decimal(number, self);
    }
}

#[cold]
fn spaced(value: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr2(b'\n', b'\r', &value[from..]) {
        value[from + at] = b' ';
        from += at + 1;
    }
}

#[cold]
fn escaped(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend(
                    [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]),
                );
            }
            _ => out.push(byte),
        }
    }
}

/// Appends a number.
pub(crate) fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; MOST_DIGITS];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}
