//! One message a line.

use memchr::memchr;

use super::{Found, Frame};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lines {
    /// The longest line, without its end.
    limit: usize,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// The first `scanned` unread bytes hold no line end.
    Line { scanned: usize },
    /// Inside a line over the limit.
    Skipping,
}

impl Lines {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, state: State::Line { scanned: 0 } }
    }

    pub(super) fn next<'b>(&mut self, unread: &'b [u8]) -> Found<'b> {
        let mut used = 0;
        loop {
            let rest = &unread[used..];
            let scanned = match self.state {
                State::Line { scanned } => scanned.min(rest.len()),
                State::Skipping => 0,
            };
            let Some(end) = memchr(b'\n', &rest[scanned..]).map(|at| scanned + at) else {
                return self.unfinished(unread, used);
            };
            let skipping = matches!(self.state, State::Skipping);
            self.state = State::Line { scanned: 0 };
            used += end + 1;
            if skipping {
                continue;
            }
            match self.judge(&rest[..end]) {
                Frame::Partial => {}
                frame => return Found { used, frame },
            }
        }
    }

    fn unfinished<'b>(&mut self, unread: &'b [u8], used: usize) -> Found<'b> {
        match self.state {
            State::Skipping => Found { used: unread.len(), frame: Frame::Partial },
            // One byte of grace: it may be the CR of a line that just fits.
            State::Line { .. } if unread.len() - used > self.limit.saturating_add(1) => {
                self.state = State::Skipping;
                Found { used: unread.len(), frame: Frame::TooLarge }
            }
            State::Line { .. } => {
                self.state = State::Line { scanned: unread.len() - used };
                Found { used, frame: Frame::Partial }
            }
        }
    }

    /// A last line without its end is a message all the same.
    pub(super) fn finish<'b>(&self, unread: &'b [u8]) -> Frame<'b> {
        match self.state {
            State::Skipping => Frame::Partial,
            State::Line { .. } => self.judge(unread),
        }
    }

    /// Decides what a line is, given without its LF. White space counts towards the limit, because it is
    /// not known what will be trimmed while the line is still arriving (G11).
    #[inline]
    fn judge<'b>(&self, line: &'b [u8]) -> Frame<'b> {
        match line {
            // Most lines have nothing around their message.
            [b'{', .., b'}'] if line.len() <= self.limit => Frame::Message(line),
            _ => self.judge_trimmed(line),
        }
    }

    fn judge_trimmed<'b>(&self, line: &'b [u8]) -> Frame<'b> {
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
