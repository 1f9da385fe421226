//! A relay under test, with us on both of its sides.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::message::{self, Message, text_id};
use super::target::{Ends, Side};
use super::work::Work;
use crate::client::reply;
use crate::family::Opening;
use crate::patience::{More, Patience};
use crate::report::{Line, Transcript, Way};
use crate::session::ENTRY_BYTES;
use crate::target::{Child, Link, Told, Unreached};
use crate::wire::Wire;

/// A relay that says more than this in one check is not listened to any longer.
const RECORD_BYTES: usize = 64 << 20;
/// Numbers for messages that a scenario gives none are greater than this, and so than its own, whatever the seed.
const OWN_NUMBERS: u64 = 2_000_000;

/// A side, and what was read there: a message behind its header, its end, or bytes that are neither.
type Arrival = (Side, io::Result<Option<(String, Vec<u8>)>>);

/// Something that we saw or did, in order.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: Duration,
    pub(super) side: Side,
    pub(super) what: What,
}

/// An event of an [`Entry`]. Messages come with their texts.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// We sent it to the relay.
    Sent(Message, String),
    /// The relay sent it to us. The text begins with its header, if not every peer reads that.
    Arrived(Message, String),
    /// A message of the opening, which no rule is about.
    Opening(Way, String),
    /// The conversation is over: what comes now is what was left.
    Over,
    /// We closed our output.
    Closed,
    /// The relay closed its own, or broke the framing.
    Ended(Option<String>),
}

/// A running relay. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Bench {
    /// The client's end, and then the server's.
    ends: [End; 2],
    arrivals: Receiver<Arrival>,
    child: Option<Child>,
    pub(super) patience: Duration,
    begun: Instant,
    /// By the caller's side, which of its requests arrive on the other.
    pub(super) reaches: [Option<Work>; 2],
    /// Everything so far.
    pub(super) log: Vec<Entry>,
    /// The methods of the opening. Its notifications may arrive late.
    opening: Vec<String>,
    is_open: bool,
    /// Whether something was waited for in vain while the machine had no processor for it.
    pub(super) was_late: bool,
    /// The number of messages that got a number which no scenario chose.
    numbered: Cell<u64>,
    /// The tag of the last request of either side, which tells it from all others.
    pub(super) tag: u64,
}

#[derive(Debug)]
struct End {
    protocol: Wire,
    /// `None` once it is closed.
    output: Option<Sender<Told>>,
    ended: bool,
}

impl Bench {
    /// Joins a relay on both sides and opens the session.
    ///
    /// The first message is sent before the far side is there: a multiplexer starts its server when somebody
    /// asks for it.
    pub(super) fn open(
        ends: Ends,
        [at_near, at_far]: [Wire; 2],
        opening: &[Opening],
        patience: Duration,
    ) -> Result<Self, Unreached> {
        let Ends { mut near, far } = ends;
        let (arrive, arrivals) = channel();
        let child = near.child.take();
        let steps = (1..).zip(opening);
        let steps: Vec<_> = steps.map(|(number, step)| written(&at_near, step, number)).collect();
        let near = End::new(Side::Near, at_near, near, &arrive);
        steps.first().into_iter().for_each(|(_, text)| near.write(near.protocol.framed(&[text])));
        let far = far(patience).map_err(|error| {
            let stderr = child.as_ref().map(Child::stderr).unwrap_or_default();
            Unreached::Opening { why: error.to_string(), stderr }
        })?;
        let far = End::new(Side::Far, at_far, far, &arrive);
        let mut bench = Self {
            ends: [near, far],
            arrivals,
            child,
            patience,
            begun: Instant::now(),
            reaches: [Some(Work::Unknown); 2],
            log: Vec::new(),
            opening: opening.iter().map(|step| step.message.method.clone()).collect(),
            was_late: false,
            is_open: false,
            numbered: Cell::new(0),
            tag: 0,
        };
        for (step, (id, text)) in opening.iter().zip(steps) {
            match bench.log.is_empty() {
                true => bench.push(Side::Near, What::Opening(Way::Sent, text)),
                false => bench.send(Side::Near, &[text]),
            }
            if step.is_request {
                let opened = bench.opened(&step.message.method, &id);
                opened.map_err(|why| Unreached::Opening { why, stderr: bench.stderr() })?;
            }
        }
        bench.is_open = true;
        Ok(bench)
    }

