//! `--against`: the client's side of a recording, played to a real server.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use protocol_child::{ChildCommand, Spawned, spawn};
use protocol_core::{Config, Envelope, Framing, InputBuffer, StreamConnection, Timestamp};
use protocol_json::path;
use protocol_record::Line;
use protocol_record::line::{Direction, Header, Hop, Kind, Message, Part, Payloads, Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::core::{framed, whole};
use super::setup::{NOT_KEPT, Setup};
use crate::dialect::{Described, Spoken};
use crate::ending;
use crate::record::Session;
use crate::view::files;

/// When the client's messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pace {
    /// As long after the first as it was recorded
    Recorded,
    /// As soon as what was answered before is answered again
    Fast,
}

/// One hop of a recording, as far as a server is concerned.
pub(super) struct Script {
    config: Config,
    steps: Vec<Step>,
    /// The client's responses to the server's requests, by method, in the order in which it was asked.
    answers: HashMap<String, VecDeque<Vec<u8>>>,
    pub(super) requests: BTreeMap<u64, Asked>,
}

enum Step {
    /// The client said this.
    Say { t: u64, message: Vec<u8> },
    /// The server answered this request.
    Answered(String),
}

/// A request of the client's, in the order of the recording.
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) recorded: Ending,
    pub(super) now: Ending,
}

/// The end of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    #[default]
    Unanswered,
    Result(String),
    Error(i64),
}

impl Ending {
    /// Whether both ended in the same way, whatever the results say.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Result(_), Self::Result(_)) => true,
            _ => self == other,
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Unanswered => "no answer".into(),
            Self::Result(_) => "a result".into(),
            Self::Error(code) => format!("error {code}"),
        }
    }
}

/// An answer, or the request of a server.
#[derive(Deserialize)]
struct Said<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

fn ending(said: &Said<'_>) -> Ending {
    let code = said.error.and_then(|error| path(error, &["code"])?.get().parse().ok());
    match (code, said.result) {
        (Some(code), _) => Ending::Error(code),
        (None, Some(result)) => Ending::Result(result.get().into()),
        (None, None) => Ending::Result("null".into()),
    }
}

/// The first hop on which whoever recorded was the client, while it is read.
#[derive(Default)]
struct Reading {
    hop: Option<String>,
    config: Option<Config>,
    steps: Vec<Step>,
    requests: BTreeMap<u64, Asked>,
    /// Of the requests that are not answered: which of the client's, by id, and which of the server's.
    asked: HashMap<String, u64>,
    asks: HashMap<String, (String, usize)>,
    answers: HashMap<String, VecDeque<Vec<u8>>>,
}

impl Script {
    /// Reads the client's side of a recording. It is held in memory.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let mut reading = Reading::default();
        let mut refused = Ok(());
        files::read(file, |line| {
            refused = reading.line(line);
            if refused.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        refused?;
        let Some(config) = reading.config else {
            return Err("whoever recorded this was nobody's client".into());
        };
        if config.dialect.envelope != Envelope::JsonRpc {
            return Err("abp and dap are not played to servers".into());
        }
        let Reading { steps, requests, answers, .. } = reading;
        Ok(Self { config, steps, answers, requests })
    }
}

impl Reading {
    fn line(&mut self, line: Line<'_>) -> Result<(), String> {
        match line {
            Line::Recording(header) => self.header(&header),
            Line::Opened(hop) => self.opened(&hop),
            Line::Message(message) if self.hop.as_deref() == Some(&*message.hop) => {
                self.message(&message)
            }
            _ => Ok(()),
        }
    }

    fn header(&mut self, header: &Header<'_>) -> Result<(), String> {
        if header.payloads == Payloads::Redacted {
            return Err(NOT_KEPT.into());
        }
        if let (None, Some(setup)) = (&self.config, header.setup) {
            let setup = serde_json::from_str(setup.get());
            let Setup::Relay(setup) = setup.map_err(|error| format!("its setup: {error}"))?;
            self.config = Some(setup.options()?.down);
        }
        header.hops.iter().try_for_each(|hop| self.opened(hop))
    }

