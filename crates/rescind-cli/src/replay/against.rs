//! `--against`: the client's side of a recording, played to a real server.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read, Write};
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
use protocol_json::Members;
use protocol_record::Line;
use protocol_record::line::{Direction, Header, Hop, Kind, Message, Part, Role};
use serde_json::value::RawValue;

use super::core::{GAP, Stop, framed, whole};
use super::reading::{self, End, explain};
use super::setup::Setup;
use crate::dialect::{Described, Spoken};
use crate::ending;
use crate::exit::{self, Exit};
use crate::record::Session;

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
    Malformed,
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
            Self::Malformed => "a malformed response".into(),
        }
    }
}

/// A response, or the request of a server: its members of these names.
type Said<'m> = Members<'m, 5>;

/// Reads these members, if the message is an object.
fn read(message: &[u8]) -> Option<Said<'_>> {
    let names = ["id", "method", "result", "error", "jsonrpc"];
    Members::of(std::str::from_utf8(message).ok()?, &names)
}

/// Returns the id of a response, and the end of its request. It is malformed if `rescind call` says so of such a response.
fn response<'m>(said: &Said<'m>) -> Option<(&'m str, Ending)> {
    let id = said.once(0).filter(|_| said.given(1).is_none())?;
    let is_whole = !said.has_repeated() && said.string(4).as_deref() == Some("2.0");
    let ending = match (said.raw(2), said.raw(3)) {
        (Some(result), _) if is_whole && said.given(3).is_none() => {
            Ending::Result(result.get().into())
        }
        (_, Some(error)) if is_whole && said.given(2).is_none() => {
            code(error).map_or(Ending::Malformed, Ending::Error)
        }
        _ => Ending::Malformed,
    };
    Some((id, ending))
}

fn code(error: &RawValue) -> Option<i64> {
    let members = Members::of(error.get(), &["code", "message"])?;
    members.string(1)?;
    members.token(0)?.parse().ok()
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
    pub(super) fn read(file: &Path) -> Result<Self, Exit> {
        let mut reading = Reading::default();
        let end = reading::read(file, |line| reading.line(line))?;
        if let End::Stopped { path, line, stop } = &end {
            explain(path, *line, stop);
            return Err(Exit::told(exit::ERROR));
        }
        let refused = |why| Exit::usage(format_args!("{}: {why}", file.display()));
        let Some(config) = reading.config else {
            return Err(refused("whoever recorded this was nobody's client"));
        };
        if config.dialect.envelope != Envelope::JsonRpc {
            return Err(refused("abp and dap are not played to servers"));
        }
        let Reading { steps, requests, answers, .. } = reading;
        Ok(Self { config, steps, answers, requests })
    }
}

impl Reading {
    fn line(&mut self, line: &Line<'_>) -> Result<Result<(), Stop>, String> {
        match line {
            Line::Recording(header) => self.header(header)?,
            Line::Opened(hop) => self.opened(hop)?,
            Line::Dropped(_) => return Ok(Err(GAP)),
            Line::Message(message) if self.hop.as_deref() == Some(&*message.hop) => {
                return Ok(self.message(message));
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    fn header(&mut self, header: &Header<'_>) -> Result<(), String> {
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

    fn message(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let bytes = whole(message)?;
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
            // The line of a malformed response has no id.
            (Kind::Result | Kind::Error | Kind::Unreadable, Direction::Received) => {
                if let Some((id, ending)) = read(bytes).as_ref().and_then(response)
                    && let Some(number) = self.asked.remove(id)
                {
                    self.requests.entry(number).and_modify(|asked| asked.recorded = ending);
                    self.steps.push(Step::Answered(id.into()));
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
    // Its last message may have no end of line.
    if let Some(last) = connection.handle_eof(input.unread(), Timestamp::ZERO) {
        let _ = tell.send(Some(last.to_vec()));
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
            // A message that waits is received even if no time is left, and a server may always have one.
            if left.is_zero() {
                break;
            }
            match self.said.recv_timeout(left) {
                Ok(Some(message)) => self.heard(&message),
                Ok(None) => self.is_ended = true,
                // It is time.
                Err(_) => break,
            }
        }
    }

    fn heard(&mut self, message: &[u8]) {
        let Some(said) = read(message) else { return };
        if let (Some(id), Some(method)) = (said.once(0), said.string(1)) {
            let answers = self.answers.get_mut(&*method);
            match answers.and_then(VecDeque::pop_front) {
                Some(answer) if !answer.is_empty() => self.answer(id, &answer),
                Some(_) => {}
                None => *self.unknown.entry(method.into_owned()).or_default() += 1,
            }
        } else if let Some((id, ending)) = response(&said) {
            self.endings.entry(id.into()).or_insert(ending);
        }
    }

    /// Gives the recorded answer to a request, under the id that the request has now.
    fn answer(&self, id: &str, recorded: &[u8]) {
        let Some(said) = read(recorded) else { return };
        let (name, value) = match said.given(3) {
            Some(error) => ("error", error.get()),
            None => ("result", said.token(2).unwrap_or("null")),
        };
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_floods_is_not_heard_once_it_is_time() {
        let ((say, _told), (tell, said)) = (channel(), sync_channel(1));
        let mut player = Player {
            say,
            said,
            framing: Framing::Newline,
            is_ended: false,
            answers: HashMap::new(),
            endings: HashMap::new(),
            unknown: BTreeMap::new(),
        };
        let response = br#"{"jsonrpc":"2.0","id":1,"result":5}"#;
        tell.send(Some(response.to_vec())).unwrap();
        player.hear_until(Instant::now(), |_| false);
        assert_eq!(player.endings.len(), 0);
        player.hear_until(Instant::now() + Duration::from_secs(60), |it| !it.endings.is_empty());
        assert_eq!(player.endings["1"], Ending::Result("5".into()));
    }
}
