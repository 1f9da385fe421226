//! JSON, checked in one pass and taken apart at its outermost level.
//!
//! Accepts exactly the text that `serde_json` accepts as a `RawValue`. It says no more than that a
//! text is no JSON: where it broke is `serde_json`'s to tell, since nobody is in a hurry then.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memchr2;

/// The name of a member, as the peer wrote it.
#[derive(Clone, Copy)]
pub(super) struct Name<'m> {
    /// The string token, quotes and all.
    token: &'m str,
    is_escaped: bool,
}

impl<'m> Name<'m> {
    /// What it says. A lone surrogate can't be decoded.
    #[inline]
    pub(super) fn decoded(self) -> Option<Cow<'m, str>> {
        if self.is_escaped {
            return serde_json::from_str::<String>(self.token).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(&self.token[1..self.token.len() - 1]))
    }

    pub(super) fn is(self, name: &str) -> bool {
        self.decoded().as_deref() == Some(name)
    }
}

/// Hands every member of a text that is one object to `take`, its value as the token it is; gives
/// the nesting of the text, itself counted. `None` if it is no object.
pub(super) fn object<'m>(text: &'m str, mut take: impl FnMut(Name<'m>, &'m str)) -> Option<usize> {
    let mut scan = Scan::new(text);
    scan.space();
    scan.expect(b'{')?;
    scan.space();
    if scan.peek() == Some(b'}') {
        scan.at += 1;
    } else {
        loop {
            let begin = scan.at;
            let is_escaped = scan.string()?;
            let name = Name { token: &text[begin..scan.at], is_escaped };
            scan.colon()?;
            take(name, scan.value()?);
            scan.space();
            match scan.next()? {
                b',' => scan.space(),
                b'}' => break,
                _ => return None,
            }
        }
    }
    scan.end()?;
    Some(scan.deepest + 1)
}

/// Hands every element of a text that is one array to `take`. `None` if it is no array.
pub(super) fn array<'m>(text: &'m str, mut take: impl FnMut(&'m str)) -> Option<()> {
    let mut scan = Scan::new(text);
    scan.space();
    scan.expect(b'[')?;
    scan.space();
    if scan.peek() == Some(b']') {
        scan.at += 1;
    } else {
        loop {
            take(scan.value()?);
            scan.space();
            match scan.next()? {
                b',' => scan.space(),
                b']' => break,
                _ => return None,
            }
        }
    }
    scan.end()
}

/// Whether a text is one value.
pub(super) fn is_value(text: &str) -> bool {
    let mut scan = Scan::new(text);
    scan.space();
    scan.value().is_some() && scan.end().is_some()
}

/// A place in a text. Every method moves it behind what it is named for.
struct Scan<'m> {
    text: &'m str,
    bytes: &'m [u8],
    at: usize,
    /// The deepest nesting so far of a value that was scanned.
    deepest: usize,
}

impl<'m> Scan<'m> {
    const fn new(text: &'m str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, deepest: 0 }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// The end of the text.
    #[inline]
    fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.bytes.len()).then_some(())
    }

    #[inline]
    fn colon(&mut self) -> Option<()> {
        self.space();
        self.expect(b':')?;
        self.space();
        Some(())
    }

    /// A value, with no space before it.
    #[inline]
    fn value(&mut self) -> Option<&'m str> {
        let begin = self.at;
        match self.peek()? {
            b'"' => self.string().map(|_| ())?,
            b'{' | b'[' => self.nested()?,
            _ => self.scalar()?,
        }
        Some(&self.text[begin..self.at])
    }

    fn scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    /// An array or an object, without recursion: its nesting is the peer's choice.
    fn nested(&mut self) -> Option<()> {
        let mut open = Open::default();
        loop {
            // A value begins here.
            match self.peek()? {
                bracket @ (b'{' | b'[') => {
                    self.at += 1;
                    self.space();
                    if self.peek()? == closing(bracket) {
                        self.at += 1;
                        self.deepest = self.deepest.max(open.depth + 1);
                    } else {
                        open.push(bracket);
                        self.deepest = self.deepest.max(open.depth);
                        if bracket == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value ended here.
            loop {
                let Some(bracket) = open.last() else { return Some(()) };
                self.space();
                let byte = self.next()?;
                if byte == b',' {
                    self.space();
                    if bracket == b'{' {
                        self.name()?;
                    }
                    break;
                }
                if byte != closing(bracket) {
                    return None;
                }
                open.pop();
            }
        }
    }

    /// The name of a member and its colon.
    fn name(&mut self) -> Option<()> {
        self.string()?;
        self.colon()
    }

    /// A string; says whether it holds escapes.
    #[inline]
    fn string(&mut self) -> Option<bool> {
        self.expect(b'"')?;
        self.plain();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Some(false);
        }
        self.escaped().map(|()| true)
    }

    /// What is left of a string from an escape on.
    #[cold]
    fn escaped(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => self.escape()?,
                _ => return None,
            }
            self.plain();
        }
    }

    /// Everything up to a quote, a backslash, a control character or the end.
    #[inline]
    fn plain(&mut self) {
        // Most strings are short: by eight bytes first, and only then by all the machine can.
        for _ in 0..4 {
            let Some(chunk) = self.bytes[self.at..].first_chunk() else { break };
            let special = special(u64::from_le_bytes(*chunk));
            if special != 0 {
                self.at += special.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
        self.long_plain();
    }

    #[inline(never)]
    fn long_plain(&mut self) {
        let rest = &self.bytes[self.at..];
        if rest.len() >= 8 {
            let plain = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            let least = rest[..plain].iter().fold(u8::MAX, |least, &byte| least.min(byte));
            if least >= 0x20 {
                self.at += plain;
                return;
            }
        }
        while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            self.at += 1;
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Some(())
    }

    fn some_digits(&mut self) -> Option<()> {
        self.next()?.is_ascii_digit().then(|| self.digits())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
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

/// The brackets that are open, a bit for each.
#[derive(Default)]
struct Open {
    depth: usize,
    /// The innermost ones, the lowest bit last: 1 for an object.
    last: u64,
    /// 64 more each, the innermost last.
    others: Vec<u64>,
}

impl Open {
    fn push(&mut self, bracket: u8) {
        if self.depth > 0 && self.depth % 64 == 0 {
            self.others.push(self.last);
        }
        self.depth += 1;
        self.last = self.last << 1 | u64::from(bracket == b'{');
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.last >>= 1;
        if self.depth > 0 && self.depth % 64 == 0 {
            self.last = self.others.pop().expect("push put it there");
        }
    }

    fn last(&self) -> Option<u8> {
        let bracket = if self.last & 1 == 1 { b'{' } else { b'[' };
        (self.depth > 0).then_some(bracket)
    }
}

#[cfg(test)]
mod tests;
