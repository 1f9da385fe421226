//! Framing: the boundaries between messages in a stream of bytes.

mod outline;

use alloc::vec::Vec;

use memchr::memchr;
use protocol_json::decimal;

use crate::limits::Limits;
use crate::violation::Violation;

pub(crate) use outline::Outline;

/// The boundaries between messages in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framing {
    /// One message a line. Empty lines and CRLF are accepted; only LF is written.
    Newline,
    /// A header block with `Content-Length`, and then that many bytes, as LSP and DAP have it.
    ContentLength,
    /// No framing of our own, because the transport keeps messages apart: WebSocket, `postMessage`.
    Whole,
}

impl Framing {
    /// Appends the frame before a message of `len` bytes.
    pub(crate) fn open(self, len: usize, out: &mut Vec<u8>) {
        if self == Self::ContentLength {
            // Some servers fail on lower case, on other spacing, and on further headers.
            out.extend_from_slice(b"Content-Length: ");
            decimal(len as u64, out);
            out.extend_from_slice(b"\r\n\r\n");
        }
    }

    /// Appends the frame behind a message.
    pub(crate) fn close(self, out: &mut Vec<u8>) {
        if self == Self::Newline {
            out.push(b'\n');
        }
    }
}

/// Finds messages in a stream.
///
/// It owns no bytes but an outline. The caller keeps the unused ones and passes them again with more behind
/// them (B28). The deframer remembers how far it has looked, so it scans no byte twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Deframer {
    framing: Framing,
    limits: Limits,
    state: State,
    /// The outline of the message that is being skipped.
    outline: Outline,
}

/// The position of the first unread byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// In a line or a header block, whose first `scanned` bytes don't end it.
    Scanning { scanned: usize },
    /// Before the body of this length that a header block announced.
    Body { len: u64 },
    /// In a message over the limit, of which this many bytes are left. A line ends by itself, and has
    /// `u64::MAX` here.
    Skipping { left: u64 },
}

/// The position between two messages.
const START: State = State::Scanning { scanned: 0 };

/// The beginning of the unread bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'b> {
    /// One whole message.
    Message(&'b [u8]),
    /// No whole message yet.
    Partial,
    /// The end of a message over the limit, which was skipped.
    TooLarge,
    /// A broken frame, after which the next message can't be found.
    Broken(Violation),
}

impl Deframer {
    pub(crate) fn new(framing: Framing, levels: usize, limits: &Limits) -> Self {
        Self { framing, limits: *limits, state: START, outline: Outline::new(levels) }
    }

