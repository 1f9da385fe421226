//! The scanner. It accepts exactly the text that `serde_json` accepts as a `RawValue`.

use alloc::vec::Vec;
use core::mem;

use memchr::memchr2;

use crate::text;

/// Whether a text can stand in a string as it is.
#[inline]
pub(crate) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_plain = |chunk: &[u8; 8]| special(u64::from_le_bytes(*chunk)) == 0;
    match bytes.last_chunk() {
        // It overlaps the one before, so that none is short.
        Some(last) => {
            is_plain(last)
                && bytes.chunks_exact(8).all(|chunk| chunk.first_chunk().is_some_and(is_plain))
        }
        None => !bytes.iter().any(is_special),
    }
}

/// Whether a byte of a string ends it or needs a second look.
pub(crate) const fn is_special(byte: &u8) -> bool {
    *byte < 0x20 || *byte == b'"' || *byte == b'\\'
}

/// The bytes of a text. Each method takes the position where the thing it is named for should begin,
/// and returns the position where it ends.
#[derive(Clone, Copy)]
pub(crate) struct Json<'m>(&'m [u8]);

impl<'m> Json<'m> {
    #[inline]
    pub(crate) const fn of(text: &'m str) -> Self {
        Self(text.as_bytes())
    }

    /// Exactly these bytes.
    #[inline]
    fn literal(self, bytes: &[u8], at: usize) -> Option<usize> {
        self.0.get(at..)?.starts_with(bytes).then_some(at + bytes.len())
    }

    #[inline]
    pub(crate) fn is(self, byte: u8, at: usize) -> Option<usize> {
        (*self.0.get(at)? == byte).then_some(at + 1)
    }

    /// Skips white space, which most peers do not write.
    #[inline]
    pub(crate) fn space(self, at: usize) -> usize {
        if self.0.get(at).is_some_and(|&byte| byte <= b' ') { self.some_space(at) } else { at }
    }

    /// The first byte that is no space, and where it is.
    #[inline]
    pub(crate) fn token(self, at: usize) -> Option<(u8, usize)> {
        match *self.0.get(at)? {
            byte if byte > b' ' => Some((byte, at)),
            _ => {
                let at = self.some_space(at);
                Some((*self.0.get(at)?, at))
            }
        }
    }

    #[inline(never)]
    fn some_space(self, mut at: usize) -> usize {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.0.get(at) {
            at += 1;
        }
        at
    }

    /// The end of the text.
    #[inline]
    pub(crate) fn end(self, at: usize) -> Option<()> {
        (self.space(at) == self.0.len()).then_some(())
    }

    /// The name of a member and its colon: which of these names it is, if it is one. `plain` are the same names, or
    /// none if not all of them can stand in a string as they are.
    #[inline(always)]
    pub(crate) fn member(
        self,
        at: usize,
        plain: &[&str],
        names: &[&str],
    ) -> Option<(Option<usize>, usize)> {
        // Nearly every peer writes names without escapes, and no space behind them.
        let name = self.0.get(at..)?.strip_prefix(b"\"")?;
        for (member, wanted) in plain.iter().enumerate() {
            let rest = name.strip_prefix(wanted.as_bytes());
            if rest.is_some_and(|rest| rest.starts_with(b"\":")) {
                return Some((Some(member), self.space(at + wanted.len() + 3)));
            }
        }
        self.other_member(at, names)
    }

    /// Does the same as [`member`](Self::member) for any other name, and for names with escapes or with
    /// space behind them.
    #[inline(never)]
    fn other_member(self, at: usize, names: &[&str]) -> Option<(Option<usize>, usize)> {
        let (end, _) = self.string(at)?;
        // A name that can't be decoded is not one of ours.
        let name = core::str::from_utf8(&self.0[at..end]).ok().and_then(text::string);
        let member = names.iter().position(|wanted| name.as_deref() == Some(*wanted));
        Some((member, self.space(self.is(b':', self.space(end))?)))
    }

    /// An opening brace. Returns the first byte behind it, which begins a member or closes the object,
    /// and its position.
    #[inline]
    pub(crate) fn open(self, at: usize) -> Option<(u8, usize)> {
        self.token(self.is(b'{', at)?)
    }

    /// A value, with no space before it, and whether it is a string with escapes; counts its nesting,
    /// if it is the deepest.
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