    fn opened(&mut self, hop: &Hop<'_>) -> Result<(), String> {
        if hop.role != Role::Client || self.hop.is_some() {
            return Ok(());
        }
        self.hop = Some(hop.hop.to_string());
        if self.config.is_none() {
            let named = Described::Named(hop.dialect.clone().into_owned());
            self.config = Some(Spoken::of(&named)?.on_stdio(protocol_core::Role::Client));
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>) -> Result<(), String> {
        let bytes = whole(message).map_err(|_| "a message of it was withheld")?;
        let mut is_said = false;
        for part in &message.parts {
            is_said |= self.part(part, message.dir, &bytes);
        }
        if message.dir == Direction::Sent && is_said {
            self.steps.push(Step::Say { t: message.t, message: bytes.into_owned() });
        }
        Ok(())
    }

    /// Whether it is said again as it was said; answers are given when they are asked for.
    fn part(&mut self, part: &Part<'_>, dir: Direction, bytes: &[u8]) -> bool {
        let id = part.id.as_ref().map(|id| id.as_json().to_owned()).unwrap_or_default();
        let method = part.method.as_deref().unwrap_or_default();
        match (part.kind, dir) {
            (Kind::Request, Direction::Sent) => {
                let number = self.requests.len() as u64;
                let (recorded, now) = Default::default();
                let asked = Asked { id: id.clone(), method: method.into(), recorded, now };
                self.requests.insert(number, asked);
                self.asked.insert(id, number);
            }
            (Kind::Result | Kind::Error, Direction::Received) => {
                let asked = self.asked.remove(&id).and_then(|it| self.requests.get_mut(&it));
                if let (Some(asked), Ok(said)) = (asked, serde_json::from_slice(bytes)) {
                    asked.recorded = ending(&said);
                    self.steps.push(Step::Answered(id));
                }
            }
            (Kind::Request, Direction::Received) => {
                let answers = self.answers.entry(method.into()).or_default();
                self.asks.insert(id, (method.into(), answers.len()));
                answers.push_back(Vec::new());
            }
            (Kind::Result | Kind::Error, Direction::Sent) => {
                let (method, at) = self.asks.remove(&id).unwrap_or_default();
                let answers = self.answers.get_mut(&method);
                if let Some(answer) = answers.and_then(|answers| answers.get_mut(at)) {
                    *answer = bytes.to_vec();
                }
                return false;
            }
            _ => {}
        }
        true
    }
}

/// A message of the server. `None` means that its output has ended, or that a signal came.
type Heard = Option<Vec<u8>>;

/// Plays a script to the server that is started by a command; nobody waits longer than `patience` for an answer.
/// Returns how often the server made a request that the recording has no answer to, by method.
pub(super) fn play(
    script: &mut Script,
    command: ChildCommand,
    pace: Pace,
    patience: Duration,
) -> io::Result<BTreeMap<String, u64>> {
    let (tell, said) = sync_channel(SAID);
    end_when_asked(tell.clone());
    let Spawned { owner, stdin, stdout, .. } = spawn(command)?;
    let config = script.config.clone();
    thread::spawn(move || listen(stdout, config, &tell));
    let (say, told) = channel();
    thread::spawn(move || speak(stdin, &told));
    let mut player = Player {
        say,
        said,
        framing: script.config.dialect.framing,
        is_ended: false,
        answers: std::mem::take(&mut script.answers),
        endings: HashMap::new(),
        unknown: BTreeMap::new(),
    };
    player.steps(&script.steps, pace, patience);
    let waits = |asked: &Asked, player: &Player| {
        asked.recorded != Ending::Unanswered && !player.endings.contains_key(&asked.id)
    };
    player.hear_until(Instant::now() + patience, |player| {
        !script.requests.values().any(|asked| waits(asked, player))
    });
    for asked in script.requests.values_mut() {
        asked.now = player.endings.remove(&asked.id).unwrap_or_default();
    }
    let Player { say, said, unknown, .. } = player;
    // Its input is closed, nobody keeps it waiting, and it ends with everything that it started.
    drop((say, said));
    let process = owner.process().clone();
    drop(owner);
    process.wait().map(|_| unknown)
}

/// Lets the player hear of a signal, and of a caller that is gone. A second one ends the program at once.
fn end_when_asked(tell: SyncSender<Heard>) {
    let is_asked = AtomicBool::new(false);
    ending::watch(Arc::new(move |cause| {
        if is_asked.swap(true, Ordering::Relaxed) {
            ending::end_at_once(cause, &Session::default());
        }
        // A player that is done has dropped the other end.
        let _ = tell.send(None);
    }));
}

/// So many messages of a server wait to be looked at; then it has to wait.
const SAID: usize = 1 << 16;

/// Takes messages from what a server prints. The connection is there for its framing alone.
fn listen(mut stdout: ChildStdout, config: Config, tell: &SyncSender<Heard>) {
    let mut connection: StreamConnection<()> = StreamConnection::new(config);
    let (mut input, mut chunk) = (InputBuffer::new(), vec![0; 64 << 10]);
    while let Ok(read @ 1..) = stdout.read(&mut chunk) {
        input.extend_from_slice(&chunk[..read]);
        loop {
            let received = connection.receive(input.unread(), Timestamp::ZERO);
            let (consumed, message) = (received.consumed, received.message.map(<[u8]>::to_vec));
            if consumed == 0 {
                break;
            }
            input.consume(consumed);
            while connection.connection_mut().poll_event().is_some() {}
            if message.is_some_and(|message| tell.send(Some(message)).is_err()) {
                return;
            }
        }
    }
    let _ = tell.send(None);
}

/// Writes the messages to a server, on a thread of its own. A server that reads nothing must not be waited for,
/// and one that is gone has no answers.
fn speak(mut stdin: ChildStdin, told: &Receiver<Vec<u8>>) {
    for message in told {
        if stdin.write_all(&message).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// The client of a real server.
struct Player {
    say: Sender<Vec<u8>>,
    said: Receiver<Heard>,
    framing: Framing,
    is_ended: bool,
    answers: HashMap<String, VecDeque<Vec<u8>>>,
    endings: HashMap<String, Ending>,
    /// The number of requests that the recording has no answer to, by method.
    unknown: BTreeMap<String, u64>,
}

impl Player {
    /// Takes the steps of a script, until the end was asked for.
    fn steps(&mut self, steps: &[Step], pace: Pace, patience: Duration) {
        let begun = Instant::now();
        let first = steps.iter().find_map(|step| match step {
            Step::Say { t, .. } => Some(*t),
            Step::Answered(_) => None,
        });
        for step in steps {
            if self.is_ended {
                break;
            }
            match step {
                Step::Say { t, message } => {
                    if pace == Pace::Recorded {
                        let after = t.saturating_sub(first.unwrap_or_default());
                        self.hear_until(begun + Duration::from_micros(after), |_| false);
                    }
                    self.say(message);
                }
                Step::Answered(id) if pace == Pace::Fast => {
                    self.hear_until(Instant::now() + patience, |it| it.endings.contains_key(id));
                }
                Step::Answered(_) => {}
            }
        }
    }

    fn say(&self, message: &[u8]) {
        // Nobody takes it once the server is gone.
        let _ = self.say.send(framed(self.framing, message));
    }

    /// Listens to the server until a time, or until it has said enough, is gone, or is to end.
    fn hear_until(&mut self, until: Instant, is_enough: impl Fn(&Self) -> bool) {
        while !self.is_ended && !is_enough(self) {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(Some(message)) => self.heard(&message),
                Ok(None) => self.is_ended = true,
                // It is time.
                Err(_) => break,
            }
        }
    }

    fn heard(&mut self, message: &[u8]) {
        let Ok(said) = serde_json::from_slice::<Said<'_>>(message) else { return };
        match (said.id, &said.method) {
            (Some(id), Some(method)) => {
                let answers = self.answers.get_mut(method);
                match answers.and_then(VecDeque::pop_front) {
                    Some(answer) if !answer.is_empty() => self.answer(id, &answer),
                    Some(_) => {}
                    None => *self.unknown.entry(method.clone()).or_default() += 1,
                }
            }
            (Some(id), None) => {
                self.endings.entry(id.get().into()).or_insert_with(|| ending(&said));
            }
            (None, _) => {}
        }
    }

    /// Gives the recorded answer to a request, under the id that the request has now.
    fn answer(&self, id: &RawValue, recorded: &[u8]) {
        let Ok(said) = serde_json::from_slice::<Said<'_>>(recorded) else { return };
        let (name, value) = match said.error {
            Some(error) => ("error", error.get()),
            None => ("result", said.result.map_or("null", RawValue::get)),
        };
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#).as_bytes());
    }
}
