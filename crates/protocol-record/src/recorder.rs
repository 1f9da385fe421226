//! Recording: the owner, and the hooks.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use protocol_async::{Options, Verdict, Way, relay};
use protocol_core::{Config, Envelope, RelayEvent, Role, Side, WireId};

use crate::file::Rotating;
use crate::line::{self, Direction, Id, Line, Payloads};
use crate::queue::{Entry, Opened, Queue, What};
use crate::shape::Shape;
use crate::writer::Writer;

/// How to record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The file. One of that name which is there already is kept as an older one.
    pub path: PathBuf,
    /// Whether messages are kept whole; redacted.
    pub payloads: Payloads,
    /// The program that is recorded.
    pub program: Option<String>,
    /// Bytes of messages and verdicts that wait to be written, and of those that are being written;
    /// 32 MiB. What does not fit is dropped, and the recording says how much that is.
    pub buffer_bytes: usize,
    /// Bytes of one file; 64 MiB. Then another is begun.
    pub file_bytes: u64,
    /// How many files are kept, the newest counted; 4. The oldest is removed.
    pub files: usize,
    /// How long the end waits for what is still to be written; 5 s.
    pub patience: Duration,
}

impl Settings {
    /// Records into this file, with every default.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            payloads: Payloads::Redacted,
            program: None,
            buffer_bytes: 32 << 20,
            file_bytes: 64 << 20,
            files: 4,
            patience: Duration::from_secs(5),
        }
    }
}

/// A recording that is being made. [`finish`](Self::finish) ends it in good order; so does dropping it,
/// without a word about what is missing.
#[derive(Debug)]
#[must_use = "a recording ends when this is dropped"]
pub struct Recording {
    recorder: Recorder,
    written: Receiver<(u64, Option<io::Error>)>,
    patience: Duration,
}

/// What became of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// How many messages and verdicts it holds.
    pub lines: u64,
    /// How many are missing: there was no room for them, or they could not be written.
    pub dropped: u64,
    /// What ended it early.
    pub error: Option<io::Error>,
}

impl Recording {
    /// Begins a file and starts the thread that writes it.
    ///
    /// # Errors
    ///
    /// If the file can't be made, or the thread.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let Settings { path, payloads, program, buffer_bytes, file_bytes, files, patience } =
            settings;
        let mut writer = Writer {
            file: Rotating::create(path, file_bytes, files)?,
            by: format!("rescind {}", env!("CARGO_PKG_VERSION")),
            program,
            start: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            payloads,
            part: 1,
            hops: Default::default(),
            out: Vec::new(),
            unwritten: 0,
            lines: 0,
            dropped: 0,
        };
        let shared = Shared {
            queue: Queue::new(buffer_bytes),
            begun: Instant::now(),
            opened: AtomicU64::new(0),
        };
        writer.header()?;
        let recorder = Recorder(Arc::new(shared));
        let (done, written) = mpsc::channel();
        let shared = recorder.0.clone();
        thread::Builder::new().name("recorder".into()).spawn(move || {
            // Whoever records may not care how it ended.
            let _ = done.send(writer.run(&shared.queue));
        })?;
        Ok(Self { recorder, written, patience })
    }

    /// Records connections.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Ends it, and waits until it is written, but no longer than [`Settings::patience`].
    pub fn finish(mut self) -> Recorded {
        let (lines, error) = self.end();
        let dropped = self.recorder.0.queue.seen().saturating_sub(lines);
        Recorded { lines, dropped, error }
    }

    fn end(&mut self) -> (u64, Option<io::Error>) {
        let shared = &self.recorder.0;
        shared.queue.end(shared.now());
        let stuck = |_| (0, Some(io::ErrorKind::TimedOut.into()));
        self.written.recv_timeout(self.patience).unwrap_or_else(stuck)
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
    begun: Instant,
    /// How many connections there were.
    opened: AtomicU64,
}

impl Shared {
    /// Microseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Recorder {
    /// Records a connection under this name, beside whatever else sees its messages.
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
            verdicts.verdict(&verdict);
            observer.iter_mut().for_each(|observer| observer(verdict));
        }));
        options
    }

    /// Records both connections of a relay as `up` and `down`, beside whatever else sees their messages.
    #[must_use]
    pub fn relay(&self, mut options: relay::Options) -> relay::Options {
        options.up.role = Role::Server;
        options.down.role = Role::Client;
        let up = Arc::new(self.hop(Side::Up.as_str(), &options.up));
        let down = Arc::new(self.hop(Side::Down.as_str(), &options.down));
        let hops = [up.clone(), down.clone()];
        let (mut trace, mut observer) = (options.trace.take(), options.observer.take());
        options.trace = Some(Box::new(move |side, way, message| {
            let hop = if side == Side::Up { &up } else { &down };
            hop.message(way, message);
            trace.iter_mut().for_each(|trace| trace(side, way, message));
        }));
        options.observer = Some(Box::new(move |side, event| {
            hops[usize::from(side == Side::Down)].relay_event(&event);
            if let Some(observer) = &mut observer {
                observer(side, event);
            }
        }));
        options
    }

    /// Records a connection that the host drives itself.
    #[must_use]
    pub fn hop(&self, name: &str, config: &Config) -> HopRecorder {
        let number = self.0.opened.fetch_add(1, Ordering::Relaxed);
        let role = match config.role {
            Role::Client => line::Role::Client,
            Role::Server => line::Role::Server,
        };
        let dialect = &config.dialect;
        let hop = HopRecorder {
            shared: self.0.clone(),
            number,
            name: name.into(),
            envelope: dialect.envelope,
        };
        let (name, shape) = (name.into(), Shape::of(dialect));
        let opened = Opened { name, role, dialect: dialect.name.to_string(), shape };
        hop.push(What::Opened(Box::new(opened)), &[]);
        hop
    }
}