    /// Looks at the unread bytes. Returns the number of bytes that are used up now, and their content.
    ///
    /// `unread` begins behind the bytes that earlier calls used up.
    pub(crate) fn next<'b>(&mut self, unread: &'b [u8]) -> (usize, Frame<'b>) {
        let mut used = 0;
        loop {
            let rest = &unread[used..];
            let (len, frame) = match self.framing {
                Framing::Newline => self.line(rest),
                Framing::ContentLength => self.block(rest),
                Framing::Whole if rest.is_empty() => (0, Frame::Partial),
                // The connection judges its length.
                Framing::Whole => (rest.len(), Frame::Message(rest)),
            };
            used += len;
            // Behind used bytes that held no message there may be more bytes.
            if !matches!(frame, Frame::Partial) || len == 0 {
                return (used, frame);
            }
        }
    }

    /// Returns the outline of the message over the limit that has ended.
    pub(crate) fn end_outline(&mut self) -> Vec<u8> {
        self.outline.end()
    }

    /// Judges the unread bytes when the input ends behind them.
    pub(crate) fn finish<'b>(&mut self, unread: &'b [u8]) -> Frame<'b> {
        match (self.framing, self.state) {
            (Framing::Newline, _) => self.ended_line(unread),
            (Framing::Whole, _) => Frame::Partial,
            (_, State::Scanning { .. }) if unread.trim_ascii().is_empty() => Frame::Partial,
            _ => Frame::Broken(Violation::Truncated),
        }
    }

    /// Looks for the end of a line. Returns the number of bytes used, and their content.
    fn line<'b>(&mut self, rest: &'b [u8]) -> (usize, Frame<'b>) {
        let (scanned, is_skipping) = match self.state {
            State::Scanning { scanned } => (scanned.min(rest.len()), false),
            _ => (0, true),
        };
        if let Some(at) = memchr(b'\n', &rest[scanned..]) {
            let frame = self.ended_line(&rest[..scanned + at]);
            self.state = START;
            return (scanned + at + 1, frame);
        }
        // One byte more is let through: it may be the CR of a line that just fits.
        if !is_skipping && rest.len() <= self.limits.message_bytes.saturating_add(1) {
            self.state = State::Scanning { scanned: rest.len() };
            return (0, Frame::Partial);
        }
        self.state = State::Skipping { left: u64::MAX };
        self.outline.extend(rest);
        (rest.len(), Frame::Partial)
    }

    /// Judges a line without its LF, which the last line of the input need not have.
    ///
    /// White space counts towards the limit. While a line is still arriving, nobody knows how much of it
    /// will be trimmed (G11).
    fn ended_line<'b>(&mut self, line: &'b [u8]) -> Frame<'b> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_skipping = matches!(self.state, State::Skipping { .. });
        match line.trim_ascii() {
            _ if is_skipping || line.len() > self.limits.message_bytes => {
                self.outline.extend(line);
                Frame::TooLarge
            }
            [] => Frame::Partial,
            message => Frame::Message(message),
        }
    }

    /// Reads a header block or a body. Returns the number of bytes used, and their content.
    fn block<'b>(&mut self, rest: &'b [u8]) -> (usize, Frame<'b>) {
        match self.state {
            State::Scanning { scanned } => self.header(rest, scanned),
            State::Body { len } => {
                let Some(body) = rest.get(..len as usize) else { return (0, Frame::Partial) };
                self.state = START;
                // Some peers send bodies that are blank.
                let is_blank = body.trim_ascii().is_empty();
                (body.len(), if is_blank { Frame::Partial } else { Frame::Message(body) })
            }
            State::Skipping { left } => {
                let body = &rest[..left.min(rest.len() as u64) as usize];
                self.outline.extend(body);
                let left = left - body.len() as u64;
                self.state = if left > 0 { State::Skipping { left } } else { START };
                (body.len(), if left > 0 { Frame::Partial } else { Frame::TooLarge })
            }
        }
    }

    /// Reads lines up to the empty one that ends the header block, and accepts LF for CRLF.
    fn header(&mut self, rest: &[u8], scanned: usize) -> (usize, Frame<'static>) {
        let broken = |violation| (rest.len(), Frame::Broken(violation));
        let block = &rest[..rest.len().min(self.limits.header_bytes)];
        // The scanned bytes are there again, unless the host has lost some of them.
        let mut scanned = scanned.min(block.len());
        while let Some(at) = memchr(b'\n', &block[scanned..]) {
            let begin = scanned;
            scanned += at + 1;
            if block[begin..scanned].trim_ascii().is_empty() {
                // A stray line end between two messages is a block without a body.
                let len = if begin == 0 { Some(0) } else { content_length(&block[..begin]) };
                let Some(len) = len else { return broken(Violation::InvalidHeader) };
                self.state = match len {
                    0 => START,
                    _ if len > self.limits.message_bytes as u64 => State::Skipping { left: len },
                    _ => State::Body { len },
                };
                return (scanned, Frame::Partial);
            }
        }
        if rest.len() >= self.limits.header_bytes {
            return broken(Violation::HeaderTooLong);
        }
        self.state = State::Scanning { scanned };
        (0, Frame::Partial)
    }
}

/// Returns the one Content-Length of the header lines, in any case, order and spacing.
///
/// Other lines are ignored, because the only charset that they may name is UTF-8.
fn content_length(block: &[u8]) -> Option<u64> {
    let headers = block.split(|&byte| byte == b'\n').filter_map(|line| {
        let (name, value) = line.split_at(memchr(b':', line)?);
        Some((name.trim_ascii(), value[1..].trim_ascii()))
    });
    let lens = headers.filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
    // A plus sign is all that `parse` takes beside digits.
    let mut lens = lens.map(|(_, value)| {
        core::str::from_utf8(value).ok()?.parse().ok().filter(|_| value[0] != b'+')
    });
    let first = lens.next()?;
    first.filter(|_| lens.all(|len| len == first))
}

#[cfg(test)]
mod tests;
