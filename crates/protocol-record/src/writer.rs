//! The thread that writes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol_core::Dialect;
use serde_json::Error;
use serde_json::value::RawValue;

use crate::file::Rotating;
use crate::line::{Direction, End, Header, Hop, Line, Message, Payloads, VERSION, Withheld};
use crate::queue::{Batch, Ending, Entry, Opened, Queue, What};
use crate::shape::{Shape, UNREADABLE};

/// Lines are written out when there are so many bytes of them.
const CHUNK: usize = 64 << 10;

/// Turns what happened into lines of a file.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) file: Rotating,
    pub(crate) by: String,
    pub(crate) program: Option<String>,
    pub(crate) setup: Option<Box<RawValue>>,
    pub(crate) start: String,
    pub(crate) payloads: Payloads,
    /// The number of files so far, this one counted.
    pub(crate) part: u64,
    /// The connections that are open.
    pub(crate) hops: BTreeMap<u64, (u64, Opened)>,
    /// Whole lines that are to be written, and how many messages and verdicts are among them.
    pub(crate) out: Vec<u8>,
    pub(crate) unwritten: u64,
    /// The number of those that are written, which the recording sees too.
    pub(crate) lines: Arc<AtomicU64>,
    pub(crate) dropped: u64,
    /// The file is full, so the next line begins another.
    pub(crate) is_full: bool,
}

impl Writer {
    /// Writes until the end. Returns the error that ended it early.
    pub(crate) fn run(mut self, queue: &Queue) -> Option<io::Error> {
        let error = self.write_all(queue).err();
        if error.is_some() {
            queue.give_up();
        }
        error
    }

    fn write_all(&mut self, queue: &Queue) -> io::Result<()> {
        let mut batch = Batch::default();
        loop {
            let ending = queue.take(&mut batch);
            self.batch(&mut batch)?;
            if let Ending::Ended(t) = ending {
                let lines = self.lines.load(Ordering::Relaxed) + self.unwritten;
                let end = End { t, lines, dropped: self.dropped };
                append(&mut self.out, &Line::End(end))?;
            }
            self.flush()?;
            if ending != Ending::Open {
                return Ok(());
            }
        }
    }

    /// Begins the next file.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.part += 1;
        let hops = self.hops.values().map(|(t, hop)| hop.at(*t)).collect();
        let header = Line::Recording(Header {
            version: VERSION,
            by: Cow::Borrowed(&self.by),
            program: self.program.as_deref().map(Cow::Borrowed),
            start: Cow::Borrowed(&self.start),
            part: self.part,
            payloads: self.payloads,
            setup: self.setup.as_deref(),
            hops,
        });
        let mut line = serde_json::to_vec(&header)?;
        // The setup may be written in several.
        protocol_json::one_line(&mut line);
        line.push(b'\n');
        self.file.next(&line)
    }

    fn batch(&mut self, batch: &mut Batch) -> io::Result<()> {
        let mut at = 0;
        for entry in batch.entries.drain(..) {
            let bytes = &batch.bytes[at..at + entry.len];
            at += entry.len;
            self.entry(entry, bytes)?;
        }
        for gap in [batch.gap, batch.mute].into_iter().flatten() {
            self.make_room()?;
            self.dropped += gap.lines;
            append(&mut self.out, &Line::Dropped(gap))?;
        }
        Ok(())
    }

    fn entry(&mut self, Entry { t, hop, what, .. }: Entry, bytes: &[u8]) -> io::Result<()> {
        if !matches!(what, What::Gone) {
            self.make_room()?;
        }
        match what {
            What::Opened(opened) => {
                let line = Line::Opened(opened.at(t));
                append(&mut self.out, &line)?;
                self.hops.insert(hop, (t, *opened));
                return Ok(());
            }
            What::Gone => {
                self.hops.remove(&hop);
                return Ok(());
            }
            What::Line => {
                self.out.extend_from_slice(bytes);
                self.out.push(b'\n');
            }
            What::Message(dir, at) => {
                let Some((_, opened)) = self.hops.get(&hop) else { return Ok(()) };
                let place = (t, &*opened.name, dir);
                let message = Message::shaped(place, &opened.shape, self.payloads, bytes);
                let message = Message { at, ..message };
                append(&mut self.out, &Line::Message(message))?;
            }
        }
        self.unwritten += 1;
        Ok(())
    }

    /// Makes room for one more line, in the next file if this one is full. The end has its place in any file.
    fn make_room(&mut self) -> io::Result<()> {
        let waiting = self.out.len();
        if waiting >= CHUNK || (waiting > 0 && self.file.is_full(waiting)) {
            self.flush()?;
        }
        if std::mem::take(&mut self.is_full) {
            self.begin()?;
        }
        Ok(())
    }

    /// Writes whole lines.
    fn flush(&mut self) -> io::Result<()> {
        let (written, result) = self.file.write(&self.out);
        if result.is_err() {
            // The last of them may be there in part.
            let whole = self.out[..written].split_inclusive(|byte| *byte == b'\n');
            let whole = whole.filter(|line| line.ends_with(b"\n") && is_counted(line)).count();
            self.lines.fetch_add(whole as u64, Ordering::Relaxed);
        }
        result?;
        self.out.clear();
        // One line may have been long. Twice a chunk is the usual capacity.
        self.out.shrink_to(2 * CHUNK);
        self.lines.fetch_add(std::mem::take(&mut self.unwritten), Ordering::Relaxed);
        self.is_full = self.file.is_full(0);
        Ok(())
    }
}

