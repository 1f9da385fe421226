//! The committed form of a corpus: `corpus/<target>.pack`.
//!
//! Entries, one behind the other: a line `NAME LENGTH`, so many bytes, a line end. They are sorted
//! by name, so that a changed corpus is a small difference. An entry that a fuzzer found is named
//! for a hash of its bytes, cut short. The name of a finding, or of a case by hand, says what it
//! is.

use std::collections::BTreeMap;

/// Inputs by their names.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// Reads a pack.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn unpack(pack: &[u8]) -> Entries {
    let (mut rest, mut entries) = (pack, Entries::new());
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let header = std::str::from_utf8(&rest[..end]).expect("a name and a length");
        let (name, len) = header.rsplit_once(' ').expect("a name and a length");
        let body = end + 1..end + 1 + len.parse::<usize>().expect("a length");
        assert_eq!(rest[body.end], b'\n', "{name} has not the length it says");
        entries.insert(name.into(), rest[body.clone()].to_vec());
        rest = &rest[body.end + 1..];
    }
    entries
}

/// Writes a pack.
#[must_use]
pub fn pack(entries: &Entries) -> Vec<u8> {
    let mut pack = Vec::new();
    for (name, bytes) in entries {
        pack.extend_from_slice(format!("{name} {}\n", bytes.len()).as_bytes());
        pack.extend_from_slice(bytes);
        pack.push(b'\n');
    }
    pack
}
