//! Wire ids: kept as the exact token the peer wrote.

use alloc::boxed::Box;
use alloc::format;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::index::Key;

/// A JSON-RPC id as the peer wrote it (B14).
///
/// `1`, `"1"`, `1.0`, `0` and `""` are five different ids. Numbers are never parsed, so
/// `9007199254740993` stays what it is. Strings are compared by what they say, so `"\u0061"`
/// is the same id as `"a"`; either way [`token`](Self::token) gives back the peer's own bytes.
///
/// Tokens up to 14 bytes (any number that a peer counts up to, short strings) are stored without an
/// allocation.
#[derive(Clone)]
pub struct WireId(Repr);

#[derive(Clone)]
enum Repr {
    Short(Short),
    Long(Box<Long>),
}

/// A token without a backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Short {
    len: u8,
    /// Invariant: UTF-8 up to `len`, and then zeros.
    bytes: [u8; 14],
}

/// A token that is longer, or a string with escapes.
#[derive(Clone)]
struct Long {
    token: Box<str>,
    /// The token as it would be with every escape decoded, quotes kept, if it has any.
    decoded: Option<Box<str>>,
}

/// The golden ratio as a 64-bit fraction: an odd number whose ones and zeros are well mixed.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl WireId {
    /// Takes exactly one JSON number, string or `null`, with nothing around it.
    ///
    /// Returns `None` for any other text, and for a string that can't be decoded because it holds a
    /// lone surrogate: such ids can't be compared.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        if protocol_json::value(token)?.get() == token { Self::scanned(token) } else { None }
    }

    /// As [`from_token`](Self::from_token), of text that is known to be one JSON value with nothing
    /// around it, since it is part of a message that was read.
    pub(crate) fn scanned(token: &str) -> Option<Self> {
        match token.as_bytes() {
            [b'"', ..] if token.contains('\\') => {
                let decoded = protocol_json::string(token)?;
                Some(Self::long(token, Some(format!("\"{decoded}\"").into())))
            }
            [b'"' | b'-' | b'0'..=b'9', ..] | b"null" => Some(match Short::of(token) {
                Some(short) => Self(Repr::Short(short)),
                None => Self::long(token, None),
            }),
            _ => None,
        }
    }

    fn long(token: &str, decoded: Option<Box<str>>) -> Self {
        Self(Repr::Long(Box::new(Long { token: token.into(), decoded })))
    }

    /// The token, byte for byte as the peer wrote it.
    #[must_use]
    pub fn token(&self) -> &str {
        match &self.0 {
            Repr::Short(short) => {
                core::str::from_utf8(short.as_bytes()).expect("it is copied from a str")
            }
            Repr::Long(long) => &long.token,
        }
    }

    /// A hash of all of it. Kept out of `spread`, so that the path for numbers is short.
    #[inline(never)]
    fn mixed(&self) -> u64 {
        let push = |word, byte: &u8| word << 8 | u64::from(*byte);
        let (eights, len) = (self.key().chunks_exact(8), self.key().len() as u64);
        // With the length in front, for it may begin with zeros.
        let rest = eights.remainder().iter().fold(len, push);
        let words = eights.map(|it| u64::from_le_bytes(it.try_into().expect("chunks of eight")));
        // A product's high bits depend on every bit of its factors.
        words.chain([rest]).fold(0, |sum, word| (sum ^ word).wrapping_mul(MIX).rotate_left(32))
    }

    /// What ids compare by. Tokens of different types differ in their first byte.
    fn key(&self) -> &[u8] {
        match &self.0 {
            Repr::Short(short) => short.as_bytes(),
            Repr::Long(long) => long.decoded.as_ref().unwrap_or(&long.token).as_bytes(),
        }
    }
}

impl Short {
    fn of(token: &str) -> Option<Self> {
        let mut bytes = [0; 14];
        bytes.get_mut(..token.len())?.copy_from_slice(token.as_bytes());
        Some(Self { len: token.len() as u8, bytes })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The number that up to eight digits spell; it means nothing if there are other characters. They are
    /// read at once, because the id of a request is looked up three times or more.
    fn number(&self) -> u64 {
        let eight = self.bytes.first_chunk().expect("fourteen are more");
        // Digits that are absent are zeros in front.
        let digits = u64::from_le_bytes(*eight) << (64 - 8 * self.len) & 0x0f0f_0f0f_0f0f_0f0f;
        let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
        fours.wrapping_mul(10_000 << 32 | 1) >> 32
    }
}

impl Key for WireId {
    /// Most peers count their ids up, so numbers of up to eight digits are spread in a row.
    fn spread(&self) -> u64 {
        match &self.0 {
            Repr::Short(short @ Short { len: 1..=8, bytes: [b'0'..=b'9', ..] }) => short.number(),
            _ => self.mixed(),
        }
    }
}

impl PartialEq for WireId {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // All there is in most tables, and quicker than bytes of any number.
            (Repr::Short(one), Repr::Short(other)) => one == other,
            _ => self.key() == other.key(),
        }
    }
}

impl Eq for WireId {}

impl PartialOrd for WireId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WireId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl Hash for WireId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token())
    }
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token())
    }
}

