//! Recording: the owner, and the hooks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol_async::{Options, Verdict, Way, relay};
use protocol_core::{Config, Envelope, Role, Timestamp};
use protocol_relay::Side;
use serde_json::value::RawValue;

use crate::file::Rotating;
use crate::line::{self, Direction, Id, InputKind, Line, Payloads};
use crate::queue::{Entry, Opened, Queue, What};
use crate::shape::{Shape, has_digits};
use crate::verdict::{because, named, token};
use crate::writer::Writer;

/// The options of a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The file. One of that name which is there already becomes an older one, or is removed if
    /// [`files`](Self::files) is 1.
    pub path: PathBuf,
    /// Whether messages are kept whole; redacted.
    pub payloads: Payloads,
    /// The program that is recorded.
    pub program: Option<String>,
    /// The description that sets the same thing up again, in the words of whoever records. It goes into
    /// the header of each file.
    pub setup: Option<Box<RawValue>>,
    /// Bytes of messages and verdicts that wait to be written, and of those that are being written;
    /// 32 MiB. What does not fit is dropped, and the recording says how much that is. The line in the
    /// making comes on top of it: some six times its message at most.
    pub buffer_bytes: usize,
    /// Bytes of one file; 64 MiB. Then another is begun.
    pub file_bytes: u64,
    /// The number of files that are kept, the newest counted; 4. The oldest is removed.
    pub files: usize,
    /// The time that the end waits for the lines that are still to be written; 2 s.
    pub patience: Duration,
    /// The function that is called at once with an error that ends the recording early; it does nothing.
    pub on_error: fn(&Path, &io::Error),
}

impl Settings {
    /// Records into this file, with every default.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            payloads: Payloads::Redacted,
            program: None,
            setup: None,
            buffer_bytes: 32 << 20,
            file_bytes: 64 << 20,
            files: 4,
            patience: Duration::from_secs(2),
            on_error: |_, _| {},
        }
    }
}

/// A recording that is being made. [`finish`](Self::finish) ends it in good order; so does dropping it,
/// without a word about what is missing.
#[derive(Debug)]
#[must_use = "a recording ends when this is dropped"]
pub struct Recording {
    recorder: Recorder,
    /// The number of messages and verdicts that are written.
    lines: Arc<AtomicU64>,
    ended: Receiver<Option<io::Error>>,
    patience: Duration,
    on_error: fn(&Path, &io::Error),
    path: PathBuf,
}

/// The outcome of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The number of messages and verdicts that it holds.
    pub lines: u64,
    /// The number of those that are missing: there was no room for them, or they could not be written.
    pub dropped: u64,
    /// The error that ended it early.
    pub error: Option<io::Error>,
}

impl Recording {
    /// Begins a file and starts the thread that writes it.
    ///
    /// # Errors
    ///
    /// If the file can't be made, or the thread.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let Settings { path, payloads, program, setup, .. } = settings;
        let Settings { buffer_bytes, file_bytes, files, patience, on_error, .. } = settings;
        let lines = Arc::default();
        let mut writer = Writer {
            file: Rotating::new(path.clone(), file_bytes, files),
            by: format!("rescind {}", env!("CARGO_PKG_VERSION")),
            program,
            setup,
            start: humantime::format_rfc3339_micros(SystemTime::now().max(UNIX_EPOCH)).to_string(),
            payloads,
            part: 0,
            hops: Default::default(),
            out: Vec::new(),
            unwritten: 0,
            lines: Arc::clone(&lines),
            dropped: 0,
            is_full: false,
        };
        let shared = Shared {
            queue: Queue::new(buffer_bytes),
            payloads,
            begun: Instant::now(),
            opened: AtomicU64::new(0),
        };
        writer.begin()?;
        let recorder = Recorder(Arc::new(shared));
        let (done, ended) = mpsc::channel();
        let (shared, told) = (recorder.0.clone(), path.clone());
        thread::Builder::new().name("recorder".into()).spawn(move || {
            let error = writer.run(&shared.queue);
            error.iter().for_each(|error| on_error(&told, error));
            // The caller may not care how it ended.
            let _ = done.send(error);
        })?;
        Ok(Self { recorder, lines, ended, patience, on_error, path })
    }

    /// Returns the handle that records connections into this file.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Ends it, and waits until it is written, but no longer than [`Settings::patience`].
    pub fn finish(mut self) -> Recorded {
        let error = self.end();
        let lines = self.lines.load(Ordering::Relaxed);
        let dropped = self.recorder.0.queue.seen().saturating_sub(lines);
        Recorded { lines, dropped, error }
    }

    fn end(&mut self) -> Option<io::Error> {
        let shared = &self.recorder.0;
        shared.queue.end(shared.now());
        let stuck = |_| {
            let error = io::ErrorKind::TimedOut.into();
            (self.on_error)(&self.path, &error);
            Some(error)
        };
        self.ended.recv_timeout(self.patience).unwrap_or_else(stuck)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.recorder.0.queue.is_ended() {
            self.end();
        }
    }
}

