//! Framing: where one message ends and the next begins in a stream of bytes.
//!
//! The [`Deframer`] owns no bytes. The caller keeps what was not used yet and presents it again with
//! more behind it (B28); the deframer remembers how far it has looked, so nothing is scanned twice.

mod content_length;
mod newline;

use alloc::vec::Vec;

use protocol_json::decimal;

use crate::config::Limits;
use crate::violation::Violation;

/// How messages are told apart in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framing {
    /// One message a line. Empty lines and CRLF are accepted; only LF is written.
    Newline,
    /// A header block with `Content-Length`, then that many bytes: LSP.
    ContentLength,
    /// The transport keeps messages apart: WebSocket, postMessage.
    Whole,
}

impl Framing {
    /// Appends what goes before a message of `len` bytes.
    pub(crate) fn open(self, len: usize, out: &mut Vec<u8>) {
        if self == Self::ContentLength {
            // Exactly this form: lower case, other spacing and further headers each break a server.
            out.extend_from_slice(b"Content-Length: ");
            decimal(len as u64, out);
            out.extend_from_slice(b"\r\n\r\n");
        }
    }

    /// Appends what goes after a message.
    pub(crate) fn close(self, out: &mut Vec<u8>) {
        if self == Self::Newline {
            out.push(b'\n');
        }
    }
}

/// Finds messages in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Deframer {
    Newline(newline::Lines),
    ContentLength(content_length::Blocks),
    Whole { limit: usize },
}

/// What the deframer found at the beginning of the unread bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'b> {
    /// One whole message.
    Message(&'b [u8]),
    /// No whole message yet.
    Partial,
    /// A message over the limit begins here; it is being skipped.
    TooLarge,
    /// Nobody can tell where the next message begins.
    Broken(Violation),
}

impl Deframer {
    pub(crate) fn new(framing: Framing, limits: &Limits) -> Self {
        match framing {
            Framing::Newline => Self::Newline(newline::Lines::new(limits)),
            Framing::ContentLength => Self::ContentLength(content_length::Blocks::new(limits)),
            Framing::Whole => Self::Whole { limit: limits.message_bytes },
        }
    }

    /// Looks at the unread bytes, which begin where those ended that were used up. Gives how many are
    /// used up now, and what they are.
    pub(crate) fn next<'b>(&mut self, unread: &'b [u8]) -> (usize, Frame<'b>) {
        match self {
            Self::Newline(lines) => lines.next(unread),
            Self::ContentLength(blocks) => blocks.next(unread),
            Self::Whole { limit } => {
                let frame = match unread.len() {
                    0 => Frame::Partial,
                    len if len > *limit => Frame::TooLarge,
                    _ => Frame::Message(unread),
                };
                (unread.len(), frame)
            }
        }
    }

    /// Judges what is left unread when the input ends.
    pub(crate) fn finish<'b>(&self, unread: &'b [u8]) -> Frame<'b> {
        match self {
            Self::Newline(lines) => lines.finish(unread),
            Self::ContentLength(blocks) => blocks.finish(unread),
            Self::Whole { .. } => Frame::Partial,
        }
    }
}

#[cfg(test)]
mod tests;
