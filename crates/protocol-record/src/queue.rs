//! A bounded queue of lines to be written, which nobody who is recorded waits for.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::line::{Direction, Dropped};
use crate::shape::Shape;

/// A queue between those who are recorded and the thread that writes.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The most bytes that wait and are being written, by what each entry costs.
    limit: usize,
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Batch,
    /// The cost of the batch that is being written.
    writing: usize,
    end: Ending,
    writer: Writer,
    /// Nothing can be written any more.
    is_broken: bool,
    /// The number of messages and verdicts, dropped or not.
    seen: u64,
}

/// When the writer wants to be woken: that costs whoever does it more than the message does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    /// Not at all: it looks by itself before it sleeps.
    #[default]
    Awake,
    /// When half of the room is taken: it has been woken, and lets more come.
    Lingers,
    /// As soon as there is anything.
    Sleeps,
}

/// The time for which the writer lets more come once there is something, so that nobody wakes it more often.
/// A writer that keeps up loses no more than that when the process is killed.
const LINGER: Duration = Duration::from_millis(10);

/// Whether more is to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Open,
    /// At this microsecond.
    Ended(u64),
}

/// Entries in the order in which they happened, and the gaps behind them.
///
/// Once an entry is dropped all are, until the writer has taken the batch: then the gap has its place
/// at the batch's end, and is one line.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// The messages and lines of the entries, one after the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) gap: Option<Dropped>,
    /// The messages of connections that are not recorded at all. Others go on beside them.
    pub(crate) mute: Option<Dropped>,
    cost: usize,
}

/// One thing that happened.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) t: u64,
    /// The number of the connection.
    pub(crate) hop: u64,
    pub(crate) what: What,
    /// Bytes of it in the batch.
    pub(crate) len: usize,
}

#[derive(Debug)]
pub(crate) enum What {
    /// With the time of the core that was given it, if that is known.
    Message(Direction, Option<u64>),
    /// Its bytes are a whole line: a verdict, or an input that is no message.
    Line,
    Opened(Box<Opened>),
    Gone,
}

/// A connection that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) role: crate::line::Role,
    pub(crate) dialect: String,
    pub(crate) shape: Shape,
}

impl Entry {
    fn cost(&self) -> usize {
        let boxed = match &self.what {
            What::Opened(opened) => opened.bytes(),
            _ => 0,
        };
        self.len + size_of::<Self>() + boxed
    }
}

impl Opened {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.dialect.len() + self.shape.bytes()
    }
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), filled: Condvar::new() }
    }

    /// Adds an entry with these bytes, or counts it as dropped. Never waits for the writer.
    ///
    /// Whether a connection is known from now on: without its first entry no other of it can be read, so whoever
    /// records one that found no room is mute.
    pub(crate) fn push(&self, entry: Entry, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        if state.end != Ending::Open {
            return true;
        }
        let counts = matches!(entry.what, What::Message(..) | What::Line);
        state.seen += u64::from(counts);
        if state.is_broken {
            return true;
        }
        let fits = state.writing + state.waiting.cost + entry.cost() <= self.limit;
        let is_kept = match entry.what {
            What::Message(..) | What::Line => fits && state.waiting.gap.is_none(),
            What::Opened(_) => fits,
            // There are no more of them than connections that are known.
            What::Gone => true,
        };
        if is_kept {
            state.waiting.cost += entry.cost();
            state.waiting.bytes.extend_from_slice(bytes);
            state.waiting.entries.push(entry);
        } else if counts {
            drop_from(&mut state.waiting.gap, entry.t, entry.len);
        } else {
            state.seen += 1;
            drop_from(&mut state.waiting.mute, entry.t, entry.len);
        }
        if state.wakes_writer(self.limit) {
            self.filled.notify_one();
        }
        is_kept
    }

    /// Counts a message or a line of so many bytes, of a connection that is not recorded.
    pub(crate) fn pass_over(&self, t: u64, len: usize) {
        let mut state = self.lock();
        if state.end != Ending::Open {
            return;
        }
        state.seen += 1;
        if state.is_broken {
            return;
        }
        drop_from(&mut state.waiting.mute, t, len);
        if state.wakes_writer(self.limit) {
            self.filled.notify_one();
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&self, t: u64) {
        self.lock().end = Ending::Ended(t);
        self.filled.notify_one();
    }

    /// Counts all that comes from now on, and forgets all that waits.
    pub(crate) fn give_up(&self) {
        let mut state = self.lock();
        state.is_broken = true;
        state.waiting = Batch::default();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.lock().end != Ending::Open
    }

    /// Returns the number of messages and verdicts.
    pub(crate) fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// Waits for something to write, and takes it; the batch that was written is given back, for the
    /// room that it has. With an ending, it is the last.
    pub(crate) fn take(&self, written: &mut Batch) -> Ending {
        written.clear();
        let mut state = self.lock();
        state.writing = 0;
        while state.waiting.is_empty() && state.end == Ending::Open {
            state.writer = Writer::Sleeps;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writer = Writer::Lingers;
        let has_room =
            |state: &mut State| state.end == Ending::Open && state.waiting.cost < self.limit / 2;
        let waited = self.filled.wait_timeout_while(state, LINGER, has_room);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.writer = Writer::Awake;
        mem::swap(written, &mut state.waiting);
        state.writing = written.cost;
        state.end
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether whoever adds something wakes the writer.
    const fn wakes_writer(&self, limit: usize) -> bool {
        match self.writer {
            Writer::Awake => false,
            Writer::Lingers => self.waiting.cost >= limit / 2,
            Writer::Sleeps => true,
        }
    }
}

impl Batch {
    /// Room that one batch may keep for the next.
    const KEPT: usize = 1 << 20;

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.gap.is_none() && self.mute.is_none()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.entries.shrink_to(Self::KEPT / size_of::<Entry>());
        self.bytes.shrink_to(Self::KEPT);
        self.gap = None;
        self.mute = None;
        self.cost = 0;
    }
}

fn drop_from(gap: &mut Option<Dropped>, t: u64, len: usize) {
    let gap = gap.get_or_insert(Dropped { t, ..Dropped::default() });
    gap.until = t;
    gap.lines += 1;
    gap.bytes += len as u64;
}

#[cfg(test)]
mod tests;