    /// An array or an object, without recursion: its nesting is the peer's choice.
    fn nested(self, at: usize, deepest: &mut usize) -> Option<usize> {
        let mut around = Open { last: Open::NONE, others: Vec::new() };
        let mut bracket = *self.0.get(at)?;
        let (mut byte, mut at) = self.token(at + 1)?;
        *deepest = (*deepest).max(1);
        if byte == closing(bracket) {
            return Some(at + 1);
        }
        loop {
            // A value begins here, or its name.
            if bracket == b'{' {
                (byte, at) = self.name(at)?;
            }
            if byte == b'"' {
                at = self.string(at)?.0;
            } else if let inner @ (b'{' | b'[') = byte {
                (byte, at) = self.token(at + 1)?;
                *deepest = (*deepest).max(around.depth() + 2);
                if byte != closing(inner) {
                    around.push(bracket);
                    bracket = inner;
                    continue;
                }
                at += 1;
            } else {
                at = self.scalar(at)?;
            }
            // A value ended here.
            loop {
                (byte, at) = self.token(at)?;
                if byte == b',' {
                    (byte, at) = self.token(at + 1)?;
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

    /// The name of a member and its colon; gives how its value begins, and where.
    #[inline]
    fn name(self, at: usize) -> Option<(u8, usize)> {
        match self.token(self.string(at)?.0)? {
            (b':', at) => self.token(at + 1),
            _ => None,
        }
    }

    /// A string, and whether it holds escapes.
    #[inline]
    fn string(self, at: usize) -> Option<(usize, bool)> {
        let begin = self.is(b'"', at)?;
        // Most strings are short: first by eight bytes, and only then by all the machine can.
        let at = match self.special_in_eight(begin) {
            Some(8) => self.plain(begin + 8),
            None => self.plain(begin),
            Some(plain) => begin + plain,
        };
        match self.0.get(at)? {
            b'"' => Some((at + 1, false)),
            _ => Some((self.escaped(at)?, true)),
        }
    }

    /// What is left of a string from an escape on.
    #[cold]
    fn escaped(self, mut at: usize) -> Option<usize> {
        loop {
            match self.0.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at = self.plain(self.escape(at + 1)?),
                _ => return None,
            }
        }
    }

    /// How many of the next eight bytes are neither quote nor backslash nor control character;
    /// `None` if there are not so many bytes.
    #[inline]
    fn special_in_eight(self, at: usize) -> Option<usize> {
        let chunk = self.0.get(at..)?.first_chunk()?;
        Some(special(u64::from_le_bytes(*chunk)).trailing_zeros() as usize / 8)
    }

    /// Everything up to a quote, a backslash, a control character or the end.
    #[inline(never)]
    fn plain(self, mut at: usize) -> usize {
        for _ in 0..4 {
            match self.special_in_eight(at) {
                Some(8) => at += 8,
                Some(plain) => return at + plain,
                None => break,
            }
        }
        let rest = &self.0[at..];
        if rest.len() >= 8 {
            let plain = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            let least = rest[..plain].iter().fold(u8::MAX, |least, &byte| least.min(byte));
            if least >= 0x20 {
                return at + plain;
            }
        }
        at + rest.iter().position(is_special).unwrap_or(rest.len())
    }

    /// What follows a backslash.
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

    /// A number behind its sign.
    #[inline]
    fn number(self, mut at: usize) -> Option<usize> {
        at = if self.0.get(at) == Some(&b'0') { at + 1 } else { self.digits(at)? };
        if self.0.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = self.0.get(at) {
            let is_signed = matches!(self.0.get(at + 1), Some(b'+' | b'-'));
            at = self.digits(at + 1 + usize::from(is_signed))?;
        }
        Some(at)
    }

    /// One digit or more.
    #[inline]
    fn digits(self, begin: usize) -> Option<usize> {
        let mut at = begin;
        while self.0.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > begin).then_some(at)
    }
}

const fn closing(bracket: u8) -> u8 {
    // In ASCII each bracket stands two before the one that closes it.
    bracket + 2
}

/// Marks the lowest byte that is a quote, a backslash or a control character by its highest bit;
/// higher ones may be marked wrongly (Mycroft's trick).
const fn special(chunk: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let control = chunk.wrapping_sub(ONES * 0x20) & !chunk;
    let quote = chunk ^ (ONES * b'"' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = chunk ^ (ONES * b'\\' as u64);
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & (ONES << 7)
}

/// The open brackets around the innermost one, a bit for each.
struct Open {
    /// The innermost ones, the lowest bit last: 1 for an object. Above them stands a 1.
    last: u64,
    /// Full words, the innermost last.
    others: Vec<u64>,
}

impl Open {
    const NONE: u64 = 1;

    fn depth(&self) -> usize {
        self.others.len() * 63 + self.last.ilog2() as usize
    }

    fn push(&mut self, bracket: u8) {
        if self.last >> 63 == 1 {
            self.others.push(mem::replace(&mut self.last, Self::NONE));
        }
        self.last = self.last << 1 | u64::from(bracket == b'{');
    }

    fn pop(&mut self) -> Option<u8> {
        if self.last == Self::NONE {
            self.last = self.others.pop()?;
        }
        let bracket = if self.last & 1 == 1 { b'{' } else { b'[' };
        self.last >>= 1;
        Some(bracket)
    }
}
