//! Needs `/dev/null`.
#![cfg(unix)]

use super::*;

#[test]
fn g08_the_room_of_a_long_line_is_given_back() {
    let mut writer = Writer {
        file: Rotating::new("/dev/null".into(), u64::MAX, 1),
        by: String::new(),
        program: None,
        setup: None,
        start: String::new(),
        payloads: Payloads::Redacted,
        part: 0,
        hops: BTreeMap::new(),
        out: Vec::new(),
        unwritten: 0,
        lines: Arc::default(),
        dropped: 0,
        is_full: false,
    };
    writer.begin().unwrap();
    let line = vec![b'1'; 1 << 20];
    writer.entry(Entry { t: 0, hop: 0, what: What::Line, len: line.len() }, &line).unwrap();
    writer.flush().unwrap();
    assert!(writer.out.capacity() <= 2 * CHUNK, "{} bytes", writer.out.capacity());
}