    /// Waits for the response to a request of the opening.
    fn opened(&mut self, method: &str, id: &Value) -> Result<(), String> {
        let answer = |message: &Message| message.answer_to(id).cloned();
        if let Some(answer) = self.wait(Side::Near, self.patience, answer) {
            let refused = |error| Err(format!("{method} is refused: {error}"));
            return answer.get("error").map_or(Ok(()), refused);
        }
        let status = || self.child.as_ref().map(Child::how_it_ended).unwrap_or_default();
        let why = match self.log.last().map(|entry| &entry.what) {
            Some(What::Ended(Some(why))) => format!(": {why}"),
            Some(What::Ended(None)) => format!(": the relay ended{}", status()),
            _ => String::new(),
        };
        Err(format!("{method} is not answered{why}"))
    }

    /// Returns a number that no other message has.
    pub(super) fn number(&self) -> u64 {
        self.numbered.set(self.numbered.get() + 1);
        OWN_NUMBERS + self.numbered.get()
    }

    pub(super) fn push(&mut self, side: Side, what: What) {
        let at = self.begun.elapsed();
        self.log.push(Entry { at, side, what });
    }

    /// Writes messages to the relay, all at once, and never waits for it to read them.
    pub(super) fn send(&mut self, side: Side, messages: &[String]) {
        let bytes = self.protocol(side).framed(messages);
        self.send_bytes(side, messages, bytes);
    }

    /// Does the same as [`send`](Self::send), with a framing of its own.
    pub(super) fn send_bytes(&mut self, side: Side, messages: &[String], bytes: Vec<u8>) {
        for text in messages {
            let message = Message::read(self.protocol(side), text.as_bytes());
            let what = match self.is_open {
                true => What::Sent(message, text.clone()),
                false => What::Opening(Way::Sent, text.clone()),
            };
            self.push(side, what);
        }
        self.end(side).write(bytes);
    }

    /// Closes our output on one side.
    pub(super) fn close(&mut self, side: Side) {
        if self.end(side).output.take().is_some() {
            self.push(side, What::Closed);
        }
    }

    /// Waits until a message on one side is the one that is wanted. Returns `None` at the end of that side, or when
    /// patience ends. What arrives on the other side meanwhile is logged too.
    ///
    /// A relay that is busy, or says something, is waited for a few times longer: the machine may be slow.
    pub(super) fn wait<T>(
        &mut self,
        side: Side,
        patience: Duration,
        wanted: impl Fn(&Message) -> Option<T>,
    ) -> Option<T> {
        let process = self.child.as_ref().map(Child::id);
        let mut limit = Patience::begin(process, patience);
        let (mut deadline, mut talks) = (Instant::now() + patience, false);
        // No session is opened by a relay that has left one side.
        while !self.ended(side) && (self.is_open || !self.ended(side.other())) {
            if let Some((at, message)) = self.take(deadline) {
                let found = wanted(&message).filter(|_| at == side);
                if found.is_some() {
                    return found;
                }
                talks = true;
            }
            let now = Instant::now();
            if now < deadline {
                continue;
            }
            match limit.more(talks) {
                More::Wait(more) => (deadline, talks) = (now + more, false),
                over => {
                    self.was_late |= over == More::Late;
                    return None;
                }
            }
        }
        None
    }

    /// Takes the next message, if one comes before the deadline.
    fn take(&mut self, deadline: Instant) -> Option<(Side, Message)> {
        let left = deadline.saturating_duration_since(Instant::now());
        let (side, read) = self.arrivals.recv_timeout(left).ok()?;
        let (odd, bytes) = match read {
            Ok(Some(message)) => message,
            ended => {
                self.end(side).ended = true;
                self.push(side, What::Ended(ended.err().map(|error| error.to_string())));
                return None;
            }
        };
        let message = Message::read(self.protocol(side), &bytes);
        let text = odd + &String::from_utf8_lossy(&bytes);
        let opens = |note: &Value| self.opening.iter().any(|method| note["method"] == **method);
        let what = match &message {
            Message::Notification(note) if opens(note) => What::Opening(Way::Received, text),
            _ if !self.is_open => What::Opening(Way::Received, text),
            _ => What::Arrived(message.clone(), text),
        };
        self.push(side, what);
        self.respond(side, &message);
        Some((side, message))
    }

