//! Bytes in any pieces.

use protocol_core::{
    CallOptions, Config, Framing, InputBuffer, Response, StreamConnection, Timestamp,
};
use protocol_testkit::small;

use crate::bytes::Bytes;

const NOW: Timestamp = Timestamp::ZERO;

/// The first two bytes choose dialect and framing, the next six the sizes of the pieces. The rest
/// is a stream, which is read at once, in those pieces, and byte by byte. The events must be the
/// same each time (G11), and the bytes that are kept must stay bounded (G8).
pub fn frames(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = small(bytes.dialect());
    config.dialect.framing =
        bytes.pick(&[Framing::Newline, Framing::ContentLength, Framing::Whole]);
    config.limits.message_bytes = 100;
    config.limits.header_bytes = 64;
    let sizes = bytes.take(6);
    let stream = bytes.rest();
    if config.dialect.framing == Framing::Whole {
        return whole(config, stream);
    }
    let at_once = read(config.clone(), std::iter::once(stream));
    assert_eq!(read(config.clone(), pieces(stream, sizes)), at_once, "G11: in pieces of {sizes:?}");
    assert_eq!(read(config, stream.chunks(1)), at_once, "G11: byte by byte");
}

/// Checks a transport that keeps messages apart: a stream is nothing but its messages.
fn whole(config: Config, message: &[u8]) {
    if message.is_empty() {
        return;
    }
    let mut stream = prepared(config.clone());
    let (used, seen) = take(&mut stream, message);
    assert_eq!(used, message.len());
    let mut stream = prepared(config);
    // One that is too long never becomes a message.
    let first = stream.connection_mut().receive(message, NOW).map(|event| format!("{event:?}"));
    let received: Vec<_> = first.into_iter().chain(waiting(&mut stream)).collect();
    assert_eq!(seen, received);
}

/// Takes one message at the most; says how many bytes are used up, and what happened.
fn take(stream: &mut StreamConnection<u8>, unread: &[u8]) -> (usize, Vec<String>) {
    let received = stream.receive(unread, NOW);
    let first = received.event.map(|event| format!("{event:?}"));
    (received.consumed, first.into_iter().chain(waiting(stream)).collect())
}

/// Returns the events that have happened and were not taken.
fn waiting(stream: &mut StreamConnection<u8>) -> impl Iterator<Item = String> {
    std::iter::from_fn(|| stream.connection_mut().poll_event().map(|event| format!("{event:?}")))
}

/// The stream in pieces of those sizes, again and again.
fn pieces<'a>(stream: &'a [u8], sizes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let (mut rest, mut sizes) = (Bytes::new(stream), sizes.iter().cycle());
    std::iter::from_fn(move || {
        (!rest.is_empty()).then(|| rest.take(usize::from(*sizes.next().unwrap_or(&1)).max(1)))
    })
}

/// A connection with two calls that have left.
fn prepared(config: Config) -> StreamConnection<u8> {
    let mut stream = StreamConnection::new(config);
    for tag in [1, 2] {
        // Before a session is open, some dialects take none.
        let _ = stream.connection_mut().call("work", None, tag, CallOptions::default(), NOW);
    }
    while stream.poll_transmit(&mut Vec::new()).is_some() {}
    stream
}

/// Reads a stream in pieces. Returns the events, and the bytes that are written then.
fn read<'a>(config: Config, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Vec<u8>) {
    let mut stream = prepared(config.clone());
    let (mut input, mut seen, mut out) = (InputBuffer::new(), Vec::new(), Vec::new());
    let limits = config.limits;
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (used, events) = take(&mut stream, input.unread());
            seen.extend(events);
            if used == 0 {
                break;
            }
            input.consume(used);
        }
        let kept = input.unread().len();
        assert!(kept <= limits.message_bytes + limits.header_bytes, "G8: {kept} bytes are kept");
        let unsent = stream.connection().unsent_bytes();
        assert!(unsent <= limits.unsent_bytes + 128 * limits.calls, "G8: {unsent} bytes unsent");
    }
    stream.handle_eof(input.unread(), NOW);
    seen.extend(waiting(&mut stream));
    assert!(seen.last().is_some_and(|last| last.starts_with("Closed")), "G7: {seen:?}");
    while stream.poll_transmit(&mut out).is_some() {}
    let requests: Vec<_> = stream.connection().requests().map(|(request, ())| request).collect();
    for request in requests {
        // A batch may hold more answers back than the outbox has room for.
        let _ = stream.connection_mut().respond(request, Response::Cancelled);
        while stream.poll_transmit(&mut out).is_some() {}
    }
    (seen, out)
}
