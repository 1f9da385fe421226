//! Server-sent events out of bytes, as the HTML standard interprets them.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;

/// A decoder of server-sent events. Bytes go in at any split, and events come out.
///
/// ```
/// use protocol_http::{Decoder, SseEvent, SseLimits};
///
/// let mut decoder = Decoder::new(SseLimits::DEFAULT);
/// let mut bytes = &b"id: 1\ndata: {}\n\n"[..];
/// let event = decoder.receive(&mut bytes)?.ok_or("it is whole")?;
/// assert_eq!(event, SseEvent::Message { kind: "message".into(), data: "{}".into() });
/// assert_eq!((decoder.last_event_id(), bytes), ("1", &b""[..]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: SseLimits,
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, whose line feed belongs to it.
    is_after_return: bool,
    is_first_line: bool,
    kind: String,
    data: String,
    has_data: bool,
    /// The id of the event that is being read, and the one of the last event.
    id: String,
    last_id: String,
    is_broken: bool,
}

/// The bounds of a [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseLimits {
    /// The bytes of one line; 4 MiB.
    pub line_bytes: usize,
    /// The bytes of one event, over all its lines; 4 MiB.
    pub event_bytes: usize,
}

impl SseLimits {
    /// The defaults, as each field documents them.
    pub const DEFAULT: Self = Self { line_bytes: 4 << 20, event_bytes: 4 << 20 };
}

impl Default for SseLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseEvent {
    /// An event with data, which a client takes as one message.
    Message {
        /// The type of the event; `message` if the stream names none.
        kind: String,
        /// The data, whose lines are joined by line feeds.
        data: String,
    },
    /// The server named the time after which a client reconnects.
    Retry(Duration),
    /// A comment came, which shows that the stream is alive.
    Comment,
}

/// The error of a line or an event over its limit. The decoder returns it for ever after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of the stream is too long (limits.line_bytes, limits.event_bytes)")
    }
}

impl core::error::Error for TooLong {}

impl Decoder {
    /// Creates a decoder at the beginning of a stream.
    #[must_use]
    pub const fn new(limits: SseLimits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            is_after_return: false,
            is_first_line: true,
            kind: String::new(),
            data: String::new(),
            has_data: false,
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
            if self.line.len() + part > self.limits.line_bytes {
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
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let bytes = mem::take(&mut self.line);
        let is_first = mem::take(&mut self.is_first_line);
        let marked = bytes.strip_prefix(b"\xEF\xBB\xBF").filter(|_| is_first);
        let line = String::from_utf8_lossy(marked.unwrap_or(&bytes));
        let event = self.take_line(&line);
        // The room for a line is kept, and its content is not.
        drop(line);
        self.line = bytes;
        self.line.clear();
        event
    }

    fn take_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => return Some(SseEvent::Comment),
            "event" => value.clone_into(&mut self.kind),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                return value
                    .parse()
                    .ok()
                    .map(|millis| SseEvent::Retry(Duration::from_millis(millis)));
            }
            _ => {}
        }
        self.is_broken = self.data.len() + self.kind.len() > self.limits.event_bytes;
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        self.id.clone_into(&mut self.last_id);
        let (kind, data) = (mem::take(&mut self.kind), mem::take(&mut self.data));
        mem::take(&mut self.has_data).then(|| SseEvent::Message {
            kind: if kind.is_empty() { "message".into() } else { kind },
            data,
        })
    }
}
