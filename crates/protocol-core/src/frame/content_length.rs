//! A header block with `Content-Length`, then that many bytes.

use memchr::memchr;

use super::Frame;
use crate::config::Limits;
use crate::violation::Violation;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Blocks {
    message_limit: usize,
    header_limit: usize,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Inside a header block. Its first `scanned` bytes hold whole lines and no end of the block.
    Header { scanned: usize },
    /// Before a body of this length.
    Body { len: usize },
    /// Inside a body over the limit, with so many bytes to come.
    Skipping { left: u64 },
}

impl Blocks {
    pub(super) const fn new(limits: &Limits) -> Self {
        let Limits { message_bytes: message_limit, header_bytes: header_limit, .. } = *limits;
        Self { message_limit, header_limit, state: State::Header { scanned: 0 } }
    }

    pub(super) fn next<'b>(&mut self, unread: &'b [u8]) -> (usize, Frame<'b>) {
        let mut used = 0;
        loop {
            let rest = &unread[used..];
            match self.state {
                State::Header { scanned } => match self.header(rest, scanned) {
                    Ok(None) => return (used, Frame::Partial),
                    Err(violation) => return (unread.len(), Frame::Broken(violation)),
                    Ok(Some((len, body))) => {
                        used += len;
                        if body > self.message_limit as u64 {
                            self.state = State::Skipping { left: body };
                            return (used, Frame::TooLarge);
                        }
                        self.state = State::Body { len: body as usize };
                    }
                },
                State::Body { len } => {
                    let Some(body) = rest.get(..len) else {
                        return (used, Frame::Partial);
                    };
                    self.state = State::Header { scanned: 0 };
                    used += len;
                    // Length 0 is sent by real peers; there is no message in it.
                    if !body.trim_ascii().is_empty() {
                        return (used, Frame::Message(body));
                    }
                }
                State::Skipping { left } => {
                    let left_then = left.saturating_sub(rest.len() as u64);
                    used += (left - left_then) as usize;
                    if left_then > 0 {
                        self.state = State::Skipping { left: left_then };
                        return (used, Frame::Partial);
                    }
                    self.state = State::Header { scanned: 0 };
                }
            }
        }
    }

    pub(super) fn finish<'b>(&self, unread: &'b [u8]) -> Frame<'b> {
        match self.state {
            State::Header { .. } if unread.trim_ascii().is_empty() => Frame::Partial,
            _ => Frame::Broken(Violation::Truncated),
        }
    }

    /// Reads lines until the empty one that ends the block, if it is there; gives the length of the block
    /// and that of the body behind it. Accepts LF for CRLF.
    fn header(
        &mut self,
        rest: &[u8],
        mut scanned: usize,
    ) -> Result<Option<(usize, u64)>, Violation> {
        let block = &rest[..rest.len().min(self.header_limit)];
        // What was there before is there again, unless the host forgot some of it.
        scanned = scanned.min(block.len());
        while let Some(at) = memchr(b'\n', &block[scanned..]) {
            let (begin, end) = (scanned, scanned + at);
            scanned = end + 1;
            if block[begin..end].trim_ascii().is_empty() {
                // Behind a stray line end between two messages there is no body.
                let body = if begin == 0 { Some(0) } else { content_length(&block[..begin]) };
                return body.map(|body| Some((scanned, body))).ok_or(Violation::InvalidHeader);
            }
        }
        if rest.len() >= self.header_limit {
            return Err(Violation::HeaderTooLong);
        }
        self.state = State::Header { scanned };
        Ok(None)
    }
}

/// Finds the one Content-Length among the header lines, whatever their case, order and spacing. Other
/// lines are ignored, because the only charset they may name is UTF-8.
fn content_length(block: &[u8]) -> Option<u64> {
    let mut found = None;
    for line in block.split(|&byte| byte == b'\n') {
        let Some(colon) = memchr(b':', line) else { continue };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if !name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        let digits = core::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'))?;
        let value = digits.parse().ok()?;
        if *found.get_or_insert(value) != value {
            return None;
        }
    }
    found
}