    /// Responds at once to a cancel that is a request, to requests of the relay's own, and to each of the opening.
    fn respond(&mut self, side: Side, message: &Message) {
        let (wire, number) = (self.protocol(side), || self.number().to_string());
        let text = match message {
            Message::Cancel { own: Some(own), .. } => {
                wire.respond(own, "cancel", &json!({ "result": {} }), number())
            }
            Message::Request(request) if request.is_own() || !self.is_open => {
                let asked = request.asked();
                let opens = asked.opens() || self.opening.contains(&asked.method);
                let revision = asked.params["protocolVersion"].clone();
                let family = self.protocol(Side::Near).family;
                let welcome = opens.then(|| family.welcome(&asked.method, revision, true));
                match welcome.or_else(|| reply::common(&asked)) {
                    Some(result) => reply::answer(wire, &asked, &result, &number()),
                    None => wire.answer(&asked, &number()),
                }
            }
            _ => return,
        };
        self.send(side, &[text]);
    }

    /// Returns the messages that have arrived on one side.
    pub(super) fn arrived(&self, side: Side) -> impl DoubleEndedIterator<Item = &Message> {
        self.log.iter().filter_map(move |entry| match &entry.what {
            What::Arrived(message, _) if entry.side == side => Some(message),
            _ => None,
        })
    }

    /// Returns whether the relay has closed that side.
    pub(super) fn ended(&self, side: Side) -> bool {
        self.ends[side as usize].ended
    }

    /// Returns the protocol that is spoken on that side.
    pub(super) fn protocol(&self, side: Side) -> &Wire {
        &self.ends[side as usize].protocol
    }

    fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }

    /// Returns the end of the relay's standard error.
    pub(super) fn stderr(&self) -> String {
        self.child.as_ref().map(Child::stderr).unwrap_or_default()
    }

    /// Returns the messages of both sides. Each line names the role that we had in it.
    pub(super) fn transcript(&self) -> Transcript {
        let lines = self.log.iter().map(|entry| {
            let role = entry.side.role();
            let (way, text) = match &entry.what {
                What::Sent(_, text) => (Way::Sent, text.as_str()),
                What::Arrived(_, text) => (Way::Received, text.as_str()),
                What::Opening(way, text) => (*way, text.as_str()),
                What::Over => (Way::Note, "the conversation is over"),
                What::Closed => (Way::Note, "we hang up"),
                What::Ended(None) => (Way::Note, "the relay hangs up"),
                What::Ended(Some(why)) => (Way::Note, why.as_str()),
            };
            Line::new(entry.at, way, &format!("{role}: {text}"))
        });
        Transcript::of_lines(lines.collect())
    }
}

impl End {
    fn new(side: Side, protocol: Wire, link: Link, arrive: &Sender<Arrival>) -> Self {
        let arrive = arrive.clone();
        let input = Chunks { chunks: link.output, unread: VecDeque::new(), bytes: 0 };
        let framing = protocol.framing();
        thread::spawn(move || {
            let mut input = BufReader::new(input);
            loop {
                let read = message::read(framing, &mut input);
                let is_over = !matches!(read, Ok(Some(_)));
                if arrive.send((side, read)).is_err() || is_over {
                    return;
                }
            }
        });
        Self { protocol, output: link.input, ended: false }
    }

    fn write(&self, bytes: Vec<u8>) {
        if let Some(output) = &self.output {
            // A relay that reads no more shows in what does not arrive.
            let _ = output.send(Told { bytes, until_written: None });
        }
    }
}

/// The bytes that a relay wrote, as a stream again.
struct Chunks {
    chunks: Receiver<Vec<u8>>,
    unread: VecDeque<u8>,
    bytes: usize,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() {
            let Ok(chunk) = self.chunks.recv() else { return Ok(0) };
            // Each line is an entry, which takes more than its text.
            let lines = chunk.iter().filter(|&&byte| byte == b'\n').count();
            self.bytes += chunk.len() + ENTRY_BYTES * lines;
            if self.bytes > RECORD_BYTES {
                return Err(io::Error::other("it said more than is kept"));
            }
            self.unread = chunk.into();
        }
        self.unread.read(into)
    }
}

/// Returns the id of a message of the opening, which may be its number, and its text.
fn written(protocol: &Wire, step: &Opening, number: u64) -> (Value, String) {
    let (method, params) = (&step.message.method, &step.message.params);
    let id = text_id(protocol, &format!("open-{number}"), || number);
    let text = match step.is_request {
        true => protocol.raw_request(&id, method, params),
        false => protocol.raw_notification(method, params, number),
    };
    (id, text)
}