impl<'m> Message<'m> {
    /// The line of a message: when, in microseconds, over which connection and which way it went. For
    /// whoever has no [`Recorder`](crate::Recorder), as a simulation.
    #[must_use]
    pub fn new(
        at: (u64, &'m str, Direction),
        dialect: &Dialect,
        payloads: Payloads,
        bytes: &'m [u8],
    ) -> Self {
        Self::shaped(at, &Shape::of(dialect), payloads, bytes)
    }

    /// Returns the content of a message, with the message itself if that is asked for.
    fn shaped(
        (t, hop, dir): (u64, &'m str, Direction),
        shape: &Shape,
        payloads: Payloads,
        bytes: &'m [u8],
    ) -> Self {
        let text = std::str::from_utf8(bytes).ok();
        let parts = text.map_or_else(|| vec![UNREADABLE], |text| shape.parts(text));
        let (hop, length) = (Cow::Borrowed(hop), bytes.len() as u64);
        let (text, base64, withheld) = match (payloads, text) {
            (Payloads::Redacted, _) => (None, None, None),
            (Payloads::Kept, _) if shape.may_hold_token(&String::from_utf8_lossy(bytes)) => {
                (None, None, Some(Withheld::OperationToken))
            }
            (Payloads::Kept, Some(text)) => (Some(Cow::Borrowed(text)), None, None),
            (Payloads::Kept, None) => (None, Some(BASE64_STANDARD.encode(bytes).into()), None),
        };
        Self { t, hop, dir, at: None, bytes: length, parts, text, base64, withheld }
    }
}

/// Returns whether a line is a message, a verdict or an input, and not about the recording itself.
fn is_counted(line: &[u8]) -> bool {
    let about = [r#"{"opened":"#, r#"{"dropped":"#, r#"{"end":"#];
    !about.iter().any(|start| line.starts_with(start.as_bytes()))
}

fn append(out: &mut Vec<u8>, line: &Line<'_>) -> Result<(), Error> {
    serde_json::to_writer(&mut *out, line)?;
    out.push(b'\n');
    Ok(())
}

impl Opened {
    fn at(&self, t: u64) -> Hop<'_> {
        let (hop, dialect) = (Cow::Borrowed(&*self.name), Cow::Borrowed(&*self.dialect));
        Hop { t, hop, role: self.role, dialect }
    }
}

#[cfg(test)]
mod tests;
