//! A connection to one server, or to one client, and the record of what both sides said.

use std::collections::HashSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use protocol_core::{Config, Envelope, Event, InputBuffer, StreamConnection, Timestamp, Violation};

use crate::client::serve::Serving;
use crate::family::Request;
use crate::lateness::Stretch;
use crate::patience::{More, Patience};
use crate::process;
use crate::stop::Stop;
use crate::target::{Child, Link, Told};
use crate::wire::{Asked, CREATE, Heard, Outcome, Wire};

mod client;

/// A server that says more than this in one check is not listened to any longer.
const RECORD_BYTES: usize = 128 << 20;
/// The bytes that an entry takes in a record beside its text.
pub(crate) const ENTRY_BYTES: usize = 256;

/// The time that a write to a stopped process may take.
const WRITTEN: Duration = Duration::from_secs(1);

/// One line of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// An event in the record of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// We wrote this, without framing.
    Sent(String),
    /// The server wrote this, without framing.
    Got { message: Vec<u8>, heard: Heard },
    /// Something that is no message of its protocol, or not one that a server sends, and why.
    Broken(String),
    /// Its output ended.
    Ended,
    /// Something that the runner did.
    Note(String),
}

/// The reason why waiting was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// For what was waited for.
    Done,
    /// The server's output ended first.
    Ended,
    /// It did not come for as long as we are patient.
    TimedOut,
    /// Neither did it, but the server was saying other things all the time.
    Talking,
    /// Neither did it, and the machine gave too little time to the server, or to us, to tell why.
    Late,
}

impl Waited {
    /// Stops where nothing can be told of what was waited for.
    pub(crate) fn unless_late(self) -> Result<(), Stop> {
        if self == Self::Late { Err(Stop::too_late()) } else { Ok(()) }
    }
}

/// A connection to what is tested.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) wire: Wire,
    pub(crate) record: Vec<Entry>,
    link: Link,
    /// Judges whether what comes is a message: the core itself.
    judge: StreamConnection<()>,
    input: InputBuffer,
    begun: Instant,
    /// The time that is waited for what has to come.
    pub(crate) patience: Duration,
    /// When the last wait began.
    waiting_since: Instant,
    bytes: usize,
    /// The ids that the runner has given to requests of its own.
    pub(crate) named: HashSet<String>,
    /// The number of our last message, where messages have numbers.
    number: u64,
    /// The number of measurements.
    pub(crate) measured: u64,
    /// Whether the server's own requests are answered.
    pub(crate) answers: bool,
    /// The names of work whose requests get no response for now.
    pub(crate) left: Vec<Value>,
    /// The requests that were left without a response.
    pub(crate) open: Vec<Asked>,
    /// Our side of a session with a client.
    pub(crate) serving: Option<Serving>,
    has_ended: bool,
}

impl Session {
    /// Creates a session with a server, or with a client that we are `serving`.
    pub(crate) fn new(
        link: Link,
        wire: Wire,
        patience: Duration,
        serving: Option<Serving>,
    ) -> Self {
        let side = if serving.is_some() { Config::server } else { Config::client };
        let mut config = side(wire.dialect.clone());
        config.dialect.framing = wire.framing();
        // The number of the server's own requests is no matter of these checks, and neither is the length of an id.
        config.limits.requests = 1 << 20;
        config.limits.id_bytes = config.limits.message_bytes;
        Self {
            wire,
            record: Vec::new(),
            link,
            judge: StreamConnection::new(config),
            input: InputBuffer::new(),
            begun: Instant::now(),
            patience,
            waiting_since: Instant::now(),
            bytes: 0,
            named: HashSet::new(),
            number: 0,
            measured: 0,
            answers: serving.is_none(),
            left: Vec::new(),
            open: Vec::new(),
            serving,
            has_ended: false,
        }
    }

