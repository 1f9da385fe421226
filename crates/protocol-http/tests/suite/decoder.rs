//! The decoder of server-sent events, at every split.

use std::time::Duration;

use protocol_http::{Decoder, SseEvent, TooLong, event};

/// More than any stream of these tests.
const MOST: usize = 1 << 10;

type Seen = (Vec<SseEvent>, String);

fn decode(pieces: &[&[u8]], event_bytes: usize) -> Result<Seen, TooLong> {
    let mut decoder = Decoder::new(event_bytes);
    let mut events = Vec::new();
    for piece in pieces {
        let mut bytes = *piece;
        while let Some(event) = decoder.receive(&mut bytes)? {
            events.push(event);
        }
        assert!(bytes.is_empty(), "all bytes are taken");
    }
    Ok((events, decoder.last_event_id().to_owned()))
}

fn message(data: &str) -> SseEvent {
    SseEvent::Message(data.into())
}

#[test]
fn every_split_of_a_stream_gives_the_same_events() {
    let stream = "\u{FEFF}: hello\r\n\r\nid: 1-0\rdata:\r\rretry: 250\nevent: x\ndata: a\r\ndata:  b\ndata\n\n\
                  id: é\ndata: {\"世\":1}\n\nid: lost\ndata: unfinished\n";
    let expected = vec![
        message(""),
        SseEvent::Retry(Duration::from_millis(250)),
        message("a\n b\n"),
        message("{\"世\":1}"),
    ];
    let bytes = stream.as_bytes();
    let whole = decode(&[bytes], MOST);
    assert_eq!(whole, Ok((expected, "é".to_owned())));
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(decode(&pieces, MOST), whole, "{first} {second}");
        }
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&single, MOST), whole);
}

#[test]
fn a_line_or_an_event_over_its_limit_breaks_the_stream_for_good() {
    assert!(decode(&[b": 3456789012345678\ndata: 12\n\n"], 2).is_ok());
    assert_eq!(decode(&[b": 34567890123456789"], 2), Err(TooLong));
    assert_eq!(decode(&[b": 345678", b"90123456789"], 2), Err(TooLong), "at any split");
    assert_eq!(decode(&[b"data: 123\n"], 2), Err(TooLong));
    assert_eq!(decode(&[b"data:1\ndata:2\n\n"], 2), Err(TooLong));
    let mut decoder = Decoder::new(2);
    assert_eq!(decoder.receive(&mut &b"data: 123\n"[..]), Err(TooLong));
    assert_eq!(decoder.receive(&mut &b"\n\ndata: 1\n\n"[..]), Err(TooLong), "for good");
}

#[test]
fn fields_that_the_standard_ignores_are_ignored() {
    let stream = b"retry: 1x\nretry:\nid: a\0b\nfoo: bar\n data: no\nevent: e\n\ndata: yes\n\n";
    let seen = decode(&[stream], MOST);
    assert_eq!(seen, Ok((vec![message("yes")], String::new())));
}

#[test]
fn what_the_encoder_writes_is_read_again() {
    for data in ["", "{}", "[\n1]", "\n", " 7", "[\r\n{}]\n"] {
        let mut bytes = Vec::new();
        event(Some("7-1"), data.as_bytes(), &mut bytes);
        let expected = (vec![message(&data.replace(['\r', '\n'], " "))], "7-1".to_owned());
        assert_eq!(decode(&[&bytes], MOST), Ok(expected), "{data:?}");
    }
}
