//! A relay under test, with us on both of its sides.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use protocol_core::Envelope;
use serde_json::{Value, json};

use super::message::{self, Message, Request};
use super::target::{Ends, Side};
use super::work::Work;
use crate::family::Opening;
use crate::lateness::Stretch;
use crate::patience::{More, Patience};
use crate::report::{Line, Transcript, Way};
use crate::target::{Child, Link, Told, Unreached};
use crate::wire::Wire;

/// A relay that says more than this in one check is not listened to any longer.
const RECORD_BYTES: usize = 64 << 20;
/// Numbers for messages that a scenario gives none are greater than this, and so than its own, whatever the seed.
const OWN_NUMBERS: u64 = 2_000_000;

/// A side, and what was read there: a message, its end, or bytes that are neither.
type Arrival = (Side, io::Result<Option<Vec<u8>>>);

/// Something that we saw or did, in order.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: Duration,
    pub(super) side: Side,
    pub(super) what: What,
}

/// See [`Entry`]. Messages come with their texts.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// We sent it to the relay.
    Sent(Message, String),
    /// The relay sent it to us.
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
    patience: Duration,
    begun: Instant,
    /// By the caller's side, which of its requests arrive on the other.
    pub(super) reaches: [Option<Work>; 2],
    /// Everything so far.
    pub(super) log: Vec<Entry>,
    /// Notifications of the opening; they may arrive late.
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
        let steps = opening.iter().enumerate();
        let texts: Vec<_> = steps.map(|(number, step)| text_of(&at_near, step, number)).collect();
        let near = End::new(Side::Near, at_near, near, &arrive);
        texts.first().into_iter().for_each(|first| near.say(first));
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
            opening: Vec::new(),
            was_late: false,
            is_open: false,
            numbered: Cell::new(0),
            tag: 0,
        };
        for (number, (step, text)) in opening.iter().zip(texts).enumerate() {
            if number > 0 {
                bench.ends[0].say(&text);
            }
            bench.push(Side::Near, What::Opening(Way::Sent, text));
            if let Err(why) = bench.answered(step, number) {
                return Err(Unreached::Opening { why, stderr: bench.stderr() });
            }
        }
        bench.is_open = true;
        Ok(bench)
    }

    /// Waits until a message of the opening is answered, if it is a request, and answers it as the server.
    fn answered(&mut self, step: &Opening, number: usize) -> Result<(), String> {
        let method = &step.message.method;
        if !step.is_request {
            self.opening.push(method.clone());
            return Ok(());
        }
        let own = opening_id(self.protocol(Side::Near), number);
        loop {
            match self.take(self.patience) {
                Taken::Message(Side::Far, Message::Request(request)) => {
                    let Request { id, method, params, .. } = &request;
                    let family = self.protocol(Side::Near).family;
                    let result = family.welcome(method, params["protocolVersion"].clone(), true);
                    let (number, answer) = (self.number(), json!({ "result": result }));
                    let text = self.protocol(Side::Far).respond(id, method, &answer, number);
                    self.ends[1].say(&text);
                    self.push(Side::Far, What::Opening(Way::Sent, text));
                }
                Taken::Message(Side::Near, Message::Response { id, answer }) if id == own => {
                    return match answer.get("error") {
                        None => Ok(()),
                        Some(error) => Err(format!("{method} is refused: {error}")),
                    };
                }
                Taken::Message(..) => {}
                Taken::Ended => {
                    let status = self.child.as_ref().map(Child::how_it_ended).unwrap_or_default();
                    return Err(format!("{method} is not answered: the relay ended{status}"));
                }
                Taken::Nothing => return Err(format!("{method} is not answered")),
            }
        }
    }

    /// A number that no other message has.
    pub(super) fn number(&self) -> u64 {
        self.numbered.set(self.numbered.get() + 1);
        OWN_NUMBERS + self.numbered.get()
    }

    fn push(&mut self, side: Side, what: What) {
        let at = self.begun.elapsed();
        self.log.push(Entry { at, side, what });
    }

    /// Writes messages to the relay, all at once, and never waits for it to read them.
    pub(super) fn send(&mut self, side: Side, messages: &[String]) {
        let bytes = self.protocol(side).framed(messages);
        self.send_bytes(side, messages, bytes);
    }

    /// As [`send`](Self::send), with a framing of its own.
    pub(super) fn send_bytes(&mut self, side: Side, messages: &[String], bytes: Vec<u8>) {
        for text in messages {
            let message = Message::read(self.protocol(side), text.as_bytes());
            self.push(side, What::Sent(message, text.clone()));
        }
        self.end(side).write(bytes);
    }

    /// Says that the conversation is over.
    pub(super) fn over(&mut self) {
        self.push(Side::Near, What::Over);
    }

    /// Closes our output on one side.
    pub(super) fn close(&mut self, side: Side) {
        if self.end(side).output.take().is_some() {
            self.push(side, What::Closed);
        }
    }

    /// Waits for the next message on one side; `None` at its end, or when patience ends. What arrives on the
    /// other side meanwhile is logged too.
    pub(super) fn next(&mut self, side: Side) -> Option<Message> {
        let process = self.child.as_ref().map(Child::id);
        let mut patience = Patience::begin(process, self.patience);
        let mut next = self.patience;
        while !self.end(side).ended {
            match self.take(next) {
                Taken::Message(at, message) if at == side => return Some(message),
                Taken::Message(..) | Taken::Ended => {}
                // A relay that is busy is waited for: the machine may be slow.
                Taken::Nothing => match patience.more(false) {
                    More::Wait(more) => next = more,
                    over => {
                        self.was_late |= over == More::Late;
                        return None;
                    }
                },
            }
        }
        None
    }

    /// Reads what is left, until that side ends or nothing has come for so long, or longer on a machine that is late.
    pub(super) fn drain(&mut self, side: Side, quiet: Duration) {
        let (mut last, mut left) = (Stretch::begin(), quiet);
        while !self.end(side).ended && !left.is_zero() {
            if !matches!(self.take(left), Taken::Nothing) {
                last = Stretch::begin();
            }
            left = (quiet + last.lateness()).saturating_sub(last.lasted());
        }
    }

    fn take(&mut self, patience: Duration) -> Taken {
        let Ok((side, read)) = self.arrivals.recv_timeout(patience) else { return Taken::Nothing };
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            ended => {
                self.end(side).ended = true;
                self.push(side, What::Ended(ended.err().map(|error| error.to_string())));
                return Taken::Ended;
            }
        };
        let message = Message::read(self.protocol(side), &bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let what = match self.is_of_opening(&message) {
            true => What::Opening(Way::Received, text),
            false => What::Arrived(message.clone(), text),
        };
        self.push(side, what);
        self.acknowledge(side, &message);
        Taken::Message(side, message)
    }

    /// A cancel that is a request is answered at once: that is all that it asks for itself.
    fn acknowledge(&mut self, side: Side, message: &Message) {
        if let Message::Cancel { own: Some(own), .. } = message {
            let (number, answer) = (self.number(), json!({ "result": {} }));
            let text = self.protocol(side).respond(own, "cancel", &answer, number);
            self.send(side, &[text]);
        }
    }

    fn is_of_opening(&self, message: &Message) -> bool {
        let opens = |note: &Value| self.opening.iter().any(|method| note["method"] == **method);
        !self.is_open || matches!(message, Message::Notification(note) if opens(note))
    }

    /// Returns the messages that have arrived on one side.
    pub(super) fn arrived(&self, side: Side) -> impl DoubleEndedIterator<Item = &Message> {
        self.log.iter().filter_map(move |entry| match &entry.what {
            What::Arrived(message, _) if entry.side == side => Some(message),
            _ => None,
        })
    }

    /// Whether the relay has closed that side.
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

    /// The last of what the relay wrote to its standard error.
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

/// The next thing that came.
enum Taken {
    Message(Side, Message),
    /// A side's end.
    Ended,
    /// Nothing, for as long as we are patient.
    Nothing,
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

    /// Writes a message.
    fn say(&self, text: &String) {
        self.write(self.protocol.framed(&[text]));
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
            self.bytes += chunk.len();
            if self.bytes > RECORD_BYTES {
                return Err(io::Error::other("it said more than is kept"));
            }
            self.unread = chunk.into();
        }
        self.unread.read(into)
    }
}

fn opening_id(protocol: &Wire, number: usize) -> Value {
    match protocol.dialect.envelope {
        Envelope::Dap => json!(number + 1),
        _ => json!(format!("open-{}", number + 1)),
    }
}

fn text_of(protocol: &Wire, step: &Opening, number: usize) -> String {
    let (method, params) = (&step.message.method, &step.message.params);
    let id = opening_id(protocol, number);
    match step.is_request {
        true => protocol.raw_request(id, method, params),
        false => protocol.raw_notification(method, params, id.as_u64().unwrap_or(0)),
    }
}
