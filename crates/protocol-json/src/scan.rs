//! The scanner. It accepts exactly the text that `serde_json` accepts as a `RawValue`.

use alloc::vec::Vec;
use core::mem;

use crate::plain::{plain_of_eight, plain_until};
use crate::string::string;

/// The bytes of a text.
///
/// Each method is named for a piece of JSON. It takes the position where that piece should begin,
/// and returns the position where it ends. It returns `None` if the text has no such piece there.
#[derive(Clone, Copy)]
pub(crate) struct Json<'m>(&'m [u8]);

impl<'m> Json<'m> {
    #[inline]
    pub(crate) const fn of(text: &'m str) -> Self {
        Self(text.as_bytes())
    }

    /// Reads exactly these bytes.
    #[inline]
    fn literal(self, bytes: &[u8], at: usize) -> Option<usize> {
        self.0.get(at..)?.starts_with(bytes).then_some(at + bytes.len())
    }

    /// Reads exactly this byte.
    #[inline]
    pub(crate) fn byte(self, byte: u8, at: usize) -> Option<usize> {
        (*self.0.get(at)? == byte).then_some(at + 1)
    }

    /// Skips white space. This is inlined because most peers write none.
    #[inline]
    pub(crate) fn space(self, at: usize) -> usize {
        if self.0.get(at).is_some_and(|&byte| byte <= b' ') { self.skip_space(at) } else { at }
    }

    /// Skips white space, and returns the byte behind it with its position.
    #[inline]
    pub(crate) fn next(self, at: usize) -> Option<(u8, usize)> {
        match *self.0.get(at)? {
            byte if byte > b' ' => Some((byte, at)),
            _ => {
                let at = self.skip_space(at);
                Some((*self.0.get(at)?, at))
            }
        }
    }

    #[inline(never)]
    fn skip_space(self, mut at: usize) -> usize {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.0.get(at) {
            at += 1;
        }
        at
    }

    /// Reads white space up to the end of the text.
    #[inline]
    pub(crate) fn end(self, at: usize) -> Option<()> {
        (self.space(at) == self.0.len()).then_some(())
    }

    /// Reads the name of a member and its colon. Returns the index of the name in `names`, if it is one of them, and the
    /// position of the value.
    ///
    /// `plain` are the same names, or none if not all of them can stand in a string as they are.
    #[inline(always)]
    pub(crate) fn member(
        self,
        at: usize,
        plain: &[&str],
        names: &[&str],
    ) -> Option<(Option<usize>, usize)> {
        // Nearly every peer writes names without escapes, and no space before the colon.
        let name = self.0.get(at..)?.strip_prefix(b"\"")?;
        for (member, wanted) in plain.iter().enumerate() {
            let rest = name.strip_prefix(wanted.as_bytes());
            if rest.is_some_and(|rest| rest.starts_with(b"\":")) {
                return Some((Some(member), self.space(at + wanted.len() + 3)));
            }
        }
        self.other_member(at, names)
    }

    /// Reads a member as [`member`](Self::member) does, also if its name has escapes, or space before the
    /// colon.
    #[inline(never)]
    fn other_member(self, at: usize, names: &[&str]) -> Option<(Option<usize>, usize)> {
        let (end, _) = self.string(at)?;
        // A name that can't be decoded is none of these.
        let name = core::str::from_utf8(&self.0[at..end]).ok().and_then(string);
        let member = names.iter().position(|wanted| name.as_deref() == Some(*wanted));
        Some((member, self.space(self.byte(b':', self.space(end))?)))
    }

    /// Reads an opening brace. Returns the first byte behind it that is no space, with its position. That byte begins a
    /// member or closes the object.
    #[inline]
    pub(crate) fn open(self, at: usize) -> Option<(u8, usize)> {
        self.next(self.byte(b'{', at)?)
    }

    /// Reads a value that no space precedes. Returns its end, and whether it is a string with escapes. Raises `deepest` to
    /// the depth of its nesting.
    #[inline(always)]
    pub(crate) fn value(self, at: usize, deepest: &mut usize) -> Option<(usize, bool)> {
        match self.0.get(at)? {
            b'"' => self.string(at),
            b'{' | b'[' => self.nested(at, deepest).map(|end| (end, false)),
            _ => self.scalar(at).map(|end| (end, false)),
        }
    }

    #[inline(always)]
    fn scalar(self, at: usize) -> Option<usize> {
        match self.0.get(at)? {
            b'-' => self.number(at + 1),
            b'0'..=b'9' => self.number(at),
            b't' => self.literal(b"true", at),
            b'f' => self.literal(b"false", at),
            b'n' => self.literal(b"null", at),
            _ => None,
        }
    }

