//! Request ids, kept as the exact JSON that the peer wrote.

use alloc::boxed::Box;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str;

use crate::index::Key;

/// A JSON-RPC id, exactly as its sender wrote it.
///
/// `1`, `"1"`, `1.0`, `0` and `""` are five different ids (B14). Numbers are never parsed, so
/// `9007199254740993` keeps every digit. Strings compare by their decoded text, so `"\u0061"` equals
/// `"a"`. [`as_json`](Self::as_json) returns the sender's own bytes in both cases.
///
/// Ids of up to 14 bytes without escapes need no allocation. Those are short strings, and any number
/// that a peer counts up to.
///
/// ```
/// use protocol_core::WireId;
///
/// let id = WireId::from_json(r#""\u0061""#).ok_or("a JSON string")?;
/// assert_eq!(id.as_json(), r#""\u0061""#);
/// assert_eq!(WireId::from_json(r#""a""#), Some(id));
/// assert_eq!(WireId::from_json("true"), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct WireId(Repr);

#[derive(Clone)]
enum Repr {
    Short(Short),
    Long(Box<Long>),
}

/// A token of at most 14 bytes without a backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Short {
    len: u8,
    /// Invariant: UTF-8 up to `len`, and zeros behind it.
    bytes: [u8; 14],
}

/// A longer token, or a string with escapes.
#[derive(Clone)]
struct Long {
    token: Box<str>,
    /// The token with its quotes and with every escape decoded, if it has escapes.
    decoded: Option<Box<str>>,
}

/// The golden ratio as a 64-bit fraction. It is odd, and its bits are well mixed.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl WireId {
    /// Returns the id that this JSON is: one number, string or `null`.
    ///
    /// Returns `None` for any other text, also for a value with white space around it. A string with a
    /// lone surrogate can't be decoded and compared, so it is no id either.
    pub fn from_json(json: &str) -> Option<Self> {
        if protocol_json::value(json)?.get() == json { Self::scanned(json) } else { None }
    }

    /// Returns the id that this text is, which a scan has found to be one JSON value without white space
    /// around it.
    pub(crate) fn scanned(token: &str) -> Option<Self> {
        Some(match token.as_bytes() {
            [b'"', ..] if token.contains('\\') => {
                Self::long(token.into(), Some(protocol_json::unescaped(token)?.into()))
            }
            [b'"' | b'-' | b'0'..=b'9', ..] | b"null" => match Short::of(token) {
                Some(short) => Self(Repr::Short(short)),
                None => Self::long(token.into(), None),
            },
            _ => return None,
        })
    }

    /// Returns the id that this scanned text is, without how its sender wrote it. It takes no more memory
    /// than the text, however long that is.
    pub(crate) fn equal_to(token: &str) -> Option<Self> {
        if !token.starts_with('"') || !token.contains('\\') {
            return Self::scanned(token);
        }
        Some(Self::long(protocol_json::unescaped(token)?.into(), None))
    }

    fn long(token: Box<str>, decoded: Option<Box<str>>) -> Self {
        Self(Repr::Long(Box::new(Long { token, decoded })))
    }

    /// Returns the id as JSON, byte for byte as its sender wrote it.
    pub fn as_json(&self) -> &str {
        match &self.0 {
            Repr::Short(short) => str::from_utf8(short.as_bytes()).expect("copied from a str"),
            Repr::Long(long) => &long.token,
        }
    }

    /// Returns a hash of the whole key. It is not inlined, so that the path for numbers stays short.
    #[inline(never)]
    fn mixed(&self) -> u64 {
        let (eights, len) = (self.key().chunks_exact(8), self.key().len() as u64);
        // The length comes first, because the remainder may begin with zeros.
        let rest = eights.remainder().iter().fold(len, |word, byte| word << 8 | u64::from(*byte));
        let words = eights.map(|it| u64::from_le_bytes(it.try_into().expect("chunks of eight")));
        // The high bits of a product depend on every bit of its factors.
        words.chain([rest]).fold(0, |sum, word| (sum ^ word).wrapping_mul(MIX).rotate_left(32))
    }

    /// Returns the bytes that ids compare by. Tokens of different types differ in the first byte.
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

    /// Returns the number that up to eight digits spell, and an arbitrary one for other characters.
    ///
    /// It reads all digits at once, because the id of each request is looked up at least three times.
    fn number(&self) -> u64 {
        let eight = self.bytes.first_chunk().expect("fourteen are more");
        // Absent digits become zeros in front.
        let digits = u64::from_le_bytes(*eight) << (64 - 8 * self.len) & 0x0f0f_0f0f_0f0f_0f0f;
        let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
        fours.wrapping_mul(10_000 << 32 | 1) >> 32
    }
}

