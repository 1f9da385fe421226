//! Writing JSON by hand, into a buffer that has a limit.

use alloc::vec::Vec;
use core::mem;

use serde_json::value::RawValue;

use crate::write::{decimal, escape, one_line};

/// A value that a [`Writer`] can write.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// JSON that was checked before. It is written on one line.
    Raw(&'a RawValue),
    /// A JSON token. It is written as it stands.
    Token(&'a str),
    /// A text, which becomes a JSON string.
    Text(&'a str),
    /// The literal `true` or `false`.
    Bool(bool),
    /// An integer, written in decimal digits.
    Number(i64),
    /// An integer as a JSON string of its digits.
    QuotedNumber(i64),
    /// An object of these members.
    Object(&'a [Member<'a>]),
}

/// A member of an object: its name and its value. A member without a value is left out.
pub type Member<'a> = (&'a str, Option<Value<'a>>);

/// Appends JSON to a buffer as long as it fits under a limit, and counts the rest.
///
/// So a message that is too long takes no more memory than there is room for, and its length is known all the same.
///
/// ```
/// use protocol_json::{Value, Writer};
///
/// let members = [("id", Some(Value::Number(7))), ("why", Some(Value::Text("\"slow\"")))];
/// let mut out = Vec::new();
/// let mut writer = Writer::new(&mut out, 100);
/// writer.object(&members);
/// assert_eq!(writer.finish(), Ok(()));
/// assert_eq!(out, br#"{"id":7,"why":"\"slow\""}"#);
///
/// let mut writer = Writer::new(&mut out, 10);
/// writer.object(&members);
/// assert_eq!(writer.finish(), Err(25));
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// The length of `out` before anything was written.
    start: usize,
    /// A piece of a text, a token or a value is kept if all of it fits into an `out` of this length.
    most: usize,
    /// The bytes that were not kept.
    skipped: usize,
}

impl<'a> Writer<'a> {
    /// A value of this many bytes is not moved once it is written.
    const LONG: usize = 1 << 10;
    /// The bytes that usually follow the last long value of a message.
    const BEHIND: usize = 64;

    /// Returns a writer that appends up to `most` bytes to `out`.
    #[inline]
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, most: usize) -> Self {
        let start = out.len();
        Self { out, start, most: start.saturating_add(most), skipped: 0 }
    }

    /// Ends the writing.
    ///
    /// # Errors
    ///
    /// The number of bytes that were written, if they are more than fit. Only a part of them was appended then, which
    /// exceeds the limit by no more than the [literals](Self::literal) and numbers.
    #[inline]
    pub fn finish(self) -> Result<(), usize> {
        let len = self.skipped.saturating_add(self.out.len() - self.start);
        if self.skipped == 0 && self.out.len() <= self.most { Ok(()) } else { Err(len) }
    }

    /// Writes JSON of the caller's own, such as punctuation. It should be short, for it is always kept.
    #[inline]
    pub fn literal(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Appends bytes of any number, if they fit. Returns whether they did.
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

    /// Writes a JSON token of any length as it stands.
    #[inline]
    pub fn token(&mut self, token: &str) {
        self.keep(token.as_bytes());
    }

    /// Writes a text as a JSON string.
    #[inline(always)]
    pub fn text(&mut self, text: &str) {
        self.literal("\"");
        escape(text, |piece| {
            self.keep(piece);
        });
        self.literal("\"");
    }

    /// Writes a value as its owner wrote it, but on one line.
    #[inline]
    pub fn raw(&mut self, value: &RawValue) {
        let begin = self.out.len();
        if (Self::LONG..=self.most).contains(&value.get().len()) {
            // The bytes behind it then need no second allocation, which would move it. A buffer that has
            // room for the whole message grows no further.
            let most = self.most.saturating_sub(begin);
            self.out.reserve(most.min(value.get().len() + Self::BEHIND));
        }
        if self.keep(value.get().as_bytes()) {
            one_line(&mut self.out[begin..]);
        }
    }

    /// Writes an integer.
    #[inline]
    pub fn number(&mut self, number: i64) {
        if number < 0 {
            self.literal("-");
        }
        decimal(number.unsigned_abs(), self.out);
    }

    /// Writes a value.
    #[inline]
    pub fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Raw(value) => self.raw(value),
            Value::Token(token) => self.token(token),
            Value::Text(text) => self.text(text),
            Value::Bool(value) => self.literal(if value { "true" } else { "false" }),
            Value::Number(number) => self.number(number),
            Value::QuotedNumber(number) => {
                self.literal("\"");
                self.number(number);
                self.literal("\"");
            }
            Value::Object(members) => self.object(members),
        }
    }

    /// Writes an object of these members, in their order. Members without a value are left out.
    pub fn object(&mut self, members: &[Member<'_>]) {
        let mut before = b'{';
        for &(name, value) in members {
            if let Some(value) = value {
                self.out.push(mem::replace(&mut before, b','));
                self.text(name);
                self.literal(":");
                self.value(value);
            }
        }
        self.literal(if before == b'{' { "{}" } else { "}" });
    }
}
