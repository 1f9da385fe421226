use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn limits() -> Limits {
    Limits { message_bytes: 40, header_bytes: 96, ..Limits::DEFAULT }
}

/// Returns the messages and the faults of a stream that arrives in pieces of this size.
fn read(framing: Framing, stream: &[u8], piece: usize) -> Vec<String> {
    let mut deframer = Deframer::new(framing, 1, &limits());
    let (mut unread, mut found) = (Vec::new(), Vec::new());
    let name = |frame: Frame<'_>| match frame {
        Frame::Message(message) => Some(String::from_utf8(message.to_vec()).unwrap()),
        Frame::TooLarge => Some("<too large>".into()),
        Frame::Broken(violation) => Some(format!("<{}>", violation.as_str())),
        Frame::Partial => None,
    };
    for bytes in stream.chunks(piece) {
        unread.extend_from_slice(bytes);
        loop {
            let (used, frame) = deframer.next(&unread);
            let broken = matches!(frame, Frame::Broken(_));
            let name = name(frame);
            unread.drain(..used);
            let Some(name) = name else { break };
            found.push(name);
            if broken {
                return found;
            }
        }
        assert!(unread.len() <= 40 + 96, "bounded memory");
    }
    found.extend(name(deframer.finish(&unread)));
    found
}

fn assert_reads(framing: Framing, stream: &[u8], expected: &[&str]) {
    for piece in 1..=stream.len() {
        assert_eq!(read(framing, stream, piece), expected, "in pieces of {piece}");
    }
}

#[test]
fn g11_lines_in_any_pieces() {
    let stream = b"{\"a\":1}\n\r\n  \n{\"b\":2}\r\n[3]\n";
    assert_reads(Framing::Newline, stream, &["{\"a\":1}", "{\"b\":2}", "[3]"]);
}

#[test]
fn a_last_line_without_its_end_is_a_message() {
    assert_reads(Framing::Newline, b"1\n2", &["1", "2"]);
}

#[test]
fn b30_a_line_over_the_limit_is_skipped_and_the_next_one_read() {
    let stream = format!("{}\n{}\n1\n", "x".repeat(40), "y".repeat(90));
    assert_reads(Framing::Newline, stream.as_bytes(), &[&"x".repeat(40), "<too large>", "1"]);
}

#[test]
fn g11_blocks_in_any_pieces_with_every_header_that_peers_write() {
    let stream = b"Content-Length: 2\r\n\r\n{}\r\ncontent-length:007\r\n\
        Content-Type: application/json; charset=utf8\r\n\r\n[1,2,3]X: y\nCONTENT-LENGTH : 1\n\n5\
        Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n[]";
    assert_reads(Framing::ContentLength, stream, &["{}", "[1,2,3]", "5", "[]"]);
}

#[test]
fn b30_a_body_over_the_limit_is_skipped_and_the_next_one_read() {
    let stream = format!("Content-Length: 90\r\n\r\n{}Content-Length: 1\r\n\r\n5", "y".repeat(90));
    assert_reads(Framing::ContentLength, stream.as_bytes(), &["<too large>", "5"]);
}

#[test]
fn b30_an_endless_header_ends_the_stream() {
    let stream = format!("X: {}", "y".repeat(200));
    assert_reads(Framing::ContentLength, stream.as_bytes(), &["<header_too_long>"]);
}

#[test]
fn a_header_without_a_length_ends_the_stream() {
    for block in [
        "X: y",
        "Content-Length: -1",
        "Content-Length: x",
        "Content-Length: 1\r\nContent-Length: 2",
    ] {
        let stream = format!("{block}\r\n\r\n5");
        assert_reads(Framing::ContentLength, stream.as_bytes(), &["<invalid_header>"]);
    }
}

#[test]
fn input_that_ends_inside_a_block_is_reported() {
    for stream in
        ["Content-Length: 5", "Content-Length: 5\r\n\r\n12", "Content-Length: 50\r\n\r\n12"]
    {
        let found = read(Framing::ContentLength, stream.as_bytes(), stream.len());
        assert_eq!(found.last().unwrap(), "<truncated>");
    }
}

#[test]
fn g08_a_line_over_the_limit_without_its_end_is_told_once() {
    let stream = [b'1'; 90];
    assert_reads(Framing::Newline, &stream, &["<too large>"]);
}