    /// Returns the byte at this position, unless the text ends there.
    #[inline]
    pub(crate) fn peek(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    /// Reads a value that is neither an array nor an object.
    pub(crate) fn leaf(self, at: usize) -> Option<usize> {
        match self.peek(at)? {
            b'"' => self.string(at).map(|(end, _)| end),
            _ => self.scalar(at),
        }
    }

    /// Reads an array or an object without recursion, because the peer chooses how deep it is nested.
    fn nested(self, at: usize, deepest: &mut usize) -> Option<usize> {
        let mut around = OpenBrackets::default();
        let mut bracket = *self.0.get(at)?;
        let (mut byte, mut at) = self.next(at + 1)?;
        *deepest = (*deepest).max(1);
        if byte == closing(bracket) {
            return Some(at + 1);
        }
        loop {
            // A value begins here, or a member.
            if bracket == b'{' {
                (byte, at) = self.name(at)?;
            }
            if byte == b'"' {
                at = self.string(at)?.0;
            } else if let inner @ (b'{' | b'[') = byte {
                (byte, at) = self.next(at + 1)?;
                *deepest = (*deepest).max(around.depth() + 2);
                if byte != closing(inner) {
                    let rest = self.0.len() - at;
                    if around.is_full() && around.depth() > rest {
                        // Too few bytes are left to close all open brackets.
                        return None;
                    }
                    around.push(bracket, rest / 2);
                    bracket = inner;
                    continue;
                }
                at += 1;
            } else {
                at = self.scalar(at)?;
            }
            // A value ended here.
            loop {
                (byte, at) = self.next(at)?;
                if byte == b',' {
                    (byte, at) = self.next(at + 1)?;
                    break;
                }
                if byte != closing(bracket) {
                    return None;
                }
                at += 1;
                match around.pop() {
                    Some(outer) => bracket = outer,
                    None => return Some(at),
                }
            }
        }
    }

    /// Reads any name and its colon. Returns the first byte of the value, with its position.
    #[inline]
    fn name(self, at: usize) -> Option<(u8, usize)> {
        match self.next(self.string(at)?.0)? {
            (b':', at) => self.next(at + 1),
            _ => None,
        }
    }

    /// Reads a string. Returns its end, and whether it has escapes.
    #[inline]
    fn string(self, at: usize) -> Option<(usize, bool)> {
        let begin = self.byte(b'"', at)?;
        // Most strings are short, so the first eight bytes are tried before the wider search.
        let at = match plain_of_eight(self.0, begin) {
            Some(8) => plain_until(self.0, begin + 8),
            None => plain_until(self.0, begin),
            Some(plain) => begin + plain,
        };
        match self.0.get(at)? {
            b'"' => Some((at + 1, false)),
            _ => Some((self.rest_of_string(at)?, true)),
        }
    }

    /// Reads the rest of a string from its first escape on.
    #[cold]
    fn rest_of_string(self, mut at: usize) -> Option<usize> {
        loop {
            match self.0.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at = plain_until(self.0, self.escape(at + 1)?),
                _ => return None,
            }
        }
    }

    /// Reads the rest of an escape behind its backslash.
    fn escape(self, at: usize) -> Option<usize> {
        match self.0.get(at)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
            b'u' => {
                let digits = self.0.get(at + 1..at + 5)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 5)
            }
            _ => None,
        }
    }

    /// Reads a number behind its sign.
    #[inline]
    fn number(self, mut at: usize) -> Option<usize> {
        at = if self.0.get(at) == Some(&b'0') { at + 1 } else { self.digits(at)? };
        if self.0.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = self.0.get(at) {
            let has_sign = matches!(self.0.get(at + 1), Some(b'+' | b'-'));
            at = self.digits(at + 1 + usize::from(has_sign))?;
        }
        Some(at)
    }

    /// Reads one digit or more.
    #[inline]
    fn digits(self, begin: usize) -> Option<usize> {
        let mut at = begin;
        while self.0.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > begin).then_some(at)
    }
}

/// Returns the bracket that closes this one.
pub(crate) const fn closing(bracket: u8) -> u8 {
    // In ASCII each bracket stands two before the one that closes it.
    bracket + 2
}

/// The open brackets around the innermost one, with a bit for each that is 1 for an object.
pub(crate) struct OpenBrackets {
    /// The innermost 63 or fewer, with the innermost in the lowest bit. A 1 stands above them.
    last: u64,
    /// The others, 63 in each word, with the innermost in the last word.
    others: Vec<u64>,
}

impl Default for OpenBrackets {
    #[inline]
    fn default() -> Self {
        Self { last: Self::NONE, others: Vec::new() }
    }
}

impl OpenBrackets {
    const NONE: u64 = 1;

    #[inline]
    fn depth(&self) -> usize {
        self.others.len() * 63 + self.last.ilog2() as usize
    }

    /// Returns whether the next bracket needs another word.
    #[inline]
    fn is_full(&self) -> bool {
        self.last >> 63 == 1
    }

    /// Adds a bracket. Up to `room` others can follow: memory for all of them is reserved once, so that the words are
    /// not moved while they grow.
    #[inline]
    pub(crate) fn push(&mut self, bracket: u8, room: usize) {
        if self.is_full() {
            self.begin_word(room);
        }
        self.last = self.last << 1 | u64::from(bracket == b'{');
    }

    #[cold]
    fn begin_word(&mut self, room: usize) {
        if self.others.capacity() == 0 {
            self.others.reserve_exact(room / 63 + 2);
        }
        self.others.push(mem::replace(&mut self.last, Self::NONE));
    }

    /// Removes the innermost bracket.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u8> {
        if self.last == Self::NONE {
            self.last = self.others.pop()?;
        }
        let bracket = if self.last & 1 == 1 { b'{' } else { b'[' };
        self.last >>= 1;
        Some(bracket)
    }
}
