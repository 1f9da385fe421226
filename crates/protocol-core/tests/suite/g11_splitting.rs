//! G11: how bytes were split changes nothing.

use crate::support;

use protocol_core::{CallOptions, Config, Dialect, Framing, InputBuffer};
use protocol_core::{StreamConnection, Timestamp};
use support::{cancel, line, request, result};

/// Returns the events of a stream that arrives in these pieces, and the bytes that are sent.
fn read<'a>(config: Config, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Vec<u8>) {
    let now = Timestamp::ZERO;
    let mut stream: StreamConnection<String> = StreamConnection::new(config);
    let mut out = Vec::new();
    let call = |conn: &mut protocol_core::Connection<String>| {
        conn.call("slow", None, "slow".into(), CallOptions::default(), now)
    };
    call(stream.connection_mut()).expect("the call is taken");
    stream.poll_transmit(&mut out);
    let (mut input, mut lines) = (InputBuffer::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (used, events) = support::take(&mut stream, input.unread(), now);
            lines.extend(events);
            if used == 0 {
                break;
            }
            input.consume(used);
        }
    }
    stream.handle_eof(input.unread(), now);
    lines.extend(std::iter::from_fn(|| stream.connection_mut().poll_event()).map(|e| line(&e)));
    while stream.poll_transmit(&mut out).is_some() {}
    (lines, out)
}

fn assert_same_in_any_pieces(config: Config, stream: &[u8]) -> Vec<String> {
    let whole = read(config.clone(), std::iter::once(stream));
    for size in 1..stream.len() {
        assert_eq!(read(config.clone(), stream.chunks(size)), whole, "in pieces of {size}");
    }
    for at in 0..stream.len() {
        let (head, tail) = stream.split_at(at);
        assert_eq!(read(config.clone(), [head, tail].into_iter()), whole, "split at {at}");
    }
    whole.0
}

fn messages() -> Vec<String> {
    vec![
        request("\"\u{e9}\"", "m"),
        "rubbish".into(),
        cancel("\"\\u00e9\""),
        format!("{}x", request("5", "too long ...............................................")),
        result("1", r#"{"a":"\u00e9"}"#),
        request("6", "last"),
    ]
}

#[test]
fn g11_lines() {
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.message_bytes = 80;
    let stream = format!("\n \r\n{}\r\n\n", messages().join("\n"));
    let events = assert_same_in_any_pieces(config, stream.as_bytes());
    let expected = [
        "request r1 \"\u{e9}\" m",
        "violation parse",
        "cancelled r1 peer",
        "violation invalid_request",
        "settled slow result {\"a\":\"\\u00e9\"}",
        "request r2 6 last",
        "cancelled r2 peer_gone",
        "closed peer_gone",
    ];
    assert_eq!(events, expected);
}

#[test]
fn g11_content_length() {
    let mut config = Config::client(Dialect::LSP_3_17);
    config.dialect.cancel = Dialect::ACP_V1.cancel;
    config.limits.message_bytes = 80;
    let block = |message: &String| {
        format!("CONTENT-length:  0{}\r\nX: y\n\r\n{message}\r\n", message.len())
    };
    let stream: String = messages().iter().map(block).collect();
    let events = assert_same_in_any_pieces(config, stream.as_bytes());
    assert_eq!(events.len(), 8, "{events:?}");
}

#[test]
fn g11_white_space_around_a_line_counts_towards_its_limit() {
    let message = request("7", "m");
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.message_bytes = message.len() + 2;
    for (line, fits) in [
        (format!("{message}\r\n"), true),
        (format!(" {message} \r\n"), true),
        (format!(" {message}  \n"), false),
        (format!("   {message}\r\n"), false),
        (format!("{}\n", " ".repeat(message.len() + 2)), true),
        (format!("{}\n", " ".repeat(message.len() + 3)), false),
        (format!("   {message}"), false),
        (format!("  {message}\r"), true),
    ] {
        let events = assert_same_in_any_pieces(config.clone(), line.as_bytes());
        let too_large = events.iter().any(|event| event.starts_with("violation invalid_request"));
        assert_eq!(too_large, !fits, "{line:?}");
    }
}

#[test]
fn g11_a_stream_that_breaks_breaks_at_the_same_place() {
    let mut config = Config::client(Dialect::LSP_3_17);
    config.limits.header_bytes = 40;
    let good = request("7", "m");
    let good = format!("Content-Length: {}\r\n\r\n{good}", good.len());
    for bad in [
        "X: y\r\n\r\n",
        "Content-Length: 5x\r\n\r\n",
        &"x".repeat(50),
        "Content-Length: 9\r\n\r\n{",
    ] {
        let stream = format!("{good}{bad}");
        let events = assert_same_in_any_pieces(config.clone(), stream.as_bytes());
        assert_eq!(events[0], "request r1 7 m");
        assert!(events.last().is_some_and(|last| last.starts_with("closed ")));
    }
}

#[test]
fn g11_what_is_written_is_framed() {
    let now = Timestamp::ZERO;
    for (framing, expected) in [
        (Framing::Newline, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n"),
        (
            Framing::ContentLength,
            "Content-Length: 37\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}",
        ),
        (Framing::Whole, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}"),
    ] {
        let mut config = Config::client(Dialect::JSON_RPC);
        config.dialect.framing = framing;
        let mut stream: StreamConnection<()> = StreamConnection::new(config);
        let conn = stream.connection_mut();
        conn.call("m", None, (), CallOptions::default(), now).unwrap();
        let mut out = Vec::new();
        assert_eq!(stream.poll_transmit(&mut out).unwrap().len, 37);
        assert!(stream.poll_transmit(&mut out).is_none());
        assert_eq!(out, expected.as_bytes());
    }
}

#[test]
fn g11_whole_messages_need_no_framing() {
    let mut config = Config::client(Dialect::JSON_RPC);
    config.dialect.framing = Framing::Whole;
    config.limits.message_bytes = 50;
    let mut stream: StreamConnection<String> = StreamConnection::new(config);
    let mut receive = |message: &str| {
        let (used, events) = support::take(&mut stream, message.as_bytes(), Timestamp::ZERO);
        assert_eq!(used, message.len());
        events
    };
    assert_eq!(receive(&request("7", "m")), ["request r1 7 m"]);
    assert_eq!(receive(""), [""; 0]);
    assert_eq!(receive(&request("8", &"m".repeat(50))), ["violation invalid_request 8"]);
    assert_eq!(receive("\n{}"), ["violation invalid_request"]);
}

#[test]
fn g11_when_outputs_were_drained_changes_only_what_can_be_withdrawn() {
    let run = |drain: bool| {
        let mut host = support::acp();
        let mut events = Vec::new();
        let mut wire = Vec::new();
        let first = host.sent_call("first");
        for step in 0..6 {
            match step {
                0 => drop(host.cancel(first)),
                1 => events.extend(host.receive(&request("7", "m"))),
                2 => host.respond_ok(host.request(1)),
                3 => host.conn.notify("n", None).unwrap(),
                4 => events.extend(host.receive("rubbish")),
                _ => events.extend(host.eof()),
            }
            if drain {
                wire.extend(host.sent());
            }
        }
        wire.extend(host.sent());
        (events, wire)
    };
    assert_eq!(run(true), run(false));
}