/// Records connections into a [`Recording`], for as long as that lasts. It never waits: what there is no
/// room for is counted.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Queue,
    payloads: Payloads,
    begun: Instant,
    /// The number of connections so far.
    opened: AtomicU64,
}

impl Shared {
    /// Microseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn push(&self, hop: u64, what: What, bytes: &[u8]) -> bool {
        self.queue.push(Entry { t: self.now(), hop, what, len: bytes.len() }, bytes)
    }
}

impl Recorder {
    /// Records a connection under this name, beside whatever else sees its messages. The host chooses a
    /// name that no other open connection has.
    #[must_use]
    pub fn connection(&self, name: &str, mut options: Options) -> Options {
        let messages = Arc::new(self.hop(name, &options.config));
        let verdicts = messages.clone();
        let (mut trace, mut observer) = (options.trace.take(), options.observer.take());
        options.trace = Some(Box::new(move |way, message| {
            messages.message(way, message);
            trace.iter_mut().for_each(|trace| trace(way, message));
        }));
        options.observer = Some(Box::new(move |verdict| {
            verdicts.verdict(verdict);
            observer.iter_mut().for_each(|observer| observer(verdict));
        }));
        options
    }

    /// Records both connections of a relay as `up` and `down`, beside whatever else sees their messages.
    /// Tokens of operations are withheld on both, if either has them.
    #[must_use]
    pub fn relay(&self, mut options: relay::Options) -> relay::Options {
        options.up.role = Role::Server;
        options.down.role = Role::Client;
        let [mut up, mut down] = [&options.up, &options.down].map(|it| Shape::of(&it.dialect));
        up.share_tokens(&mut down);
        let up = self.open(Side::Up.as_str(), &options.up, up);
        let down = self.open(Side::Down.as_str(), &options.down, down);
        let hops = [up, down].map(Arc::new);
        let (traced, given, told) = (hops.clone(), hops.clone(), hops);
        let (mut trace, mut observer) = (options.trace.take(), options.observer.take());
        let mut inputs = options.inputs.take();
        options.trace = Some(Box::new(move |side, way, message| {
            // Those that are received come as inputs, with their time.
            if way == Way::Sent {
                traced[side as usize].message(way, message);
            }
            trace.iter_mut().for_each(|trace| trace(side, way, message));
        }));
        options.inputs = Some(Box::new(move |input, now| {
            given[of(input)].input(input, now);
            inputs.iter_mut().for_each(|inputs| inputs(input, now));
        }));
        options.observer = Some(Box::new(move |side, event| {
            told[side as usize].decided(line::Verdict::of_relay(&event));
            if let Some(observer) = &mut observer {
                observer(side, event);
            }
        }));
        options
    }

    /// Records what was done to messages after the core had let them go, under the name of a connection.
    pub fn verdict<'a>(&self, hop: &'a str, mut verdict: line::Verdict<'a>) {
        verdict.t = self.0.now();
        verdict.hop = hop.into();
        // The line says itself which connection it is of. Nothing of it can't be written as JSON.
        if let Ok(line) = serde_json::to_vec(&Line::Verdict(verdict)) {
            self.0.push(0, What::Line, &line);
        }
    }

    /// Records a connection that the host drives itself. No other open connection may have its name.
    #[must_use]
    pub fn hop(&self, name: &str, config: &Config) -> HopRecorder {
        self.open(name, config, Shape::of(&config.dialect))
    }

    fn open(&self, name: &str, config: &Config, shape: Shape) -> HopRecorder {
        let number = self.0.opened.fetch_add(1, Ordering::Relaxed);
        let role = match config.role {
            Role::Client => line::Role::Client,
            Role::Server => line::Role::Server,
        };
        let dialect = &config.dialect;
        let has_tokens = shape.has_tokens();
        let opened = Opened { name: name.into(), role, dialect: dialect.name.to_string(), shape };
        let is_known = self.0.push(number, What::Opened(Box::new(opened)), &[]);
        HopRecorder {
            shared: self.0.clone(),
            number,
            is_mute: !is_known,
            name: name.into(),
            envelope: dialect.envelope,
            has_tokens,
        }
    }
}

/// Records one connection, until it is dropped.
#[derive(Debug)]
pub struct HopRecorder {
    shared: Arc<Shared>,
    number: u64,
    /// There was no room to say that it is there: it is only counted.
    is_mute: bool,
    name: String,
    envelope: Envelope,
    /// Whether what a peer says may hold tokens of operations.
    has_tokens: bool,
}

impl HopRecorder {
    /// A message was sent or received, without framing.
    pub fn message(&self, way: Way, message: &[u8]) {
        let direction = match way {
            Way::Sent => Direction::Sent,
            Way::Received => Direction::Received,
        };
        self.push(What::Message(direction, None), message);
    }

