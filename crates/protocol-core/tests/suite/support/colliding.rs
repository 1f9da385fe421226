//! Ids that meet in one place of an index.

/// Returns so many ids of one hash. A hostile peer can find them as well: their second eight bytes undo the
/// effect of the first.
pub(crate) fn colliding_ids(count: usize, bytes: usize) -> Vec<String> {
    const PLAIN: [u8; 8] = *b"AAAAAAAA";

    // As in `src/id.rs`.
    fn mixed(first: [u8; 8]) -> u64 {
        u64::from_le_bytes(first).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
    }

    let alphabet = || b'0'..b'\\';
    let pairs: Vec<_> = alphabet().flat_map(|a| alphabet().map(move |b| (a, b))).collect();
    let wanted = mixed(*b"\"\n000000") ^ u64::from_le_bytes(PLAIN);
    let mut ids = Vec::new();
    for (&(a, b), &(c, d)) in pairs.iter().flat_map(|one| pairs.iter().map(move |two| (one, two))) {
        let first = [b'"', b'\n', a, b, c, d, b'0', b'0'];
        let second = (mixed(first) ^ wanted).to_le_bytes();
        let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        if second.iter().all(is_plain) {
            let text = String::from_utf8([&first[2..], &second].concat()).unwrap();
            ids.push(format!("\"\\n{text}{}\"", "x".repeat(bytes - 18)));
        }
        if ids.len() == count {
            break;
        }
    }
    ids
}