impl Key for WireId {
    /// Hashes a number of up to eight digits to itself, because most peers count their ids up.
    fn hash(&self) -> u64 {
        match &self.0 {
            Repr::Short(short @ Short { len: 1..=8, bytes: [b'0'..=b'9', ..] }) => short.number(),
            _ => self.mixed(),
        }
    }
}

impl PartialEq for WireId {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Most ids are short, and a fixed number of bytes compares faster.
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
        f.write_str(self.as_json())
    }
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

/// The ids that a dialect allows for the peer's requests.
///
/// A request with a forbidden id gets error -32600 with that id. It never silently becomes a
/// notification (B15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdRule {
    /// Any number or string, as in plain JSON-RPC 2.0, which only discourages fractions.
    NumberOrString,
    /// An integer of any size, or a string.
    IntegerOrString,
    /// An integer of any size, a string, or `null`, as in ACP v1.
    IntegerStringOrNull,
    /// An integer from -2^31 to 2^31-1, or a string, as in LSP.
    Int32OrString,
}

impl IdRule {
    /// Returns whether a request may carry this id token.
    pub fn allows(self, token: &str) -> bool {
        match (token.as_bytes().first(), self) {
            (Some(b'"'), _) => true,
            (Some(b'n'), _) => self == Self::IntegerStringOrNull,
            (_, Self::NumberOrString) => true,
            // `parse` also takes a plus sign, which no JSON value begins with.
            (_, Self::Int32OrString) => token.parse::<i32>().is_ok(),
            (Some(b'-' | b'0'..=b'9'), _) => token.bytes().skip(1).all(|it| it.is_ascii_digit()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    fn id(token: &str) -> WireId {
        WireId::from_json(token).unwrap()
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
        assert_eq!(id(r#""\u00e9\/""#).as_json(), r#""\u00e9\/""#);
        assert_ne!(id(r#""\\u0061""#), id(r#""\u0061""#));
    }

    #[test]
    fn b14_the_order_of_ids_agrees_with_their_equality() {
        let text = "\"0123456789abcdef\"";
        let mut ids: Vec<WireId> = (1..17).map(|len| id(&format!("{}\"", &text[..len]))).collect();
        ids.extend((1..20).map(|len| id(&"12345678901234567890"[..len])));
        ids.extend([r#""\u0030""#, r#""0\n""#, r#""é""#, "null", "-1", "13", "1.5"].map(id));
        for (one, other) in ids.iter().flat_map(|one| ids.iter().map(move |other| (one, other))) {
            assert_eq!(one.cmp(other).is_eq(), one == other, "{one} {other}");
            assert_eq!(one.cmp(other), other.cmp(one).reverse(), "{one} {other}");
        }
    }

    #[test]
    fn b14_an_id_that_keeps_no_escapes_equals_one_that_does() {
        for token in [r#""\u0061""#, r#""\\\"\n""#, r#""a longer one than fits \/""#, "\"a\"", "7"]
        {
            let equal = WireId::equal_to(token).unwrap();
            assert_eq!((&equal, Key::hash(&equal)), (&id(token), Key::hash(&id(token))), "{token}");
        }
        assert!(WireId::equal_to(r#""\ud800""#).is_none());
    }

    #[test]
    fn b14_ids_of_any_length_are_kept_whole() {
        let text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6, and so on";
        for len in 0..=text.len() {
            let token = format!("\"{}\"", &text[..len]);
            assert_eq!(id(&token).as_json(), token);
            assert_eq!(id(&token), id(&token.replacen('f', "\\u0066", 1)));
            assert_ne!(id(&token), id(&format!("\"{}\"", text.get(..len + 1).unwrap_or("f"))));
        }
    }

    #[test]
    fn ids_that_count_are_in_a_row_up_to_eight_digits() {
        let hash = |number: u64| Key::hash(&id(&format!("{number}")));
        for number in [0, 1, 9, 10, 123, 12_345_678, 99_999_998, 99_999_999] {
            assert_eq!(hash(number), number);
        }
        // Longer ones are hashed as strings are, by all of their digits.
        for first in [100_000_000, 1_234_567_890, 99_999_999_998_999] {
            let hashes: BTreeSet<u64> = (first..first + 1_000).map(hash).collect();
            assert_eq!(hashes.len(), 1_000, "from {first}");
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
            assert!(WireId::from_json(token).is_none(), "{token}");
        }
        for token in ["1", "-0.5e+3", "\"\"", "\"a,\\\"b\"", "null"] {
            assert_eq!(id(token).as_json(), token);
        }
    }

    #[test]
    fn values_that_are_no_ids_are_refused() {
        for token in ["true", "[1]", "{}", r#""\ud800""#] {
            assert!(WireId::from_json(token).is_none(), "{token}");
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