/// Which ids a dialect lets a peer use for its requests.
///
/// An id that the rule refuses is answered -32600 with that id; its request never silently
/// becomes a notification (B15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdRule {
    /// Any number, any string: plain JSON-RPC 2.0 (which only discourages fractions).
    NumberOrString,
    /// An integer of any size, or a string.
    IntegerOrString,
    /// An integer of any size, a string, or `null`: ACP v1.
    IntegerStringOrNull,
    /// An integer from -2^31 to 2^31-1, or a string: LSP.
    Int32OrString,
}

impl IdRule {
    /// Whether a request may carry this id token.
    #[must_use]
    pub fn allows(self, token: &str) -> bool {
        match (token.as_bytes().first(), self) {
            (Some(b'"'), _) => true,
            (Some(b'n'), _) => self == Self::IntegerStringOrNull,
            (_, Self::NumberOrString) => true,
            // No JSON begins with a plus, which is all else that this reads.
            (_, Self::Int32OrString) => token.parse::<i32>().is_ok(),
            (Some(b'-' | b'0'..=b'9'), _) => token.bytes().skip(1).all(|it| it.is_ascii_digit()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn id(token: &str) -> WireId {
        WireId::from_token(token).unwrap()
    }

    #[test]
    fn b14_look_alike_ids_differ() {
        let tokens =
            ["1", "\"1\"", "1.0", "0", "-0", "\"\"", "null", "\"null\"", "9007199254740993"];
        for (i, a) in tokens.iter().enumerate() {
            for (j, b) in tokens.iter().enumerate() {
                assert_eq!(id(a) == id(b), i == j, "{a} {b}");
            }
        }
    }

    #[test]
    fn b14_strings_compare_decoded_and_echo_raw() {
        assert_eq!(id(r#""\u00e9\/""#), id("\"é/\""));
        assert_eq!(id(r#""\u00e9\/""#).token(), r#""\u00e9\/""#);
        assert_ne!(id(r#""\\u0061""#), id(r#""\u0061""#));
    }

    #[test]
    fn b14_ids_of_any_length_are_kept_whole() {
        let text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6, and so on";
        for len in 0..=text.len() {
            let token = format!("\"{}\"", &text[..len]);
            assert_eq!(id(&token).token(), token);
            assert_eq!(id(&token), id(&token.replacen('f', "\\u0066", 1)));
            assert_ne!(id(&token), id(&format!("\"{}\"", text.get(..len + 1).unwrap_or("f"))));
        }
    }

    #[test]
    fn ids_that_count_are_in_a_row_up_to_eight_digits() {
        let spread = |number: u64| id(&format!("{number}")).spread();
        for number in [0, 1, 9, 10, 123, 12_345_678, 99_999_998, 99_999_999] {
            assert_eq!(spread(number), number);
        }
        // Longer ones are spread as strings are, by all of their digits.
        for first in [100_000_000, 1_234_567_890, 99_999_999_998_999] {
            let spreads: BTreeSet<u64> = (first..first + 1_000).map(spread).collect();
            assert_eq!(spreads.len(), 1_000, "from {first}");
        }
    }

    #[test]
    fn f13_an_id_is_exactly_one_token() {
        for token in [
            "",
            "1,\"x\":2",
            "\"a",
            "a\"",
            "\"",
            "-",
            "12abc",
            "01",
            "1.",
            "1 ",
            " 1",
            "1\n",
            "nullx",
            "null ",
            "\"a\" ",
            "\"a\"b\"",
            "\"a\",\"b\"",
            "1 2",
            "\"\n\"",
            "\"\\x\"",
            "\"\\\"",
            "1}",
        ] {
            assert!(WireId::from_token(token).is_none(), "{token}");
        }
        for token in ["1", "-0.5e+3", "\"\"", "\"a,\\\"b\"", "null"] {
            assert_eq!(id(token).token(), token);
        }
    }

    #[test]
    fn values_that_are_no_ids_are_refused() {
        for token in ["true", "[1]", "{}", r#""\ud800""#] {
            assert!(WireId::from_token(token).is_none(), "{token}");
        }
    }

    #[test]
    fn b15_rules_allow_what_the_dialect_allows() {
        use IdRule::{Int32OrString, IntegerOrString, IntegerStringOrNull, NumberOrString};
        for (token, allowed_by) in [
            ("1", &[NumberOrString, IntegerOrString, IntegerStringOrNull, Int32OrString][..]),
            ("\"x\"", &[NumberOrString, IntegerOrString, IntegerStringOrNull, Int32OrString]),
            ("3000000000", &[NumberOrString, IntegerOrString, IntegerStringOrNull]),
            ("1.0", &[NumberOrString]),
            ("1e3", &[NumberOrString]),
            ("null", &[IntegerStringOrNull]),
        ] {
            for rule in [NumberOrString, IntegerOrString, IntegerStringOrNull, Int32OrString] {
                assert_eq!(rule.allows(token), allowed_by.contains(&rule), "{rule:?} {token}");
            }
        }
    }

    #[test]
    fn an_id_is_small() {
        assert_eq!(size_of::<WireId>(), 16);
    }
}