#[test]
fn b30_a_whole_message_is_what_arrives_at_once() {
    let mut whole = Deframer::new(Framing::Whole, 1, &limits());
    let mut next = |len| whole.next(&[b'1'; 50][..len]).1;
    assert!(matches!(next(0), Frame::Partial), "nothing is no message");
    assert!(matches!(next(41), Frame::Message(message) if message.len() == 41));
}

fn outline_of(levels: usize, message: &str, piece: usize) -> String {
    let mut outline = Outline::new(levels);
    message.as_bytes().chunks(piece).for_each(|bytes| outline.extend(bytes));
    let text = String::from_utf8(outline.end()).unwrap();
    assert_eq!(outline, Outline::new(levels), "the next one begins anew");
    text
}

#[test]
fn g11_an_outline_has_the_members_of_a_message_in_any_pieces() {
    let (long, many) = ("x".repeat(300), "1,".repeat(300));
    for (message, outline) in [
        (r#" {"id": 1,"result":{"id":2,"a":[{},"]}"]}}"#.into(), r#"{"id": 1,"result":{}}"#),
        (r#"{"params":["\\\"","{"],"id":"\"a}"}"#.into(), r#"{"params":[],"id":"\"a}"}"#),
        (format!(r#"{{"method":"{long}","id":"é"}}"#), r#"{"method":{},"id":"é"}"#),
        (format!(r#"{{"result":"{long}\"","id":1}}"#), r#"{"result":{},"id":1}"#),
        (
            format!(r#"{{"_meta":[{many}0],"result":[{many}0],"id":1}}"#),
            r#"{"_meta":[],"result":[],"id":1}"#,
        ),
        ("{\"id\":1 \n 2}".into(), r#"{"id":1 2}"#),
        (r#"{"id":1} x "#.into(), r#"{"id":1}x"#),
        (format!(r#" "{long}" "#), "{}"),
    ] {
        for piece in 1..=message.len() {
            let outline_of_pieces = outline_of(1, &message, piece);
            assert_eq!(outline_of_pieces, outline, "{message} in pieces of {piece}");
        }
    }
    for (payload, outline) in [
        (r#"{"options":{"callId":"1","a":[0]}}"#.into(), r#"{"options":{"callId":"1","a":[]}}"#),
        (format!(r#"{{"data":"{long}","callId":"1"}}"#), r#"{"data":{},"callId":"1"}"#),
        (format!(r#"{{"data":[{many}0],"callId":"1"}}"#), r#"{"data":{},"callId":"1"}"#),
    ] {
        let message = |payload: &str| format!(r#"{{"payload":{payload},"id":"1"}}"#);
        let found = outline_of(3, &message(&payload), 7);
        assert_eq!(found, message(outline));
    }
}

#[test]
fn g08_an_outline_is_short_and_no_json_if_it_is_cut() {
    let members: Vec<_> = (0..500).map(|nth| format!("\"{nth}\":1")).collect();
    let members = format!("{{{}}}", members.join(","));
    for (levels, message) in [(1, &members), (3, &format!(r#"{{"payload":{members},"id":"1"}}"#))] {
        let outline = outline_of(levels, message, 64);
        assert_eq!(outline.len(), Outline::BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&outline).is_err());
    }
}

#[test]
fn what_is_written_is_exactly_what_every_server_reads() {
    for (framing, expected) in [
        (Framing::ContentLength, "Content-Length: 2\r\n\r\n{}"),
        (Framing::Newline, "{}\n"),
        (Framing::Whole, "{}"),
    ] {
        let mut out = vec![];
        framing.open(2, &mut out);
        out.extend_from_slice(b"{}");
        framing.close(&mut out);
        assert_eq!(out, expected.as_bytes());
    }
}

#[test]
fn g08_a_message_may_be_as_long_as_the_limit_and_no_longer() {
    for framing in [Framing::Newline, Framing::ContentLength] {
        for (len, is_taken) in [(40, true), (41, false)] {
            let message = "x".repeat(len);
            let mut stream = Vec::new();
            framing.open(len, &mut stream);
            stream.extend_from_slice(message.as_bytes());
            framing.close(&mut stream);
            let expected = if is_taken { &*message } else { "<too large>" };
            assert_eq!(read(framing, &stream, stream.len()), [expected], "{framing:?}");
        }
    }
}
