//! Files that are read whole, and are no longer than they may be.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest description of a dialect, or of an opening, and the longest file of certificates.
pub(crate) const DESCRIPTION: u64 = 4 << 20;
/// The longest params, which are all that may wait to be sent.
pub(crate) const PARAMS: u64 = 64 << 20;
/// The longest file of a secret.
pub(crate) const SECRET: u64 = 4 << 10;

/// Reads a text file of at most so many bytes.
///
/// # Errors
///
/// It can't be read, is longer, or is no UTF-8.
pub(crate) fn text(path: &Path, most: u64) -> io::Result<String> {
    text_in(bytes(path, most)?)
}

/// Reads a file of at most so many bytes.
///
/// # Errors
///
/// It can't be read, or is longer.
pub(crate) fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    of(File::open(path)?, most)
}

/// Reads standard input, of at most so many bytes.
///
/// # Errors
///
/// It can't be read, is longer, or is no UTF-8.
pub(crate) fn standard(most: u64) -> io::Result<String> {
    text_in(of(io::stdin(), most)?)
}

/// Returns the text of an error in JSON, without its place.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn text_in(bytes: Vec<u8>) -> io::Result<String> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8");
    String::from_utf8(bytes).map_err(no_text)
}

fn of(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Refuses standard input that is a directory, which can be opened and not be read.
pub(crate) fn check_standard() -> Result<(), &'static str> {
    #[cfg(unix)]
    if rustix::fs::fstat(io::stdin())
        .is_ok_and(|file| rustix::fs::FileType::from_raw_mode(file.st_mode).is_dir())
    {
        return Err("standard input is a directory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f109_a_file_without_end_is_not_read_to_its_end() {
        assert_eq!(of(&b"1234"[..], 4).unwrap(), b"1234");
        assert_eq!(of(&b"12345"[..], 4).unwrap_err().to_string(), "it is longer than 4 bytes");
        assert!(of(io::repeat(b'x'), DESCRIPTION).is_err());
    }
}
