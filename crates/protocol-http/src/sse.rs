//! The bytes of server-sent events, as the HTML standard interprets them.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;

/// A decoder of server-sent events. Bytes go in at any split, and events come out.
///
/// ```
/// use protocol_http::{Decoder, SseEvent};
///
/// let mut decoder = Decoder::new(1_024);
/// let mut bytes = &b"id: 1\ndata: {}\n\n"[..];
/// let event = decoder.receive(&mut bytes)?.ok_or("it is whole")?;
/// assert_eq!(event, SseEvent::Message("{}".into()));
/// assert_eq!((decoder.last_event_id(), bytes), ("1", &b""[..]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    event_bytes: usize,
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, whose line feed belongs to it.
    is_after_return: bool,
    is_first_line: bool,
    data: Option<String>,
    /// The id of the event that is being read, and the one of the last event.
    id: String,
    last_id: String,
    is_broken: bool,
}

/// The bytes of a line beside those of an event, for the name of its field.
const FIELD: usize = 16;

/// An event of a stream. Its `event` field is dropped, because clients of MCP take every event as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseEvent {
    /// An event with data, whose lines are joined by line feeds.
    Message(String),
    /// The server named the time after which a client reconnects.
    Retry(Duration),
}

/// The error of a line or an event over its limit. The decoder returns it for ever after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a body or an event is too long (stream.message_bytes, or message_bytes of the endpoint)")
    }
}

impl core::error::Error for TooLong {}

impl Decoder {
    /// Creates a decoder at the beginning of a stream.
    ///
    /// The data of an event have this many bytes at most, over all its lines. One line may be 16 bytes longer.
    pub const fn new(event_bytes: usize) -> Self {
        Self {
            event_bytes,
            line: Vec::new(),
            is_after_return: false,
            is_first_line: true,
            data: None,
            id: String::new(),
            last_id: String::new(),
            is_broken: false,
        }
    }

    /// Takes bytes up to the end of the next event, and returns the event. Returns `None` once all bytes are taken.
    ///
    /// An event that the stream ends within is none.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] for a line or an event over its limit.
    pub fn receive(&mut self, bytes: &mut &[u8]) -> Result<Option<SseEvent>, TooLong> {
        while !self.is_broken && !bytes.is_empty() {
            if mem::take(&mut self.is_after_return) && bytes[0] == b'\n' {
                *bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let part = end.unwrap_or(bytes.len());
            // The byte order mark counts, too.
            if self.line.len() + part > self.event_bytes.saturating_add(FIELD) {
                self.is_broken = true;
                break;
            }
            self.line.extend_from_slice(&bytes[..part]);
            let Some(end) = end else {
                *bytes = &[];
                return Ok(None);
            };
            self.is_after_return = bytes[end] == b'\r';
            *bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line() {
                return Ok(Some(event));
            }
        }
        if self.is_broken { Err(TooLong) } else { Ok(None) }
    }

    /// Returns the id of the last event that had one, for the header `Last-Event-ID`; empty if none had.
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = mem::take(&mut self.line);
        let is_first = mem::take(&mut self.is_first_line);
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_prefix('\u{feff}').filter(|_| is_first).unwrap_or(&line);
        if line.is_empty() {
            self.id.clone_into(&mut self.last_id);
            return self.data.take().map(SseEvent::Message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => data.extend(["\n", value]),
                None => self.data = Some(value.into()),
            },
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                return value.parse().ok().map(Duration::from_millis).map(SseEvent::Retry);
            }
            _ => {}
        }
        self.is_broken = self.data.as_ref().is_some_and(|data| data.len() > self.event_bytes);
        None
    }
}

/// Appends an event with this id, if it has one, and these data, which are JSON.
///
/// A line break in JSON is white space, and becomes a space.
pub fn event(id: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend(id.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend(data.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\n\n");
}

/// Returns a comment without text, and an empty line behind it.
///
/// No client makes an event of it. It only shows that the stream is alive.
pub const fn comment() -> &'static [u8] {
    b":\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_line_of_data() {
        let mut out = Vec::new();
        event(Some("1-2"), b"[\n1,\r\n2\r]", &mut out);
        assert_eq!(out, b"id: 1-2\ndata: [ 1,  2 ]\n\n");
    }

    #[test]
    fn an_event_without_data_has_an_empty_line_of_data() {
        let mut out = Vec::new();
        event(Some("1-0\nx"), b"", &mut out);
        assert_eq!(out, b"id: 1-0x\ndata: \n\n");
    }
}
