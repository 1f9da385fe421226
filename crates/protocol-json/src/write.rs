//! Pieces for writing JSON by hand.

use alloc::vec::Vec;

use crate::plain::is_plain;

/// Escapes a text for the inside of a JSON string, and passes the result to `take`.
///
/// It is one piece if nothing needs an escape. Otherwise it comes in pieces that may cut a character in two.
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

/// Appends a number in decimal digits.
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

/// Makes JSON one line in place, by overwriting each line end with a space.
///
/// In valid JSON a line end can only be white space between tokens.
///
/// ```
/// let mut json = *b"{\r\n\"a\":\n\"\\n\"}";
/// protocol_json::one_line(&mut json);
/// assert_eq!(&json, b"{  \"a\": \"\\n\"}");
/// ```
#[inline]
pub fn one_line(json: &mut [u8]) {
    // Without an early exit, the loop becomes vector instructions.
    if json.iter().fold(false, |has, byte| has | (*byte < 0x20)) {
        overwrite_line_ends(json);
    }
}

#[cold]
fn overwrite_line_ends(json: &mut [u8]) {
    for byte in json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// Clears the buffer, writes a value into it as JSON, and borrows the result from there.
///
/// `serde_json::value::to_raw_value` does the same with an allocation for each value. This needs the feature `std`,
/// because `serde_json` writes into a buffer only with `std`.
///
/// ```
/// let mut buffer = Vec::new();
/// let value = protocol_json::write_value(&[1, 2], &mut buffer)?;
/// assert_eq!(value.get(), "[1,2]");
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// Returns the error of serde if it can't serialize the value.
#[cfg(feature = "std")]
pub fn write_value<'b>(
    value: &(impl serde::Serialize + ?Sized),
    buffer: &'b mut Vec<u8>,
) -> serde_json::Result<&'b serde_json::value::RawValue> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value)?;
    let text = core::str::from_utf8(buffer).map_err(serde::ser::Error::custom)?;
    let is_value = |text| crate::text::value(text).is_some_and(|value| value.get() == text);
    debug_assert!(is_value(text), "serde_json writes JSON");
    Ok(crate::raw::raw(text))
}
