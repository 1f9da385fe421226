//! The decoder of server-sent events, at every split.

use std::time::Duration;

use protocol_http::{Decoder, SseEvent, SseLimits, TooLong, event};

type Seen = (Vec<SseEvent>, String);

fn decode(pieces: &[&[u8]], limits: SseLimits) -> Result<Seen, TooLong> {
    let mut decoder = Decoder::new(limits);
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

fn message(kind: &str, data: &str) -> SseEvent {
    SseEvent::Message { kind: kind.into(), data: data.into() }
}

#[test]
fn every_split_of_a_stream_gives_the_same_events() {
    let stream = "\u{FEFF}: hello\r\n\r\nid: 1-0\rdata:\r\rretry: 250\nevent: x\ndata: a\r\ndata:  b\ndata\n\n\
                  id: é\ndata: {\"世\":1}\n\nid: lost\ndata: unfinished\n";
    let expected = vec![
        SseEvent::Comment,
        message("message", ""),
        SseEvent::Retry(Duration::from_millis(250)),
        message("x", "a\n b\n"),
        message("message", "{\"世\":1}"),
    ];
    let bytes = stream.as_bytes();
    let whole = decode(&[bytes], SseLimits::DEFAULT);
    assert_eq!(whole, Ok((expected, "é".to_owned())));
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(decode(&pieces, SseLimits::DEFAULT), whole, "{first} {second}");
        }
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&single, SseLimits::DEFAULT), whole);
}

#[test]
fn a_line_or_an_event_over_its_limit_breaks_the_stream_for_good() {
    let limits = SseLimits { line_bytes: 10, event_bytes: 8 };
    assert!(decode(&[b"data: 1234\n\n"], limits).is_ok());
    assert_eq!(decode(&[b"data: 12345"], limits), Err(TooLong));
    assert_eq!(decode(&[b"data: 12", b"345"], limits), Err(TooLong), "at any split");
    assert_eq!(decode(&[b"data:1234\ndata:1234\n\n"], limits), Err(TooLong));
    let mut decoder = Decoder::new(limits);
    assert_eq!(decoder.receive(&mut &b"data: 12345"[..]), Err(TooLong));
    assert_eq!(decoder.receive(&mut &b"\n\ndata: 1\n\n"[..]), Err(TooLong), "for good");
}

#[test]
fn fields_that_the_standard_ignores_are_ignored() {
    let stream = b"retry: 1x\nretry:\nid: a\0b\nfoo: bar\n data: no\nevent: e\n\ndata: yes\n\n";
    let seen = decode(&[stream], SseLimits::DEFAULT);
    assert_eq!(seen, Ok((vec![message("message", "yes")], String::new())));
}

#[test]
fn what_the_encoder_writes_is_read_again() {
    for data in ["", "{}", "a\nb", "\n", " space", "a\n\nb\n"] {
        let mut bytes = Vec::new();
        event(Some("7-1"), data.as_bytes(), &mut bytes);
        let expected = (vec![message("message", data)], "7-1".to_owned());
        assert_eq!(decode(&[&bytes], SseLimits::DEFAULT), Ok(expected), "{data:?}");
    }
}
