//! The streams of the clients, whose bytes come in pieces, or not at all.

use std::mem;

use protocol_core::WireId;
use protocol_http::{Decoder, SseEvent, StreamId};

/// All streams, by their number.
#[derive(Default)]
pub(super) struct Streams(Vec<Stream>);

struct Stream {
    /// The requests that the client asked on it. `None` is a client that made its last event up.
    ids: Option<Vec<WireId>>,
    has_head: bool,
    /// The bytes on their way to the client.
    wire: Vec<u8>,
    decoder: Decoder,
    /// The body, where the response is whole.
    body: Option<Vec<u8>>,
    /// Whether the session may write to it.
    is_open: bool,
    /// Whether the client reads no more.
    is_left: bool,
}

impl Streams {
    pub(super) fn open(&mut self, ids: Option<Vec<WireId>>) -> StreamId {
        self.0.push(Stream {
            ids,
            has_head: false,
            wire: Vec::new(),
            decoder: Decoder::new(4 << 20),
            body: None,
            is_open: true,
            is_left: false,
        });
        StreamId(self.0.len() as u64 - 1)
    }

    pub(super) fn all(&self) -> Vec<StreamId> {
        (0..self.0.len() as u64).map(StreamId).collect()
    }

    /// Returns any stream, or one that was never there.
    pub(super) fn pick(&self, byte: u8) -> StreamId {
        // Of the newest ones, so that each byte means one in a long run too.
        let newest = self.0.len().saturating_sub(usize::from(byte % 16) + 1);
        StreamId(newest as u64)
    }

    fn get(&mut self, stream: StreamId) -> &mut Stream {
        &mut self.0[stream.0 as usize]
    }

    pub(super) fn refuse_unless(&mut self, stream: StreamId, is_taken: bool) {
        if !is_taken {
            let stream = self.get(stream);
            assert!(!stream.has_head, "a refused stream has a head");
            (stream.is_open, stream.is_left) = (false, true);
        }
    }

    pub(super) fn begin(&mut self, stream: StreamId) {
        let stream = self.get(stream);
        assert!(stream.is_open && !stream.has_head, "a second head");
        stream.has_head = true;
    }

    pub(super) fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        let stream = self.get(stream);
        assert!(stream.is_open, "bytes for a stream that is closed or lost");
        assert!(stream.has_head || stream.wire.is_empty(), "a body in pieces");
        stream.wire.extend_from_slice(bytes);
    }

    pub(super) fn close(&mut self, stream: StreamId, is_whole: bool) {
        let stream = self.get(stream);
        assert!(stream.is_open && stream.has_head != is_whole, "the end of what has not begun");
        stream.body = is_whole.then(Vec::new);
        (stream.has_head, stream.is_open) = (true, false);
    }

    /// Breaks a stream, wherever its bytes are.
    pub(super) fn lose(&mut self, stream: StreamId) {
        if let Some(stream) = self.0.get_mut(stream.0 as usize) {
            stream.is_open = false;
            stream.wire.clear();
        }
    }

    /// The client reads no more. The session may not know.
    pub(super) fn leave(&mut self, stream: StreamId) {
        self.get(stream).is_left = true;
    }

    /// Reads so many bytes of a stream, and returns the messages in them.
    pub(super) fn read(&mut self, stream: StreamId, length: usize) -> Vec<String> {
        let Some(stream) = self.0.get_mut(stream.0 as usize) else { return Vec::new() };
        // A client that made its last event up may read what another one has read.
        if stream.is_left || stream.ids.is_none() {
            return Vec::new();
        }
        let rest = stream.wire.split_off(length.min(stream.wire.len()));
        let read = mem::replace(&mut stream.wire, rest);
        if let Some(body) = &mut stream.body {
            body.extend_from_slice(&read);
            if !stream.wire.is_empty() || body.is_empty() {
                return Vec::new();
            }
            return vec![String::from_utf8(mem::take(body)).expect("JSON is text")];
        }
        let (mut bytes, mut messages) = (&read[..], Vec::new());
        while let Some(event) = stream.decoder.receive(&mut bytes).expect("it is short") {
            if let SseEvent::Message(data) = event {
                messages.push(data);
            }
        }
        messages
    }

    /// Returns the requests of a stream that its client has not left, and the last event that it has of it.
    pub(super) fn last_event_of(&self, stream: StreamId) -> Option<(Option<Vec<WireId>>, String)> {
        let stream = self.0.get(stream.0 as usize).filter(|stream| !stream.is_left)?;
        let last = stream.decoder.last_event_id();
        (stream.ids.is_some() && !last.is_empty()).then(|| (stream.ids.clone(), last.into()))
    }
}