    /// The core of a relay was given something.
    fn input(&self, input: relay::Input<'_>, now: Timestamp) {
        let at = nanoseconds(now);
        let (kind, unread, message) = match input {
            relay::Input::Message(_, message) => {
                return self.push(What::Message(Direction::Received, Some(at)), message);
            }
            relay::Input::TooLarge(_, outline) => (InputKind::TooLarge, outline, None),
            relay::Input::Broken(_, bytes) => (InputKind::Broken, bytes, None),
            relay::Input::End { unread, message, .. } => (InputKind::End, unread, message),
            _ => (InputKind::Time, &[][..], None),
        };
        let is_kept = self.shared.payloads == Payloads::Kept && !self.has_tokens;
        let line = line::Input {
            t: self.shared.now(),
            at,
            hop: (kind != InputKind::Time).then(|| (&*self.name).into()),
            input: kind,
            bytes: unread.len() as u64,
            base64: (is_kept && !unread.is_empty()).then(|| BASE64_STANDARD.encode(unread).into()),
        };
        self.line(&Line::Input(line));
        if let Some(message) = message {
            self.push(What::Message(Direction::Received, None), message);
        }
    }

    /// Something was decided.
    pub fn verdict(&self, verdict: &Verdict) {
        match verdict {
            Verdict::Settled { call, settlement, cause, .. } => {
                let id = match self.envelope {
                    Envelope::JsonRpc | Envelope::Dap => call.number().to_string(),
                    Envelope::Abp => format!("\"{}\"", call.number()),
                };
                self.decided(line::Verdict {
                    id: Id::from_json(id),
                    outcome: Some(settlement.as_str().into()),
                    cause: cause.map(|cause| cause.as_str().into()),
                    ..named("settled")
                });
            }
            Verdict::Cancelled { id, cause } => self.decided(line::Verdict {
                id: id.as_ref().and_then(token),
                cause: Some(cause.as_str().into()),
                ..named("cancelled")
            }),
            Verdict::Violation { violation, id } => {
                self.decided(because("violation", id.as_ref(), violation.as_str()));
            }
            Verdict::Closed { reason } => self.decided(because("closed", None, reason)),
            Verdict::OverBudget { over } => {
                self.decided(because("over_budget", None, over.what.as_str()));
            }
            Verdict::Granted { grant } => self.decided(because("granted", None, grant)),
            _ => {}
        }
    }

    fn decided<'a>(&'a self, mut verdict: line::Verdict<'a>) {
        verdict.t = self.shared.now();
        verdict.hop = (&*self.name).into();
        verdict.id = verdict.id.filter(|id| !self.has_tokens || !has_digits(id.as_json()));
        self.line(&Line::Verdict(verdict));
    }

    /// The line says itself which connection it is of.
    fn line(&self, line: &Line<'_>) {
        // Nothing of it can't be written as JSON.
        if let Ok(line) = serde_json::to_vec(line) {
            self.push(What::Line, &line);
        }
    }

    fn push(&self, what: What, bytes: &[u8]) {
        if self.is_mute {
            self.shared.queue.pass_over(self.shared.now(), bytes.len());
        } else {
            self.shared.push(self.number, what, bytes);
        }
    }
}

/// Its name means nothing any more.
impl Drop for HopRecorder {
    fn drop(&mut self) {
        if !self.is_mute {
            self.push(What::Gone, &[]);
        }
    }
}

/// The number of the hop that an input is of; the time is told as one of the first.
const fn of(input: relay::Input<'_>) -> usize {
    match input {
        relay::Input::Message(side, _)
        | relay::Input::TooLarge(side, _)
        | relay::Input::Broken(side, _)
        | relay::Input::End { side, .. } => side as usize,
        _ => 0,
    }
}

fn nanoseconds(now: Timestamp) -> u64 {
    u64::try_from(now.since(Timestamp::ZERO).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use protocol_core::Dialect;

    use super::*;
    use crate::queue::Batch;

    #[test]
    fn g08_what_a_stuck_writer_leaves_no_room_for_is_the_whole_of_a_connection() {
        const ROOM: usize = 64 << 10;
        let recorder = Recorder(Arc::new(Shared {
            queue: Queue::new(ROOM),
            payloads: Payloads::Kept,
            begun: Instant::now(),
            opened: AtomicU64::new(0),
        }));
        let config = Config::client(Dialect::LSP_3_17);
        // Nobody writes meanwhile.
        let hops: Vec<_> = (0..10_000).map(|_| recorder.hop("client", &config)).collect();
        let known: HashSet<u64> =
            hops.iter().filter(|hop| !hop.is_mute).map(|hop| hop.number).collect();
        let bytes = known.len() * size_of::<Opened>();
        assert!(!known.is_empty() && bytes <= ROOM, "{} connections", known.len());
        let mute = hops.len() - known.len();
        hops.iter().for_each(|hop| hop.message(Way::Sent, b"{}"));
        drop(hops);

        let mut batch = Batch::default();
        let _ = recorder.0.queue.take(&mut batch);
        assert!(batch.entries.iter().all(|entry| known.contains(&entry.hop)));
        let gone = batch.entries.iter().filter(|entry| matches!(entry.what, What::Gone));
        assert_eq!(gone.count(), known.len());
        // The connection and its message.
        assert_eq!(batch.mute.unwrap().lines, 2 * mute as u64);
    }
}
