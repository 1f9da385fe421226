//! What a writer of JSON by hand needs.

use alloc::vec::Vec;

use crate::scan::is_plain;

/// Hands on what stands between the quotes of the JSON string that says this text: in one piece if there is nothing to
/// escape, or else in pieces that may cut a character in two.
///
/// ```
/// let mut json = Vec::new();
/// protocol_json::escape("a \"b\"\n", |piece| json.extend_from_slice(piece));
/// assert_eq!(json, br#"a \"b\"\u000a"#);
/// ```
#[inline(always)]
pub fn escape(text: &str, mut take: impl FnMut(&[u8])) {
    if is_plain(text) {
        take(text.as_bytes());
    } else {
        escaped(text, take);
    }
}

#[cold]
fn escaped(text: &str, mut take: impl FnMut(&[u8])) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => take(&[b'\\', byte]),
            0..0x20 => {
                let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                take(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
            _ => take(&[byte]),
        }
    }
}

/// Appends the digits of a number.
///
/// ```
/// let mut json = Vec::from(b"-");
/// protocol_json::decimal(i64::MIN.unsigned_abs(), &mut json);
/// assert_eq!(json, b"-9223372036854775808");
/// ```
pub fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[first..]);
        }
    }
}

/// Makes JSON one line, in its place: a line end in valid JSON can only be white space between tokens, and becomes a space.
///
/// ```
/// let mut json = *b"{\r\n\"a\":\n\"\\n\"}";
/// protocol_json::one_line(&mut json);
/// assert_eq!(&json, b"{  \"a\": \"\\n\"}");
/// ```
#[inline]
pub fn one_line(json: &mut [u8]) {
    // Looks at all of it, as fast as a machine can.
    if json.iter().fold(false, |has, byte| has | (*byte < 0x20)) {
        spaced(json);
    }
}

#[cold]
fn spaced(json: &mut [u8]) {
    for byte in json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}