/// Records one connection, until it is dropped.
#[derive(Debug)]
pub struct HopRecorder {
    shared: Arc<Shared>,
    number: u64,
    name: String,
    envelope: Envelope,
}

impl HopRecorder {
    /// A message was sent or received, without framing.
    pub fn message(&self, way: Way, message: &[u8]) {
        let direction = match way {
            Way::Sent => Direction::Sent,
            Way::Received => Direction::Received,
        };
        self.push(What::Message(direction), message);
    }

    /// Something was decided.
    pub fn verdict(&self, verdict: &Verdict<'_>) {
        match *verdict {
            Verdict::Settled { call, settlement, cause } => {
                let id = match self.envelope {
                    Envelope::JsonRpc | Envelope::Dap => call.number().to_string(),
                    Envelope::Abp => format!("\"{}\"", call.number()),
                };
                self.decided(line::Verdict {
                    id: Id::from_token(id),
                    outcome: Some(settlement.as_str().into()),
                    cause: cause.map(|cause| cause.as_str().into()),
                    ..named("settled")
                });
            }
            Verdict::Cancelled { id, cause } => self.decided(line::Verdict {
                id: id.and_then(token),
                cause: Some(cause.as_str().into()),
                ..named("cancelled")
            }),
            Verdict::Violation { violation, id } => {
                self.because("violation", id, violation.as_str());
            }
            Verdict::Closed { reason } => self.because("closed", None, reason),
            _ => {}
        }
    }

    fn relay_event(&self, event: &RelayEvent) {
        match event {
            RelayEvent::Violation { violation, id } => {
                self.because("violation", id.as_ref(), violation.as_str());
            }
            RelayEvent::CancelDropped { method } => self.because("cancel_dropped", None, method),
            RelayEvent::CancelIgnored { id } => self.because("cancel_ignored", Some(id), ""),
            RelayEvent::CancelRefused { id, reason } => {
                self.because("cancel_refused", Some(id), reason);
            }
            RelayEvent::NotificationDropped { method, reason } => {
                self.because("notification_dropped", None, format_args!("{method}: {reason}"));
            }
            RelayEvent::RequestRefused { id, reason } => {
                self.because("request_refused", Some(id), reason);
            }
            RelayEvent::AnswerReplaced { id, reason } => {
                self.because("answer_replaced", Some(id), reason);
            }
            RelayEvent::AnswerDropped { id } => self.because("answer_dropped", Some(id), ""),
            RelayEvent::TimedOut { id, cause } => self.decided(line::Verdict {
                id: token(id),
                cause: Some(cause.as_str().into()),
                ..named("guard")
            }),
            RelayEvent::Closed { reason } => self.because("closed", None, reason),
            other => self.because("other", None, other),
        }
    }

    fn because(&self, verdict: &'static str, id: Option<&WireId>, why: impl Display) {
        let why = Some(why.to_string()).filter(|why| !why.is_empty()).map(Into::into);
        self.decided(line::Verdict { id: id.and_then(token), why, ..named(verdict) });
    }

    fn decided<'a>(&'a self, mut verdict: line::Verdict<'a>) {
        verdict.t = self.shared.now();
        verdict.hop = (&*self.name).into();
        // Nothing of it can't be written as JSON.
        if let Ok(line) = serde_json::to_vec(&Line::Verdict(verdict)) {
            self.push(What::Verdict, &line);
        }
    }

    fn push(&self, what: What, bytes: &[u8]) {
        let entry = Entry { t: self.shared.now(), hop: self.number, what, len: bytes.len() };
        self.shared.queue.push(entry, bytes);
    }
}

/// Its name means nothing any more.
impl Drop for HopRecorder {
    fn drop(&mut self) {
        self.push(What::Gone, &[]);
    }
}

fn named(verdict: &'static str) -> line::Verdict<'static> {
    let (hop, verdict) = ("".into(), verdict.into());
    line::Verdict { t: 0, hop, verdict, id: None, outcome: None, cause: None, why: None }
}

fn token(id: &WireId) -> Option<Id<'static>> {
    Id::from_token(id.token().into())
}
