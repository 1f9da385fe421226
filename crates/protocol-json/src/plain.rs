//! The bytes that stand in JSON strings as they are.

use memchr::memchr2;

/// Returns whether a text can stand in a string as it is.
#[inline]
pub(crate) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_plain = |chunk: &[u8; 8]| special(u64::from_le_bytes(*chunk)) == 0;
    match bytes.last_chunk() {
        // The last chunk overlaps the one before it, so that none is short.
        Some(last) => {
            is_plain(last)
                && bytes.chunks_exact(8).all(|chunk| chunk.first_chunk().is_some_and(is_plain))
        }
        None => !bytes.iter().any(is_special),
    }
}

/// Returns the position of the first special byte from `at` on, or the end.
#[inline(never)]
pub(crate) fn plain_until(bytes: &[u8], mut at: usize) -> usize {
    for _ in 0..4 {
        match plain_of_eight(bytes, at) {
            Some(8) => at += 8,
            Some(plain) => return at + plain,
            None => break,
        }
    }
    let rest = &bytes[at..];
    if rest.len() >= 8 {
        let plain = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        let least = rest[..plain].iter().fold(u8::MAX, |least, &byte| least.min(byte));
        if least >= 0x20 {
            return at + plain;
        }
    }
    at + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Returns the number of bytes before the first special one of the next eight. Returns `None` if fewer than eight are
/// left.
#[inline]
pub(crate) fn plain_of_eight(bytes: &[u8], at: usize) -> Option<usize> {
    let chunk = bytes.get(at..)?.first_chunk()?;
    Some(special(u64::from_le_bytes(*chunk)).trailing_zeros() as usize / 8)
}

/// Returns whether a byte can't stand in a string as it is: it ends the string, begins an escape, or
/// is a control character.
pub(crate) const fn is_special(byte: &u8) -> bool {
    *byte < 0x20 || *byte == b'"' || *byte == b'\\'
}

/// Marks the lowest special byte of eight by its highest bit, with Mycroft's trick. Bytes above it
/// may be marked wrongly.
const fn special(chunk: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let control = chunk.wrapping_sub(ONES * 0x20) & !chunk;
    let quote = chunk ^ (ONES * b'"' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = chunk ^ (ONES * b'\\' as u64);
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & (ONES << 7)
}
