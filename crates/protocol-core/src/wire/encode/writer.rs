//! Where the parts of a message go.

use alloc::vec::Vec;

use protocol_json::{decimal, escape, one_line};
use serde_json::value::RawValue;

use super::Context;

/// Takes the parts of one message, one after the other.
pub(super) struct Writer<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) out: &'a mut Vec<u8>,
    /// A piece of a text, a token or a value is kept if all of it fits into an `out` of this length. The
    /// envelope's punctuation and numbers are short, and always kept.
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
        escape(text, |piece| {
            self.keep(piece);
        });
        self.text("\"");
    }

    /// A value as its owner wrote it, but on one line.
    #[inline]
    pub(super) fn raw(&mut self, value: &RawValue) {
        let start = self.out.len();
        if (Self::LONG..=self.most).contains(&value.get().len()) {
            // With what stands behind it, so that it is moved no second time.
            self.out.reserve(value.get().len() + Self::BEHIND);
        }
        if self.keep(value.get().as_bytes()) {
            one_line(&mut self.out[start..]);
        }
    }

    /// A number.
    #[inline]
    pub(super) fn number(&mut self, number: i64) {
        if number < 0 {
            self.text("-");
        }
        decimal(number.unsigned_abs(), self.out);
    }
}