    /// Adds a line about what we do.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.push(What::Note(text.into()));
    }

    fn push(&mut self, what: What) {
        let at = self.begun.elapsed();
        let is_theirs = matches!(what, What::Got { .. } | What::Broken(_));
        self.bytes += if is_theirs { ENTRY_BYTES } else { 0 };
        self.record.push(Entry { at, what });
    }

    /// An id for a request that is no check's, by what it is for.
    pub(crate) fn id(&mut self, name: &str) -> String {
        let number = self.named.len() + 1;
        let id = self.next_number().unwrap_or_else(|| format!("\"{name}-{number}\""));
        self.named.insert(id.clone());
        id
    }

    /// Makes a request that is no check's, and waits for the response. Returns the id, and why the wait was over.
    pub(crate) fn ask(&mut self, name: &str, request: &Request) -> (String, Waited) {
        let id = self.id(name);
        let message = self.wire.request(&id, &request.method, &request.params, "");
        self.send(&[message], false);
        let waited = self.wait(|session| session.is_answered(&id));
        (id, waited)
    }

    /// Opens a session of the Agent Client Protocol, and returns its id.
    pub(crate) fn open_session(&mut self) -> Result<String, Stop> {
        let params = json!({ "cwd": std::env::temp_dir(), "mcpServers": [] });
        let request = Request::new("session/new", params);
        let (id, waited) = self.ask("session", &request);
        match self.result_of(&id).and_then(|opened| opened["sessionId"].as_str()) {
            Some(session) => Ok(session.to_owned()),
            None if waited == Waited::Late => Err(Stop::too_late()),
            None => {
                let how = self
                    .said(&id)
                    .map_or("not answered".into(), |it| format!("answered with {it}"));
                Err(Stop::NotExercised(format!("no session is opened: session/new is {how}")))
            }
        }
    }

    /// The number of our next message, where messages have numbers.
    pub(crate) fn next_number(&mut self) -> Option<String> {
        (self.wire.dialect.envelope == Envelope::Dap).then(|| {
            self.number += 1;
            self.number.to_string()
        })
    }

    /// Sends a notification, with its number where messages have numbers.
    pub(crate) fn notify(&mut self, told: &Request) {
        let own = self.own_number();
        let message = self.wire.raw_notification(&told.method, &told.params, own);
        self.send(&[message], false);
    }

    /// Writes these messages at once. In one read of the server's, if its process can be stopped meanwhile.
    pub(crate) fn send(&mut self, messages: &[String], in_one_read: bool) {
        let bytes = self.wire.framed(messages);
        for message in messages {
            self.push(What::Sent(message.clone()));
        }
        let Link { input: Some(input), child, .. } = &self.link else { return };
        // A server that is gone is seen by the end of its output.
        let write = |until_written| drop(input.send(Told { bytes, until_written }));
        match child {
            Some(child) if in_one_read => {
                let stopped = process::while_stopped(child.id(), || {
                    let (until_written, written) = channel();
                    write(Some(until_written));
                    // The end of the channel; what does not fit into the pipe is written later.
                    let _ = written.recv_timeout(WRITTEN);
                });
                if !stopped {
                    self.note(
                        "the process could not be stopped: the messages may be read one by one",
                    );
                }
            }
            _ => write(None),
        }
    }

    /// Ends the server's input.
    pub(crate) fn end_input(&mut self) {
        self.note("its input ends");
        self.link.input = None;
    }

    /// Returns the number of answers like the last that fill the sockets between the two.
    pub(crate) fn fills(&self) -> usize {
        let mut lengths = self.record.iter().rev().filter_map(|entry| match &entry.what {
            What::Got { message, heard: Heard::Answer { .. } } => Some(message.len()),
            _ => None,
        });
        lengths.next().map_or(0, |length| self.link.held / length)
    }

    pub(crate) fn child(&self) -> Option<&Child> {
        self.link.child.as_ref()
    }

    /// Returns the exit status of its process in brackets, to follow "it ended". It is empty if there is no
    /// process.
    pub(crate) fn how_it_ended(&self) -> String {
        self.child().map(Child::how_it_ended).unwrap_or_default()
    }

    /// Takes what comes until something holds.
    ///
    /// A server that is busy, or responds to something, is waited for a few times longer: the machine may be slow.
    pub(crate) fn wait(&mut self, mut until: impl FnMut(&Self) -> bool) -> Waited {
        self.waiting_since = Instant::now();
        let mut patience = Patience::begin(self.process(), self.patience);
        let mut next = self.patience;
        loop {
            let before = self.record.len();
            let waited = self.wait_for(next, &mut until);
            if waited != Waited::TimedOut {
                return waited;
            }
            let talks = self.has_responded(before);
            match patience.more(talks) {
                More::Wait(more) => next = more,
                More::Over if talks => return Waited::Talking,
                More::Over => return waited,
                More::Late => return Waited::Late,
            }
        }
    }

    /// Returns how long the last wait has lasted, in words.
    pub(crate) fn waited(&self) -> String {
        format!("{:.1} s", self.waiting_since.elapsed().as_secs_f64())
    }

    /// Returns whether it has responded to us since this place of the record, or has reported progress under a token of ours.
    /// Anything else may be a heartbeat.
    fn has_responded(&self, since: usize) -> bool {
        let is_sent = |token: &str| {
            let names = ["oken\":", "\"sessionId\":"].map(|name| format!("{name}{token}"));
            let is_in = |text: &String| names.iter().any(|name| text.contains(name));
            let mut sent = self.record.iter();
            sent.any(|entry| matches!(&entry.what, What::Sent(text) if is_in(text)))
        };
        self.heard().skip_while(|(at, _)| *at < since).any(|(_, heard)| match heard {
            Heard::Answer { .. } | Heard::Acknowledged { .. } => true,
            Heard::Progress { token } => is_sent(&token.to_string()),
            _ => false,
        })
    }

    /// Waits as [`wait_for`](Self::wait_for) does, and reports what did not come on a machine that was late as late.
    pub(crate) fn wait_unless_late(
        &mut self,
        patience: Duration,
        mut until: impl FnMut(&Self) -> bool,
    ) -> Waited {
        let (begun, busy) = (Stretch::begin(), self.busy());
        let waited = self.wait_for(patience, &mut until);
        let is_at_work = || process::is_at_work(self.process(), busy);
        match waited {
            Waited::TimedOut if begun.lost() > patience / 8 && is_at_work() => Waited::Late,
            other => other,
        }
    }

    /// Takes what comes for this time, until the end. On a machine that is late it takes longer.
    pub(crate) fn listen(&mut self, time: Duration) -> Waited {
        let (begun, mut left) = (Stretch::begin(), time);
        loop {
            let waited = self.wait_for(left, &mut |_| false);
            // What was to come in this time has come by then, however late it is.
            left = (time + begun.lateness()).saturating_sub(begun.lasted());
            match waited {
                Waited::TimedOut if begun.lasted() > time + self.patience => return Waited::Late,
                Waited::TimedOut if !left.is_zero() => {}
                _ => return waited,
            }
        }
    }

    pub(crate) fn process(&self) -> Option<u32> {
        self.child().map(Child::id)
    }

    /// Returns the time that its processes have used so far, where that is known.
    pub(crate) fn busy(&self) -> Option<u64> {
        self.process().map(process::busy)
    }

    /// Waits as [`wait`](Self::wait) does, no longer than this.
    pub(crate) fn wait_for(
        &mut self,
        patience: Duration,
        until: &mut dyn FnMut(&Self) -> bool,
    ) -> Waited {
        let deadline = Instant::now() + patience;
        loop {
            if until(self) {
                return Waited::Done;
            }
            if self.has_ended() {
                return Waited::Ended;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.link.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => return Waited::TimedOut,
                Err(RecvTimeoutError::Disconnected) => self.ended(),
            }
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether it was not listened to until its end.
    pub(crate) fn has_said_too_much(&self) -> bool {
        self.bytes > RECORD_BYTES
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        if self.has_said_too_much() {
            self.note("it said more than is kept");
            return self.ended();
        }
        self.input.extend_from_slice(bytes);
        let from = self.record.len();
        let is_closed = self.read();
        // Requests that come together are all there before the first is answered.
        self.serve_from(from);
        if is_closed {
            self.ended();
        }
    }

    /// Reads what has come, and returns whether the judge closed the connection.
    fn read(&mut self) -> bool {
        loop {
            let received = self.judge.receive(self.input.unread(), Timestamp::ZERO);
            let (consumed, message) = (received.consumed, received.message.map(<[u8]>::to_vec));
            let mut broken_rule = received.event.and_then(|event| broken(&event));
            let head = &self.input.unread()[..consumed - message.as_ref().map_or(0, Vec::len)];
            if let Some(line) = self.wire.stray_line(head) {
                self.push(What::Broken(format!("no header of a message: {line:.80}")));
            }
            self.input.consume(consumed);
            let mut closed = false;
            while let Some(event) = self.judge.connection_mut().poll_event() {
                broken_rule = broken_rule.or(broken(&event));
                closed |= matches!(event, Event::Closed { .. });
            }
            // Nothing that the judge would say is sent.
            let mut dropped = Vec::new();
            while self.judge.poll_transmit(&mut dropped).is_some() {}
            for member in message.map(|message| self.wire.members(message)).unwrap_or_default() {
                if !self.has_said_too_much() {
                    self.got(member);
                }
            }
            if let Some(violation) = broken_rule {
                self.push(What::Broken(violation.to_string()));
            }
            if closed || consumed == 0 {
                return closed;
            }
        }
    }

    fn got(&mut self, message: Vec<u8>) {
        let heard = self.wire.read(&message);
        let asked = heard.asked().filter(|_| self.serving.is_none()).cloned();
        self.push(What::Got { message, heard });
        match asked {
            Some(asked) if asked.is_housekeeping() || self.answers && !self.leaves(&asked) => {
                let own = self.next_number().unwrap_or_default();
                let answer = self.wire.answer(&asked, &own);
                self.send(&[answer], false);
            }
            asked => self.open.extend(asked),
        }
    }

    /// Returns whether a request is for work whose requests are left without a response for now.
    fn leaves(&self, asked: &Asked) -> bool {
        self.left.contains(&asked.params["sessionId"])
    }

    /// Serves what a client has asked from this place of the record on.
    fn serve_from(&mut self, from: usize) {
        if self.serving.is_none() {
            return;
        }
        let asked = self.heard().filter_map(|(at, heard)| match heard {
            Heard::Request(asked) | Heard::Cancel { asked: Some(asked), .. } => {
                (at >= from).then(|| (at, asked.clone()))
            }
            _ => None,
        });
        for (at, asked) in asked.collect::<Vec<_>>() {
            self.serve(asked, at);
        }
    }

    fn ended(&mut self) {
        self.has_ended = true;
        self.push(What::Ended);
    }

    /// Returns the last of its standard error.
    pub(crate) fn stderr(&self) -> String {
        self.link.child.as_ref().map(Child::stderr).unwrap_or_default()
    }

    /// Returns every answer, with its place in the record and its id.
    pub(crate) fn all_answers(&self) -> impl Iterator<Item = (usize, &str, &Outcome)> {
        self.heard().filter_map(|(at, heard)| match heard {
            Heard::Answer { id, outcome } => Some((at, id.as_str(), outcome)),
            _ => None,
        })
    }

    /// The answers under an id, with their places in the record.
    pub(crate) fn answers_to(&self, id: &str) -> impl Iterator<Item = (usize, &Outcome)> {
        let theirs = self.all_answers().filter(move |(_, theirs, _)| *theirs == id);
        theirs.map(|(at, _, outcome)| (at, outcome))
    }

    /// Returns the first answer under an id if that is a result.
    pub(crate) fn result_of(&self, id: &str) -> Option<&Value> {
        match self.answers_to(id).next()? {
            (_, Outcome::Result(result)) => Some(result),
            _ => None,
        }
    }

    /// Returns the first answer under an id in words, with its own words if it tells of a failure.
    pub(crate) fn said(&self, id: &str) -> Option<String> {
        let (at, outcome) = self.answers_to(id).next()?;
        let What::Got { message, .. } = &self.record[at].what else { return None };
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let places =
            ["/error/message", "/result/content/0/text", "/payload/error/message", "/message"];
        let text = places.iter().find_map(|place| message.pointer(place)?.as_str());
        let text = text.filter(|_| outcome.is_failure());
        Some(text.map_or(outcome.to_string(), |text| format!("{outcome} ({text:.200})")))
    }

    /// Returns the answers under an id from a place on, where its request stands. An id may be used again.
    pub(crate) fn answers_from(
        &self,
        id: &str,
        from: Option<usize>,
    ) -> impl Iterator<Item = (usize, &Outcome)> {
        self.answers_to(id).filter(move |(at, _)| Some(*at) > from)
    }

    /// Returns the place of the first answer under an id.
    pub(crate) fn answered_at(&self, id: &str) -> Option<usize> {
        self.answers_to(id).next().map(|(at, _)| at)
    }

    pub(crate) fn is_answered(&self, id: &str) -> bool {
        self.answered_at(id).is_some()
    }

    /// Returns whether the server is seen to have read the cancel of a request, or the request that was sent later.
    pub(crate) fn has_read_cancel(&self, id: &str, later: &str) -> bool {
        self.is_answered(id) || self.is_answered(later) || self.cancels().next().is_some()
    }

    /// Returns the messages that the server wrote and that are heard as this, with their places in the record.
    pub(crate) fn messages(
        &self,
        is_one: impl Fn(&Heard) -> bool,
    ) -> impl Iterator<Item = (usize, Value)> {
        self.record.iter().enumerate().filter_map(move |(at, entry)| match &entry.what {
            What::Got { message, heard } if is_one(heard) => {
                Some((at, serde_json::from_slice(message).unwrap_or_default()))
            }
            _ => None,
        })
    }

    /// Returns the reports of work with this name, or of a request with this token.
    pub(crate) fn reports_of(&self, name: &Value) -> impl Iterator<Item = (usize, Value)> {
        self.messages(move |heard| matches!(heard, Heard::Progress { token } if token == name))
    }

    /// Returns the tokens of the progress that a server has created.
    pub(crate) fn created(&self) -> impl Iterator<Item = Value> {
        let creates = self.all_asked().filter(|(_, asked)| asked.method == CREATE);
        creates.map(|(_, asked)| asked.params["token"].clone())
    }

    /// Returns what a server has asked of us from this place of the record on, apart from housekeeping.
    pub(crate) fn asked_of_us(&self, from: usize) -> impl Iterator<Item = &Asked> {
        let is_real = move |(at, asked): &(usize, &Asked)| *at >= from && !asked.is_housekeeping();
        self.all_asked().filter(is_real).map(|(_, asked)| asked)
    }

    /// Returns every request of the other side's, with its place in the record.
    pub(crate) fn all_asked(&self) -> impl Iterator<Item = (usize, &Asked)> {
        self.heard().filter_map(|(at, heard)| Some((at, heard.asked()?)))
    }

    /// Returns the time between two places of the record.
    pub(crate) fn between(&self, first: usize, second: usize) -> Duration {
        self.record[second].at.saturating_sub(self.record[first].at)
    }

    /// Returns the time since a place of the record.
    pub(crate) fn since(&self, place: usize) -> Duration {
        self.begun.elapsed().saturating_sub(self.record[place].at)
    }

    /// Everything that was heard, with its place in the record.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (usize, &Heard)> {
        self.record.iter().enumerate().filter_map(|(at, entry)| match &entry.what {
            What::Got { heard, .. } => Some((at, heard)),
            _ => None,
        })
    }
}

/// Returns the rule that a message breaks. We send by hand, so the checks judge which answers and ids are
/// expected.
fn broken(event: &Event<'_, ()>) -> Option<Violation> {
    use Violation::{DuplicateId, MalformedCancel, NotInitialized, UnknownResponse};
    match event {
        Event::Violation { violation, .. } => {
            let is_ours =
                [UnknownResponse, DuplicateId, NotInitialized, MalformedCancel].contains(violation);
            (!is_ours).then_some(*violation)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
