//! The contents of JSON strings.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::plain::{is_plain, plain_until};

/// Decodes a token that is a string, and borrows it where it has no escapes.
///
/// Returns `None` for any other text, and for a string with a lone surrogate, which has no value.
///
/// ```
/// assert_eq!(protocol_json::string(r#""a\tb""#).as_deref(), Some("a\tb"));
/// assert_eq!(protocol_json::string("1"), None);
/// ```
#[must_use]
pub fn string(token: &str) -> Option<Cow<'_, str>> {
    let text = token.strip_prefix('"')?.strip_suffix('"')?;
    match is_plain(text) {
        true => Some(Cow::Borrowed(text)),
        false => decoded(text, "").map(Cow::Owned),
    }
}

/// Decodes every escape of a token that is a string, and keeps its quotes. Two strings are equal if and only if these
/// texts are.
///
/// Returns `None` for any other text, and for a string with a lone surrogate. The text has no more capacity than it needs.
///
/// ```
/// assert_eq!(protocol_json::unescaped(r#""\u0061\"b""#).as_deref(), Some(r#""a"b""#));
/// assert_eq!(protocol_json::unescaped("1"), None);
/// ```
#[must_use]
pub fn unescaped(token: &str) -> Option<String> {
    decoded(token.strip_prefix('"')?.strip_suffix('"')?, "\"")
}

/// Decodes the text between the quotes of a string, and puts it between these quotes.
fn decoded(text: &str, quote: &str) -> Option<String> {
    let mut len = 2 * quote.len();
    pieces(text, &mut |piece| len += piece.len())?;
    let mut decoded = String::with_capacity(len);
    decoded.push_str(quote);
    pieces(text, &mut |piece| decoded.push_str(piece))?;
    decoded.push_str(quote);
    Some(decoded)
}

/// Calls `take` with the decoded text, piece by piece.
fn pieces(text: &str, take: &mut dyn FnMut(&str)) -> Option<()> {
    let mut rest = text;
    loop {
        let (plain, special) = rest.split_at(plain_until(rest.as_bytes(), 0));
        take(plain);
        if special.is_empty() {
            return Some(());
        }
        let (char, behind) = escape(special.strip_prefix('\\')?)?;
        take(char.encode_utf8(&mut [0; 4]));
        rest = behind;
    }
}

/// Decodes an escape behind its backslash, and returns the text that follows it.
fn escape(text: &str) -> Option<(char, &str)> {
    let (kind, rest) = text.split_at_checked(1)?;
    let char = match kind {
        "b" => '\u{8}',
        "f" => '\u{c}',
        "n" => '\n',
        "r" => '\r',
        "t" => '\t',
        "u" => return utf16(rest),
        "\"" => '"',
        "\\" => '\\',
        "/" => '/',
        _ => return None,
    };
    Some((char, rest))
}

/// Decodes the digits of one escape, or of the two that a character above U+FFFF needs.
fn utf16(text: &str) -> Option<(char, &str)> {
    let (first, rest) = unit(text)?;
    let second = rest.strip_prefix("\\u").and_then(unit);
    let units = [first].into_iter().chain(second.map(|(second, _)| second));
    let char = char::decode_utf16(units).next()?.ok()?;
    Some((char, if char.len_utf16() == 1 { rest } else { second?.1 }))
}

/// Reads four hexadecimal digits.
fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some((u16::from_str_radix(digits, 16).ok().filter(|_| is_number)?, rest))
}
