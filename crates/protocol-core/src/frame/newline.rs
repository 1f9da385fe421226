//! One message a line.

use core::mem;

use memchr::memchr;

use super::Frame;
use crate::config::Limits;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lines {
    /// The longest line, without its end.
    limit: usize,
    /// The first so many unread bytes hold no line end.
    scanned: usize,
    /// Inside a line over the limit.
    is_skipping: bool,
}

impl Lines {
    pub(super) const fn new(limits: &Limits) -> Self {
        Self { limit: limits.message_bytes, scanned: 0, is_skipping: false }
    }

    pub(super) fn next<'b>(&mut self, unread: &'b [u8]) -> (usize, Frame<'b>) {
        let mut used = 0;
        loop {
            let rest = &unread[used..];
            let scanned = self.scanned.min(rest.len());
            let Some(end) = memchr(b'\n', &rest[scanned..]).map(|at| scanned + at) else {
                return self.unfinished(rest, used);
            };
            self.scanned = 0;
            used += end + 1;
            if mem::take(&mut self.is_skipping) {
                continue;
            }
            match self.judge(&rest[..end]) {
                Frame::Partial => {}
                frame => return (used, frame),
            }
        }
    }

    fn unfinished<'b>(&mut self, rest: &'b [u8], used: usize) -> (usize, Frame<'b>) {
        // One byte of grace: it may be the CR of a line that just fits.
        if !self.is_skipping && rest.len() <= self.limit.saturating_add(1) {
            self.scanned = rest.len();
            return (used, Frame::Partial);
        }
        self.scanned = 0;
        let was_skipping = mem::replace(&mut self.is_skipping, true);
        let frame = if was_skipping { Frame::Partial } else { Frame::TooLarge };
        (used + rest.len(), frame)
    }

    /// A last line without its end is a message all the same.
    pub(super) fn finish<'b>(&self, unread: &'b [u8]) -> Frame<'b> {
        if self.is_skipping { Frame::Partial } else { self.judge(unread) }
    }

    /// Decides what a line is, given without its LF. White space counts towards the limit, because it is
    /// not known what will be trimmed while the line is still arriving (G11).
    fn judge<'b>(&self, line: &'b [u8]) -> Frame<'b> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > self.limit {
            return Frame::TooLarge;
        }
        match line.trim_ascii() {
            [] => Frame::Partial,
            message => Frame::Message(message),
        }
    }
}
